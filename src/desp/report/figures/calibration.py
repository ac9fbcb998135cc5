"""The ranks of true sets among predictions: level bars mean that the spread is right."""

from collections.abc import Sequence

from desp.report.figures.style import PREDICTION, TRUTH, ImageFormat, new_figure, plain_axes, render, style


def calibration_picture(shares: Sequence[float], inputs: int, image_format: ImageFormat = "svg") -> bytes:
    """Bars of the share of each rank, with the share that a calibrated predictor has on average.

    Args:
        shares: of ranks 0 to K.
        inputs: how many there were, for the band in which 95 of 100 bars lie by chance.
        image_format: of the result.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    level = 1 / len(shares)
    chance = 1.96 * (level * (1 - level) / max(inputs, 1)) ** 0.5
    with style():
        figure = new_figure(5.2, 2.4)
        axes = figure.add_subplot()
        plain_axes(axes)
        axes.axhspan(level - chance, level + chance, color=TRUTH, alpha=0.12, linewidth=0)
        axes.axhline(level, color=TRUTH, linewidth=1.2)
        axes.bar(range(len(shares)), shares, color=PREDICTION, width=0.7)
        axes.set_xticks(range(len(shares)))
        axes.set_xlabel("rank of the true set by its distance to the others")
        axes.set_ylabel("share of inputs")
        return render(figure, image_format)

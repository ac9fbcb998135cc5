"""Numbers on the page on deviations are those of the recorded files, of the recipes, or of the paper."""

import json
import math
import statistics
from fnmatch import fnmatch

from desp.paper.published import PUBLISHED
from desp.recipes import all_recipes, get_recipe
from desp.results import rows_of
from desp.settings import ContrastiveSettings
from shown_numbers import RECORDED, RESULTS, flat, mean, numbers, page, rows_with, same


def test_our_settings() -> None:
    """The table of settings is that of the recipes."""
    (_, *heads), *rows = rows_with(page("docs/deviations.md"), "| setting | `polygons-desp` |")
    table = {name: dict(zip(heads, cells, strict=True)) for name, *cells in rows}
    for head in heads:
        pattern = head.strip("`")
        names = [item.name for item in all_recipes() if fnmatch(item.name, pattern)]
        assert len(names) == (2 if "*" in pattern else 1)
        for name in names:
            shown = {setting: cells[head] for setting, cells in table.items()}
            if name.endswith("-fast"):
                assert shown["prediction: S of T"] == "80 (Polygons), 95 (Digits) of 100"
                shown["prediction: S of T"] = f"{80 if name.startswith('polygons') else 95} of 100"
            assert shown == own_settings(name), name


def own_settings(name: str) -> dict[str, str]:
    """What the table of our settings says of a recipe."""
    settings = get_recipe(name).build()
    training, method = settings.training, settings.method
    assert isinstance(method, ContrastiveSettings)
    chain, sampler = method.training_sampler, method.sampler
    assert chain.steps == chain.stochastic_steps
    assert (chain.max_step_norm, chain.restarts) == (sampler.max_step_norm, 1)
    assert (training.lr_schedule, training.on_divergence) == ("cosine", "rollback")
    assert training.warmup_steps > 0
    assert training.clip_norm is not None
    assert training.ema_decay is not None
    ends = "" if sampler.final_noise_scale is None else f" to {short(sampler.final_noise_scale)}"
    one = sampler.restarts == 1
    return {
        "steps of training": f"{training.steps:,}",
        "`training.batch_size`": str(training.batch_size),
        "`training.learning_rate`": power(training.learning_rate),
        "`training.clip_norm`": short(training.clip_norm),
        "`training.ema_decay`": short(training.ema_decay),
        "Adam's beta_1": short(training.betas[0]),
        "weights kept": "best by validation" if training.validate_every else "last",
        "`method.data_noise`": short(method.data_noise),
        "training chain: T = S": str(chain.steps),
        "training chain: ε": short(chain.noise_scale),
        "prediction: S of T": f"{sampler.stochastic_steps} of {sampler.steps}",
        "prediction: ε": short(sampler.noise_scale) + ends,
        "momentum without noise": short(sampler.momentum),
        "`max_step_norm`": "none" if chain.max_step_norm is None else short(chain.max_step_norm),
        "chains for a predicted set": "1" if one else f"{sampler.restarts}, mean of the six of lowest energy",
        "[diverged samples](methods.md#when-contrastive-training-diverges) in the loss": (
            "without gradient" if method.mask_divergent else "kept"
        ),
    }


def short(value: float) -> str:
    return f"{value:g}".removeprefix("0") or "0"


def power(value: float) -> str:
    exponent = math.floor(math.log10(value))
    return f"{value / 10**exponent:.0f}e{exponent}"


def test_direct_risk_on_polygons() -> None:
    value, half_width = numbers(
        r"Hungarian has ([\d.]+)e-5 ± ([\d.]+)e-5 where the paper prints", "docs/deviations.md"
    )
    (row,) = (
        row
        for row in rows_of([item for item in RECORDED if item["recipe"] == "polygons-risk-hungarian"])
        if row["metric"] == "score"
    )
    assert [value, half_width] == [round(row[name] / 1e-5, 1) for name in ("raw", "raw_ci95")]


def test_styles_with_the_papers_settings() -> None:
    (share,) = numbers(r"came in (\d+) % of the predictions of two of three seeds", "docs/deviations.md")
    rarest = [
        item["scores"]["returned"]["rarest_style"] for item in RECORDED if item["recipe"] == "digits-desp-paper"
    ]
    assert sorted(round(10 * value) * 10 == share for value in rarest) == [False, True, True]


def test_the_fraction_of_stochastic_steps() -> None:
    text = flat("docs/deviations.md")
    assert "scores better than every mixture in three of six runs" in text
    assert "S/T = 1 is the worst value in all six runs" in text
    assert "S/T = 1 is worse than .7 to .9, but better than 0 to .4" in text

    def scores(task: str) -> list[dict[float, float]]:
        files = sorted((RESULTS / "ablations").glob(f"{task}-desp*.json"))
        assert len(files) == 6
        return [{row["ratio"]: row["score"] for row in json.loads(file.read_text())["rows"]} for file in files]

    polygons, digits = scores("polygons"), scores("digits")
    mixtures = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9)
    assert sum(run[0.0] < min(run[ratio] for ratio in mixtures) for run in polygons) == 3
    assert all(max(run, key=lambda ratio: run[ratio]) == 1.0 for run in polygons)
    assert all(min(run, key=lambda ratio: run[ratio]) == 0.9 for run in digits)
    assert all(max(run[0.7], run[0.8], run[0.9]) < run[1.0] < min(run[0.0], run[0.2], run[0.4]) for run in digits)


def test_polygons_by_denoising() -> None:
    score, real, accuracy = numbers(
        r"The score is (\.\d+)e-5, where fresh true polygons have (\.\d+)e-5\. .*? with an accuracy of (\.\d+)",
        "docs/deviations.md",
    )
    results = [item for item in RECORDED if item["recipe"] == "polygons-denoising"]
    assert same(str(score), mean("polygons-denoising", None, "returned", "score")[0] / 1e-5)
    assert same(str(real), statistics.fmean(item["real_data"]["score"] for item in results) / 1e-5)
    assert same(str(accuracy), mean("polygons-denoising", None, "returned", "nearest_neighbour_accuracy")[0])


def test_each_number_of_tables_1_to_3_has_a_result() -> None:
    assert "(Tables 2 and 3) has a result beside it" in flat("docs/deviations.md")
    recorded = {(item["task"], item["system"], metric) for item in RECORDED for metric in item["scores"]["raw"]}
    published = [cell for table in PUBLISHED if table.name in ("toy", "mnist") for cell in table.published]
    assert len(published) > 10
    assert [cell for cell in published if cell not in recorded] == []

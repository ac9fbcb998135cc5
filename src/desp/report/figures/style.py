"""How every picture looks, and how it becomes bytes.

Figures are built directly, without pyplot: no window system, no global state, no figure to close. An SVG for
the page has its colours replaced by CSS variables, so that it follows the reader's light or dark theme.
"""

import hashlib
import io
import re
import warnings
from typing import TYPE_CHECKING, Any, Literal

from desp.extras import require
from desp.runs.folder import WRITTEN_BY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ImageFormat = Literal["png", "svg"]

# Okabe and Ito's colours, distinguishable with any colour vision.
TRUTH = "#0072b2"
PREDICTION = "#d55e00"
EXTRA = "#009e73"
INK = "#1f2328"
MUTED = "#6e7781"
FRAME = "#d0d7de"
TINT = "#eef4f9"
COLOUR_MAP = "cividis"
# More points than this are drawn as pixels: an SVG would be larger.
MAX_VECTOR_POINTS = 3000
SAMPLES_RECOVERY_HINT = f"Delete the file and run `{WRITTEN_BY['samples.json']}` again."

_CSS_NAMES = {
    TRUTH: "var(--truth)",
    PREDICTION: "var(--prediction)",
    EXTRA: "var(--extra)",
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    FRAME: "var(--frame)",
    TINT: "var(--tint)",
}

_RC = {
    "axes.facecolor": "none",
    "axes.edgecolor": FRAME,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.titlecolor": INK,
    "axes.unicode_minus": True,
    "figure.dpi": 100,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "legend.edgecolor": FRAME,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "desp",
    "text.color": INK,
    "text.usetex": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def style() -> Any:
    """A context in which figures must be built and rendered; afterwards matplotlib is as it was.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    return require("matplotlib", "viz", "draw pictures").rc_context(_RC)


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of `width` by `height` inches."""
    require("matplotlib", "viz", "draw pictures")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def plain_axes(axes: "Axes") -> None:
    """Leave only the left and lower edge, and a faint grid."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(visible=True, color=FRAME, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def plain_frame(axes: "Axes") -> None:
    """A frame without ticks."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FRAME)


def note_empty(axes: "Axes") -> None:
    """Say that a set is empty: a blank panel would look like a failure to draw."""
    middle: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "center"}
    axes.text(0.5, 0.5, "empty", fontsize=8, color=MUTED, style="italic", **middle)


def note_outside(axes: "Axes", hidden: int) -> None:
    """Say how many elements lie outside of what a panel shows; nothing if none do."""
    if hidden:
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "right"}
        axes.text(0.96, 0.04, f"{hidden} outside", fontsize=6.5, color=MUTED, **place)


def render(figure: "Figure", image_format: ImageFormat = "svg", dpi: int = 160) -> bytes:
    """Turn a figure into a PNG with white ground, or a transparent SVG to be put inside a page."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A letter the font lacks: a browser finds another font, and a PNG shows a box.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing.*")
        if image_format == "png":
            figure.savefig(buffer, format="png", dpi=dpi, facecolor="white", bbox_inches="tight", pad_inches=0.1)
            return buffer.getvalue()
        figure.savefig(buffer, format="svg", dpi=dpi, facecolor="none", bbox_inches="tight", pad_inches=0.04)
    return _for_page(buffer.getvalue().decode("utf-8")).encode("utf-8")


def _for_page(svg: str) -> str:
    """Strip what only a file of its own needs, and let colours and fonts follow the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for attribute in ("xmlns:xlink", "xmlns", "width", "height"):
        svg = re.sub(rf'(<svg\b[^>]*?)\s{attribute}="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same names in every figure, and nothing refers to them
    svg = svg.replace("xlink:href=", "href=").replace("'DejaVu Sans'", "var(--font)")
    for colour, name in _CSS_NAMES.items():
        svg = svg.replace(colour, name)
    svg = _share_images(svg)
    return re.sub(r">\s*\n\s*<", "><", svg)


def _share_images(svg: str) -> str:
    """Keep each image once, however many panels show it: the pixels are most of such a page."""
    kept: dict[str, str] = {}

    def shared(match: re.Match[str]) -> str:
        values = dict(re.findall(r'([\w:-]+)="([^"]*)"', match[1]))
        place = " ".join(f'{name}="{values[name]}"' for name in ("x", "y", "transform") if name in values)
        size = " ".join(f'{name}="{values[name]}"' for name in ("width", "height", "style") if name in values)
        image = f'{size} href="{"".join(values["href"].split())}"'
        name = kept.setdefault(image, f"i{hashlib.sha256(image.encode()).hexdigest()[:12]}")
        return f'<use href="#{name}" {place}/>'

    svg = re.sub(r"<image\b([^>]*?)/?>(?:</image>)?", shared, svg)
    if not kept:
        return svg
    images = "".join(f'<image id="{name}" preserveAspectRatio="none" {image}/>' for image, name in kept.items())
    start = svg.index(">") + 1
    return f"{svg[:start]}<defs>{images}</defs>{svg[start:]}"

"""The page of a check: the findings, and two figures with the places where they are."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normexp.check.result import Finding, Result
from normexp.report.drawing import WIDTH, Drawing, new_figure, save_all
from normexp.report.page import save_page
from normexp.report.style import FAINT, OWN, drawing_style, plain_log_scale

COLORS = {"error": "#A32020", "warning": OWN["layernorm"], "note": OWN["batchnorm"]}
SERIES = {
    "norm": ("norms", OWN["layernorm"]),
    "activation": ("activations", OWN["groupnorm"]),
    "linear": ("linear maps", OWN["batchnorm"]),
}
MOST_ROWS = 8


def write_page(result: Result, folder: Path, *, made_by: str = "") -> Path:
    """Write `index.html` and `figures/` under a folder. Returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    with drawing_style():
        shown = drawings(result)
        pictures = save_all(shown, folder / "figures", made_by)
    return save_page(
        folder, "check.html.j2", result=result, drawings=shown, pictures=pictures, made_by=made_by, colors=COLORS
    )  # fmt: skip


def drawings(result: Result) -> list[Drawing]:
    """The two figures."""
    marks = "The marks above show where each finding is."
    return [
        Drawing(
            "scale", "How large are the activations, layer by layer?",
            f"Root mean square of what each layer gives in the training pass, input to output. {marks}",
            by_layer(result, "output_rms", "root mean square of the output"),
        ),
        Drawing(
            "gradient", "How large are the gradients, layer by layer?",
            "Norm of the loss's gradient by the weights of each linear map, and by the output of each norm and "
            f"activation. {marks}",
            by_layer(result, "gradient", "norm of the gradient"),
        ),
    ]  # fmt: skip


def by_layer(result: Result, attribute: str, words: str) -> Figure:
    """A value of each kind of layer over the place in the network, below a row of marks for each finding."""
    places = {layer.path: index for index, layer in enumerate(result.layers, 1)}
    marked = [f for f in result.findings if any(path in places for path in map(owner, f.layers))][:MOST_ROWS]
    high = 0.22 * max(len(marked), 1)
    halves = (WIDTH, (3.0 + high) / 2)
    figure, (top, axes) = new_figure(2, panel=halves, sharex=True, height_ratios=[high, 3.0])
    strip(top, marked, places)
    for kind, (label, color) in SERIES.items():
        values = {layer.path: getattr(layer, attribute) for layer in result.layers if layer.kind == kind}
        values = {path: y for path, y in values.items() if y}
        if values:
            xs, ys = [places[path] for path in values], list(values.values())
            axes.plot(xs, ys, ".-", color=color, linewidth=1.2, label=label)
    axes.set_xlabel("layer, input to output")
    axes.set_ylabel(words)
    if axes.lines:
        plain_log_scale(axes)
        axes.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, -0.16), fontsize=7.5)
    return figure


def owner(path: str) -> str:
    """The layer of a tensor's path: `bn1` of `bn1.weight`."""
    head, _, last = path.rpartition(".")
    return head if last in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked") else path


def strip(axes: Axes, marked: Sequence[Finding], places: dict[str, int]) -> None:
    """A row for each finding, with a mark at each of its layers."""
    for row, finding in enumerate(marked):
        xs = sorted({places[path] for path in map(owner, finding.layers) if path in places})
        axes.plot(xs, [row] * len(xs), "|", color=COLORS[finding.severity], markersize=7, markeredgewidth=1.4)
    axes.set_yticks(range(len(marked)), [finding.id for finding in marked])
    axes.set_ylim(max(len(marked), 1) - 0.5, -0.5)
    axes.grid(False)
    axes.tick_params(bottom=False, left=False, labelbottom=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    if not marked:
        axes.text(0, 0.5, "no finding at a layer", transform=axes.transAxes, va="center", color=FAINT)

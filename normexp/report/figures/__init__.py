"""The figures of a page by question. Each maker gives drawings, or the reason why there is none."""

from collections.abc import Callable, Iterable

from normexp.report.drawing import Drawing, Skipped
from normexp.report.figures import layers, results
from normexp.report.study import Study
from normexp.report.style import Style

Make = Callable[[Study, Style], Iterable[Drawing | Skipped]]

# the order of the page
FIGURES: dict[str, list[Make]] = {
    "What came out": [results.final_values, results.learning_rates],
    "How it was learned": [results.learning_curves],
    "Inside the network": [layers.gradient_by_depth, layers.activation_bands, layers.saturation_by_layer],
    "What monitors measured": [layers.over_training],
}

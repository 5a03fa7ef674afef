"""The figures of a page by question. Each maker gives drawings, or the reason why there is none."""

from collections.abc import Callable, Iterable

from normexp.report.drawing import Drawing, Skipped
from normexp.report.figures.layers import (
    activation_bands,
    covariate_shift,
    gradient_by_depth,
    gradient_over_time,
    percentiles_by_layer,
    representation,
    saturation_by_layer,
    smoothness,
)
from normexp.report.figures.results import final_values, learning_curves, learning_rates, steps_to_accuracy
from normexp.report.study import Study
from normexp.report.style import Style

Make = Callable[[Study, Style], Iterable[Drawing | Skipped]]

# the order of the page
FIGURES: dict[str, list[Make]] = {
    "What came out": [final_values, learning_rates],
    "How it was learned": [learning_curves, steps_to_accuracy],
    "Inside the network": [
        gradient_by_depth,
        gradient_over_time,
        activation_bands,
        percentiles_by_layer,
        saturation_by_layer,
    ],
    "The surface of the loss": [smoothness],
    "Covariate shift": [covariate_shift],
    "Representations": [representation],
}

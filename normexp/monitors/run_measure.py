"""A measure of one's own on a finished run: the trained network with all of its data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytorch_lightning import Callback, LightningModule


@dataclass(frozen=True)
class FinishedRun:
    """A run whose final numbers are known.

    Attributes:
        module: the trained LightningModule; its network is `module.model`.
        data: the data module: `data.evaluation_loader("train", 10_000)` gives batches of the first training samples,
            as they are, and `"val"` or `"test"` those of the other splits.
        evaluate: `evaluate("test")`, also "train" or "val", gives `{"loss", "accuracy"}` in eval mode, of the module as
            it is now, with hooks and changed buffers; of training at most 10,000 samples count.
        metrics: the final metrics, such as `test/accuracy` and `test/accuracy_reestimated`.
    """

    module: LightningModule
    data: Any
    evaluate: Callable[[str], dict[str, float]]
    metrics: Mapping[str, float]


class RunMeasure(Callback):
    """Gives numbers of a finished run, once, behind its final evaluation. They are logged at the last step, so that a
    claim reads them as `metric: logged/<tag>`.

    Buffers, modes, hooks and random streams are put back. Parameters are the run's own: leave them alone. A measure
    that fails says why in a warning, and the run ends as without it.
    """

    def measure_run(self, run: FinishedRun) -> Mapping[str, float]:
        """Tag -> number. A tag is `<statistic>/<layer>`, such as `accuracy_with_noise/network`."""
        raise NotImplementedError

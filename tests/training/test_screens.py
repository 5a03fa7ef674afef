"""What a person sees while a run trains, and of replicas at the end."""

import io

import pytest
import torch
from rich.console import Console
from scipy import stats

from normexp.training.progress import EpochMeans, TimedProgressBar
from normexp.training.recorder import Recorder
from normexp.training.screen import in_short, means, show_choices, show_replicas


def summary(seed: int, accuracy: float, lr: float = 0.1, status: str = "completed") -> dict:
    metrics = {"val/accuracy": accuracy, "test/accuracy": accuracy / 2}
    return {
        "status": status, "metrics": metrics, "convergence": {"divergence_step": 3}, "steps": 0,
        "config": {"seed": seed, "lr": lr},
    }  # fmt: skip


def screen(show, *arguments, width: int = 80, **named) -> str:
    text = io.StringIO()
    show(*arguments, Console(file=text, width=width), **named)
    return text.getvalue()


def test_the_training_accuracy_is_that_of_the_whole_epoch():
    generator = torch.Generator().manual_seed(0)
    # More values than wait to be written at a time.
    losses, accuracies = torch.rand(2, 600, generator=generator, dtype=torch.float64)
    own = EpochMeans()
    assert own.read() is None
    for batch, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True), 1):
        own.add(loss, accuracy)
        if batch in (7, 300, 600):  # reading in between changes nothing
            assert own.read() == pytest.approx(
                (losses[:batch].mean().item(), accuracies[:batch].mean().item())
            )


def test_of_replicas_the_mean_of_those_that_did_not_diverge_is_shown():
    own = EpochMeans()
    own.add(torch.tensor([1.0, float("nan"), 3.0]), torch.tensor([0.5, 0.1, 0.7]))
    own.add(torch.tensor([2.0, float("nan"), 4.0]), torch.tensor([0.7, 0.1, 0.9]))
    assert own.read() == pytest.approx((2.5, 0.7))


def test_replicas_end_with_their_mean_and_its_interval():
    values = [0.9, 0.92, 0.97]
    (line,) = means([summary(seed, value) for seed, value in enumerate(values)])
    low, high = stats.t.interval(0.95, 2, loc=93, scale=stats.sem([100 * value for value in values]))
    assert line.startswith(f"mean of 3 seeds: val 93.00% ± {(high - low) / 2:.2f}, test 46.50% ± ")
    assert means([summary(0, 0.9)]) == []


def test_each_rate_has_its_mean_and_diverged_runs_are_counted():
    runs = [summary(0, 0.8), summary(1, 0.9), summary(2, 0.1, status="diverged")]
    runs += [summary(seed, 0.1, lr=1.0, status="diverged") for seed in range(2)]
    low, high = means(runs)
    assert low.startswith("mean of the 2 of 3 seeds that completed at lr 0.1: val 85.00% ± ")
    assert high == "all 2 seeds at lr 1 diverged"


def test_no_folder_is_cut_or_broken_in_a_narrow_terminal(tmp_path, make_parts):
    folders = [
        tmp_path / "a-folder-with-a-name" / f"batchnorm-bs64-s{seed}-0123456789abcdef-long" for seed in (0, 1)
    ]
    text = screen(show_replicas, [summary(0, 0.8), summary(1, 0.9)], folders, width=50)
    for folder in folders:
        assert folder.name in text
    assert str(folders[0].parent) in text
    parts = make_parts("norm=layernorm", "norm.correction=1", "max_epochs=1")
    text = screen(lambda *given: show_choices(parts, folders[0], *given), width=50)
    assert str(folders[0]) in text.splitlines()[-1]
    assert "1 epoch " in text
    assert "1 × layernorm (norm.correction=1)" in " ".join(text.split())


def test_numbers_in_a_row_are_told_in_short():
    assert in_short(range(16)) == "0 … 15"
    assert in_short([3, 4]) == "3 4"
    assert in_short([0, 3, 5]) == "0 3 5"


def test_a_line_of_progress_fits_a_terminal_of_a_hundred_columns():
    recorder = Recorder(20)
    recorder.latest = {"val_loss": 0.0645, "val_accuracy": 0.9792}
    bar = TimedProgressBar([recorder], Console())
    bar._of_epoch.add(torch.tensor(12.3456), torch.tensor(1.0))
    text = bar._numbers()
    assert text == "train 100.00% (loss 12.3456)  val 97.92% (loss 0.0645)"
    assert len("⠏ epoch 15/20 ") + 16 + len(" 239/340 00:03 ") + len(text) <= 100


@pytest.mark.parametrize(
    ("width", "said"), [(80, "train 50.00% (0.2500)"), (120, "train 50.00% (loss 0.2500)")]
)
def test_a_narrow_screen_has_a_shorter_line(width, said):
    bar = TimedProgressBar([], Console(file=io.StringIO(), width=width, force_terminal=True))
    bar._of_epoch.add(torch.tensor(0.25), torch.tensor(0.5))
    assert bar._numbers() == said
    assert len("epoch 12/20 ━━━━━━ 1120/6800 --:-- ") + 2 * len(said) + 2 <= width

"""Random studies: what tables, report and TensorBoard say equals a slow, obvious computation from the summaries, or the
study is refused in one line."""

import json
import math
import random
import shutil
import statistics
from collections import defaultdict
from pathlib import Path

import pytest
from fabricated import edit_summary, write_after_sweep, write_run
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from normexp.config.identity import identity
from normexp.report.finding import cautions, finding
from normexp.report.study import open_study
from normexp.report.tables import comparison
from normexp.report.tensorboard_means import FOLDER
from normexp.runs import load, load_summaries

# key -> values that may vary in a study
KEYS = {
    "lr": (0.01, 0.1, 0.3), "model.depth": (2, 3, None), "model.width": (16, 64), "eps": (1e-5, 1e-3),
    "trainer.gradient_clip_val": (None, 0.0001), "trainer.precision": ("32-true", "bf16-mixed"),
    "norm._target_": ("normexp.norms.X", "normexp.norms.Y"), "norm.affine": (True, False), "max_epochs": (10, 20),
    "optimizer.momentum": (0.0, 0.9), "data.train_size": (None, 100), "model.activation": ("relu", "a · b"),
    "schedule.warmup_steps": (0, 10), "data.split_seed": (0, 1), "val_every_n_steps": (None, 7),
    "optimizer._target_": ("torch.optim.SGD", "torch.optim.Adam"), "model.widths": ([1, 2], [2, 1]),
}  # fmt: skip


def make_study(root: Path, luck: random.Random) -> list[str]:
    """Write a random study. Returns what was done to it."""
    keys = luck.sample(sorted(KEYS), luck.randint(0, 3))
    norms = luck.sample(["none", "batchnorm", "layernorm", "groupnorm"], luck.randint(1, 3))
    sizes, seeds = luck.sample([2, 8, 32], luck.randint(1, 2)), range(luck.choice([1, 2, 3, 4, 6]))
    cells = [{}]
    for key in keys:
        cells = [{**cell, key: value} for cell in cells for value in KEYS[key]]
    cells = luck.sample(cells, min(len(cells), luck.randint(1, 4)))
    goes_with_norm = luck.random() < 0.2
    examples = luck.choice([0, 50])
    done = [f"varies {', '.join(keys) or 'nothing'}"]
    for place, norm in enumerate(norms):
        for size in sizes:
            for cell in [cells[place % len(cells)]] if goes_with_norm else cells:
                for seed in seeds:
                    if luck.random() < 0.05:
                        done.append("drops a run")
                        continue
                    status = "diverged" if luck.random() < 0.05 else "completed"
                    write_run(root, norm, size, seed, status, examples=examples, **cell)
    folders = sorted(root.glob("mlp/*"))
    for _ in range(luck.choice([0, 0, 1, 2]) if folders else 0):
        change = luck.choice([double, edit, move, swap, blow_up, change_data, compute_elsewhere])
        done.append(change.__name__)
        change(root, luck.choice(folders), luck)
    return done


def double(root, folder, luck):
    shutil.copytree(folder, root / "again" / folder.name, dirs_exist_ok=True)


def edit(root, folder, luck):
    """A number of the summary that other files know, or a value of its configuration."""
    summary = read(folder)
    edits = [
        ("convergence", "best", 0.99),
        ("config", "lr", 7.0),
        ("convergence", "steps_to_0.5", 0),
        (None, "steps", 1),
    ]
    group, key, value = luck.choice(edits)
    if group == "config":  # a run has its rate in two places
        summary["config"] |= {"optimizer": {**summary["config"].get("optimizer", {}), key: value}}
    edit_summary(folder, **({group: {**summary[group], key: value}} if group else {key: value}))


def move(root, folder, luck):
    if folder.exists() and folder.parent == root / "mlp":
        shutil.move(folder, root / f"moved-{luck.random()}")


def swap(root, folder, luck):
    """The summary of another run, in the folder of this one."""
    other = luck.choice(sorted(root.rglob("summary.json")))
    if folder.exists() and other.parent != folder:
        shutil.copy(other, folder / "summary.json")


def blow_up(root, folder, luck):
    """A finite training loss far above that of guessing, and another test accuracy."""
    if read(folder)["status"] == "completed":
        changes = {"train/loss": 1e9} | (
            {} if (folder / "test_examples.npz").exists() else {"test/accuracy": 0.0}
        )
        edit_summary(folder, chance_loss=2.3, metrics={**read(folder)["metrics"], **changes})


def change_data(root, folder, luck):
    seed = luck.randint(0, 3)
    if not list(root.glob(f"mlp/none-bs8-s{seed}-*")):
        write_run(root, "none", 8, seed, fingerprint="changed")


def compute_elsewhere(root, folder, luck):
    if (folder / "summary.json").exists():
        edit_summary(folder, execution={**read(folder)["execution"], "device": "cuda"})


def read(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text()) if (folder / "summary.json").exists() else {
        group: {} for group in ("convergence", "config", "execution", "metrics")
    } | {"status": ""}  # fmt: skip


def kind(summary: dict) -> str:
    """All that makes a run what it is, but for the seed."""
    plain = identity(summary["config"], summary["fingerprint"])
    plain.pop("seed", None)
    plain["data"] = {key: value for key, value in plain["data"].items() if key != "seed"}
    return json.dumps([summary["choices"]["norm"], plain], sort_keys=True)


def lost(summary: dict) -> bool:
    return summary["status"] == "diverged" or summary["metrics"].get("train/loss", 0) > 23


def check_study(root: Path) -> str:
    """Hold what the project says against the summaries. Returns `equal` or the refusal."""
    summaries = {path.parent: json.loads(path.read_text()) for path in sorted(root.rglob("summary.json"))}
    try:
        table, rows, study = load_summaries(root), load(root), open_study(root)
        compared = comparison(study)
    except ValueError as error:
        refusal = str(error)
        assert "\n" not in refusal
        assert str(root) in refusal
        assert write_after_sweep(root) is None
        assert not (root / FOLDER).exists()
        return refusal
    by_name = {folder.relative_to(root).as_posix(): summary for folder, summary in summaries.items()}
    assert dict(zip(table["run"], table["hash"], strict=True)) == {n: s["hash"] for n, s in by_name.items()}
    for run, value in zip(table["run"], table["test/accuracy"], strict=True):
        assert value == by_name[run]["metrics"]["test/accuracy"] or math.isnan(value)
    assert set(rows["run"].astype(str)) == set(by_name)
    chosen = {run: by_name[run] for run in study.chosen["run"]}
    if not study.rate_varies:
        assert set(chosen) == set(by_name)
    # Runs of one point are of one kind, each seed once; and every chosen run stands at one point.
    points = defaultdict(list)
    for run, arm, level in zip(study.chosen["run"], study.chosen["arm"], levels(study), strict=True):
        points[arm, level].append(by_name[run])
    for own in points.values():
        assert len({kind(summary) for summary in own}) == 1
        assert len({summary["config"]["seed"] for summary in own}) == len(own)
    assert len({kind(own[0]) for own in points.values()}) == len(points)
    for row in compared.itertuples():
        own = points.get((row.arm, None if math.isnan(row.level) else row.level), [])
        values = [summary["metrics"]["test/accuracy"] for summary in own if not lost(summary)]
        assert (row.runs, row.failed, row.n) == (len(own), len(own) - len(values), len(values))
        assert math.isnan(row.mean) if not values else math.isclose(row.mean, statistics.fmean(values))
        assert math.isnan(row.low) or 0 <= row.low <= row.mean <= row.high <= 1
        assert not row.best or (row.n >= 5 and not row.failed)
    check_differences(study, points)
    check_means(root, study, points)
    assert finding(study, compared)
    assert (any("failed" in text for text in cautions(study))) == any(map(lost, chosen.values()))
    return "equal"


def levels(study) -> list:
    return [None] * len(study.chosen) if study.x is None else list(study.chosen[study.x])


def check_differences(study, points) -> None:
    """Paired differences over seeds that were computed in one way."""
    for row in study.differences.itertuples():
        level = row.level if study.x else None
        first, second = (
            {(s["config"]["seed"], s["execution"]["device"]): s["metrics"]["test/accuracy"]
             for s in points[arm, level] if not lost(s)} for arm in (row.first, row.second)
        )  # fmt: skip
        each = [first[key] - second[key] for key in first if key in second]
        assert row.pairs == len(each)
        assert math.isclose(row.difference, statistics.fmean(each), abs_tol=1e-12)
        assert math.isnan(row.low) or -1 <= row.low <= row.difference + 1e-12 <= row.high + 2e-12 <= 1 + 3e-12


def check_means(root, study, points) -> None:
    """TensorBoard's final validation accuracies are the means over the seeds of each point."""
    folder = write_after_sweep(root)
    found = []
    for path in folder.rglob("events*") if folder else ():
        values = [
            value.tensor.float_val[0] if value.tensor.float_val else value.simple_value
            for event in EventFileLoader(str(path)).Load() for value in event.summary.value
            if value.tag == "Accuracy/val"
        ]  # fmt: skip
        found.append(values[-1])
    last = [
        [summary["convergence"]["last"] for summary in own if not lost(summary)] for own in points.values()
    ]
    wanted = [statistics.fmean(values) for values in last if len(values) > 1]
    assert sorted(found) == pytest.approx(sorted(wanted), rel=1e-6)


def study_of(number: int, tmp_path: Path) -> str:
    """Make and check the random study of this number."""
    root = tmp_path / str(number)
    root.mkdir()
    done = make_study(root, random.Random(number))
    try:
        return check_study(root)
    except Exception as error:
        raise AssertionError(f"study {number} ({'; '.join(done)}): {error!r}") from error
    finally:
        shutil.rmtree(root)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("number", "least", "most"), [(6, 1, 6), pytest.param(1000, 301, 899, marks=pytest.mark.slow)]
)
def test_random_studies_are_told_as_they_are_or_refused(number, least, most, tmp_path):
    found = [study_of(index, tmp_path) for index in range(number)]
    assert least <= found.count("equal") <= most

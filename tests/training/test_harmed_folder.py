"""A run's folder that is moved, removed or damaged while the run trains."""

import csv
import shutil
from pathlib import Path

import pytest
from pytorch_lightning import Callback

OPTIONS = ["max_epochs=3", "log_every_n_steps=4"]


class AtStep(Callback):
    """After the first checkpoint, at step 20 of 51."""

    def __init__(self, action):
        self.action = action

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 20:
            self.action()


def rows(folder: Path) -> list[tuple[str, ...]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return [tuple(row[name] for name in ("step", "metric", "value")) for row in csv.DictReader(file)]


@pytest.mark.integration
@pytest.mark.parametrize("moved", [True, False])
def test_folder_that_goes_while_its_run_trains_is_named_and_can_be_moved_back(train, tmp_path, moved):
    def go():
        (folder,) = (tmp_path / "outputs" / "runs" / "mlp").iterdir()
        folder.rename(tmp_path / "elsewhere")
        if not moved:
            shutil.rmtree(tmp_path / "elsewhere")

    with pytest.raises(ValueError, match="was moved or removed while the run trained") as stopped:
        train(*OPTIONS, callbacks=[AtStep(go)])
    folder = Path(str(stopped.value).split(": ")[0])
    assert not folder.exists()
    if moved:
        folder.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "elsewhere").rename(folder)
    summary, same = train(*OPTIONS)
    assert (summary["steps"], same) == (3 * 17, folder)
    _, whole = train(*OPTIONS, f"outputs={tmp_path / 'whole'}")
    assert rows(folder) == rows(whole)


def test_checkpoint_counts_as_kept_only_if_it_can_be_read(train, tmp_path, capsys):
    def cut():
        path = next(tmp_path.rglob("last.ckpt"))
        path.write_bytes(path.read_bytes()[:1000])
        raise OSError("the disk loses what is written")

    with pytest.raises(OSError, match="loses"):
        train(*OPTIONS, callbacks=[AtStep(cut)])
    said = capsys.readouterr().out
    assert "checkpoint kept" not in said
    assert "the run failed: " in said
    assert "last.ckpt: damaged (" in said


@pytest.mark.parametrize("outputs", ["new", "there"])
def test_name_that_no_folder_can_have_is_one_line_and_leaves_nothing(train, tmp_path, outputs):
    if outputs == "there":
        (tmp_path / "outputs").mkdir()
    before = set(tmp_path.rglob("*"))
    with pytest.raises(
        ValueError, match=r"outputs=.*: cannot be written \(File name too long\); choose another"
    ):
        train(f"name={'n' * 300}")
    assert set(tmp_path.rglob("*")) == before

"""A run's folder where the start fails: one line, nothing left, and the same command works afterwards."""

import json
from pathlib import Path

import pytest
from refusals import refused

from normexp.training.folder import RunFolder, in_use

FILES = {"config.yaml": "x" * 100, "hydra.yaml": "", "overrides.yaml": "[]"}


def folder(path: Path, **more) -> RunFolder:
    return RunFolder(path, "a" * 64, FILES, **more)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_happens_while_the_folder_is_made_leaves_nothing(tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises((KeyboardInterrupt, ValueError)) as caught:
        folder(tmp_path / "o" / "runs" / "a", asked="outputs=o").__enter__()
    if isinstance(error, OSError):
        assert str(caught.value).startswith("outputs=o: cannot be written (No space left on device); choose")
    assert not (tmp_path / "o").exists()
    monkeypatch.undo()
    with folder(tmp_path / "o" / "runs" / "a") as made:
        assert (made.path / ".hydra" / "identity").read_text() == "a" * 64


@pytest.mark.parametrize("left", [".hydra/config.yaml", ".hydra/identity"])
def test_folder_of_a_process_killed_at_the_start_is_new(tmp_path, left):
    (tmp_path / left).parent.mkdir()
    for name in (left, ".lock"):
        (tmp_path / name).write_text("")
    with folder(tmp_path) as made:
        assert {path.name for path in (tmp_path / ".hydra").iterdir()} == {*FILES, "identity"}
        assert made.path == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == [".hydra"]


def test_a_folder_is_in_use_while_a_process_holds_its_lock(tmp_path):
    path = tmp_path / "run"
    assert not in_use(path)
    with folder(path):
        assert in_use(path)
    path.mkdir(exist_ok=True)
    (path / ".lock").write_text("")  # of a process that was killed
    assert not in_use(path)
    assert not (path / ".lock").exists()
    with refused("is a file; name a folder"):
        (tmp_path / "file").write_text("")
        folder(tmp_path / "file")


def test_folder_of_another_program_is_still_refused(tmp_path):
    for name in (".hydra/config.yaml", "main.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    with refused("holds files that are no run of normexp"):
        folder(tmp_path)


@pytest.mark.parametrize("key", ["run_dir", "outputs"])
def test_place_that_cannot_be_written_is_one_line_naming_the_key(train, key):
    with refused(f"{key}=/dev/null/x: cannot be written .+; choose another folder"):
        train(f"{key}=/dev/null/x")


def test_finished_run_says_that_it_was_recorded_otherwise(train, capsys):
    _, path = train()
    shown = capsys.readouterr().out.partition("┃")[2].partition("folder:")[0]
    train()
    said = capsys.readouterr().out
    assert f"This run is finished: {path}\n" in said
    assert shown in said  # the same numbers in the same words
    assert "test" in shown
    assert "finished with" not in said
    train("monitor=gradients", "accuracies=[0.5]", "log_every_n_steps=7")
    found = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("finished with"))
    assert found.startswith("finished with other log_every_n_steps, accuracies, monitor; name=<another>")
    assert json.loads((path / "summary.json").read_text())["config"]["log_every_n_steps"] == 20

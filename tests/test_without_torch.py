"""Kept evidence is judged, and finished runs are listed and reported, where torch and Lightning are absent."""

import pytest
from fabricated import write_study
from forked import started

ABSENT = ("torch", "torchvision", "pytorch_lightning", "lightning", "lightning_fabric", "tensorboard")
TRAINS = ("normexp.claims.train", "normexp.claims.evidence.disk")
TRAINS += ("normexp.sweeps.run", "normexp.config.run_spec")
BLOCKED = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from normexp.cli.main import main
status = main(sys.argv[1:])
assert not set(sys.modules) & {{*{ABSENT + TRAINS}}}
sys.exit(status)
"""


def command(folder, *words):
    """What a command prints in a process that cannot import any of them."""
    found = started("-c", BLOCKED, *words, folder=folder)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.integration
@pytest.mark.parametrize(
    "words", [("verify", "claim=P10a"), ("verify", "claim=P06a,S06b"), ("verify", "--help")]
)
def test_kept_evidence_is_judged(words, tmp_path):
    told = command(tmp_path, *words)
    assert all(
        id in told for word in words for id in word.removeprefix("claim=").split(",") if "claim" in word
    )
    if words[1] == "claim=P10a":
        assert {path.name for path in (tmp_path / "outputs/claims/P10a").iterdir()} == {
            "verdict.json", "evidence.csv", "settings.csv", "figure.png",
        }  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", ["figure", "runs", "report", "compare", "check", "advise", "new", "register"]
)
def test_commands_explain_themselves(name, tmp_path):
    assert f"normexp {name}" in command(tmp_path, name, "--help")


@pytest.mark.integration
def test_finished_runs_are_listed_and_reported(tmp_path):
    folder = write_study(tmp_path / "study", norms=("none", "layernorm"))
    assert "layernorm" in command(tmp_path, "runs", str(folder))
    told = command(tmp_path, "compare", str(folder), "setting=batch_size")
    assert "layernorm is better than none by more than the margin in " in told
    told = command(tmp_path, "report", str(folder))
    assert "report: " in told
    assert (folder / "report" / "index.html").is_file()

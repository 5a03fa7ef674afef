"""Sweeps and claims on a real Ray cluster of two nodes: the same plan, skipping and screen; nodes or drivers die."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import ray_nodes
from cluster.watching import CLAIM, states, two_drivers_share_four_runs, until

from normexp.runs import load_summaries

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(ray_nodes.missing()), reason=str(ray_nodes.missing())),
]
RUN = [
    "name=runs",
    "model.width=16",
    "batch_size=32",
    "monitor=none",
    "trainer=cpu",
    "val_every_n_steps=100",
    "--place",
    "ray",
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with ray_nodes.cluster(folder) as found:
        yield found


def start(nodes, screen: Path, *command: str) -> subprocess.Popen:
    with screen.open("a") as file:
        return subprocess.Popen(
            [*nodes.prefix, sys.executable, *command],
            cwd=ROOT,
            env=nodes.environment,
            stdout=file,
            stderr=file,
        )


def test_claim_is_trained_by_the_cluster(nodes, tmp_path):
    (tmp_path / "mine.yaml").write_text(CLAIM)
    ask = ["scripts/verify.py", f"claim={tmp_path / 'mine.yaml'}", "--place", "ray", f"out={tmp_path / 'o'}"]
    assert start(nodes, tmp_path / "screen", *ask).wait(1200) == 0, (tmp_path / "screen").read_text()
    screen = (tmp_path / "screen").read_text()
    assert "2 at a time on the nodes of Ray" in screen
    verdict = json.loads((tmp_path / "o" / "mine" / "verdict.json").read_text())
    assert verdict["verdict"] == "seen here"
    assert verdict["runs"]["trained"] == screen.count("  completed ") == 10


def test_driver_that_is_killed_leaves_runs_that_go_on_from_their_checkpoints(nodes, tmp_path):
    arguments = ["train.py", "-m", *RUN, "max_steps=6000", "seed=0,1", f"outputs={tmp_path / 'o'}"]
    process = start(nodes, tmp_path / "first", *arguments)
    until(lambda: len(list(tmp_path.rglob("last.ckpt"))) == 2)
    process.kill()
    process.wait()
    assert start(nodes, tmp_path / "second", *arguments).wait(900) == 0, (tmp_path / "second").read_text()
    logs = "".join(path.read_text() for path in tmp_path.rglob("logs/mlp/*.log"))
    assert logs.count("resuming from checkpoints/last.ckpt") == 2
    assert len(load_summaries(tmp_path / "o" / "runs", {"seed": [0, 1]})) == 2


def test_two_drivers_of_one_sweep_share_its_runs_and_both_end_well(nodes, tmp_path):
    arguments = ["train.py", "-m", *RUN, "max_steps=2000", "seed=0,1,2,3", f"outputs={tmp_path / 'o'}"]
    two_drivers_share_four_runs(lambda screen: start(nodes, screen, *arguments), tmp_path)


def test_sweep_of_twelve_survives_the_death_of_a_node_and_does_each_once(nodes, tmp_path):
    # a run must last longer than Ray takes to miss a node
    arguments = ["train.py", "-m", *RUN, "max_steps=10000", "norm=none,layernorm", "seed=range(0,6)"]
    arguments.append(f"outputs={tmp_path / 'o'}")
    process = start(nodes, tmp_path / "screen", *arguments)
    # in the middle: some are done, and the second node is at work on one
    until(lambda: len(list(tmp_path.rglob("summary.json"))) >= 3, 900)
    nodes.kill(nodes.sessions[1])
    assert process.wait(1200) == 0, (tmp_path / "screen").read_text()
    screen = (tmp_path / "screen").read_text()
    assert "its worker or node is gone" in screen
    assert "12 done in" in screen
    assert states(tmp_path / "o") == ["completed"] * 12
    assert (
        len(load_summaries(tmp_path / "o" / "runs", {"norm": ["none", "layernorm"], "seed": range(6)})) == 12
    )
    assert screen.count("  completed ") == 12
    again = start(nodes, tmp_path / "again", *arguments)
    assert again.wait(300) == 0
    assert "12 runs, skipped" in (tmp_path / "again").read_text()

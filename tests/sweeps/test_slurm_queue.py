"""What Slurm's answers mean, without a Slurm: a queue that is full, a refusal for good, no answer at all."""

import pytest

from normexp.sweeps.places import slurm

FAILED = "Batch job submission failed: "
POLICY = FAILED + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("said", "full"),
    [
        (POLICY, True),
        (f"QOSMaxSubmitJobPerUserLimit; {POLICY}", True),
        (f"AssocGrpSubmitJobsLimit; {POLICY}", True),
        (f"QOSMaxWallDurationPerJobLimit; {POLICY}", False),
        (f"AssocMaxCpuPerJobLimit; {POLICY}", False),
        ("Slurm temporarily unable to accept job, sleeping and retrying", True),
        ("Batch job submission failed: Resource temporarily unavailable", True),
        ("Batch job submission failed: Unable to contact slurm controller (connect failure)", True),
        ("Batch job submission failed: Socket timed out on send/recv operation", True),
        (
            "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
            False,
        ),
        ("Batch job submission failed: Invalid account or account/partition combination specified", False),
        ("invalid partition specified: gpu", False),
    ],
)
def test_only_what_passes_by_waiting_is_waited_for(said, full):
    assert slurm.Refused(said).full is full


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a program of a shell's text, found before all others."""

    def make(name: str, text: str) -> None:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(path.parent), prepend=":")

    return make


def test_refusal_names_every_line_of_sbatch(program, tmp_path):
    pytest.importorskip("submitit")
    program(
        "sbatch", f'echo "sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: {POLICY}" >&2; exit 1'
    )
    program("srun", "exit 0")
    with pytest.raises(slurm.Refused, match=r"^QOSMaxWallDurationPerJobLimit; Batch job") as caught:
        slurm.submit_array(tmp_path / "jobs", {"job_name": "x"}, [print])
    assert not caught.value.full


def test_silence_is_not_an_empty_queue(program, tmp_path, monkeypatch):
    """Jobs of an earlier launch would be started a second time."""
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    asked = tmp_path / "asked"
    program("squeue", f"echo x >> {asked}; exit 1")
    with pytest.raises(ValueError, match="squeue does not answer"):
        slurm.running_arrays(["normexp-1"])
    assert asked.read_text().count("x") == slurm.ASKED
    program(
        "squeue",
        f"test $(wc -l < {asked}) = 7 && echo '12|3|RUNNING|normexp-1' && exit 0; echo x >> {asked}; exit 1",
    )
    assert slurm.running_arrays(["normexp-1"]) == {("normexp-1", 3): "12_3"}

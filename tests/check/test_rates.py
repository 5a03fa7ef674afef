"""The rates of error on docs/check.md are those of the kept rows, and every fault that was found is found still."""

import json
import re

import pytest
import torch
from check_faults import tried
from faults_of_structure import FAULTS
from forked import ROOT

from normexp.check.run import check

NETWORKS, ROWS = (
    json.loads((ROOT / "docs" / "data" / f"check_{name}.json").read_text()) for name in ("rates", "faults")
)
FOUND = {row["thread"]: row["mended"] for row in ROWS if row["found"]}
PAGE = (ROOT / "docs" / "check.md").read_text()


def test_page_tells_the_rates():
    checks = [row[when] for row in NETWORKS for when in ("fresh", "updated") if when in row]
    loud = [[f for f in made["findings"] if f.get("severity", "note") != "note"] for made in checks]
    false = [[f for f in found if f["true"] is not True] for found in loud]
    norms = sum(sum(row["tree"].values()) for row in NETWORKS)
    said = re.search(
        r"(\d+) public networks.*?(\d+) of (\d+) checks.*?(\d+) of (\d+) warnings.*?([\d,]+) norms.*?"
        r"(\d+) of those with all options.*?(\d+) more was stopped.*?"
        r"(\d+) faults.*?(\d+) are named at the right layer.*?(\d+) are mended",
        " ".join(PAGE.partition("## How often it is wrong\n")[2].split()),
    )
    short = re.search(
        r"On (\d+) public networks (\d+) of (\d+) warnings.*?(\d+) of (\d+) known faults", PAGE, re.S
    )
    assert short.groups() == said.group(1, 4, 5, 10, 9)
    assert [int(number.replace(",", "")) for number in said.groups()] == [
        len(NETWORKS), sum(map(bool, false)), len(checks), sum(map(len, false)), sum(map(len, loud)), norms,
        sum(made["seconds"] > 10 for made in checks), sum("20 s" in row["error"] for row in NETWORKS),
        len(ROWS), len(FOUND), sum(row["mended"] for row in ROWS),
    ]  # fmt: skip
    assert sum(map(bool, false)) < 0.02 * len(checks)
    assert max(row["fresh"]["seconds"] for row in NETWORKS if "fresh" in row) < 10
    assert not any(row["missed"] for row in NETWORKS)


@pytest.mark.parametrize(
    "case", [case for case in FAULTS if case.thread in FOUND], ids=lambda case: case.thread
)
@pytest.mark.filterwarnings("ignore")  # of float16 on a processor
def test_fault_is_found_and_mended(case):
    """At the right layer, and by the printed fix, which brings no new warning."""
    again = tried(case, False)
    assert again["found"]
    assert again["mended"] == FOUND[case.thread], again


def test_running_statistics_that_are_none():
    """As in InstanceNorm of torch_geometric."""

    class InstanceNorm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.ones(16)), 1e-5
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)

        def forward(self, x):
            return (x - x.mean(0)) / (x.var(0) + self.eps).sqrt() * self.weight

    result = check(torch.nn.Sequential(torch.nn.Linear(8, 16), InstanceNorm()), torch.randn(8, 8))
    assert "1 InstanceNorm" in result.facts[0]

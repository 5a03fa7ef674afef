"""No false alarms on public networks, and the table of docs/check.md."""

import check_public_networks as public
import pytest
import torch
from doc_tables import read_rows

from normexp.check.run import check

ROWS = read_rows(public.ROWS)
FAST = (
    "timm resnet10t",
    "timm lcnet_050",
    "timm convnext_atto",
    "transformers gpt2",
    "vit (2 blocks)",
    "cnn, batchnorm",
)


def test_page_has_the_rows_of_the_file():
    assert public.markdown(ROWS) in public.PAGE.read_text()
    assert public.limits() in public.PAGE.read_text()


def test_every_public_network_is_in_the_file_and_none_has_a_warning_when_fresh():
    libraries = [row["library"] for row in ROWS]
    counts = {name: libraries.count(name) for name in ("torchvision", "timm", "transformers", "normexp")}
    assert counts == {"torchvision": 12, "timm": 10, "transformers": 6, "normexp": len(public.OURS)}
    assert [row["network"] for row in ROWS if any(f["severity"] != "note" for f in row["fresh"])] == []


@pytest.mark.parametrize(
    "name",
    [pytest.param(row["network"], marks=[] if row["network"] in FAST else pytest.mark.slow) for row in ROWS],
)
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_fresh_network_has_no_warning(name):
    known = public.networks()
    if name not in known:
        pytest.skip(f"{name}: its library is not installed")
    torch.manual_seed(0)
    _, make, data = known[name]
    result = check(make(), [data(), data()], precision="bf16-mixed", devices=1)
    assert result.ok, str(result)
    assert len(result.healthy) >= 10

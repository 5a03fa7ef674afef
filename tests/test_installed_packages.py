"""A third-party package with a norm, a claim and a bank: listed by its entry points, read only if it is allowed."""

import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from refusals import refused

from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.find import find
from normexp.cli.help import explain
from normexp.config import folder
from normexp.config.compose import compose
from normexp.config.errors import one_line

EXAMPLE = Path(__file__).parents[1] / "docs" / "extending"
PACKAGE = "normexp_meanabs"


def install(place):
    """What an installer leaves behind: metadata with entry points."""
    info = place / f"{PACKAGE}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: normexp-meanabs\nVersion: 0.1\n")
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    with (info / "entry_points.txt").open("w") as file:
        for group, own in points.items():
            file.writelines([f"[{group}]\n", *(f"{key} = {to}\n" for key, to in own.items())])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of installed packages, with the example of the documentation in it."""
    monkeypatch.setenv(folder.ALLOWED, "")
    monkeypatch.setenv(folder.VARIABLE, "")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    shutil.copytree(EXAMPLE / PACKAGE, tmp_path / PACKAGE)
    install(tmp_path)
    folder.brought.cache_clear()
    yield tmp_path
    folder.brought.cache_clear()
    sys.modules.pop(PACKAGE, None)


def test_the_example_is_small():
    files = [path for path in EXAMPLE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(len(path.read_text().splitlines()) for path in files) <= 60


def test_it_is_listed_and_nothing_of_it_is_read_before_it_is_allowed(place):
    (place / PACKAGE / "norm" / "meanabs.yaml").write_text("broken: [")
    assert f"of an installed package; add allow_targets=[{PACKAGE}]" in explain("norm")
    with pytest.raises(Exception, match="meanabs") as foreign:
        compose(["norm=meanabs"])
    hint = f"an installed package brings it; if you trust {PACKAGE}, add allow_targets=[{PACKAGE}]"
    assert one_line(foreign.value) == f"norm=meanabs: {hint}"
    asks = {"claim=MA1": lambda: find("MA1"), "bank=tiny_digits": lambda: load_bank("tiny_digits")}
    for word, ask in asks.items():
        with refused("installed package") as caught:
            ask()
        assert str(caught.value) == f"{word}: {hint}"
    assert PACKAGE not in sys.modules


def test_allowed_it_brings_norm_claim_and_bank(place):
    folder.allow_from([f"allow_targets=[{PACKAGE}]"])
    cfg, choices = compose(["norm=meanabs"])
    assert (cfg.norm._target_, choices["norm"]) == (f"{PACKAGE}.MeanAbs", "meanabs")
    assert "eps: ${eps}" in explain("norm=meanabs")
    ((claim,), _) = find("MA1")
    assert claim.arms["meanabs"] == ["norm=meanabs"]
    bank = load_bank("tiny_digits")
    assert bank.drawn
    assert len(bank.cells) == 6


def test_its_norm_divides_by_the_mean_magnitude_of_each_sample(place):
    from hydra.utils import instantiate

    folder.allow_from([f"allow_targets=[{PACKAGE}]"])
    layer = instantiate(compose(["norm=meanabs"])[0].norm)(6)
    x = torch.randn(4, 6)
    twin = torch.stack([row / (sum(map(abs, row.tolist())) / 6 + 1e-5) for row in x])
    assert torch.allclose(layer(x), twin, atol=1e-6)


def test_it_replaces_nothing_of_normexp(place):
    (place / PACKAGE / "norm" / "layernorm.yaml").write_text("_target_: evil.Layer\n")
    folder.allow_from([f"allow_targets=[{PACKAGE}]"])
    assert compose(["norm=layernorm"])[0].norm._target_ == "normexp.norms.LayerNorm"

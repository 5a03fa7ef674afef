"""Bad input, of Python and of the command line, is refused in one line that names the argument and a remedy."""

import sys

import pytest
import torch
from refusals import refused
from small_networks import around, command, mlp, rows
from torch import nn
from torch.nn import functional as F

import normexp
from normexp.check import CheckNorms
from normexp.check.run import check
from normexp.monitors import Gradients

BARE = [torch.ones(3)]
OPTIONS = [
    {"steps": "10"}, {"devices": "2"}, {"seed": 1.5}, {"accumulate": 2.5}, {"samples": True}, {"causal": "yes"},
    {"averaged": BARE}, {"state_dict": BARE}, {"select": "layer@1"}, {"select": ["eps@1"]}, {"ignore": "eps_"},
    {"seed": -1},
]  # fmt: skip
SAID = [
    ({"precision": "17"}, "precision=17: unknown"),
    ({"samples": 0}, "samples=0: too small"),
    ({"optimizer": "adam"}, "optimizer=.*has no param_groups"),
    ({"optimizer": []}, "optimizer=.*has no param_groups"),
    ({"loader": []}, "loader: gives no batch"),
    ({"loader": torch.zeros(0, 6)}, "loader: gives a batch without samples"),
    ({"loader": [None, rows()]}, "loader: .*that is None"),
    ({"loader": ["text", "text"]}, "loader: .*a str"),
    ({"loader": [{}]}, "loader: .*a dict"),
    ({"loader": torch.utils.data.TensorDataset(*rows())}, "loader: a TensorDataset gives single samples; pass DataL"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [(options, f"^{next(iter(options))}") for options in OPTIONS] + SAID,
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)
def test_option_and_loader_are_refused(options, said):
    with refused(said):
        check(around(nn.LayerNorm(8)), **({"loader": rows()} | options))


MODULES = {
    "scripted": (lambda: torch.jit.script(around(nn.LayerNorm(8))), "scripted or traced"),
    "traced part": (lambda: nn.Sequential(torch.jit.trace(nn.LayerNorm(6), torch.randn(2, 6))), "scripted or traced"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(8), nn.LayerNorm(8)), "call the network once"),
    "class": (lambda: nn.LayerNorm, "is a class; pass an object"),
    "tensor": (lambda: torch.zeros(6), "module=Tensor: is no module"),
    "no norm": (lambda: nn.Linear(6, 8), "has no normalization layer"),
    "no norm, complex": (lambda: nn.Sequential(nn.Linear(6, 8, dtype=torch.cfloat)), "has no normalization layer"),
    "no parameters": (lambda: nn.BatchNorm1d(6, affine=False), "module=BatchNorm1d: has no parameters"),
    "no numbers": (lambda: mlp().to("meta"), "on `meta`"),
}  # fmt: skip


@pytest.mark.parametrize("case", MODULES)
@pytest.mark.filterwarnings("ignore")  # of torch, on its own compiler
def test_module_is_refused(case):
    make, said = MODULES[case]
    with refused(said) as caught:
        check(make(), torch.randn(4, 6))
    assert len(str(caught.value)) < 120


def running(self, x):
    """A BatchNorm by hand with deviations in place of variances."""
    if self.training:
        self.mean, self.deviation = x.mean(0).detach(), x.std(0).detach()
    return (x - self.mean) / self.deviation


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (lambda self, x: x.relu(), "no normalization layer that is known"),
        (lambda self, x: torch.vmap(lambda row: F.layer_norm(row, (8,)))(x), "runs a norm inside vmap"),
        (running, r"that is known \(1 changes mean, deviation as it trains"),
    ],
    ids=["none", "vmap", "by hand"],
)
def test_a_network_without_a_known_norm_is_told_what_was_seen(forward, said):
    layer = type("Layer", (nn.Module,), {"forward": forward})()
    layer.mean, layer.deviation = torch.zeros(8), torch.ones(8)
    with refused(said):
        check(nn.Sequential(nn.Linear(6, 8), layer), torch.randn(9, 6))


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda output, _: {"loss": output.sum()}, "gives a dict; return a tensor of one number"),
        (lambda output, _: output.sum().item(), "gives a float;"),
        (lambda output, _: output.sum(1), r"gives a Tensor of shape \(32,\);"),
        ("mse", "loss='mse': cannot be called"),
        (nn.CrossEntropyLoss, "loss=CrossEntropyLoss: is a class; pass an object, CrossEntropyLoss"),
        (lambda output: output.sum(), r"loss=<lambda>: cannot be called as loss\(output, target\)"),
    ],
)
def test_a_loss_is_refused_at_every_door(loss, said):
    model = around(nn.LayerNorm(8))
    with refused(said):
        check(model, rows(), loss=loss)
    with refused(said):
        Gradients(every_n_steps=1).measure(model, rows(), loss=loss)
    if said.startswith("loss="):  # it shows before a call
        with refused(said):
            normexp.watch(model, loss=loss)
        with refused(said):
            CheckNorms(loss=loss)


CLASSES = {
    "check": lambda model: check(model, torch.utils.data.TensorDataset),
    "check, optimizer": lambda model: check(model, rows(), optimizer=torch.optim.SGD),
    "watch": lambda model: normexp.watch(nn.Sequential),
    "watch, monitors": lambda model: normexp.watch(model, monitors=[Gradients]),
    "watch, validation": lambda model: normexp.watch(model, validation=torch.utils.data.DataLoader),
    "swap": lambda model: normexp.norms.swap(nn.Sequential, "groupnorm"),
    "monitor": lambda model: Gradients(every_n_steps=1).measure(nn.Sequential, rows()[0]),
    "monitor, data": lambda model: Gradients(every_n_steps=1).measure(model, torch.utils.data.DataLoader),
}


@pytest.mark.parametrize("door", CLASSES)
def test_a_class_in_place_of_an_object_is_refused(door):
    with refused(r"^\w+=\w+: is a class; pass an object, \w+\(...\)$"):
        CLASSES[door](around(nn.LayerNorm(8)))


def test_callback_refuses_a_typo_at_once():
    with refused("did you mean small_batch"):
        CheckNorms(ignore=("small_bach",))


def refuses(capsys, words, said):
    """The command ends with 2 and one line that says so."""
    capsys.readouterr()
    assert command(*words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


CALL = ["own_net:Blocks", "--data", "own_net:batch"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["own_net:Nothing"], "has no attribute 'Nothing'"),
        (["no_such_package:Model"], "No module named 'no_such_package'"),
        (["own_net:Blocks", "--data", "own_net:loss"], "its call raises TypeError"),
        (["own_net:boom"], "NETWORK=own_net:boom: its call raises RuntimeError (boom and more)"),
        (["own_net:Blocks", "--data", "0x6"], "loader: gives a batch without samples"),
        (["resnet19"], "NETWORK=resnet19: write package.module:name, or file.py:name"),
        (["own_net:Blocks", "--precision", "17"], "precision=17: unknown"),
        (["own_net:Blocks", "--data", "4,3,8,8"], "a shape is written 4x3x8x8"),
        (["own_net:Blocks", "--data", "4x3x"], "a shape is written 32x3"),
        (["."], "holds no run itself; name the folder of one run"),
        (["own_net:Blocks", "--weights", "gone.pt"], "--weights=gone.pt: no such file"),
        (["own_net:Blocks", "--weights", "code.pt"], "holds more than tensors; save model.state_dict()"),
        ([*CALL, "--seed", "-1"], "seed=-1"),
        ([*CALL, "--mask", "own_net:unreal"], "has no attribute 'unreal'"),
        ([*CALL, "--format", "xml"], "format=xml: choose from text, json, github, sarif"),
        ([*CALL, "--select", "small_bach"], "did you mean small_batch?"),
        ([*CALL, "--ignore", "small_bach"], "did you mean small_batch?"),
        ([*CALL, "--explain", "small_bach"], "did you mean small_batch?"),
        ([*CALL, "--baseline", "gone.json"], "--write-baseline writes it"),
        ([*CALL, "--baseline", "list.json"], "list.json"),
        ([*CALL, "--state-dict", "x.safetensors"], "pip install"),
    ],
)
def test_slip_on_the_command_line_is_refused(own, words, said, capsys, tmp_path, monkeypatch):
    torch.save({"model": nn.Linear(2, 2)}, "code.pt")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "x.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors", None)  # a package that is not installed
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    refuses(capsys, words, said)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('loss = "own_net:batch"', "loss: no such key"),
        ("ignroe = []", "did you mean ignore?"),
        ('ignore = "eps"', "must be a list of ids"),
        ('ignore = ["epps"]', "did you mean eps?"),
        ("samples = 0", "samples=0"),
        ("strict = ", "pyproject.toml"),
        ("baseline = 3", "baseline=3: must be the path"),
        ("[tool.normexp]\ncheck = 3", "check=3: must be a table"),
    ],
)
def test_mistake_in_the_table_of_pyproject_is_refused(own, row, said, tmp_path, capsys):
    table = row if row.startswith("[") else f"[tool.normexp.check]\n{row}"
    (tmp_path / "pyproject.toml").write_text(f"{table}\n")
    refuses(capsys, CALL, said)

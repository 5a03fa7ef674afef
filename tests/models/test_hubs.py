"""Networks of hubs by name, for `check` and for `model=`. Where a package is absent, a stand-in takes its place."""

import builtins
import json
import sys
from types import SimpleNamespace

import pytest
import torch
from refusals import refused
from torch import nn

import normexp
from normexp.cli.main import run as run_command
from normexp.config.compose import compose
from normexp.models.hubs import from_hub, is_hub


def test_torchvision_network_has_its_own_parameters():
    from torchvision.models import resnet18

    network = from_hub("torchvision:resnet18", num_classes=7)
    own = {name: p.shape for name, p in resnet18(num_classes=7).state_dict().items()}
    assert {name: p.shape for name, p in network.state_dict().items()} == own


@pytest.mark.parametrize(
    ("word", "message"),
    [("torchvision:resnet19", "did you mean resnet1"), ("torchvision:resnet18:x", "no such network")],
)
def test_wrong_name_is_one_line_with_the_nearest(word, message):
    with refused(message):
        from_hub(word)


@pytest.mark.parametrize(("word", "package"), [("timm:a", "timm"), ("hf:LlamaConfig", "transformers")])
def test_missing_package_is_one_line_with_the_remedy(word, package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert run_command("check", [word]) == 2
    error = capsys.readouterr().err
    assert f"pip install {package}" in error
    assert error.count("\n") == 1


def test_words_that_are_no_hub():
    assert [is_hub(word) for word in ("timm:a", "hf:B", "torchvision:c")] == [True] * 3
    assert not any(map(is_hub, ("timm", "timm:", "torchvision.models:resnet18", "hf.py:Net", "my:Net")))


def test_check_builds_a_stand_in_of_timm_without_weights(monkeypatch, capsys):
    def create_model(name, pretrained=True, **sizes):
        assert not pretrained
        return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8))

    fake = SimpleNamespace(list_models=lambda: ["tiny"], create_model=create_model)
    monkeypatch.setitem(sys.modules, "timm", fake)
    assert run_command("check", ["timm:tiny", "--data", "8x6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "timm:tiny"
    assert run_command("check", ["timm:tony"]) == 2
    assert "did you mean tiny" in capsys.readouterr().err


@pytest.mark.slow
def test_timm_network_is_timms():
    timm = pytest.importorskip("timm")
    own = timm.create_model("resnet10t", pretrained=False, num_classes=5).state_dict()
    assert from_hub("timm:resnet10t", num_classes=5).state_dict().keys() == own.keys()


@pytest.mark.slow
def test_transformers_configuration_is_built_without_a_download(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    sizes = "hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=50"
    network = from_hub(f"hf:LlamaConfig({sizes})")
    assert type(network) is transformers.LlamaForCausalLM
    network.config.save_pretrained(tmp_path)
    for path in (tmp_path, tmp_path / "config.json"):
        again = from_hub(f"hf:{path}")
        assert again.state_dict().keys() == network.state_dict().keys()
    assert type(from_hub("hf:ViTConfig(hidden_size=16, num_attention_heads=2, intermediate_size=8)")) is (
        transformers.ViTModel
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("LlamaConfig", "billion parameters"),
        ("LlamaConfg", "did you mean LlamaConfig"),
        ("meta/llama", "names are not downloaded"),
        ("LlamaConfig(open('x'))", "write a class of transformers"),
        ("LlamaConfig(vocab_size=open('x'))", "malformed node"),
        ("__import__('os').system('x')", "write a class of transformers"),
    ],
)
def test_bad_name_of_a_configuration_runs_nothing(name, message, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(builtins, "open", None)
    with refused(message):
        from_hub(f"hf:{name}")
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("model=torchvision:resnet18", ("torchvision", "resnet18")),
        ("model=timm\\:resnet10t", ("module", "resnet10t")),  # as Hydra writes the cell of a sweep
        ("model=timm:resnet10t", ("module", "resnet10t")),
        ("model='hf:LlamaConfig(a=1, b=2)'", ("module", "LlamaConfig(a=1, b=2)")),
        ("model=hf:LlamaConfig(a=1,b=2)", ("module", "LlamaConfig(a=1,b=2)")),
    ],
)
def test_name_of_a_hub_is_a_choice_of_model(word, expected):
    cfg, choices = compose(["seed=3", word, "data=digits"])
    model = cfg.model
    assert (choices["model"], model.get("name") or model.module.name) == expected
    assert cfg.seed == 3


@pytest.mark.integration
def test_network_of_a_hub_is_trained(tmp_path, monkeypatch):
    def create_model(name, pretrained, num_classes, in_chans):
        ends = (nn.ReLU(), nn.Flatten(), nn.LazyLinear(num_classes))
        layers = (nn.Conv2d(in_chans, 4, 3), nn.BatchNorm2d(4), *ends)
        network = nn.Sequential(*layers)
        network(torch.zeros(1, in_chans, 8, 8))
        return network

    fake = {"list_models": lambda: ["tiny", "small"], "is_model": lambda name: False}
    fake["create_model"] = create_model
    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(**fake))
    monkeypatch.chdir(tmp_path)
    for name in ("tiny", "small"):
        run = normexp.train(model=f"timm:{name}", data="digits", max_steps=2, threads=1)
        assert run.summary["config"]["model"]["module"]["name"] == name

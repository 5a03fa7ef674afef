"""Every file under configs/ is a choice that composes, validates and builds: a new one is covered when it is added."""

import inspect

import pytest
from hydra.utils import get_class
from models.small_models import weights_outside_norms
from omegaconf import OmegaConf
from refusals import refused

from normexp import norms
from normexp.config.checks import check_kinds
from normexp.config.compose import compose
from normexp.config.folder import CONFIGS
from normexp.config.run_spec import resolved, spec_of, specs
from normexp.config.targets import DataOfLaunch
from normexp.training.build import build

SMALL = {
    "mlp": ["model.depth=1", "model.width=8"],
    "cnn": ["model.width=4"],
    "resnet": ["model.depth=8", "model.width=4"],
    "transformer": ["model.depth=1", "model.width=8", "model.heads=2"],
    "gpt": ["data=python_docs", "model.depth=1", "model.width=8", "model.heads=2"],
}


NEEDED = {  # what a choice cannot do without
    "data=module": ["data.path=normexp.data.Digits"],
    "model=module": ["model.path=normexp.models.MLP", "+model.module.depth=1", "+model.module.width=8"],
}


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


@pytest.mark.parametrize("group", ["model", "norm", "data", "optimizer", "schedule", "trainer", "monitor"])
def test_every_choice_validates_and_norms_share_one_eps(group):
    for name in names(group):
        cfg, choices = compose([f"{group}={name}", "eps=0.125", *NEEDED.get(f"{group}={name}", [])])
        assert choices[group] == name
        config = resolved(cfg)
        if group == "norm":  # the annotated form's eps is part of its name
            assert (config["norm"].get("eps", 0.125) == 0.125) == (name != "layernorm_annotated"), name


def test_norms_built_by_hand_have_the_eps_of_a_run():
    signatures = [inspect.signature(vars(norms)[name]).parameters for name in norms.__all__]
    # Norm alone has 0.
    defaults = [of["eps"].default for of in signatures if "eps" in of and of["eps"].default]
    assert len(defaults) > 10
    assert set(defaults) == {OmegaConf.load(CONFIGS / "train.yaml").eps} == {norms.base.DEFAULT_EPS}


def model_of(name: str) -> list[str]:
    return [f"model={name}", *NEEDED.get(f"model={name}", [])]


def accepts(config: dict) -> str:
    return get_class(config["model"]["_target_"]).accepts


@pytest.mark.parametrize("model", names("model"))
def test_every_model_builds_with_layernorm(model):
    text = accepts(resolved(compose(model_of(model))[0])) == "text"
    default = ["data=python_docs"] if text else []
    parts = build(specs([*model_of(model), *SMALL.get(model, default)])[0])
    assert parts.choices["model"] == model
    assert [site for site in parts.module.model.sites() if site.kind == "norm"]


def test_model_and_data_fit_or_the_message_names_what_fits():
    overrides = {name: [f"data={name}", *NEEDED.get(f"data={name}", [])] for name in names("data")}
    data_nodes = {name: resolved(compose(own)[0])["data"] for name, own in overrides.items()}
    for model in names("model"):
        config = resolved(compose(model_of(model))[0])
        text_model = accepts(config) == "text"
        for data, node in data_nodes.items():
            text_data = data in ("python_docs", "text_file")
            arguments = {**config, "data": node}, {"model": model, "data": data}
            if text_data == text_model:
                check_kinds(*arguments)
                continue
            fitting = "use data=python_docs or data=text_file" if text_model else "data=digits"
            with refused(fitting):
                check_kinds(*arguments)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["batch_size=1", "norm=batchnorm"], "use a larger batch_size or norm=layernorm"),
        (["trainer.accelerator=abacus"], "choose trainer=auto or trainer=cpu"),
    ],
)
def test_what_cannot_train_is_refused_before_training(overrides, message):
    with refused(message):
        build(specs(overrides)[0]).make_trainer()


def test_same_seed_gives_every_norm_the_same_weights_and_batches():
    import torch

    def start(norm):
        parts = build(specs([f"norm={norm}", *SMALL["mlp"]])[0])
        batches = [y for _, y in parts.data.train_dataloader()]
        return [*weights_outside_norms(parts.module.model).values()], batches

    weights, batches = start("none")
    for norm in ("batchnorm", "layernorm", "rmsnorm"):
        other_weights, other_batches = start(norm)
        assert all(torch.equal(a, b) for a, b in zip(weights, other_weights, strict=True))
        assert all(torch.equal(a, b) for a, b in zip(batches, other_batches, strict=True))


def test_saved_configuration_builds_the_same_run():
    cfg, choices = compose(["norm=batchnorm", "seed=5"])
    again = OmegaConf.create(OmegaConf.to_yaml(cfg))
    digests = [spec_of(one, choices, (), DataOfLaunch()).digest for one in (again, cfg)]
    assert digests == [specs(["norm=batchnorm", "seed=5"])[0].digest] * 2


def test_a_monitor_that_is_null_is_left_out(make_parts):
    light, fewer = (make_parts("monitor=light", *more).monitors for more in ((), ("monitor.gradients=null",)))
    names, left = ({type(monitor).__name__ for monitor in own} for own in (light, fewer))
    assert names - left == {"Gradients"}

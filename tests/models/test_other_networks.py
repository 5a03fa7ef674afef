"""Networks of torchvision and of users as models of a run."""

import own_nets
import pytest
import torch
import torchvision
from refusals import refused
from small_models import norm_factory, weights_outside_norms
from torchvision.models import list_models

from normexp.config.folder import allow_from
from normexp.config.run_spec import specs
from normexp.models import OwnNetwork, Torchvision
from normexp.norms.layers import is_norm
from normexp.training.build import build

NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
IMAGE = (3, 32, 32)


def network(name: str, norm: str = "layernorm", shape=IMAGE, **options) -> Torchvision:
    torch.manual_seed(0)
    return Torchvision(shape, 10, norm_factory(norm), name=name, **options)


@pytest.mark.integration
@pytest.mark.parametrize("name", ["shufflenet_v2_x0_5", "resnet18", "swin_t"])
def test_one_seed_gives_every_norm_the_same_start_and_the_same_sites(name):
    reference = network(name, "none")
    expected = weights_outside_norms(reference)
    places = [(site.layer, site.kind) for site in reference.sites()]
    assert {kind for _, kind in places} >= {"norm", "linear"}
    for norm in NORMS[1:]:
        model = network(name, norm)
        assert [(site.layer, site.kind) for site in model.sites()] == places
        weights = weights_outside_norms(model)
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[key], p) for key, p in expected.items())
        assert not model.swapped.left


@pytest.mark.integration
def test_a_run_is_built_and_measured_like_any_other():
    overrides = ["model=torchvision", "model.name=shufflenet_v2_x0_5", "norm=groupnorm", "norm.num_groups=1"]
    parts = build(specs(overrides)[0])
    assert parts.config["recipe"] == "torchvision"
    assert len([site for site in parts.module.model.sites() if site.kind == "norm"]) == 56
    norms = [site.module for site in parts.module.model.sites() if site.kind == "norm"]
    assert {(norm.eps, norm.num_groups) for norm in norms} == {(1e-5, 1)}  # those of the configuration
    annotated = network("convnext_tiny", "layernorm_annotated")  # its own layers have 1e-6
    assert {m.correction for m in annotated.modules() if is_norm(m)} == {1}
    assert {m.eps for m in network("convnext_tiny", "layernorm").modules() if is_norm(m)} == {1e-5}
    grey = torch.randn(2, 1, 8, 8)
    assert torch.equal(parts.module.model.eval()(grey), parts.module.model(grey.repeat(1, 3, 1, 1)))


WITHOUT_NORMS = ("alexnet", "squeezenet1_0", "squeezenet1_1", "vgg11", "vgg13", "vgg16", "vgg19")
SIDES = {"inception_v3": 75, "maxvit_t": 224, "vit_h_14": 56}


@pytest.mark.slow
@pytest.mark.parametrize("name", list_models(module=torchvision.models))
def test_every_classification_network_of_torchvision_takes_the_norm(name):
    if name.startswith("regnet") and name.endswith(("16gf", "32gf", "128gf")):
        pytest.skip("computes while it is built, so that only a machine with much memory can")
    side = SIDES.get(name, 64)
    with torch.device("cpu" if name.startswith("regnet") else "meta"), torch.no_grad():
        if name in WITHOUT_NORMS:
            with refused("no normalization layer to replace; use another network or norm=none"):
                network(name, "groupnorm")
        model = network(name, "none" if name in WITHOUT_NORMS else "layernorm_channels", (3, side, side))
        assert model(torch.empty(2, 3, side, side)).shape == (2, 10)
    assert model.sites()


def own(module, norm: str = "layernorm", **options) -> OwnNetwork:
    torch.manual_seed(0)
    return OwnNetwork((1, 8, 8), 10, norm_factory(norm), module=module, **options)


def test_own_network_is_given_what_its_constructor_takes():
    assert type(own(own_nets.Plain).network.norm).__name__ == "LayerNorm"
    builds = own(own_nets.BuildsNorms)
    assert type(builds.network.norm).__name__ == "LayerNorm"
    assert builds.swapped is None
    assert own(own_nets.Words, accepts="text").accepts == "text"


def test_own_network_trains_by_its_path_where_the_command_allows_it():
    overrides = ["model=module", "model.path=own_nets.Plain", "+model.module.width=4", "norm=rmsnorm"]
    with refused(r"add allow_targets=\[own_nets\]"):
        build(specs(overrides)[0])
    allow_from(["allow_targets=[own_nets]"])
    parts = build(specs(overrides)[0])
    assert parts.module.model.network.norm.num_features == 4
    assert {site.kind for site in parts.module.model.sites()} == {"norm", "linear"}
    text = ["model=module", "model.path=own_nets.Words", "model.accepts=text", "data=python_docs"]
    assert build(specs(text)[0]).choices["model"] == "module"
    with refused("reads text data, and data=digits is image data"):
        build(specs([*text[:3]])[0])
    with refused("OwnNetwork fails with its options: KeyError: 'layers'"):
        build(specs(["model=module", "model.path=own_nets.Broken"])[0])
    with refused(r"model.path: Wide takes width; write \+model.module.width=VALUE"):
        build(specs(["model=module", "model.path=own_nets.Wide"])[0])
    allow_from(["allow_targets=[own_nets,torch]"])
    with refused("Tensor is no torch"):
        build(specs(["model=module", "model.path=own_nets.torch.Tensor"])[0])


@pytest.mark.parametrize("name", ["WritesIntoInputs", "WritesIntoAView"])
def test_a_network_that_writes_into_its_inputs_is_refused(name):
    """Evaluation hands out views of the split, so each validation would see other images."""
    allow_from(["allow_targets=[own_nets]"])
    with refused(r"^model: writes into its inputs.* work on a copy"):
        build(specs(["model=module", f"model.path=own_nets.{name}"])[0])

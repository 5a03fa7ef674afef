"""Other norms in other people's networks: there, in place; and back, bit for bit."""

import copy
import functools
from pathlib import Path

import pytest
import torch
import torchvision
from norms import strangers
from norms.strangers import GPTLayerNorm
from refusals import refused
from torch import nn
from torch.nn import functional as F
from torchvision.ops import FrozenBatchNorm2d

from normexp.norms import norm_named, swap
from normexp.norms.layers import norm_layer

# network -> the name under which its own norms go here, and how many there are
ARCHITECTURES = {
    "resnet18": ("batchnorm", 20), "vgg11_bn": ("batchnorm", 8), "densenet121": ("batchnorm", 121),
    "mobilenet_v2": ("batchnorm", 52), "mobilenet_v3_small": ("batchnorm", 34), "efficientnet_b0": ("batchnorm", 49),
    "regnet_y_400mf": ("batchnorm", 53), "shufflenet_v2_x0_5": ("batchnorm", 56), "googlenet": ("batchnorm", 57),
    "convnext_tiny": ("layernorm_channels", 23), "swin_t": ("layernorm", 29), "vit": ("layernorm", 5),
}  # fmt: skip


@functools.cache
def network(name: str) -> nn.Module:
    """With weights and running statistics away from where they start."""
    torch.manual_seed(0)
    more = {"init_weights": False} if name in ("googlenet", "vgg11_bn") else {}
    more |= {"aux_logits": False} if name == "googlenet" else {}
    if name == "vit":
        made = torchvision.models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=10)
    else:
        made = torchvision.models.get_model(name, num_classes=10, **more)
    if name == "vgg11_bn":  # instead of three layers with 120 million weights and no norm
        made.classifier = nn.Linear(512 * 7 * 7, 10)
    for module in made.modules():
        if norm_layer(module) is not None:
            for value in (module.weight, module.bias):
                nn.init.uniform_(value, 0.5, 1.5)
            if hasattr(module, "running_mean"):
                nn.init.uniform_(module.running_mean, -0.2, 0.2)
                nn.init.uniform_(module.running_var, 0.5, 1.5)
        if isinstance(module, nn.Dropout) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.1)  # the last one of a ViT begins at 0
    return made


def images(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def outputs(net: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return net.eval()(images())


def trained(net: nn.Module) -> torch.Tensor:
    """Logits in training mode; running statistics are put back."""
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        logits = net.train()(images(4))
    net.load_state_dict(kept)
    return logits


@pytest.mark.integration
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_there_and_back_is_exact_in_public_architectures(name):
    net, (same, count) = network(name), ARCHITECTURES[name]
    before = {key: value.clone() for key, value in net.state_dict().items()}
    evaluated, in_training = outputs(net), trained(net)

    table = swap(net, same)  # the same mathematics, by this project's layers
    assert len(table) == count
    assert not table.left
    assert all({"gain", "shift"} <= set(row.carried.split(", ")) for row in table)
    assert not [m for m in net.modules() if type(m).__module__.startswith("torch.nn.modules.batchnorm")]
    torch.testing.assert_close(outputs(net), evaluated, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(trained(net), in_training, rtol=1e-4, atol=1e-4)
    table.undo()

    table = swap(net, "groupnorm", num_groups=8)
    assert not torch.allclose(outputs(net), evaluated, rtol=1e-2)
    table.undo()
    table.undo()  # does nothing
    assert torch.equal(outputs(net), evaluated)
    assert torch.equal(trained(net), in_training)
    after = net.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


@pytest.mark.parametrize("seen", [0, 3])
@pytest.mark.parametrize("momentum", [0.3, None])
def test_running_statistics_go_on_as_torchs_would(momentum, seen):
    """With `momentum=None` they are a plain average."""
    twin, made = nn.BatchNorm2d(3, momentum=momentum), nn.BatchNorm2d(3, momentum=momentum)
    batches = [torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(k)) * 3 + k for k in range(6)]
    for x in batches[:seen]:
        torch.testing.assert_close(made(x), twin(x))
    net = nn.Sequential(made)
    (row,) = swap(net, "batchnorm")
    assert ("population_statistics=cumulative" in row.carried) == (momentum is None)
    for x in batches[seen:]:
        torch.testing.assert_close(net(x), twin(x), rtol=1e-6, atol=1e-6)
    for key, value in twin.state_dict().items():
        torch.testing.assert_close(net.state_dict()[f"0.{key}"], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "where",
    ["layer4.*", ["layer4.0.*", "layer4.1.*"], lambda path, layer: path.startswith("layer4")],
    ids=["pattern", "patterns", "function"],
)
def test_where_chooses_layers(where):
    net = network("resnet18")
    table = swap(net, "layernorm", where=where)
    assert {row.path.split(".")[0] for row in table} == {"layer4"}
    assert len(table) == 5
    table.undo()


def test_device_precision_mode_and_what_trains_are_kept():
    net = nn.Sequential(nn.BatchNorm1d(4).double().eval(), nn.LayerNorm(4, elementwise_affine=False))
    net[0].weight.requires_grad_(False)
    net[0].bias.requires_grad_(False)
    swap(net, "layernorm")
    assert net[0].weight.dtype == torch.float64
    assert not net[0].training
    assert not net[0].weight.requires_grad
    assert net[1].weight is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_fused_layernorm_of_the_transformer_encoder_is_turned_off_and_on_again():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        before, before_padded = net(x), net(x, src_key_padding_mask=padding)
    table = swap(net, "rmsnorm")
    assert all("fast path" in row.note for row in table)
    with torch.no_grad():
        fused_or_not = net(x)
    slow = net(x.requires_grad_())  # with gradients torch never takes the fast path
    torch.testing.assert_close(fused_or_not, slow.detach())
    assert not torch.allclose(fused_or_not, before, atol=1e-3)
    table.undo()
    with torch.no_grad():
        assert torch.equal(net(x.detach()), before)
        assert torch.equal(net(x.detach(), src_key_padding_mask=padding), before_padded)


class LlamaRMSNorm(nn.Module):
    """With the attributes of Hugging Face's."""

    def __init__(self, size, rounding="before_gain"):
        super().__init__()
        self.weight, self.rounding = nn.Parameter(torch.linspace(0.5, 1.5, size)), rounding
        self.variance_epsilon = 1e-6

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        if self.rounding == "before_gain":
            return self.weight * wide.to(x.dtype)
        return (self.weight.float() * wide).to(x.dtype)


class BatchNormAct2d(nn.BatchNorm2d):
    """With the attributes of timm's: the activation is inside."""

    def __init__(self, size):
        super().__init__(size)
        self.drop, self.act = nn.Identity(), nn.ReLU()

    def forward(self, x):
        return self.act(self.drop(super().forward(x)))


TOKENS, IMAGE = (2, 5, 8), (2, 8, 3, 3)


@pytest.mark.parametrize(
    ("layer", "same", "shape"),
    [
        (LlamaRMSNorm(8), "rmsnorm", TOKENS),
        (nn.RMSNorm(8), "rmsnorm", TOKENS),
        (BatchNormAct2d(8), "batchnorm", IMAGE),
        (torchvision.models.convnext.LayerNorm2d(8), "layernorm_channels", IMAGE),
        (FrozenBatchNorm2d(8), "batchnorm", IMAGE),
        (nn.GroupNorm(1, 8), "layernorm", IMAGE),
        (nn.InstanceNorm2d(8, affine=True), "instancenorm", IMAGE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_layers_of_other_libraries_are_known_by_what_they_are(layer, same, shape):
    net, x = nn.Sequential(layer).eval(), torch.randn(shape, generator=torch.Generator().manual_seed(3))
    before = net(x)
    (row,) = swap(net, same)
    assert row.new is not None
    torch.testing.assert_close(net(x), before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.LocalResponseNorm(2), "has no channels"),
        (nn.LazyBatchNorm2d(), "call the network once"),
        (nn.LayerNorm((4, 3)), "normalizes over 2 axes"),
        (strangers.GlobalResponseNorm(8), "computes something else"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_what_cannot_be_swapped_stays_and_is_named(layer, reason):
    net = nn.Sequential(layer, nn.BatchNorm2d(8))
    table = swap(net, "layernorm")
    (left,) = table.left
    assert reason in left.note
    assert net[0] is layer
    assert "stays" in str(table)


def test_mistakes_are_refused_in_one_line_and_leave_the_network_as_it_was():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    layer = net[1]
    for arguments, message in (
        (("gruopnorm", {}), "norm=gruopnorm: no such choice; did you mean groupnorm"),
        (("groupnorm", {"num_group": 2}), "norm.num_group: no such key; did you mean norm.num_groups"),
        (("layernorm", {"where": "encoder.*"}), r"no normalization layer where=encoder\.\*"),
        ((nn.Identity, {"eps": 1.0}), "options go with the name"),
        (("layernorm", {"correction": 2}), "correction=2"),
        (("groupnorm", {"num_groups": 0}), "num_groups=0"),
        (
            (nn.BatchNorm1d, {}),
            r"norm=BatchNorm1d: is called as .*, or write lambda n, \*\*_: BatchNorm1d\(n\)",
        ),
        ((lambda n: nn.LayerNorm(n), {}), "norm=<lambda>: is called as norm"),
        ((nn.LayerNorm(16), {}), "norm=LayerNorm: is no name of a norm and makes none"),
        ((None, {}), "norm=NoneType: is no name of a norm"),
        ((lambda n, **_: None, {}), "the factory gave NoneType"),
    ):
        with refused(message):
            swap(net, arguments[0], **arguments[1])
    assert net[1] is layer
    with refused("no normalization layer inside it"):
        swap(nn.Sequential(nn.Linear(2, 2)), "layernorm")


def test_swaps_are_undone_last_first():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LayerNorm(4))
    before = list(net)
    first, second = swap(net, "layernorm"), swap(net, lambda n, **_: nn.RMSNorm(n), where="1")
    with refused("other layers stand in place of its own; undo the later swap first"):
        first.undo()
    assert isinstance(net[1], nn.RMSNorm)
    second.undo()
    first.undo()
    assert list(net) == before


def test_the_lines_of_the_page_run():
    page = (Path(__file__).parents[2] / "docs" / "own_networks.md").read_text()
    names: dict = {}
    exec(page.split("<!-- tested -->\n```python\n")[1].split("```")[0], names)
    kinds = {type(m).__name__ for m in names["model"].layer4.modules()} & {"BatchNorm2d", "LayerNorm"}
    assert kinds == {"LayerNorm"}
    assert isinstance(names["model"].bn1, nn.BatchNorm2d)


@pytest.mark.parametrize("trained", [False, True])
def test_running_statistics_that_are_dropped_are_said(trained):
    """With them the network computes another function in eval mode. Before any training there is nothing to lose."""
    net = nn.Sequential(nn.Linear(4, 7), nn.BatchNorm1d(7))
    if trained:
        net(torch.randn(16, 4))
    table = swap(net, "layernorm")
    assert ("its running statistics are lost" in table[0].note) == trained
    assert table.notes() == [f"{table[0].note} (1 layer)"] * trained


@pytest.mark.parametrize(
    ("options", "channels", "groups", "said"),
    [
        ({"num_groups": 7}, 64, 1, "7 groups do not divide its 64 channels: 1 group"),
        ({"num_groups": 7}, 21, 7, ""),
        ({}, 64, 32, ""),  # the paper's
        ({}, 24, 8, "32 groups do not divide its 24 channels: 8 groups"),
        ({}, 32, 4, "32 groups would have one channel each: 4 groups"),
        ({}, 16, 2, "32 groups do not divide its 16 channels: 2 groups"),
    ],
)
def test_groups_that_do_not_divide_the_channels_are_said(options, channels, groups, said):
    """A group of one channel without positions outputs its shift, so the network would be constant."""
    net = nn.Sequential(nn.BatchNorm1d(channels), nn.BatchNorm1d(channels), nn.GroupNorm(2, channels * 2))
    table = swap(net, "groupnorm", **options)
    assert [layer.num_groups for layer in net][:2] == [groups, groups]
    assert [row.note for row in table][:2] == [said, said]
    assert table.notes()[:1] == ([f"{said} (2 layers)"] if said else [])
    if not options:
        assert (net[2].num_groups, table[2].note) == (2, "")  # of a group norm they stay
    y = net[0](torch.randn(4, channels))
    assert (y.std() > 0.5).item()
    assert not torch.allclose(y, y[:1].expand_as(y))


@pytest.mark.parametrize(
    "name", ["layernorm", "groupnorm", "layernorm_channels", "rmsnorm", "dyt", "scalenorm"]
)
@pytest.mark.parametrize("parts", ["gain", "shift", "both", "none"])
def test_no_gain_and_no_shift_is_added(name, parts):
    old = nn.LayerNorm(64, elementwise_affine=parts != "none", bias=parts in ("shift", "both"))
    if parts == "shift":
        old.weight = None
    net = nn.Sequential(old)
    swap(net, name)
    new, had = net[0], (parts in ("gain", "both"), parts in ("shift", "both"))
    assert new.bias is None or had[1]
    assert new.weight is None or had[0] or name == "scalenorm"


def test_an_option_adds_a_shift():
    net = nn.Sequential(nn.LayerNorm(8, bias=False), nn.LayerNorm(8, bias=False))
    swap(net, "layernorm", affine="trained", where="0")
    assert net[0].bias is not None
    (row,) = swap(net, "layernorm", where="1")
    assert row.note == "has no shift, as before"


def test_a_frozen_batchnorm_stays_frozen():
    frozen = FrozenBatchNorm2d(3)
    frozen.running_mean.fill_(2.0)
    net, x = nn.Sequential(frozen), torch.randn(4, 3, 5, 5)
    expected = net(x)
    swap(net, "batchnorm")
    torch.testing.assert_close(net.train()(x), expected)
    torch.testing.assert_close(net[0].running_mean, torch.full((3,), 2.0))


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("batchnorm", nn.BatchNorm2d(4, track_running_stats=False)),
        ("instancenorm", nn.InstanceNorm2d(4, affine=True, track_running_stats=True)),
    ],
)
def test_a_layer_of_the_same_formula_that_gives_another_output_stays(name, layer):
    net = nn.Sequential(layer)
    (row,) = swap(net, name)
    assert row.note.endswith("of the same formula gives another output in eval mode")
    assert swap(net, "layernorm")[0].new


@pytest.mark.parametrize("rounding", ["before_gain", "after_gain"])
def test_where_an_rms_norm_rounds_is_kept(rounding):
    net = nn.Sequential(LlamaRMSNorm(64, rounding)).bfloat16()
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    before = net(x)
    swap(net, "rmsnorm")
    assert net[0].rounding == rounding
    assert (net(x) != before).float().mean() < 0.01  # of sums in another order


def odd_layer(seed):
    """A layer of a random formula whose forward does random things before and after it."""
    random = torch.Generator().manual_seed(seed)
    draw = lambda *choices: choices[int(torch.randint(len(choices), (), generator=random))]  # noqa: E731
    base = draw(nn.BatchNorm2d, nn.GroupNorm, nn.InstanceNorm2d, nn.LayerNorm, nn.RMSNorm, GPTLayerNorm)
    before = draw(*[lambda x: x] * 2, lambda x: x * 2, lambda x: x.roll(1, -1), lambda x: x.flip(1), F.relu)
    after = draw(*[lambda y: y] * 2, F.relu, lambda y: y / 2, lambda y: y + 1, F.tanh, lambda y: y.flip(-1))
    residual = draw(0.0, 0.0, 0.0, 1.0)

    class OddNorm(base):
        def forward(self, x):
            return residual * x + after(super().forward(before(x)))

    class ConditionalNorm(OddNorm):
        def forward(self, x, condition=None):
            return super().forward(x if condition is None else x + condition)

    made = draw(OddNorm, OddNorm, OddNorm, ConditionalNorm)
    layer = made(4, 8) if base is nn.GroupNorm else made(8)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=random) + draw(0.0, 0.5, -1.0))
    return layer, base


SAME = {nn.BatchNorm2d: "batchnorm", nn.GroupNorm: "groupnorm", nn.InstanceNorm2d: "instancenorm"}
SAME[nn.RMSNorm] = "rmsnorm"


@pytest.mark.parametrize("seed", range(80))
def test_a_swap_to_the_same_kind_gives_the_same_output_or_the_layer_stays(seed):
    """Whatever a forward does more, in both modes; and a layer that does no more is swapped."""
    layer, base = odd_layer(seed)
    net, plain = nn.Sequential(layer), base(4, 8) if base is nn.GroupNorm else base(8)
    x = torch.randn(5, 8, 8, 8, generator=torch.Generator().manual_seed(seed)) * 3 + 1
    plain.load_state_dict(layer.state_dict())
    sizes = [x, x * 1e-3]  # the smaller one shows eps
    as_plain = all(torch.allclose(copy.deepcopy(layer)(x), copy.deepcopy(plain)(x), atol=1e-5) for x in sizes)
    expected = [copy.deepcopy(net).train(mode)(x) for mode in (False, True)]
    (row,) = swap(net, SAME.get(base, "layernorm"))
    if as_plain and type(layer).__name__ == "OddNorm":
        assert row.new, row
    for mode, output in zip((False, True), expected, strict=True):
        torch.testing.assert_close(copy.deepcopy(net).train(mode)(x), output, rtol=1e-4, atol=1e-4)


def test_swap_composes_a_norm_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "norm").mkdir()
    (tmp_path / "norm" / "mine.yaml").write_text(
        "_target_: normexp.norms.GroupNorm\n_partial_: true\neps: ${eps}\nnum_groups: 2\n"
    )
    (tmp_path / "norm" / "foreign.yaml").write_text("_target_: strange.Norm\n_partial_: true\n")
    net = nn.Sequential(nn.BatchNorm2d(8))
    with refused("norm=mine: no such choice"):
        swap(net, "mine")
    swap(net, "mine", config_dir=tmp_path, num_groups=4)
    assert net[0].num_groups == 4
    with refused("allow_targets="):
        swap(net, "foreign", config_dir=tmp_path)
    (tmp_path / "strange.py").write_text("import normexp.norms\nclass Norm(normexp.norms.LayerNorm): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    swap(net, "foreign", config_dir=tmp_path, allow_targets=["strange"])
    assert type(net[0]).__module__ == "strange"
    with refused("norm=mine: no such choice"):  # the folder was for one call
        norm_named("mine")


class Fused(nn.Module):
    """It gives the numbers of its norms to a function."""

    def __init__(self):
        super().__init__()
        self.norm, self.seen, self.norms = nn.LayerNorm(8), nn.LayerNorm(8), nn.ModuleList([nn.LayerNorm(8)])

    def forward(self, x):
        x = F.layer_norm(x, (8,), self.norm.weight, self.norm.bias)
        return self.seen(F.layer_norm(x, (8,), self.norms[0].weight)).to(self.seen.weight.dtype)


class ByVariable(nn.Module):
    """As Fused, but in a loop."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(8), nn.LayerNorm(8)])

    def forward(self, x):
        for norm in self.norms:
            x = F.layer_norm(x, (8,), weight=norm.weight, bias=norm.bias)
        return x


class OfItsType(nn.Module):
    """It casts to the type of its norm's gain, as many language models do."""

    def __init__(self):
        super().__init__()
        self.norms, self.norm = nn.ModuleDict({"first": nn.LayerNorm(8)}), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.norms["first"](x).to(self.norm.weight.dtype))


class Shared(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8))
        self[1].weight = self[0].weight


OF_A_LOOP = "ByVariable passes a layer's numbers to layer_norm, and may not call it"


@pytest.mark.parametrize(
    ("make", "new", "notes"),
    [
        (Fused, "rmsnorm", {"norm": "Fused reads its numbers", "norms.0": "Fused reads its numbers"}),
        (ByVariable, "batchnorm", {"norms.0": OF_A_LOOP, "norms.1": OF_A_LOOP}),
        (OfItsType, "none", {"norm": "OfItsType reads its weight, which Identity has not"}),
        (OfItsType, "rmsnorm", {}),
        (Shared, "rmsnorm", {"0": "shares its parameters with 1", "1": "shares its parameters with 0"}),
    ],
)
def test_a_layer_stays_where_others_read_or_share_its_numbers(make, new, notes):
    net = make()
    table = swap(net, new)
    assert {row.path for row in table.left} == notes.keys()
    assert all(notes[row.path] in row.note for row in table.left)
    assert net(torch.randn(4, 8)).shape == (4, 8)


def test_a_layer_of_two_places_is_swapped_in_both():
    layer = nn.LayerNorm(8)
    net = nn.Sequential(layer, nn.Linear(8, 8), layer)
    (row,) = swap(net, "rmsnorm")
    assert row.new
    assert net[0] is net[2] is not layer


def test_hooks_that_stay_with_the_old_layer_are_said():
    net = nn.Sequential(nn.LayerNorm(8), nn.LayerNorm(8))
    net[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    hookless, hooked = swap(net, "layernorm").rows
    assert "its hooks stay" in hooked.note
    assert "hooks" not in hookless.note

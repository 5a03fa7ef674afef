"""What people pass as a network and as a batch: each is used whole or cut, or refused in one line."""

import pytest
import pytorch_lightning as pl
import torch
from small_networks import HandRMS, found, rows
from torch import nn
from torch.nn import functional as F

from normexp.check import CheckNorms
from normexp.check.run import check
from normexp.monitors.batches import rows_of, size_of


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Graph:
    """A batch of nodes, as libraries for graphs have it: a class, with or without a method that moves it."""

    def __init__(self, moves=False):
        self.x = torch.randn(16, 6)
        if moves:
            self.to = lambda device: self

    def __iter__(self):
        yield "x", self.x


class Lit(pl.LightningModule):
    def __init__(self, read, norm=nn.BatchNorm1d):
        super().__init__()
        self.net, self.read = nn.Sequential(nn.Linear(6, 8), norm(8), nn.ReLU(), nn.Linear(8, 3)), read

    def training_step(self, batch, index):
        return self.net(self.read(batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_batch_of_another_type_is_said(kind):
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)).to(kind)
    result = check(model, rows())
    assert sum("float32 of the batches is" in fact for fact in result.facts) == 1
    assert not any("of the batches is" in fact for fact in check(model, rows()[0].to(kind)).facts)
    assert not any("of the batches is" in fact for fact in check(model).facts)  # made up


@pytest.mark.parametrize("given", ["adam", torch.optim.SGD, []])
def test_optimizer_that_is_none_is_refused(given):
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8))
    with pytest.raises(ValueError, match=r"optimizer=.*(has no param_groups|SGD: is a class)"):
        check(model, rows(), optimizer=given)
    both = [torch.optim.SGD([p], 0.1, weight_decay=0.1) for p in model.parameters()]
    assert check(model, rows(), optimizer=both)["decay_on_norms"].layers == ("1.weight", "1.bias")


@pytest.mark.parametrize(
    "options",
    [
        {"steps": "10"}, {"devices": "2"}, {"seed": 1.5}, {"accumulate": 2.5}, {"samples": True}, {"causal": "yes"},
        {"averaged": [torch.ones(3)]}, {"state_dict": [torch.ones(3)]}, {"select": "layer@1"}, {"select": ["eps@1"]},
        {"ignore": "eps_"}, {"seed": -1}, {"samples": 0},
    ],
    ids=str,
)  # fmt: skip
def test_argument_of_another_type_is_refused_in_one_line(options):
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"^{name}") as error:
        check(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8)), rows(), **options)
    assert "\n" not in str(error.value)


def test_one_word_stands_for_itself():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    result = check(model, rows(4), select="small_batch")
    assert [finding.id for finding in result.findings] == ["small_batch"]
    assert not result.healthy
    assert "small_batch" not in check(model, rows(4), ignore="small_batch@1")


def test_mask_that_is_none_is_said():
    model = nn.Sequential(nn.Embedding(11, 8), nn.LayerNorm((12, 8)), nn.Linear(8, 3))
    result = check(model, torch.randint(0, 11, (16, 12)), mask=lambda batch: None)
    assert "mask= gives a NoneType" in result.not_checked["padding_counted"]


def test_complex_numbers_are_parameters():
    model = nn.Sequential(nn.Linear(6, 8, dtype=torch.complex64))
    with pytest.raises(ValueError, match="has no normalization layer"):
        check(model, torch.randn(4, 6, dtype=torch.complex64))


def test_data_set_is_no_loader():
    data = torch.utils.data.TensorDataset(*rows())
    with pytest.raises(ValueError, match="loader: a TensorDataset gives single samples; pass DataLoader"):
        check(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8)), data)


PAIRS = [(torch.randn(6), torch.tensor(1)) for _ in range(5)]
ALIKE = ([torch.randn(3, 6) for _ in range(9)], [{"label": torch.tensor([1])} for _ in range(9)])
IMAGES = ([torch.randn(7, 6), torch.randn(4, 6)], [{"boxes": torch.ones(2, 4)}, {"boxes": torch.ones(3, 4)}])


@pytest.mark.parametrize(
    ("loader", "read"),
    [
        ([Graph()], lambda b: b.x),
        (Graph(moves=True), lambda b: b.x),
        ([PAIRS], lambda b: torch.stack([x for x, _ in b])),
        ([IMAGES], lambda b: torch.cat(b[0])),
        ([ALIKE], lambda b: torch.cat(b[0])),
        ([(torch.randn(40, 6), torch.randn(2, 90))], lambda b: b[0]),
    ],
    ids=[
        "class",
        "class that moves",
        "pairs",
        "images and targets",
        "images of one size",
        "tensors that disagree",
    ],
)
def test_batch_without_a_count_is_used_whole(loader, read):
    result = check(Lit(read), loader)
    assert "pass_fails" in result.healthy
    assert "cannot be counted" in result.not_checked["small_batch"]
    assert "uncounted samples" in result.facts[0]


def test_batch_is_cut_where_its_tensors_agree():
    batch = {"x": torch.randn(40, 6), "one": torch.ones(1, 3), "number": torch.tensor(2.0)}
    assert size_of(batch) == 40
    assert {name: x.shape for name, x in rows_of(batch, 0, 8).items()} == {
        "x": (8, 6),
        "one": (1, 3),
        "number": (),
    }
    assert size_of((torch.randn(40, 6), torch.randn(5))) is None


def test_cut_batch_that_fails_is_tried_whole():
    class Whole(Lit):
        def training_step(self, batch, index):
            return super().training_step(batch.unflatten(0, (40, -1)).flatten(0, 1), index)

    result = check(Whole(lambda b: b), torch.randn(80, 6), samples=33)
    assert "pass_fails" in result.healthy
    assert "80 samples a pass" in result.facts[0]
    assert "not cut" in result.facts[1]
    assert "pass_fails" in check(Whole(lambda b: b), torch.randn(81, 6), samples=33)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.output = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x, y):
        return self.output(self.norm(self.linear(x) + self.linear(y)))


class Named(Two):
    def forward(self, batch):
        return super().forward(batch["x"], batch["y"])


def test_two_inputs_and_a_dictionary_as_one():
    x, y, labels = torch.randn(8, 6), torch.randn(8, 6), torch.randint(0, 3, (8,))
    assert "random sum" in check(Two(), (x, y)).facts[0]
    for batch in ((x, y, labels), ((x, y), labels)):
        assert "cross-entropy" in check(Two(), batch).facts[0]
    assert "pass_fails" in check(Named(), {"x": x, "y": y}).healthy


class Detects(nn.Module):
    """Takes lists of images and of targets, and gives its losses while it trains."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)

    def forward(self, images, targets=None):
        y = self.norm(self.linear(torch.cat(images)))
        if not self.training:
            return [{"score": y}]
        return {"first": y[:, targets[0]["label"]].sum(), "second": y[:, 3].mean()}


class Required(Detects):
    def forward(self, images, targets):
        return super().forward(images, targets)


class OneLoss(Two):
    def forward(self, x, y=None):
        output = self.output(self.norm(self.linear(x)))
        return F.cross_entropy(output, y) if self.training else output


@pytest.mark.parametrize(
    ("network", "batch"),
    [(Detects(), ALIKE), (Required(), ALIKE), (OneLoss(), (torch.randn(8, 6), torch.arange(8) % 3))],
    ids=["detection", "two arguments", "a loss"],
)
def test_targets_go_to_a_network_that_cannot_train_without_them(network, batch):
    result = check(network, batch)
    assert {"pass_fails", "nothing_learns"} <= {*result.healthy}
    assert result.name == type(network).__name__
    assert ("the losses that the network returns" in result.facts[0]) == isinstance(network, Detects)


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
    with pytest.raises(ValueError, match=said):
        check(nn.Sequential(nn.Linear(6, 8), layer), torch.randn(9, 6))


def test_a_training_step_that_needs_batches_of_its_own_asks_for_them():
    class Pairs(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))

        def training_step(self, batch):
            return self.net(batch[0]).mean()

    with pytest.raises(ValueError, match=r"random inputs are no batch of its training_step .*; pass data"):
        check(Pairs())
    assert "pass_fails" in check(Pairs(), (torch.randn(9, 6), torch.ones(9))).healthy


def test_network_that_takes_something_else_says_how_to_pass_it():
    finding = check(Two(), torch.randn(8, 6))["pass_fails"]
    assert "LightningModule" in finding.fix
    assert "training_step" in finding.fix


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: torch.jit.script(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8))), "scripted or traced"),
        (lambda: nn.Sequential(torch.jit.trace(nn.LayerNorm(6), torch.randn(2, 6))), "scripted or traced"),
        (lambda: nn.Sequential(nn.LazyLinear(8), nn.LayerNorm(8)), "call the network once"),
        (lambda: nn.LayerNorm, "is a class; pass an object"),
        (lambda: torch.zeros(6), "module=Tensor: is no module"),
    ],
    ids=["scripted", "traced part", "lazy", "class", "tensor"],
)
@pytest.mark.filterwarnings("ignore")  # of torch, on its own compiler
def test_module_that_hides_its_layers_is_refused_in_one_line(module, message):
    module = module()
    with pytest.raises(ValueError, match=message) as refused:
        check(module, torch.randn(4, 6))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 120


def test_mixed_precision_runs_in_autocast():
    """A network of bfloat16 with gains of float32, as quantized adapters leave it, trains only in autocast."""

    class Wide(HandRMS):
        def forward(self, x):
            return self.weight * super().forward(x)

    Wide.__name__ = "WideRMSNorm"
    network = nn.Sequential(nn.Linear(6, 8), Wide(8, wide=True), nn.Linear(8, 3)).bfloat16()
    network[1].float()
    with pytest.raises(RuntimeError, match="dtype"):
        network(rows()[0].bfloat16())
    assert "pass_fails" in check(network, rows(), precision="bf16-mixed").healthy
    assert "pass_fails" in check(network, rows(), precision="bf16-true")


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_rounding_behind_a_mean_is_no_overflow(precision):
    class Centered(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.ones(512)), 1e-5

        def forward(self, x):
            x = x - x.mean(-1, keepdim=True)
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight

    Centered.__name__ = "CenteredNorm"
    x = torch.randn(8, 64, 512) + 3
    assert (Centered()(x.bfloat16()) == 0).any()
    assert (Centered()(x) == 0).sum() == 0
    for norm, inputs in ((Centered(), x), (nn.InstanceNorm1d(64), torch.randn(8, 64, 4000) + 3)):
        network = nn.Sequential(nn.Identity(), norm, nn.Linear(inputs.shape[-1], 3))
        assert "overflow" in check(network, inputs, precision=precision).healthy


def fit(callbacks, module, loader, folder):
    pl.seed_everything(0, verbose=False)
    trainer = pl.Trainer(
        max_steps=4, accelerator="cpu", callbacks=callbacks, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(loader, batch_size=None))
    return module.state_dict()


class Manual(Lit):
    automatic_optimization = False

    def __init__(self):
        super().__init__(lambda x: x)
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, index))
        optimizer.step()


class Skips(Lit):
    def training_step(self, batch, index):
        return super().training_step(batch, index) if index else None


class Slopes(Lit):
    """Takes gradients inside, in each mode."""

    def training_step(self, batch, index):
        with torch.enable_grad():
            x = batch.requires_grad_()
            (g,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return g.square().mean() + super().training_step(batch, index)


class Raises(Lit):
    """Works only in a trainer, in training mode, for whole batches."""

    def training_step(self, batch, index):
        assert self.trainer.global_step >= 0
        assert self.net.training
        assert len(batch) == 40
        return super().training_step(batch, index)


ODD = {
    "manual": (Manual, torch.randn(40, 6)),
    "skips": (lambda: Skips(lambda x: x), torch.randn(40, 6)),
    "slopes": (lambda: Slopes(lambda x: x), torch.randn(40, 6)),
    "raises": (lambda: Raises(lambda x: x), torch.randn(40, 6)),
    "class": (lambda: Lit(lambda b: b.x), Graph(moves=True)),
    "pairs": (lambda: Lit(lambda b: torch.stack([x for x, _ in b])), PAIRS),
    "no norm": (lambda: Lit(lambda x: x, lambda n: nn.Identity()), torch.randn(40, 6)),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.filterwarnings("ignore")  # of Lightning
def test_callback_ends_no_training_and_keeps_its_bits(odd, tmp_path, caplog):
    make, batch = ODD[odd]
    with caplog.at_level("INFO", logger="pytorch_lightning.utilities.rank_zero"):
        torch.manual_seed(1)
        alone = fit([], make(), [batch] * 4, tmp_path)
        torch.manual_seed(1)
        watched = fit([CheckNorms()], make(), [batch] * 4, tmp_path)
    assert all(map(torch.equal, alone.values(), watched.values()))
    told = [
        r.getMessage()
        for r in caplog.records
        if "CheckNorms" in r.getMessage() or "healthy" in r.getMessage()
    ]
    assert len(told) == 1
    if odd in ("manual", "no norm"):
        assert "the training goes on" in told[0]
        with pytest.raises(ValueError, match="module"):
            fit([CheckNorms(strict=True)], make(), [batch] * 4, tmp_path)


def test_loss_of_a_step_that_skips_is_not_called_a_failure():
    result = check(Skips(lambda x: x), torch.randn(8, 6))
    assert "pass_fails" not in result
    assert "no loss for this batch" in result.not_checked["eps"]
    assert "no loss" in result.not_checked["pass_fails"]


def test_finding_whose_pass_fails_is_not_checked():
    class Trains(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(6, 3), nn.BatchNorm1d(3)

        def forward(self, x):
            assert self.training, "trains only"
            return self.norm(self.linear(x))

    x, y = rows()
    network = Trains()
    network(x)
    result = check(network, (x, y), loss=F.cross_entropy)
    assert "trains only" in result.not_checked["mode_gap"]
    assert found("small_batch", result, check(network, (x[:4], y[:4]))).number == 4


def test_batch_of_which_no_samples_can_be_taken_is_used_whole():
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.norm = nn.Parameter(torch.randn(6, 8)), nn.BatchNorm1d(8)

        def forward(self, x):
            return self.norm(torch.sparse.mm(x, self.weight))

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(6)

        def forward(self, x):
            return torch.stack([part.mean(0) for part in self.norm(x).unbind()])

    rows = torch.randn(4, 6)
    sparse = check(Sparse(), rows.relu().to_sparse())
    assert "cannot be counted" in sparse.not_checked["small_batch"]
    assert "not_finite" in sparse.healthy
    nested = check(Nested(), torch.nested.nested_tensor(list(rows.split((1, 3))), layout=torch.jagged))
    assert "norm gets a nested tensor" in nested.not_checked["not_finite"]

"""Faults of public threads, rebuilt: a network, its data, and what is said of the training.

Each case names its thread, the finding, and the layer that the finding must name, or a pattern of several.
"""

import copy
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

FAULTS: list[SimpleNamespace] = []
Seq = nn.Sequential


def fault(thread: str, id: str, layer: str, by_hand: Callable | None = None) -> Callable:
    """Declare a case: (model, data, options of check). `by_hand(names)` does what the fix says in words."""

    def add(build: Callable) -> Callable:
        case = {"thread": thread, "id": id, "layer": layer, "by_hand": by_hand, "build": build}
        FAULTS.append(SimpleNamespace(**case, words=build.__doc__))
        return build

    return add


def rows(n: int = 32) -> tuple:
    x = torch.randn(n, 6)
    return x, (x[:, 0] > 0).long()


def images(n: int = 16, scale: float = 1.0) -> tuple:
    y = torch.randint(0, 2, (n,))
    return (torch.randn(n, 3, 8, 8) + y.view(-1, 1, 1, 1)) * scale, y


def cnn(norm: nn.Module, bias: bool = False) -> nn.Module:
    head = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)]
    return Seq(nn.Conv2d(3, 8, 3, bias=bias), norm, *head)


def mlp(norm: nn.Module, bias: bool = False) -> nn.Module:
    return Seq(nn.Linear(6, 8, bias=bias), norm, nn.ReLU(), nn.Linear(8, 2))


def train(model: nn.Module, make: Callable, steps: int = 60, rate: float = 0.05) -> nn.Module:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], rate)
    for _ in range(steps):
        x, y = make()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


class Own(nn.Module):
    """A network of parts, with a forward of a line."""

    def __init__(self, forward: Callable, **parts: nn.Module) -> None:
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, x)


class HandNorm(nn.Module):
    """RMSNorm by hand: `wide` squares in float32."""

    def __init__(self, width: int, wide: bool = False) -> None:
        super().__init__()
        self.weight, self.eps, self.wide = nn.Parameter(torch.ones(width)), 1e-6, wide

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float() if self.wide else x
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class StdNorm(nn.Module):
    """By hand: eps behind the root."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = (
            nn.Parameter(torch.ones(width)),
            nn.Parameter(torch.zeros(width)),
            1e-5,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True).sqrt() + self.eps) * self.weight + self.bias


def tokens(n: int = 16, padded: bool = False) -> torch.Tensor:
    real = torch.arange(12) < torch.randint(3, 13, (n, 1))
    return torch.randint(1, 11, (n, 12)) * (real if padded else 1)


def sequence(norm: nn.Module, pad: int | None = None, **parts: nn.Module) -> nn.Module:
    """Causal by itself: a token sees the sum of those before it. The norm gets (N, C, T)."""

    def forward(self: nn.Module, t: torch.Tensor) -> torch.Tensor:
        x = self.before(self.embedding(t).cumsum(1) / 3)
        return self.output(x + self.norm(x.transpose(1, 2)).transpose(1, 2))

    parts = {"before": nn.LayerNorm(8), **parts}
    return Own(forward, embedding=nn.Embedding(11, 8, pad), norm=norm, output=nn.Linear(8, 11), **parts)


def with_data(**new) -> Callable:
    """The loader again, with other options."""

    def change(names: dict) -> None:
        old = names["loader"]
        names["loader"] = DataLoader(old.dataset, **{"batch_size": old.batch_size, **new})

    return change


def replaced(**paths: Callable) -> Callable:
    """Other layers, at these paths (`a__b` for a.b, `_1` for 1)."""

    def change(names: dict) -> None:
        for path, make in paths.items():
            names["model"].set_submodule(path.replace("__", ".").lstrip("_"), make())

    return change


# --- running statistics


@fault("pytorch/pytorch#4741", "mode_gap", "1")
def _():
    "Good with the batch's statistics, high error with model.eval(): statistics of inputs of another scale."
    model = train(cnn(nn.BatchNorm2d(8)), lambda: images(2, 5.0))
    return model, [images(32) for _ in range(4)], {}


@fault("pytorch/pytorch#100048", "mode_gap", "[0-9]*")
def _():
    "A chain of 20 BatchNorms, in batches of 4: eval mode divides by a variance over n - 1, training over n."
    chain = [nn.BatchNorm1d(6, affine=False) for _ in range(20)]
    model = train(Seq(*chain, nn.Linear(6, 2)), lambda: rows(4), 200)
    return model, [rows(4) for _ in range(64)], {}


@fault("open-mmlab/mmdetection#2924", "mode_gap", "1")
def _():
    "BatchNorm was fused into the convolution, and still stands behind it."
    model = train(cnn(nn.BatchNorm2d(8)), lambda: images(32, 3.0), 100).eval()
    model[0] = nn.utils.fusion.fuse_conv_bn_eval(model[0], model[1])
    return model.train(), [images(32, 3.0) for _ in range(4)], {}


@fault("ludwig-ai/ludwig#328", "statistics_cold", "1")
def _():
    "momentum=.003 and 100 steps: two thirds of mean 0 and variance 1 are left."
    return mlp(nn.BatchNorm1d(8, momentum=0.003)), rows(), {"steps": 100}


@fault("pytorch/vision#8250", "momentum", "1")
def _():
    "MaxViT: momentum=.99, as another library counts it."
    return cnn(nn.BatchNorm2d(8, eps=1e-3, momentum=0.99)), images(), {}


@fault("Cadene/pretrained-models.pytorch#5", "momentum", "1")
def _():
    "momentum=0: the statistics never move."
    return cnn(nn.BatchNorm2d(8, momentum=0.0)), images(), {}


@fault("TengdaHan/DPC#21", "batch_in_eval", "1")
def _():
    "track_running_stats=False: a prediction depends on the rest of its batch."
    return cnn(nn.BatchNorm2d(8, track_running_stats=False)), images(), {}


@fault("marvis/pytorch-caffe-darknet-convert#48", "not_finite", "1")
def _():
    "A port put other numbers where the running variance is read."
    model = cnn(nn.BatchNorm2d(8))
    model[1].running_var.copy_(torch.randn(8))
    return model, images(), {}


@fault("luigibonati/mlcolvar#205", "dropout_before_batchnorm", "4")
def _():
    "Dropout stands before BatchNorm."
    body = [nn.Linear(6, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU()]
    return Seq(*body, nn.Linear(8, 2)), rows(64), {"samples": 64}


# --- batches


@fault("fastai/fastai#1352", "last_batch_of_one", "1", with_data(drop_last=True))
def _():
    "The last batch of an epoch has one sample."
    return mlp(nn.BatchNorm1d(8)), DataLoader(TensorDataset(*rows(65)), 16), {}


@fault("meetps/pytorch-semseg#214", "last_batch_of_one", "pool.2", with_data(drop_last=True))
def _():
    "PSPNet: the branch that pools to one pixel has BatchNorm, and the last batch one image."
    pool = Seq(nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    model = Own(
        lambda s, x: s.out((s.pool(x) + s.conv(x)).mean((2, 3))),
        pool=pool,
        conv=nn.Conv2d(3, 4, 1),
        out=nn.Linear(4, 2),
    )
    return model, DataLoader(TensorDataset(*images(33)), 16), {}


@fault("uci-cbcl/UFold#18", "small_batch", "1")
def _():
    "Trained with one image a batch."
    return cnn(nn.BatchNorm2d(8)), images(1), {}


@fault("pytorch/pytorch#2584", "small_batch", "1")
def _():
    "Segmentation on 8 devices with 2 images each, without SyncBatchNorm."
    return cnn(nn.BatchNorm2d(8)), images(2), {"devices": 8}


@fault("ultralytics/yolov5#1630", "small_batch", "1")
def _():
    "4 batches of 16 a step: gradients add up, statistics do not."
    return cnn(nn.BatchNorm2d(8)), images(16), {"accumulate": 4}


@fault("pytorch/pytorch#45687", "pass_fails", "1", replaced(_1=lambda: nn.GroupNorm(2, 8)))
def _():
    "InstanceNorm behind a layer that leaves one pixel."
    return Seq(nn.Conv2d(3, 8, 8), nn.InstanceNorm2d(8), nn.Flatten(), nn.Linear(8, 2)), images(), {}


# --- freezing, saving, averaging, optimizers


@fault("pytorch/pytorch#86590", "frozen_thaws", "1")
def _():
    "requires_grad=False, and the running statistics move on."
    model = cnn(nn.BatchNorm2d(8))
    model[:2].requires_grad_(False)
    return model, images(), {}


@fault("pgniewko/gt-pyg#112", "frozen_thaws", "0.1")
def _():
    "freeze() sets eval mode, and the next model.train() sets it back."
    model = Seq(mlp(nn.BatchNorm1d(8)), nn.Linear(2, 2))
    model[0].requires_grad_(False).eval()
    return model, rows(), {}


@fault(
    "huggingface/peft#1732",
    "not_saved",
    "1.*",
    lambda names: names.update(state_dict=names["model"].state_dict()),
)
def _():
    "The adapter is saved alone, and the base's running statistics have moved."
    model = cnn(nn.BatchNorm2d(8))
    model[:2].requires_grad_(False)
    return model, images(), {"state_dict": {n: p for n, p in model.named_parameters() if p.requires_grad}}


@fault("fadel/pytorch_ema#13", "stale_average", "1")
def _():
    "An average of parameters() beside the running statistics of the newest weights."
    model = cnn(nn.BatchNorm2d(8))
    average = copy.deepcopy(model)
    for _ in range(40):
        train(model, lambda: images(32), 1, rate=1.0)
        for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
            mine.data.lerp_(theirs.data, 0.02)
        average.load_state_dict(dict(model.named_buffers()), strict=False)
    return model, [images(32) for _ in range(4)], {"averaged": average}


@fault("huggingface/transformers#16908", "decay_on_norms", "layer_norm.weight")
def _():
    "no_decay looks for LayerNorm.weight, and the layer is called layer_norm."
    model = Own(
        lambda s, x: s.decoder(s.layer_norm(F.gelu(s.dense(x)))),
        dense=nn.Linear(6, 8),
        layer_norm=nn.LayerNorm(8),
        decoder=nn.Linear(8, 2),
    )
    return model, rows(), {"optimizer": groups(model, ("bias", "LayerNorm.weight"), 3e-4)}


def groups(model: nn.Module, free: tuple, rate: float) -> torch.optim.Optimizer:
    named = list(model.named_parameters())
    without = [p for n, p in named if any(word in n for word in free)]
    decayed = [p for n, p in named if not any(word in n for word in free)]
    return torch.optim.AdamW(
        [{"params": decayed}, {"params": without, "weight_decay": 0.0}], rate, weight_decay=0.1
    )


@fault("meta-pytorch/opacus#432", "not_optimized", "1.weight")
def _():
    "BatchNorm was replaced by GroupNorm after the optimizer had been made."
    model = cnn(nn.BatchNorm2d(8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model[1] = nn.GroupNorm(4, 8)
    return model, images(), {"optimizer": optimizer}


@fault(
    "lucidrains/PaLM-rlhf-pytorch#46", "nothing_learns", "norm", lambda names: delattr(names["model"], "norm")
)
def _():
    "A norm that no pass calls: DistributedDataParallel ends."
    parts = {"inputs": nn.Linear(6, 8), "first": nn.LayerNorm(8), "norm": nn.LayerNorm(8)}
    return Own(lambda s, x: s.out(s.first(s.inputs(x))), **parts, out=nn.Linear(8, 2)), rows(), {}

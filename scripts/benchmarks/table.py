"""Everything that is measured: how, over what reference, and the most that the ratio may be.

Every ratio is a cost over its reference, so less is better. What is asked for and missed stays as a limit.
"""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

MNIST, CIFAR = ("data=mnist", "data.val_size=2000"), ("data=cifar10_jpeg", "data.val_size=2000")
PART = "data.train_size=5000"
CIFAR_RECIPE = "model=cnn data=cifar10_jpeg norm=batchnorm trainer=bf16"
LONGER = "model.width=64 label_smoothing=0.2 max_steps=2500 val_every_n_steps=625"
SHAKESPEARE = "${oc.env:NORMEXP_DATA,data}/tinyshakespeare.txt.gz"
MODELS = ("mlp", "cnn", "transformer")
# Norm -> the most that its kernels may take of torch's layer: what was reached, and what was asked of rmsnorm.
NORMS = {
    "batchnorm": 1.05, "batchnorm_unbiased": 1.1, "batchnorm_eps_outside": 1.65, "layernorm": 1.05,
    "layernorm_unbiased": 1.25, "layernorm_eps_outside": 2.65, "layernorm_annotated": 2.75, "groupnorm": 1.05,
    "rmsnorm": 0.4, "instancenorm": 1.0,
}  # fmt: skip
MONITORS = (
    "light", "activations", "gradients", "covariate_shift", "internal_covariate_shift", "covariate_shift_proxies",
    "smoothness", "hessian", "gradient_noise", "batch_statistics", "representation", "stream",
    "adaptation", "adversarial_noise",
)  # fmt: skip
PRESETS = ("llama", "qwen3", "gemma3", "olmo2", "gptoss", "nanochat")
SHAPES = [
    (n, s) for n, s in product(NORMS, ("dense", "image", "tokens")) if (n, s) != ("instancenorm", "dense")
]


@dataclass(frozen=True)
class Measurement:
    """One kind of measurement.

    Args:
        title: of its section of docs/performance.md.
        function: file and function of this package, called with a case's arguments and `options`.
        columns: what is measured, with its unit, and its reference.
        cases: name -> arguments.
        limits: the end of a case's name -> the most that its ratio may be.
        page: of docs, where its table stands.
        threads: of its process, and of those that it starts; 0: as many as cores.
        seconds: that a case is measured for.
        guard: names of the cases that `check` measures, and the part by which their ratios may be worse.
    """

    title: str
    function: str
    columns: tuple[str, str]
    cases: dict[str, tuple[Any, ...]]
    limits: dict[str, float] = field(default_factory=dict)
    page: str = "performance.md"
    threads: int = 1
    seconds: float = 0
    guard: tuple[str, ...] = ()
    tolerance: float = 0.2

    def limit(self, case: str) -> float | None:
        """The limit of a case; that of the longest ending counts."""
        fitting = [end for end in self.limits if case.endswith(end)]
        return self.limits[max(fitting, key=len)] if fitting else None


MEASUREMENTS = {
    "run": Measurement(
        "One run", "training.over_bare", ("ms a step", "bare loop"),
        {f"{m}, batch {b}": (m, b) for m, b in product(MODELS, (64, 512))}
        | {"gpt, batch 64": ("gpt", 64)}
        | {f"{m}, batch 64, compiled": (m, 64, "compile=true") for m in ("cnn", "transformer")},
        {"batch 64": 1.10, "batch 512": 1.03},
        seconds=30, guard=("mlp, batch 64", "mlp, batch 512", "cnn, batch 64", "transformer, batch 64"), tolerance=0.15,
    ),
    "blocks": Measurement(
        "Blocks", "blocks.blocks", ("ms a step", "GPT-2's block, bare"),
        {"gpt": ()} | {f"preset={name}": (f"preset={name}",) for name in PRESETS},
        {"gpt": 1.05}, seconds=15,
    ),
    "families": Measurement(
        "Families", "training.families", ("s a run, replicas", "one by one"),
        {
            "digits, mlp 64": (["data=digits", "model=mlp", "model.width=64", "batch_size=32"], 12, 5),
            **{
                f"mnist, mlp {w}": ([*MNIST, PART, "model=mlp", f"model.width={w}"], 12, 2)
                for w in (64, 128, 256)
            },
            "cifar10, cnn 16": ([*CIFAR, PART, "model=cnn", "model.width=16", "optimizer=adam"], 4, 3),
            "mnist, transformer 48": (
                [*MNIST, PART, "model=transformer", "model.depth=3", "model.width=48", "norm=layernorm"], 4, 1
            ),
        },
        {"mlp 64": 0.40, "mlp 256": 0.67}, guard=("digits, mlp 64", "mnist, mlp 256"), tolerance=0.3,
    ),
    "studies": Measurement(
        "Studies of twelve runs", "training.study", ("s, from start to end", "bare loops"),
        {
            "mnist, cnn 16, 600 steps": ("cnn", 600),
            "mnist, resnet 8, 600 steps": ("resnet", 600),
            "mnist, transformer 48, 600 steps": ("transformer", 600),
        },
        {"": 1.10},
    ),
    "startup": Measurement(
        "Startup", "commands.commands", ("s", "reference"),
        {"train.py --help, over 0.6 s": ("train.py --help", 0.6)},
        {"--help, over 0.6 s": 1.0}, seconds=30,
    ),
    "sweeps": Measurement(
        "Sweeps", "commands.commands", ("s", "reference"),
        {
            "8 runs: two processes, over one": tuple(
                f"train.py -m norm=none,batchnorm,layernorm,groupnorm seed=0,1 recipe=plain --workers {n} outputs=OUT"
                for n in (2, 1)
            ),
            "32 runs: replicas=8, over a process for each seed": tuple(
                f"train.py -m norm=none,batchnorm,layernorm,groupnorm {axis} recipe=plain outputs=OUT"
                for axis in ("replicas=8", "seed=range(0,8)")
            ),
        },
        {"": 0.9},
    ),
    "check": Measurement(
        "Check", "commands.check", ("s of normexp check, two threads", "allowed"),
        {
            "resnet18, 32 x 3 x 224 x 224": ("resnet18", "32x3x224x224", 20.0),
            "vit_b_16, 32 x 3 x 224 x 224": ("vit_b_16", "32x3x224x224", 60.0),
            "GPT, 6 blocks of width 384, 32 x 256 characters": (
                "scripts.benchmarks.blocks:small_gpt", "scripts.benchmarks.blocks:texts", 20.0,
            ),
        },
        {"": 1.0}, threads=2,
    ),
    "growth": Measurement(
        "Growth", "commands.growth", ("s", "allowed"),
        {
            f"{what} of {runs:,} runs": (what, runs, seconds)
            for what, *allowed in (
                ("plan", 10.0, 60.0, 600.0), ("table", 2.5, 15.0, 120.0), ("report", 30.0, 60.0, 300.0),
            )
            for runs, seconds in zip((1000, 10_000, 100_000), allowed, strict=True)
        },
        {"": 1.0},
    ),
    "leak": Measurement(
        "Memory over a long run", "training.leak", ("KiB by which memory grows a step", "limit"),
        {"10,000 steps of an MLP": ()}, {"": 1.0},
    ),
    "norms": Measurement(
        "Norms", "norms.norms", ("us forward and backward", "torch's layer"),
        {f"{n}, {s}": (n, s) for n, s in SHAPES}, {f"{norm}, {shape}": NORMS[norm] for norm, shape in SHAPES},
        seconds=1, guard=tuple(f"{n}, {s}" for n, s in SHAPES if s != "image"), tolerance=0.25,
    ),
    "monitors": Measurement(
        "Monitors", "training.monitors", ("ms a step with monitors", "without"),
        {f"{name}, {model}": (model, name) for model, name in product(MODELS, MONITORS)},
        {f"light, {model}": 1.03 for model in MODELS},
        seconds=10, guard=("light, mlp",), tolerance=0.05,
    ),
    "fast": Measurement(
        "Fast recipes", "fast.fast", ("s of training", "allowed"),
        {
            "MNIST: 99% in 20 s": ("recipe", "model=cnn data=mnist norm=batchnorm", 20.0),
            "CIFAR-10: 88% in 597 s": ("recipe", CIFAR_RECIPE, 597.0),  # 240 s were asked: see docs/recipes.md
            "CIFAR-10: 90%": ("recipe", f"{CIFAR_RECIPE} {LONGER}", 597.0),
            "tinyshakespeare: 1.6 nats in 300 s": (
                "recipe", f"model=gpt data=text_file data.path={SHAKESPEARE} norm=rmsnorm", 300.0,
            ),
            "CIFAR-10: airbench's network, bare loop": ("airbench", "model=cnn batch_size=512", 450.0),
            "CIFAR-10: ResNet-20, bare loop": (  # as He et al. 2015 trained it
                "resnet", "model=resnet norm=batchnorm batch_size=128 optimizer=sgd lr=0.1 optimizer.weight_decay=1e-4 "
                "optimizer.decay=all",
                240.0,
            ),
        },
        page="recipes.md", threads=0,
    ),
}  # fmt: skip

"""The golden runs: each model x norm x optimizer, and at least one for every other part of a run."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

# Every setting that decides a number is fixed here, so a new default in configs/ does not look like a change of code.
STEPS = 3
SHARED = (
    "seed=1", "batch_size=16", f"max_steps={STEPS}", f"val_every_n_steps={STEPS}", "log_every_n_steps=1", "eps=1e-5",
    "schedule=warmup_cosine", "schedule.warmup_steps=1", "schedule.final_fraction=0.1", "trainer=cpu", "threads=1",
    "accuracies=[0.1]", "monitor=none", "data=digits", "channels_last=true", "model.initialization=he",
)  # fmt: skip
TOKENS = ("model.depth=2", "model.width=16", "model.heads=2", "model.initialization=xavier")
TEXT = ("data=text_file", "data.path=${oc.env:GOLDEN_FILES}/text.txt", "data.context_length=16")
MODELS = {
    "mlp": ("model.depth=2", "model.width=16"),
    "cnn": ("model.depth=[1,1]", "model.width=4"),
    "resnet": ("model.depth=8", "model.width=4"),
    "transformer": TOKENS,
    "gpt": (*TOKENS, *TEXT),
}
# The first norm of each family trains with every optimizer. The others share its class and train with
# SGD only.
NORMS = (
    ("none",), ("affine",), ("adanorm",), ("batchrenorm",), ("groupnorm",), ("instancenorm",), ("scalenorm",),
    ("batchnorm", "batchnorm_cumulative", "batchnorm_eps_outside", "batchnorm_frozen", "batchnorm_ghost",
     "batchnorm_l1", "batchnorm_linf", "batchnorm_precise", "batchnorm_unbiased"),
    ("batchnorm_noisy",), ("batchnorm_sync",), ("dyt", "derf", "hardtanh"), ("powernorm", "powernorm_unscaled"),
    ("layernorm", "layernorm_annotated", "layernorm_bias", "layernorm_channels", "layernorm_detach",
     "layernorm_eps_outside", "layernorm_gain", "layernorm_l1", "layernorm_linf", "layernorm_scaling",
     "layernorm_simple", "layernorm_unbiased"),
    ("rmsnorm", "rmsnorm_gain_free", "rmsnorm_partial"), ("switchablenorm", "switchablenorm_layer_batch"),
)  # fmt: skip
OPTIMIZERS = {
    "sgd": ("lr=0.05", "optimizer.momentum=0.9", "optimizer.weight_decay=0.01"),
    "adam": ("lr=0.01", "optimizer.weight_decay=0.01"),
    "adamw": ("lr=0.01", "optimizer.weight_decay=0.01"),
}
OPTIONS = {
    "mlp": (
        "model.norm_position=post_activation", "model.norm_output=true", "model.activation=tanh",
        "model.initialization=orthogonal", "trainer.accumulate_grad_batches=2", "trainer.gradient_clip_val=0.1",
        "max_steps=0", "val_every_n_steps=1",
    ),
    "cnn": ("model.norm_position=post_activation", "channels_last=false", "model.activation=gelu"),
    "resnet": ("model.skip=false", "norm=none,model.alpha=0.2", "channels_last=false"),
    "transformer": (
        "model.norm_position=post", "model.norm_position=sandwich", "model.qk_norm=true", "model.dropout=0.1",
        "model.patch_size=4", "model.initialization=gpt2", "model.activation=relu",
    ),
    "gpt": (
        "model.norm_position=post", "model.norm_position=sandwich", "model.qk_norm=true", "model.dropout=0.1",
        "model.initialization=gpt2", "trainer.gradient_clip_val=0.1",
        "preset=qwen3", "preset=gemma3", "preset=olmo2", "preset=gptoss", "preset=nanochat",
    ),
}  # fmt: skip
PRECISIONS = ("trainer.precision=bf16-mixed", "trainer.precision=64-true")
WEIGHTS = ("WeightNormalization", "WeightStandardization")
FILES = "data.root=${oc.env:GOLDEN_FILES}"
IMAGES = (FILES, "data.val_size=20")
DATA = {
    "digits": (),
    "mnist": IMAGES, "fashion_mnist": IMAGES, "kmnist": IMAGES, "cifar10": IMAGES, "cifar100": IMAGES,
    "cifar10_jpeg": ("data.path=${oc.env:GOLDEN_FILES}/jpeg.tar.gz", "data.val_size=20"),
    "image_folder": ("data.path=${oc.env:GOLDEN_FILES}/images", "data.image_size=8", "data.val_size=20"),
}  # fmt: skip
TEXTS = {"text_file": TEXT[1:], "python_docs": ("data.context_length=16", "data.train_size=5000")}
WATCHED = (("mlp", "layernorm"), ("cnn", "batchnorm"), ("gpt", "rmsnorm"))


class Case(NamedTuple):
    """A golden run: its name, the configuration's parts that it tests, and its overrides."""

    name: str
    tests: tuple[str, ...]
    overrides: tuple[str, ...]

    def is_of(self, room: str) -> bool:
        """Whether a run belongs to the minute that tests one room of normexp."""
        model, norm, optimizer, *options = self.name.split()
        plain = {"data", "monitor"}.isdisjoint(self.tests)
        return {
            "all": True,
            "norms": plain
            and optimizer == "sgd"
            and (model in ("mlp", "cnn") or (model == "gpt" and not options)),
            "models": plain and optimizer == "sgd" and norm in ("none", "batchnorm", "layernorm"),
            "training": plain and (model == "mlp" or norm == "layernorm" or "schedule" in self.tests),
            "data": "data" in self.tests,
            "monitors": "monitor" in self.tests,
        }[room]


ROOMS = ("all", "norms", "models", "training", "data", "monitors")


def all_cases(configs: Path) -> list[Case]:
    """The golden runs that a folder of configurations offers. An older version lacks some choices."""
    offered = {group.name: {path.stem for path in group.glob("*.yaml")} for group in configs.iterdir()}
    cases: dict[str, Case] = {}
    for case in (*training(), *options(), *data(), *monitors(sorted(offered["monitor"] - {"none"}))):
        before = cases.get(case.name)
        cases[case.name] = case._replace(tests=tuple({*before.tests, *case.tests})) if before else case
    return [case for case in cases.values() if all(_is_offered(text, offered) for text in case.overrides)]


def _is_offered(override: str, offered: dict[str, set[str]]) -> bool:
    group, _, choice = override.partition("=")
    return choice in offered.get(group, set() if group == "preset" else {choice})


def case(model: str, norm: str, optimizer: str, *more: str, tests: tuple[str, ...], label: str = "") -> Case:
    chosen: dict[str, str] = {}
    own = (*MODELS[model], f"norm={norm}", f"optimizer={optimizer}", *OPTIMIZERS[optimizer])
    for text in (*SHARED, f"model={model}", *own, *more):
        key, _, value = text.partition("=")
        chosen = {other: old for other, old in chosen.items() if not other.startswith(f"{key}.")}
        chosen[key] = value
    name = " ".join((model, norm, optimizer, *([label] if label else more)))
    return Case(name, tests, tuple(f"{key}={value}" for key, value in chosen.items()))


def training() -> Iterator[Case]:
    three = ("model", "norm", "optimizer")
    for model in MODELS:
        for first, *others in NORMS:
            for optimizer in OPTIMIZERS:
                yield case(model, first, optimizer, tests=three)
            for norm in others:
                yield case(model, norm, "sgd", tests=three)


def options() -> Iterator[Case]:
    for model, texts in OPTIONS.items():
        for text in texts:
            yield case(model, "layernorm", "sgd", *text.split(",", 1), tests=("model",))
        for weights in WEIGHTS:
            target = f"{{_target_: normexp.norms.{weights}}}"
            override = f"model.weight_norm={target}"
            yield case(model, "none", "sgd", override, tests=("model.weight_norm",), label=weights)
    for first, *_ in NORMS:
        for precision in PRECISIONS:
            yield case("mlp", first, "sgd", precision, tests=("norm",))
            yield case("gpt", first, "sgd", precision, tests=("norm",))
    constant = ("schedule=constant", "schedule.warmup_steps=1")
    for given in ((), constant):
        yield case("mlp", "layernorm", "sgd", *given, tests=("schedule",))


def data() -> Iterator[Case]:
    augmented = product(DATA.items(), [("data.augment=true",), ("data.augment=false",)])
    images: list[tuple] = [("cnn", "batchnorm", name, given, augment) for (name, given), augment in augmented]
    texts: list[tuple] = [("gpt", "layernorm", name, given, ()) for name, given in TEXTS.items()]
    for model, norm, name, given, augment in images + texts:
        chosen = f"data={name}"
        label = " ".join((chosen, *augment))
        yield case(model, norm, "sgd", chosen, *given, *augment, tests=("data",), label=label)


def monitors(names: list[str]) -> Iterator[Case]:
    for name in names:
        for model, norm in WATCHED:
            yield case(model, norm, "sgd", f"monitor={name}", tests=("monitor",))

"""Every model of configs/model small enough for tests, under every norm in configs/norm."""

import warnings
from functools import cache, partial
from pathlib import Path

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor, nn

CONFIGS = Path(__file__).parents[2] / "configs"
NORMS = sorted({path.stem for path in (CONFIGS / "norm").glob("*.yaml")} - {"original"})
IMAGE, TEXT = ((1, 8, 8), 10), ((6,), 11)  # input shape, number of classes

SMALL = {
    "mlp": (IMAGE, {"depth": 2, "width": 16}),
    "mlp_post_activation": (IMAGE, {"depth": 1, "width": 16, "norm_position": "post_activation"}),
    "cnn": (IMAGE, {"depth": [1, 2], "width": 16}),
    "resnet": (IMAGE, {"depth": 8, "width": 16}),
    "resnet_scaled": (IMAGE, {"depth": 8, "width": 16, "alpha": 0.2}),
    "transformer": (IMAGE, {"depth": 2, "width": 16, "heads": 2}),
    "transformer_sandwich": (
        IMAGE,
        {"depth": 1, "width": 32, "heads": 2, "norm_position": "sandwich", "qk_norm": True},
    ),
    "gpt": (TEXT, {"depth": 2, "width": 16, "heads": 2}),
    "gpt_post": (TEXT, {"depth": 1, "width": 32, "heads": 2, "norm_position": "post", "qk_norm": True}),
    "gpt_keel": (
        TEXT,
        {
            "depth": 1, "width": 16, "heads": 2, "norm_position": "keel", "position": "rope", "activation": "swiglu",
            "bias": False, "tied_embedding": True, "embedding_scale": "learned", "embedding_norm": True,
            "qk_norm": True, "qk_norm_over": "width", "attention_sink": True,
        },
    ),
    "gpt_output": (
        TEXT,
        {
            "depth": 2, "width": 16, "heads": 2, "norm_position": "output", "depth_scaling": True, "position": "rope",
            "qk_norm": True, "qk_norm_place": "after", "activation": "relu2",
            "initialization": "zero_projection", "final_norm": False,
        },
    ),
}  # fmt: skip
# Networks of other people have their own tests, test_other_networks.py.
OTHERS = {"torchvision", "module"}
MODELS = sorted({path.stem for path in (CONFIGS / "model").glob("*.yaml")} - OTHERS)


@cache
def norm_factory(name: str):
    norm = OmegaConf.load(CONFIGS / "norm" / f"{name}.yaml")
    root = {"eps": 1e-5, "seed": 0, "batch_size": 4, "norm": norm}
    cfg = OmegaConf.create(root)
    if cfg.norm.get("virtual_batch_size"):
        cfg.norm.virtual_batch_size = 2  # of batches of 4
    return instantiate(cfg.norm)


@cache
def default_model_factory(name: str):
    node = OmegaConf.load(CONFIGS / "model" / f"{name}.yaml")
    del node["defaults"]  # of the recipe that the model brings, which says nothing of the model itself
    return instantiate(node)


def model_factory(name: str, **options):
    return partial(default_model_factory(name), **options)


# A model that was added and has no small version above is tested as its yaml has it.
for name in [name for name in MODELS if name not in SMALL]:
    SMALL[name] = (TEXT if default_model_factory(name).func.accepts == "text" else IMAGE, {})


def small_model(name: str, norm: str = "layernorm", seed: int = 0, **options) -> nn.Module:
    (input_shape, num_classes), small = SMALL[name]
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="gpt with")
        config = name if name in MODELS else name.split("_")[0]  # the others are variants
        return model_factory(config, **{**small, **options})(input_shape, num_classes, norm_factory(norm))


def small_batch(name: str, n: int = 4) -> tuple[Tensor, Tensor]:
    (input_shape, num_classes), _ = SMALL[name]
    generator = torch.Generator().manual_seed(1)
    if len(input_shape) == 1:
        tokens = torch.randint(num_classes, (n, *input_shape), generator=generator)
        return tokens, tokens.roll(-1, dims=1)
    return torch.randn(n, *input_shape, generator=generator), torch.arange(n) % num_classes


def weights_outside_norms(model: nn.Module) -> dict[str, Tensor]:
    inside = {id(p) for site in model.sites() if site.kind == "norm" for p in site.module.parameters()}
    return {name: p for name, p in model.named_parameters() if id(p) not in inside}


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())

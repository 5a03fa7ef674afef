"""Public networks by name, with random weights and without a download: `torchvision:resnet18`, `timm:convnext_atto`,
`hf:LlamaConfig(num_hidden_layers=2)`, `hf:folder/config.json`."""

import ast
import difflib
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

MOST = 2e9  # parameters, 8 GB in float32
INSTALLED = {"torchvision": "torchvision", "timm": "timm", "hf": "transformers"}  # the word -> its package


def is_hub(word: str) -> bool:
    """Whether a word names a network of a hub."""
    return word.partition(":")[0] in INSTALLED and bool(word.partition(":")[2])


def from_hub(word: str, **sizes: Any) -> nn.Module:
    """The network that a word names; `sizes`, such as num_classes, go to the builder of torchvision and timm.

    Raises ValueError with one line: the package is not installed, or has no such network.
    """
    hub, _, name = word.partition(":")
    package = library(hub, word)
    try:
        return BUILDERS[hub](package, name, **sizes)
    except Exception as error:  # of the library, which has its own words for a wrong name or option
        reason = " ".join(str(error).split())[:160]
        raise ValueError(f"{word}: {reason or type(error).__name__}") from error


def library(hub: str, word: str) -> Any:
    """The package of a hub. Raises ValueError with one line if it is not installed."""
    try:
        return importlib.import_module(INSTALLED[hub])
    except ImportError as error:
        remedy = f"pip install {INSTALLED[hub]}"
        raise ValueError(f"{word}: needs {INSTALLED[hub]} ({error}); {remedy}") from None


def torchvision_network(torchvision: Any, name: str, **sizes: Any) -> nn.Module:
    """A network of torchvision.models, of detection and segmentation, too; `weights_backbone` is none."""
    require_listed(name, torchvision.models.list_models())
    detects = any(
        part in torchvision.models.get_model_builder(name).__module__ for part in ("detect", "segment")
    )
    return torchvision.models.get_model(
        name, weights=None, **({"weights_backbone": None} if detects else {}), **sizes
    )


def timm_network(timm: Any, name: str, **sizes: Any) -> nn.Module:
    """A network of timm."""
    require_listed(name.partition(".")[0], timm.list_models())
    return timm.create_model(name, pretrained=False, **sizes)


def hf_network(transformers: Any, name: str) -> nn.Module:
    """The network of a configuration: a class of transformers with its arguments, a config.json, or its folder. It is
    the class that the configuration names, else a causal language model, else the bare network."""
    config = hf_config(transformers, name)
    architectures: list[str] = getattr(config, "architectures", None) or []
    if architectures:
        build: Callable[[], nn.Module] = lambda: getattr(transformers, architectures[0])(config)  # noqa: E731
    elif type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        build = lambda: transformers.AutoModelForCausalLM.from_config(config)  # noqa: E731
    else:
        build = lambda: transformers.AutoModel.from_config(config)  # noqa: E731
    return small_enough(build, config)


def hf_config(transformers: Any, name: str) -> Any:
    """The configuration that `LlamaConfig`, `LlamaConfig(num_hidden_layers=2)` or a path names. Nothing is downloaded,
    and no code of a folder runs."""
    if (path := Path(name)).exists():
        return transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    if "/" in name or name.endswith(".json"):
        raise ValueError(
            "no such file; write the path of a config.json or its folder: names are not downloaded"
        )
    call = ast.parse(name, mode="eval").body
    kind = call.func if isinstance(call, ast.Call) else call
    if not isinstance(kind, ast.Name) or (isinstance(call, ast.Call) and call.args):
        raise ValueError("write a class of transformers, LlamaConfig, or LlamaConfig(hidden_size=64)")
    require_listed(kind.id, [one for one in dir(transformers) if one.endswith("Config")])
    keywords = call.keywords if isinstance(call, ast.Call) else ()
    return getattr(transformers, kind.id)(**{str(key.arg): ast.literal_eval(key.value) for key in keywords})


class Timm(nn.Module):
    """A network of timm for images of a data set: `model=timm:NAME`."""

    def __init__(self, input_shape: tuple[int, ...], num_classes: int, *, name: str) -> None:
        super().__init__()
        timm = library("timm", f"model=timm:{name}")
        sizes: dict[str, Any] = {"in_chans": input_shape[0], "num_classes": num_classes}
        cfg = timm.get_pretrained_cfg(name) if timm.is_model(name) else None
        sizes |= {"img_size": tuple(input_shape[1:])} if cfg is not None and cfg.fixed_input_size else {}
        self.network = from_hub(f"timm:{name}", **sizes)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)


class Transformers(nn.Module):
    """The logits of a causal language model for the data's tokens, or for images (`model.accepts=image`) of a
    classifier, of a configuration of transformers: `model=hf:CONFIG`."""

    def __init__(self, input_shape: tuple[int, ...], num_classes: int, *, name: str) -> None:
        super().__init__()
        word = f"model=hf:{name}"
        transformers = library("hf", word)
        try:
            config = hf_config(transformers, name)
            if len(input_shape) == 3:
                config.num_labels, config.num_channels, config.image_size = num_classes, *input_shape[:2]
                kind = transformers.AutoModelForImageClassification
            else:
                config.vocab_size, config.pad_token_id = num_classes, None
                kind = transformers.AutoModelForCausalLM
            self.network = small_enough(lambda: kind.from_config(config), config)
        except Exception as error:  # of the library
            raise ValueError(f"{word}: {' '.join(str(error).split())[:160]}") from error

    def forward(self, inputs: Tensor) -> Tensor:
        return self.network(inputs).logits


def small_enough(build: Callable[[], nn.Module], config: Any) -> nn.Module:
    """What `build` makes. Raises ValueError with its size, asked without memory, if it has too many parameters."""
    with torch.device("meta"):
        count = sum(p.numel() for p in build().parameters())
    if count > MOST:
        smaller = (
            f"name a smaller one, such as hf:{type(config).__name__}(num_hidden_layers=2, hidden_size=64)"
        )
        raise ValueError(
            f"has {count / 1e9:.1f} billion parameters, which take {count * 4 / 1e9:.0f} GB; {smaller}"
        )
    return build()


def require_listed(name: str, known: Iterable[str]) -> None:
    """Raise ValueError with one line, and the nearest names, unless a name is known."""
    if name not in (known := list(known)):
        near = difflib.get_close_matches(name, known, n=3) or known[:3]
        raise ValueError(f"{name}: no such network; did you mean {', '.join(near)}?")


BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "torchvision": torchvision_network,
    "timm": timm_network,
    "hf": hf_network,
}

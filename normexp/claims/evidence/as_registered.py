"""The values of a configuration that the hash of a registered protocol counts. Rows of the registry were written with
these, so this file stays as it is."""

from collections.abc import Mapping
from typing import Any

from normexp.config.schema import NOT_IDENTITY

# Options that classes got after the first rows, with the value under which they compute what they computed before.
_BLOCK = {
    "bias": True, "embedding_norm": False, "final_norm": None, "depth_scaling": False, "qk_norm_over": "head",
    "qk_norm_gain": True, "v_norm": "none", "attention_scale": 1.0, "attention_sink": False, "attention_gate": "none",
}  # fmt: skip
_TORCHS = (
    "SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "ASGD", "Rprop",
)  # fmt: skip
_IMAGES = (
    "MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "CIFAR10JPEG", "Digits", "ImageFolder",
)  # fmt: skip
_OF_IMAGES = {"tasks": None, "task_batches": 500, "border": "black", "tta": "none"}
LATER_OPTIONS: dict[str, dict[str, Any]] = {
    "normexp.models.CNN": {"pool": "between", "whiten": False},
    "normexp.models.Transformer": _BLOCK,
    "normexp.models.GPT": {
        **_BLOCK, "position": "learned", "rope_base": 10_000.0, "qk_norm_place": "before", "tied_embedding": False,
        "embedding_scale": "none", "ngrams": 1, "ngram_rows": 32_768,
    },
    "normexp.optimizers.Muon": {"precision": "bfloat16"},
    "normexp.norms.RMSNorm": {"gain": "vector", "rounding": "after_gain"},
    "normexp.norms.Pointwise": {"alpha_attention": None, "alpha_final": None},
    **{f"torch.optim.{name}": {"decay": "matrices"} for name in _TORCHS},
    **{f"normexp.data.{name}": _OF_IMAGES for name in _IMAGES},
}  # fmt: skip


LATER_KEYS = {"early_stopping": None, "label_smoothing": 0}


def values(config: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved configuration without paths, hardware, monitors, and without options that came later and are off."""
    omitted = [key for key, value in LATER_KEYS.items() if config.get(key, value) == value]
    omitted += ["max_epochs"] if config.get("max_steps") is not None else []
    kept = {}
    for key, value in config.items():
        if key not in NOT_IDENTITY and key not in omitted:
            kept[key] = _node(value, key) if isinstance(value, Mapping) else value
    return {**kept, "fingerprint": ""}


def _node(node: Mapping[str, Any], group: str) -> dict[str, Any]:
    old = LATER_OPTIONS.get(str(node.get("_target_")), {})
    counted = {key: value for key, value in node.items() if f"{group}.{key}" not in NOT_IDENTITY}
    return {key: value for key, value in counted.items() if key not in old or value != old[key]}

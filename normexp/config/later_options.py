"""Options that a class got after its first runs, each with the value under which it computes what it computed before.

At that value an option is no part of a run's identity, so old runs stay valid. A run from before there was the option
reads as a run with that value. Add here each new option of a class in a config group.
"""

from collections.abc import Mapping
from typing import Any

_BLOCK = {
    "bias": True, "embedding_norm": False, "final_norm": None, "depth_scaling": False, "qk_norm_over": "head",
    "qk_norm_gain": True, "v_norm": "none", "attention_scale": 1.0, "attention_sink": False, "attention_gate": "none",
}  # fmt: skip
_TORCHS = (
    "SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "ASGD", "Rprop",
)  # fmt: skip
LATER_OPTIONS: dict[str, dict[str, Any]] = {
    "normexp.models.Transformer": _BLOCK,
    "normexp.models.GPT": {
        **_BLOCK, "position": "learned", "rope_base": 10_000.0, "qk_norm_place": "before", "tied_embedding": False,
        "embedding_scale": "none",
    },
    "normexp.norms.RMSNorm": {"gain": "vector", "rounding": "after_gain"},
    "normexp.norms.Pointwise": {"alpha_attention": None, "alpha_final": None},
    **{f"torch.optim.{name}": {"decay": "matrices"} for name in _TORCHS},
}  # fmt: skip


def without_later_options(node: Mapping[str, Any]) -> dict[str, Any]:
    """A group's node without those later options that have their old value."""
    old = LATER_OPTIONS.get(str(node.get("_target_")), {})
    return {key: value for key, value in node.items() if key not in old or value != old[key]}


def with_later_options(node: Mapping[str, Any]) -> dict[str, Any]:
    """A group's node with the later options that it lacks, at their old values."""
    return {**LATER_OPTIONS.get(str(node.get("_target_")), {}), **node}

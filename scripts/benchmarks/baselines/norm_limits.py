"""Limits of a norm's time: forward and backward, divided by the time of torch's nearest native layer."""

# Uncompiled. What was reached on two cores, less some noise; the limit of rmsnorm was asked for and is missed.
ON_CPU = {
    "batchnorm": 1.05, "batchnorm_unbiased": 1.1, "batchnorm_eps_outside": 1.65, "layernorm": 1.05,
    "layernorm_unbiased": 1.25, "layernorm_eps_outside": 2.65, "layernorm_annotated": 2.75, "groupnorm": 1.05,
    "instancenorm": 1.0, "rmsnorm": 0.4,
}  # fmt: skip
COMPILED_ON_GPU = 1.3  # for every norm


def limit(norm: str, device: str, compiled: bool) -> float | None:
    """The limit of a norm; None if there is none."""
    if device == "cuda":
        return COMPILED_ON_GPU if compiled else None
    return None if compiled else ON_CPU.get(norm)

"""Laws: properties of a norm, or of a network at initialization, that need no training.

Each is a pure function `law(subject, *, seed, **options) -> float`. The subject is a norm factory (contract 1) or a
network with `sites()`. Facts about torch take no subject. Numbers are computed in float64, unless the claim is about
float32.
"""

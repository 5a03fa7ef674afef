"""Laws: what can be said of a norm, or of a network at its start, without training anything.

Each is a pure function `law(subject, *, seed, **options) -> float`, where the subject is a norm factory (contract 1)
or a network with `sites()`; facts about torch itself take no subject. Numbers are computed in float64 unless the claim
is about float32.
"""

"""Names of layers, such that they sort in forward order."""


def layer_name(index: int, last: int, role: str = "") -> str:
    """``layer03`` or ``layer03_role``, with zeros enough that the names up to ``last`` sort in order."""
    digits = max(2, len(str(last)))
    return f"layer{index:0{digits}d}" + (f"_{role}" if role else "")

"""Names of layers that sort in forward order."""


def layer_name(index: int, last: int, role: str = "") -> str:
    """``layer03`` or ``layer03_role``, padded with zeros so that the names up to ``last`` sort in order."""
    digits = max(2, len(str(last)))
    return f"layer{index:0{digits}d}" + (f"_{role}" if role else "")

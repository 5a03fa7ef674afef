"""Reading a checkpoint, where the file may be damaged."""

from pathlib import Path
from typing import Any

import torch

from normexp.runs import damaged

NEEDED = ("global_step", "state_dict")


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a run's checkpoint, on the CPU.

    Raises ValueError, in one line, for a file that was cut or that holds something else.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has a dozen for a file that it cannot read
        reason = str(error).strip().splitlines() or ["it ends too early"]
        raise damaged(path, reason[0], path.parents[1]) from None
    if not isinstance(content, dict) or not set(NEEDED) <= set(content):
        raise damaged(path, "it is no checkpoint of a run", path.parents[1])
    return content

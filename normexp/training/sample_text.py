"""Text that a network of characters writes, shown before and after its training."""

import os
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.text import Text

from normexp.norms import evaluation_mode
from normexp.training.folder import WAIT

if TYPE_CHECKING:
    from normexp.training.train import Parts

LENGTH = 200  # characters
SEED = 0


def show_text(parts: "Parts", when: str, console: Console) -> None:
    """Print what the network writes after the first window of the validation text. Does nothing for other data, and in
    a run that is one of many."""
    if console.quiet or os.environ.get(WAIT) or not hasattr(parts.data, "decode"):
        return
    text = parts.data.decode(written(parts)).replace("\n", "⏎")
    console.print(Text.assemble((f"text {when}", "bold"), f"  {text}"), highlight=False)


def written(parts: "Parts", length: int = LENGTH) -> torch.Tensor:
    """So many tokens, each drawn from the network's distribution after the window before it, (length,). Training sees
    nothing of it: the network is in eval mode, and the random numbers are its own."""
    own = torch.Generator().manual_seed(SEED)
    window = parts.data.splits["val"].x[: parts.data.input_shape[0]].long()
    place = next(parts.module.parameters()).device
    with evaluation_mode(parts.module), torch.inference_mode():
        for _ in range(length):
            logits = parts.module(window[-parts.data.input_shape[0] :][None].to(place))[0, -1].float().cpu()
            chance = torch.nan_to_num(logits.softmax(0), nan=1.0)
            window = torch.cat([window, torch.multinomial(chance, 1, generator=own)])
    return window[-length:]

"""Check a configured trainer: options that normexp decides, and hardware that this machine lacks."""

from collections.abc import Callable
from typing import Any

from pytorch_lightning import Trainer

# Options that normexp gives the trainer itself -> the setting that decides each.
SET_ELSEWHERE = {
    "max_epochs": "max_epochs", "max_steps": "max_steps", "fast_dev_run": "fast_dev_run",
    "val_check_interval": "val_every_n_steps", "check_val_every_n_epoch": "val_every_n_steps",
    "log_every_n_steps": "log_every_n_steps", "default_root_dir": "outputs", "callbacks": "monitor",
    "logger": "log_every_n_steps", "num_sanity_val_steps": None, "enable_model_summary": None,
    "use_distributed_sampler": None, "enable_checkpointing": None, "enable_progress_bar": None,
}  # fmt: skip


def check_trainer(
    make_trainer: Callable[..., Trainer], config: dict[str, Any], choices: dict[str, str]
) -> None:
    """Raise a ValueError of one line for the first mistake. Makes the trainer, so Lightning looks for the hardware."""
    try:
        world_size = make_trainer(
            logger=False, enable_checkpointing=False, enable_progress_bar=False
        ).world_size
    except Exception as error:  # Lightning and its plugins raise a dozen types
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"trainer={choices['trainer']}: {reason}; choose trainer=auto or trainer=cpu"
        ) from None
    if config["batch_size"] % world_size:
        raise ValueError(
            f"batch_size={config['batch_size']}: cannot be shared equally by {world_size} devices; "
            f"choose a multiple of {world_size}"
        )


def check_options(trainer: dict[str, Any]) -> None:
    """Raise a ValueError of one line for the first harmful option."""
    for key in trainer.keys() & SET_ELSEWHERE.keys():
        other = SET_ELSEWHERE[key]
        remedy = f"set {other} instead" if other else "leave it out"
        raise ValueError(f"trainer.{key}={trainer[key]}: is decided by normexp; {remedy}")
    clip, batches = trainer.get("gradient_clip_val"), trainer.get("accumulate_grad_batches", 1)
    if clip is not None and not clip > 0:
        raise ValueError(
            f"trainer.gradient_clip_val={clip}: must be above 0; use trainer.gradient_clip_val=null to clip nothing"
        )
    if not batches >= 1:
        raise ValueError(f"trainer.accumulate_grad_batches={batches}: must be at least 1")

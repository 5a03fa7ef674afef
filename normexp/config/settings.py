"""Every setting of a configuration, once: what it may be, and what it decides. Knows no torch and no Hydra.

`configs/train.yaml` holds the defaults and says in one sentence what each setting does. The options of a group
(`model.width`) are checked against the signature of its `_target_`; they stand here only where they are no part of a
run's identity.
"""

from dataclasses import dataclass
from typing import Any, Literal

MOST_STEPS = 10**12  # a step of a microsecond would take twelve days
LARGEST_SEED = 2**32 - 1  # of numpy, and of Lightning's seed_everything


@dataclass(frozen=True)
class Setting:
    """One key of a configuration.

    Args:
        key: as on the command line; a dot names an option of a group.
        kind: its type as an annotation; None for what another place checks.
        least, most: bounds of a number, both allowed.
        group: a folder of choices, with a node of options.
        identity: runs that differ in it are different runs.
        shown: tables tell runs apart by it.
        recorded: it changes what a run records, though not what is trained.
    """

    key: str
    kind: Any = None
    least: float | None = None
    most: float | None = None
    group: bool = False
    identity: bool = True
    shown: bool = True
    recorded: bool = False


def _aside(key: str, kind: Any = None, **more: Any) -> Setting:
    """What says where, how and under whose eyes a run happens, but not which run it is."""
    return Setting(key, kind, identity=False, shown=False, **more)


SETTINGS = (
    Setting("seed", int, least=0, most=LARGEST_SEED),
    Setting("batch_size", int, least=1),
    Setting("lr", float, least=0),
    Setting("max_epochs", int, least=0, most=MOST_STEPS),
    Setting("max_steps", int | None, least=0, most=MOST_STEPS),
    Setting("eps", float, least=0),
    Setting("val_every_n_steps", int | None, least=1, most=MOST_STEPS),
    _aside("log_every_n_steps", int, least=1, most=MOST_STEPS, recorded=True),
    _aside("accuracies", list[float], recorded=True),
    _aside("replicas", int | dict),
    _aside("channels_last", bool),
    _aside("compile", bool | Literal["reduce-overhead"]),
    _aside("name", str),
    _aside("outputs", str),
    _aside("run_dir", str | None),
    _aside("fast_dev_run", bool),
    _aside("threads", int | None, least=1),
    _aside("allow_targets", list[str]),
    Setting("model", group=True),
    Setting("norm", group=True),
    Setting("data", group=True),
    _aside("data.root"),
    _aside("data.path"),
    _aside("data.cache"),
    _aside("data.eval_batch_size"),
    Setting("optimizer", group=True),
    Setting("schedule", group=True),
    Setting("trainer", group=True, shown=False),
    _aside("trainer.accelerator"),
    _aside("trainer.devices"),
    _aside("trainer.strategy"),
    _aside("trainer.deterministic"),
    _aside("trainer.enable_progress_bar"),
    _aside("monitor", group=True, recorded=True),
    _aside("recipe", str),  # what it sets stands in the other keys
    _aside("experiment"),  # a preset: what it sets stands in the other keys
)
ROOT = tuple(setting for setting in SETTINGS if setting.kind is not None)
GROUPS = tuple(setting.key for setting in SETTINGS if setting.group)
RECORDED = tuple(setting.key for setting in SETTINGS if setting.recorded)
NOT_IDENTITY = frozenset(setting.key for setting in SETTINGS if not setting.identity)
NOT_SHOWN = frozenset(setting.key for setting in SETTINGS if not setting.shown)


def shown(column: str) -> bool:
    """Whether tables tell runs apart by a key, e.g. `norm.eps`; not by the options of a group that is not shown."""
    parts = column.split(".")
    return not any(".".join(parts[:length]) in NOT_SHOWN for length in range(1, len(parts) + 1))

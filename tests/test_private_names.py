"""Private names of other libraries that the project uses: what each is for, and that it is still there.

A private name may go in any release. Nothing would miss those marked "silent": the code would go on with another
result. A name that is used and not listed fails here, too. (The tests use some of their own; a test fails loudly.)
"""

import ast
import atexit
import importlib
import inspect
import re
import threading
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import NamedTuple

import pytest
import pytorch_lightning as pl
import torch
from hydra.plugins.config_source import ConfigSource
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.strategies.launchers import subprocess_script
from torch import nn

from normexp.training.ending import EndingFitLoop
from normexp.training.epoch_loop import ResumedEpochLoop

ROOT = Path(__file__).parents[1]
OURS = ("normexp", "hydra_plugins")
EXTRAS = ("submitit", "ray", "timm", "wandb", "mlflow")  # which a user may install
# Written with an underscore, yet documented by Python: of named tuples, syntax trees and processes.
PYTHON = {"_asdict", "_exit", "_fields", "_replace"}
ASKS = {"getattr", "hasattr", "setattr", "delattr"}


class Private(NamedTuple):
    purpose: str
    is_there: Callable[[], bool]


def weight() -> nn.Parameter:
    return nn.Parameter(torch.ones(1))


def compiled_in_place() -> nn.Module:
    module = nn.Identity()
    module.compile()
    return module


def schedule_state() -> dict:
    optimizer = torch.optim.SGD([weight()], lr=1.0)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0).state_dict()


def trainer() -> pl.Trainer:
    return pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)


NAMES = {
    # Silent: without them a compiled module counts as plain, and monitors' hooks never run.
    "_orig_mod": Private(
        "guard: torch.compile(module)", lambda: hasattr(torch.compile(nn.Identity()), "_orig_mod")
    ),
    "_compiled_call_impl": Private(
        "guard: module.compile()", lambda: compiled_in_place()._compiled_call_impl is not None
    ),
    # Loud: without it an AttributeError. Silent: if it ran compiled code, evaluation would compile each shape.
    "_call_impl": Private(
        "lit_model: evaluation runs the hooks of a network, and never its compiled forward",
        lambda: compiled_in_place()._call_impl(torch.ones(1)) == 1,
    ),
    "_compiler_ctx": Private(
        "guard: Lightning's own compiled module", lambda: hasattr(pl.LightningModule(), "_compiler_ctx")
    ),
    # Silent: without it gradients under fp16 are too large by the loss scale.
    "_step_supports_amp_scaling": Private(
        "monitors.base: a fused optimizer unscales in its own step",
        lambda: torch.optim.SGD([weight()], fused=True)._step_supports_amp_scaling,
    ),
    # Silent: without it the schedules of replicas resume with each other's rates.
    "_last_lr": Private("replica_checkpoint: a schedule's rates", lambda: "_last_lr" in schedule_state()),
    # Silent: without it replicas with dropout would train together and draw other masks than alone.
    "_DropoutNd": Private(
        "fit_replicas: every kind of dropout",
        lambda: all(
            issubclass(kind, nn.modules.dropout._DropoutNd)
            for kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
        ),
    ),
    # Silent: without it a layer would not see that its count of batches was changed, nor rehearsal and monitors that a
    # network writes into its inputs.
    "_version": Private(
        "norms.known_count, rehearsal, monitors.batches: how often a tensor was changed in place",
        lambda: [x.add_(1).add_(1)._version for x in (torch.zeros(1), torch.zeros(2)[:1])] == [2, 2],
    ),
    # Loud: without them an AttributeError or ImportError.
    "_buffers": Private(
        "guard and replicas: put another tensor where a buffer is",
        lambda: nn.BatchNorm1d(1)._buffers.keys() != set(),
    ),
    "_foreach_norm": Private(
        "monitors.gradients: norms of many tensors in one kernel",
        lambda: torch._foreach_norm([torch.tensor([3.0, 4.0])], 2, dtype=torch.float64)[0] == 5,
    ),
    "_foreach_sub": Private(
        "monitors.gradients: the step of all weights in one kernel",
        lambda: torch._foreach_sub([torch.tensor(3.0)], [torch.tensor(1.0)])[0] == 2,
    ),
    "torch.nn.modules._functions": Private(
        "sync_batch_norm: the kernel that gathers statistics",
        lambda: bool(torch.nn.modules._functions.SyncBatchNorm),
    ),
    "torch.utils._python_dispatch": Private(
        "benchmarks.measure.waits: sees every operation",
        lambda: bool(importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode),
    ),
    "_local_scalar_dense": Private(
        "benchmarks.measure.waits: the operation of item()",
        lambda: bool(torch.ops.aten._local_scalar_dense.default),
    ),
    "_dynamo": Private(
        "benchmarks.compiled: forget what was compiled",
        lambda: callable(importlib.import_module("torch._dynamo").reset),
    ),
    "_checkpoint_connector": Private(
        "replica: the content of a checkpoint",
        lambda: callable(trainer()._checkpoint_connector.dump_checkpoint),
    ),
    "_TrainingEpochLoop": Private(
        "epoch_loop: the loop of an epoch",
        lambda: isinstance(trainer().fit_loop.epoch_loop, ResumedEpochLoop.__base__),
    ),
    "_FitLoop": Private(
        "ending: the loop over epochs", lambda: isinstance(trainer().fit_loop, EndingFitLoop.__base__)
    ),
    "_Loop": Private(
        "ending: whether an epoch is started again",
        lambda: "restarting" in vars(EndingFitLoop.__mro__[2]),
    ),
    # Silent: without it this process is killed without a word where another process of its run dies.
    "_launch_process_observer": Private(
        "workers: Lightning's observer, which ours replaces",
        lambda: callable(subprocess_script._launch_process_observer),
    ),
    "_SubprocessScriptLauncher": Private(
        "workers: the processes that Lightning started",
        lambda: callable(subprocess_script._SubprocessScriptLauncher),
    ),
    "_forkserver": Private(
        "this_machine: start the server that forks workers under blocked signals",
        lambda: isinstance(forkserver._forkserver, forkserver.ForkServer),
    ),
    "_forkserver_pid": Private(
        "this_machine: whether that server runs",
        lambda: forkserver.ForkServer()._forkserver_pid is None,
    ),
    # Quietly: without them a command ends in Python's own way, a second later.
    "_shutdown": Private("own_process: wait for threads", lambda: callable(threading._shutdown)),
    "_run_exitfuncs": Private(
        "own_process: what is registered for the end", lambda: callable(atexit._run_exitfuncs)
    ),
    "_skip_next_val": Private(
        "epoch_loop: whether Lightning leaves out the next validation",
        lambda: trainer().fit_loop.epoch_loop._skip_next_val is False,
    ),
    "_val_check_time_interval": Private(
        "epoch_loop: whether validation goes by the clock",
        lambda: hasattr(trainer(), "_val_check_time_interval"),
    ),
    "_num_ready_batches_reached": Private(
        "epoch_loop: whether the epoch is over",
        lambda: callable(trainer().fit_loop.epoch_loop._num_ready_batches_reached),
    ),
    # Silent: without them files could ask Hydra for anything; tests/config/test_hydra_gate.py tries.
    "hydra._internal.config_loader_impl": Private(
        "hydra_gate: judge what Hydra composes",
        lambda: callable(
            importlib.import_module("hydra._internal.config_loader_impl").ConfigLoaderImpl.load_configuration
        ),
    ),
    "hydra._internal.config_repository": Private(
        "hydra_gate: check a file before Hydra loads it",
        lambda: callable(
            importlib.import_module("hydra._internal.config_repository").ConfigRepository.load_config
        ),
    ),
    "_normalize_file_name": Private(
        "hydra_gate: which file Hydra loads", lambda: ConfigSource._normalize_file_name("a") == "a.yaml"
    ),
    "hydra._internal.core_plugins.basic_sweeper": Private(
        "sweeper: the product of all choices",
        lambda: bool(importlib.import_module("hydra._internal.core_plugins.basic_sweeper").BasicSweeper),
    ),
}


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch 2.11 warns of its own compiler
@pytest.mark.parametrize("name", NAMES)
def test_name_is_there(name):
    assert NAMES[name].is_there(), f"{name} is gone; it served {NAMES[name].purpose}"


def test_every_private_name_that_is_used_is_listed():
    used = {name: path for path in files() for name in private_names(path)}
    new = {name: str(path) for name, path in used.items() if name not in NAMES}
    assert not new, "list what each is used for, and whether its loss would be noticed"
    # `_last_lr` is a key of a dictionary, which cannot be seen to be torch's.
    assert NAMES.keys() - used.keys() == {"_last_lr"}, "no longer used"
    assert '"_last_lr"' in (ROOT / "normexp/training/replicas/replica_checkpoint.py").read_text()


def files() -> Iterator[Path]:
    for folder in (*OURS, "scripts"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield ROOT / "train.py"


def private_names(path: Path) -> set[str]:
    """Private names that a file uses and does not define: attributes, also those asked for by text, and imports."""
    used, own = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                own.add(name)
            case ast.Attribute(attr=name):
                used.add(name)
            case ast.Call(func=ast.Name(id=asks), args=[_, ast.Constant(value=str(name)), *_]) if (
                asks in ASKS
            ):
                used.add(name)
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] not in OURS:
                used |= {module} | {alias.name for alias in names}
            case ast.Import(names=names):
                used |= {alias.name for alias in names if alias.name.split(".")[0] not in OURS}
    return {name for name in used - own - PYTHON if is_private(name)}


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def test_scan_finds_every_way_of_using_a_name(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(
        "from torch import _a\nfrom torch._b import c\nimport torch._d\nfrom normexp._ours import x\nx._e\nx._f = 1\n"
        "getattr(x, '_g', None)\nself._h()\nself._own = 1\nself._own\nx.__class__\nmean._asdict()\nx._i.y\n"
    )
    assert private_names(path) == {"_a", "torch._b", "torch._d", "_e", "_f", "_g", "_h", "_i"}


def test_no_class_of_ours_takes_a_private_name_of_its_base():
    """It would replace a part of the library in silence."""
    for path in (ROOT / "normexp").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
    taken = {
        f"{own.__name__}.{name} of {base.__name__}"
        for own in subclasses(
            nn.Module, pl.Callback, pl.LightningDataModule, Logger, ResumedEpochLoop.__base__
        )
        for base in own.__mro__
        if not ours(base) and base is not object
        for name in set_by(own) & set_by(base)
    }
    assert not taken


def subclasses(*bases: type) -> set[type]:
    found = {child for base in bases for child in base.__subclasses__()}
    return {child for child in found if ours(child)} | (subclasses(*found) if found else set())


def ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] in OURS


def set_by(kind: type) -> set[str]:
    """The private names that a class gives itself or its instances."""
    names = set(re.findall(r"self\.(_[a-z]\w*)(?:: [^=\n]+)? = ", inspect.getsource(kind))) | set(vars(kind))
    return {name for name in names if is_private(name) and not name.startswith(("_abc_", "_is_protocol"))}

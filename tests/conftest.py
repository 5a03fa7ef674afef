"""Shared fixtures. Threads are limited before torch is imported: processes that spin on the same cores take 20 times
as long."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import gc
import signal
from collections.abc import Callable, Iterator

import pytest
from unsynced import leave_to_the_kernel

# Their tests take longest.
LONG = {
    "test_claim_files", "test_configs", "test_crashes", "test_from_python", "test_fuzzed_overrides",
    "test_norm_contract", "test_sweep_commands",
}  # fmt: skip
SMALL = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16", "max_epochs=2"]


def pytest_configure(config: pytest.Config) -> None:
    """Tests are no tasks of Slurm, even where it started pytest. They answer Ctrl-C, even where pytest was started in
    the background by a shell that ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        del os.environ[name]
    leave_to_the_kernel()
    gc.disable()
    # After pytest's own search for garbage. At the end, Python takes libraries down in their order.
    config.add_cleanup(gc.unfreeze)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first: at the end no process is alone with one. (xdist keeps this order; see pyproject.toml.)"""
    items.sort(key=lambda item: item.path.stem not in LONG)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no later search for garbage, of which libraries ask for some, walks it."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def environment_is_as_it_was() -> Iterator[None]:
    """No test reads what an earlier one wrote into the environment, in whatever order they run."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    for name in after.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before.items() - after.items())


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """What tests decode lies in no cache of the user's."""
    os.environ["NORMEXP_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def make_parts(tmp_path) -> Callable:
    """Build the parts of a small run on digits that goes to `tmp_path/outputs`; overrides as on the command line."""
    from normexp.config.run_spec import specs
    from normexp.training.build import build

    def make(*overrides: str):
        return build(specs([*SMALL, f"outputs={tmp_path / 'outputs'}", *overrides])[0])

    return make


@pytest.fixture
def train(make_parts) -> Callable:
    """Train a small run; returns (summary, folder). Callbacks may be added to watch or to disturb."""
    from normexp.training.train import launch

    def run(*overrides: str, callbacks=()):
        parts = make_parts(*overrides)
        parts.monitors.extend(callbacks)
        return launch(parts), parts.spec.folder

    return run


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads of torch."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)

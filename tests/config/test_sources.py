"""What a run records of its code: everything that its classes reach, and nothing else."""

import ast
import inspect
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked import call

from normexp.config.code import record
from normexp.config.code.canonical import digest
from normexp.config.code.imports import Code
from normexp.config.code.names import bindings
from normexp.config.code.record import (
    BUT,
    LEFT_OUT,
    MEASURING,
    REPLICAS,
    ROOTS,
    TRAINING,
    all_targets,
    sources,
)
from normexp.training.launch import launch, launch_replicas

ROOT = Path(__file__).parents[2]
CONFIG = {
    "norm": {"_target_": "normexp.norms.RMSNorm", "eps": 1e-5},
    "optimizer": {"_target_": "torch.optim.SGD"},
    "trainer": {"_target_": "pytorch_lightning.Trainer"},
    "monitor": {"a": {"_target_": "own_code.Watch"}, "b": None},
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a user's own files below a folder where Python finds them."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(files: dict[str, str]) -> Code:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(record, "HERE", Code(ROOT))
        return record.HERE

    return write


def reached(code: Code, name: str) -> set[str]:
    return set(code.files(name))


def test_files_of_the_project_and_of_users_are_recorded(own):
    own({"own_code.py": "class Watch: pass"})
    assert list(sources(CONFIG)) == ["normexp.norms.RMSNorm", "normexp.training", "own_code.Watch"]


def test_process_that_is_forked_reads_no_code(make_parts):
    """The server that forks jobs has read it."""
    config = make_parts("norm=batchnorm", "monitor=light").config
    here = Code(ROOT)
    expected = {name: here.digest(name) for name in ("normexp.norms.BatchNorm", "normexp.data.Digits")}
    found = call(print_code, config)
    assert found.returncode == 0, found.stderr
    read, digests = json.loads(found.stdout)
    assert read == 0
    assert digests == sources(config)
    assert digests == digests | expected


def print_code(config):
    before = record.HERE.read.tree.cache_info().misses
    digests = sources(config)
    print(json.dumps([record.HERE.read.tree.cache_info().misses - before, digests]))


def test_class_that_is_gone_is_not_recorded(own):
    own({"own_code.py": "class Other: pass"})
    assert list(sources(CONFIG)) == ["normexp.norms.RMSNorm", "normexp.training"]


@pytest.mark.parametrize(
    ("norm", "there", "not_there"),
    [
        ("RMSNorm", {"norms.rms_norm", "norms.functional", "norms.base"}, {"norms.batch_norm"}),
        ("LayerNorm", {"norms.kernels.sample_kernels", "norms.functional"}, {"norms.rms_norm"}),
        (
            "SyncBatchNorm",
            {"norms.sync_batch_norm", "norms.batch_norm", "norms.functional"},
            {"norms.rms_norm"},
        ),
    ],
)
def test_norm_reaches_the_mathematics_and_no_other_norm(norm, there, not_there):
    found = {name.removeprefix("normexp.") for name in Code(ROOT).files(f"normexp.norms.{norm}")}
    assert there <= found
    assert not not_there & found


def test_training_reaches_what_trains_and_no_norm():
    found = set(Code(ROOT).files(*ROOTS[TRAINING], without=LEFT_OUT, but=BUT))
    assert {
        "normexp.training.build",
        "normexp.lit_model",
        "normexp.training.fit",
        "normexp.training.recorder",
    } <= found
    assert set(BUT) <= found
    aside = ("normexp.config", "normexp.monitors", "normexp.training.replicas")
    assert not [name for name in found - set(BUT) if name.startswith(aside)]
    assert "normexp.norms.rms_norm" not in found


def test_names_in_the_lists_exist():
    code = Code(ROOT)
    for name in (MEASURING, *LEFT_OUT, *BUT, *(root for roots in ROOTS.values() for root in roots)):
        assert code.files(name), name


WITNESS = """
import importlib, sys, types
for package in ("normexp", "normexp.norms", "normexp.norms.kernels", "normexp.models"):
    sys.modules[package] = types.ModuleType(package)  # so that no __init__ imports what the classes do not need
    sys.modules[package].__path__ = [package.replace(".", "/")]
for module in sys.argv[1:]:
    importlib.import_module(module)
print(*(n for n, m in sys.modules.items() if n.startswith("normexp") and getattr(m, "__file__", None)))
"""


def test_python_loads_what_was_read():
    """An independent witness: the modules that Python loads where those that define some classes are imported."""
    code = Code(ROOT)
    defining = {
        "norms.SyncBatchNorm": "sync_batch_norm",
        "models.GPT": "gpt",
        "norms.LayerNorm": "layer_norm",
    }
    modules = [f"normexp.{target.split('.')[0]}.{module}" for target, module in defining.items()]
    command = [sys.executable, "-c", WITNESS, *modules]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == set(code.files(*(f"normexp.{target}" for target in defining)))


AROUND = {"folder", "launch", "screen", "survive"}
# Functions have this flag; the bodies of modules and classes, which run when they are imported, do not.
MADE_BY_CALLS = inspect.CO_NEWLOCALS


@pytest.mark.parametrize("trained_by", [TRAINING, REPLICAS])
def test_what_a_run_executes_is_counted_or_stands_around_it(make_parts, trained_by):
    """Another witness: the files whose functions are called while a run is built and trained. Those that are neither
    counted nor left out by name lock its folder, talk to people, answer signals, and choose who trains."""
    called = set()

    def notice(frame, event, _):
        if event == "call" and frame.f_code.co_flags & MADE_BY_CALLS:
            called.add(frame.f_code.co_filename)

    seeds = (0,) if trained_by == TRAINING else (0, 1)
    sys.setprofile(notice)
    try:
        parts = [make_parts("model=transformer", "max_steps=1", f"seed={seed}") for seed in seeds]
        launch(parts[0]) if trained_by == TRAINING else launch_replicas(parts)
    finally:
        sys.setprofile(None)
    paths = [Path(name).relative_to(ROOT) for name in called if name.startswith(str(ROOT / "normexp"))]
    modules = {".".join(path.with_suffix("").parts) for path in paths}
    counted = set(record.HERE.files(*ROOTS[trained_by], without=LEFT_OUT, but=BUT))
    for name in all_targets(parts[0].config):
        counted |= set(record.HERE.files(name)) if name.startswith("normexp.") else set()
    left_out = {name for name in modules if f"{name}.".startswith(tuple(f"{part}." for part in LEFT_OUT))}
    trained = {"normexp.models.attention", "normexp.lit_model", "normexp.training.epoch_loop"}
    assert trained <= counted & modules
    around = {name.removeprefix("normexp.training.") for name in modules - counted - left_out}
    # They write for people, and notice that nobody reads.
    assert around <= AROUND | {"normexp.counted", "normexp.unseen"}


def test_every_import_within_the_project_leads_to_a_file():
    """Else a file would be left out in silence."""
    code = Code(ROOT)
    for path in (ROOT / "normexp").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        for _, source, wanted in bindings(code.read.tree(name), name, path.stem == "__init__"):
            if source.split(".")[0] == "normexp":
                assert code.read.path(source), (path, source)
                is_name = wanted and wanted != "*" and not wanted.startswith("__")
                assert not is_name or code._has(source, wanted) or code.read.path(f"{source}.{wanted}"), (
                    path,
                    wanted,
                )


A_AND_B = {"pack/a.py": "class A: pass", "pack/b.py": "class B: pass"}
HANDS_ON = '"""Norms."""\nfrom .a import A\nfrom .b import B\n__all__ = ["A", "B"]\n__version__ = "1"\n'


def test_imports_are_followed_wherever_they_stand(own):
    files = {
        "pack/__init__.py": "from pack.norm import Norm",
        "pack/norm.py": "from .base import Base\nclass Norm(Base):\n    def f(self):\n        from pack import late",
        "pack/base.py": "import torch, pack.deep\nfrom normexp.norms.functional import rms_norm\nclass Base: pass",
        "pack/deep.py": "from . import deeper as d",
        **{f"pack/{name}.py": "" for name in ("late", "deeper", "unrelated")},
    }
    found = own(files).files("pack.Norm").keys()
    assert {f"pack.{name}" for name in ("norm", "base", "late", "deep", "deeper")} <= found
    assert "normexp.norms.functional" in found
    assert not {"pack.unrelated", "torch"} & found


def test_modules_beside_a_users_own_are_followed_and_libraries_are_not(own):
    code = own({"norm_of_mine.py": "import scipy, json, helper\nclass Norm: pass", "helper.py": "x = 1"})
    assert code.files("norm_of_mine.Norm").keys() == {"norm_of_mine", "helper"}


def test_file_that_this_python_cannot_read_counts_as_it_is(own):
    broken = {"own_code.py": "import newer\nclass Watch: pass", "newer.py": "def f[T](: ...  # newer"}
    first = own(broken).digest("own_code.Watch")
    assert first == own(broken).digest("own_code.Watch")
    assert first != own({**broken, "newer.py": "def f[T](: ...  # other"}).digest("own_code.Watch")


@pytest.mark.parametrize(
    ("init", "reached"),
    [
        (HANDS_ON, {"pack.a"}),
        (HANDS_ON + "LIST = [B]\n", {"pack.a", "pack.__init__", "pack.b"}),  # it does something with B
        ("from .a import *\n", {"pack", "pack.a"}),
        ("def __getattr__(name): ...\n", {"pack", "pack.a", "pack.b"}),  # it may take A from anywhere
    ],
)
def test_package_counts_by_what_it_does_besides_importing_names(own, init, reached):
    assert own({"pack/__init__.py": init, **A_AND_B}).files("pack.A").keys() == reached


def test_package_that_is_imported_itself_is_followed_in_full(own):
    code = own({"pack/__init__.py": HANDS_ON, **A_AND_B, "user.py": "import pack\nclass C(pack.A): pass"})
    assert code.files("user.C").keys() == {"user", "pack", "pack.a", "pack.b"}


@pytest.mark.parametrize(
    "same",
    [
        "# a comment\nclass Watch:\n\n    every = (1,\n        2)\n    def f(self): pass\n",
        'class Watch:\n    """Said."""\n    every = 1, 2\n    def f(self):\n        """Said."""\n',
    ],
)
def test_comments_docstrings_and_layout_do_not_count(own, same):
    text = "class Watch:\n    every = (1, 2)\n    def f(self):\n        pass\n"
    first = own({"own_code.py": text}).digest("own_code.Watch")
    assert own({"own_code.py": same}).digest("own_code.Watch") == first


@pytest.mark.parametrize(
    "other", ["x = 1.0", "x = '1'", "x = -1", "y = 1", "x: int = 1", "x = 1\nx = 1", "x = None"]
)
def test_everything_else_counts(other):
    assert digest(ast.parse(other)) != digest(ast.parse("x = 1"))


EVERY_KIND = """
class A(B, c=1):
    s = f'{x!r:>{w}} {{}} {y["k"]}' 'more'
match x:
    case {'a': 1, **rest}: lambda *a, b=None, **k: (yield)
async def g(): return [1j, b'', ..., 1e-5]
"""


def test_digest_is_the_same_under_every_python():
    """Written by 3.11 and equal under 3.12 and 3.13, which read f-strings in another way and have more fields."""
    assert digest(ast.parse(EVERY_KIND)) == "c9dfa1fc8e74"


def test_reading_is_quick(train):
    """Once a process the files are read; then a run costs microseconds."""
    config = train("norm=rmsnorm", "max_steps=0")[0]["config"]
    sources(config)
    started = time.perf_counter()
    for _ in range(100):
        sources(config)
    assert (time.perf_counter() - started) / 100 < 2e-3


def test_run_records_its_code(train):
    summary, _ = train("norm=rmsnorm", "max_steps=0")
    assert summary["sources"] == sources(summary["config"])
    own = {name for name in all_targets(summary["config"]) if name.startswith("normexp.")}
    assert summary["sources"].keys() == own | {TRAINING}

"""What a run records of its code: every part of normexp that computes, and the user's own classes."""

import ast
import inspect
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked import call

from normexp.config.code import parts, sources
from normexp.config.code.parts import BUT, LEFT_OUT, MONITORS, NORMEXP, ROOT, digest, named_parts, own_digest
from normexp.training.train import launch


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a user's own files below a folder where Python finds them, and read the code of one class anew."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(files: dict[str, str], name: str) -> str | None:
        for file, text in files.items():
            path = tmp_path / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        parts._tree.cache_clear()
        return own_digest(name)

    return write


def test_run_records_the_rooms_that_compute_and_its_own_classes(own):
    own({"own_code.py": "class Watch: pass"}, "own_code.Watch")
    config = {
        "norm": {"_target_": "normexp.norms.RMSNorm"},
        "optimizer": {"_target_": "torch.optim.SGD"},
        "monitor": {"a": {"_target_": "own_code.Watch"}, "b": None},
        "model": {"_target_": "own_code_that_is_gone.Model"},
    }
    assert sources(config).keys() == {NORMEXP, MONITORS, "own_code.Watch"}
    assert sources({**config, "monitor": None}).keys() == {NORMEXP}


def test_summary_holds_the_record(train):
    summary, _ = train("norm=rmsnorm", "max_steps=0")
    assert summary["sources"] == sources(summary["config"])


def test_process_that_is_forked_reads_no_code():
    """The server that forks jobs has read it, so a job records the code that it was forked with."""
    found = call(print_record, None)
    assert found.returncode == 0, found.stderr
    read, record = json.loads(found.stdout)
    assert read == 0
    assert record == {NORMEXP: parts.parts(NORMEXP)}


def print_record(_):
    before = parts._tree.cache_info().misses
    record = sources({})
    print(json.dumps([parts._tree.cache_info().misses - before, record]))


def test_wheel_has_the_digests_of_its_checkout(tmp_path):
    """They depend on the files alone, not on where they lie."""
    shutil.copytree(ROOT / "normexp", tmp_path / "normexp", ignore=shutil.ignore_patterns("__pycache__"))
    for room in (NORMEXP, MONITORS):
        assert named_parts(tmp_path, room) == named_parts(ROOT, room)
    code = "from normexp.config.code.parts import parts; import sys; print(parts('normexp'), 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert found.stdout.split() == [parts.parts(NORMEXP), "False"]


def test_names_in_the_lists_exist():
    for name in (*LEFT_OUT, *BUT):
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"{name} is gone; correct the lists"
    for room, names in parts.ROOMS.items():
        modules = set(named_parts(ROOT, room).values())
        for name in names:
            assert any(f"{module}.".startswith(f"normexp.{name}.") for module in modules), name


MADE_BY_CALLS = inspect.CO_NEWLOCALS  # functions have this flag; bodies of modules and classes do not


@pytest.mark.integration
def test_what_a_run_executes_is_counted_or_left_out_by_name(make_parts):
    """A witness: the files whose functions are called while a run is built and trained."""
    called = set()

    def notice(frame, event, _):
        if event == "call" and frame.f_code.co_flags & MADE_BY_CALLS:
            called.add(frame.f_code.co_filename)

    sys.setprofile(notice)
    try:
        launch(make_parts("model=transformer", "max_steps=1"))
    finally:
        sys.setprofile(None)
    paths = [Path(name).relative_to(ROOT) for name in called if name.startswith(str(ROOT / "normexp"))]
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}
    counted = set(named_parts(ROOT, NORMEXP).values())
    left_out = {name for name in modules if f"{name}.".startswith(tuple(f"{part}." for part in LEFT_OUT))}
    assert {"normexp.models.transformer", "normexp.lit_model"} <= counted & modules
    assert modules - counted - left_out <= {"normexp.format"}


# A user's own package.


def test_own_class_counts_what_it_reaches_in_its_package_and_beside_it(own):
    files = {
        "pack/__init__.py": "from pack.norm import Norm",
        "pack/norm.py": "from .base import Base\nclass Norm(Base):\n    def f(self):\n        from pack import late",
        "pack/base.py": "import torch, pack.deep, helper\nclass Base: pass",
        "pack/deep.py": "from . import deeper as d",
        **{f"pack/{name}.py": "" for name in ("late", "deeper", "unrelated")},
        "helper.py": "x = 1",
    }
    first = own(files, "pack.Norm")
    assert first == own({**files, "pack/unrelated.py": "x = 2"}, "pack.Norm")
    for name in ("pack/__init__", "pack/norm", "pack/base", "pack/late", "pack/deeper", "helper"):
        assert own({**files, f"{name}.py": files[f"{name}.py"] + "\ny = 2"}, "pack.Norm") != first, name
    assert own({}, "no_such_package.Norm") is None


def test_file_that_this_python_cannot_read_counts_as_it_is(own):
    broken = {"own_new.py": "import newer\nclass Watch: pass", "newer.py": "def f[T](: ...  # newer"}
    first = own(broken, "own_new.Watch")
    assert first == own(broken, "own_new.Watch")
    assert first != own({**broken, "newer.py": "def f[T](: ...  # other"}, "own_new.Watch")


# The digest of a file.

TEXT = "class Watch:\n    every = (1, 2)\n    def f(self):\n        pass\n"


@pytest.mark.parametrize(
    "same",
    [
        "# a comment\nclass Watch:\n\n    every = (1,\n        2)\n    def f(self): pass\n",
        'class Watch:\n    """Said."""\n    every = 1, 2\n    def f(self):\n        """Said."""\n',
    ],
)
def test_comments_docstrings_and_layout_do_not_count(same):
    assert digest(ast.parse(same)) == digest(ast.parse(TEXT))


@pytest.mark.parametrize(
    "other", ["x = 1.0", "x = '1'", "x = -1", "y = 1", "x: int = 1", "x = 1\nx = 1", "x = None"]
)
def test_everything_else_counts(other):
    assert digest(ast.parse(other)) != digest(ast.parse("x = 1"))


def test_folder_of_an_imported_file_does_not_count_and_its_name_does():
    one, moved, other, theirs = (
        digest(ast.parse(f"from {module} import f\nimport {module}"))
        for module in (
            "normexp.norms.kernels.rms",
            "normexp.norms.rms",
            "normexp.norms.mine",
            "own.norms.rms",
        )
    )
    assert one == moved
    assert len({one, other, theirs}) == 3


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
    started = time.process_time()
    for _ in range(100):
        sources(config)
    assert (time.process_time() - started) / 100 < 2e-3

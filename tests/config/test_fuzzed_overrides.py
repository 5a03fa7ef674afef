"""Any list of overrides is a run that could start, or is refused in one line before anything is written."""

import contextlib
import io
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from normexp.cli import train
from normexp.config import process as cli
from normexp.config.compose import compose
from normexp.config.errors import one_line_errors
from normexp.config.folder import ALLOWED, CONFIGS, allow_from
from normexp.config.options import choices
from normexp.config.run_spec import specs
from normexp.training.build import build

OFFLINE = ["digits", "text_file", "python_docs", "image_folder", "module"]
GROUPS = {
    group: sorted(choices(group))
    for group in ("model", "norm", "optimizer", "schedule", "monitor", "trainer", "recipe", "logger")
} | {"data": OFFLINE}
WORDS = [
    "null", "true", "-1", "0", "1", "2", "7", "1e-3", "0.5", "1.5", "1e400", "nan", "-inf", "1000000000", str(10**30),
    "[]", "[1,2]", "[a,b]", "[[1]]", "[null]", "{}", "{a: 1}", "{a: {b: [1]}}", "''", "'a b'", "'\\n'", "'\\x1b[2J'",
    "'$x$'", "'[/red]'", "relu", "sgd", "torch.nn.Linear", "os.system", "this.x", "builtins.eval", "normexp.models.MLP",
    "normexp.norms", "..", "/dev/null/x", "${seed}", "${model}", "${nothing}", "${oc.env:HOME}", "${lr", "a,b", "{",
    "'", "batch_size", "1:2", "0x10", "1_000", "٣", "ñ", "a=b", "=", "@", "x" * 300,
]  # fmt: skip


def keys(node: Any, path: str = "") -> list[str]:
    """Each key of a configuration, inner ones joined by dots."""
    if not isinstance(node, dict):
        return []
    names = [f"{path}{key}" for key in node]
    return names + [deeper for key, value in node.items() for deeper in keys(value, f"{path}{key}.")]


def tree() -> list[str]:
    """The keys of two whole configurations and of every norm."""
    found: dict[str, None] = {}
    other = "monitor=full model=gpt data=python_docs optimizer=adamw recipe=plain trainer=ddp"
    for overrides in ([], other.split()):
        cfg, _ = compose(overrides)
        found |= dict.fromkeys(keys(OmegaConf.to_container(cfg, resolve=False)))
    for norm in GROUPS["norm"]:
        node = yaml.safe_load((CONFIGS / "norm" / f"{norm}.yaml").read_text())
        found |= dict.fromkeys(keys({"norm": node}))
    return list(found)


# Only the process that draws an example composes.
KEYS = st.deferred(lambda: st.sampled_from(tree()))
WORD = st.sampled_from(WORDS) | st.text(string.printable.strip() + "ñ ", max_size=6)
NUMBER = st.integers(-3, 300).map(str) | st.floats(-2, 2).map(str)
OVERRIDES = st.lists(
    st.one_of(
        st.builds("{}={}".format, KEYS, WORD | NUMBER),
        st.builds("{}={}".format, KEYS, WORD | NUMBER),
        st.sampled_from([f"{group}={name}" for group, names in GROUPS.items() for name in names]),
        st.builds("{}={}".format, st.sampled_from(sorted(GROUPS)), WORD),
        st.builds("{}{}={}".format, st.sampled_from(["+", "++", "~"]), KEYS, WORD),
        KEYS.map("~{}".format),
        st.builds("+{}.new={}".format, KEYS, WORD),
        st.text(string.printable, max_size=12),
    ),
    min_size=1,
    max_size=4,
)


def launch_until_the_first_step(arguments: list[str]) -> None:
    """What the command does until a run would begin, with its ways to say what is wrong."""
    if mistake := train.find_mistake(arguments, [], many=False):
        cli.fail(mistake, cli.BAD_INPUT)
    with one_line_errors():
        allow_from(arguments)
        build(*specs(arguments))


def check(arguments: list[str]) -> None:
    said, printed = io.StringIO(), io.StringIO()
    before = set(Path().rglob("*"))
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        try:
            launch_until_the_first_step(arguments)
            code = 0
        except SystemExit as stop:
            code = stop.code
    text = said.getvalue().removesuffix("\n")
    # An error of the program, and not of the user's, ends with another status.
    assert code in (0, cli.BAD_INPUT), text
    if code:
        assert text.startswith("Error: ")
        assert text.isprintable(), text
        assert len(text) < 2000, text
    assert set(Path().rglob("*")) == before


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to stand in; packages that an example allowed are forgotten after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ALLOWED, "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


SAME_PLACE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("argument", ["\t0", "a=\x1b[2J", "norm=\u2028x"])
def test_signs_that_move_the_cursor_are_written_out(place, argument):
    check([argument])


@pytest.mark.integration
@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=SAME_PLACE)
@given(arguments=OVERRIDES)
def test_forty_lists_of_overrides(place, arguments):
    check(arguments)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=300, deadline=None, database=None, print_blob=True, suppress_health_check=SAME_PLACE)
@given(arguments=OVERRIDES)
def test_three_hundred_lists_of_overrides(place, arguments):
    check(arguments)

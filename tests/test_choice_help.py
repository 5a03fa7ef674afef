"""Help of one choice, one group, one key, and the columns that all help stands in."""

import re

import pytest
from hydra.utils import get_class

from normexp.cli import train
from normexp.cli.help import columns, docstrings, explain, help_text, sections
from normexp.config.options import CONFIGS, GROUPS, all_options, choices, key_rows
from normexp.monitors import Activations
from normexp.norms import BatchNorm


def test_columns_stand_under_each_other_and_break_at_words():
    rows = {
        "a=1": "one two three four five six seven eight",
        "longer=22": "short",
        "x" * 60: "of a long name",
    }
    lines = columns(rows, 38)
    assert lines[0] == "  a=1        one two three four five"
    assert lines[1] == "             six seven eight"
    assert lines[2] == "  longer=22  short"
    assert lines[3:] == ["  " + "x" * 60, "             of a long name"]
    assert columns(rows)[0].endswith("eight")  # without a width nothing is broken


def test_a_comment_of_several_lines_is_whole():
    texts = {name: text for name, (_, text) in key_rows().items()}
    assert "pays for long runs" in texts["compile"]
    assert "reduce-overhead" in texts["compile"]
    lines = [
        line for line in (CONFIGS / "train.yaml").read_text().splitlines() if line.startswith(" " * 20 + " ")
    ]
    for line in lines:
        assert line.strip("# ") in help_text()


def test_keys_are_shown_as_typed_and_in_one_column():
    text = help_text()
    assert "???" not in text
    keys = text.partition("Keys (key=value):")[2].splitlines()
    starts = {
        re.match(r"  \S+(?: \S+)*?  +", line).end() for line in keys if re.match(r"  \S.{0,48}?  +\S", line)
    }
    assert len(starts) == 1


@pytest.mark.parametrize("word", [f"{group}={name}" for group in GROUPS for name in choices(group)])
def test_every_choice_is_explained_with_all_its_options(word):
    group, name = word.split("=")
    text = explain(word, 100)
    assert choices(group)[name] in text
    for option, (value, _) in all_options(group, name).items():
        assert f"{option}={value}" in text
    assert not [line for line in text.splitlines() if line.startswith(("Args:", "Raises:"))]


def test_options_have_the_values_that_hydra_composes_and_words_from_yaml_or_docstring():
    options = all_options("norm", "batchnorm")
    assert options["norm.eps"][0] == "1.0e-5"
    assert options["norm.correction"][0] == "0"
    text = explain("norm=batchnorm")
    assert re.search(r"norm\.ema_keep=0\.9 +running = ema_keep", text)  # the yaml's comment
    assert re.search(r"norm\.correction=0 +0 divides the sum of squares by n", text)  # the base's docstring
    assert all_options("trainer", "bf16") == all_options("trainer", "auto") | {
        "trainer.precision": ("bf16-mixed", "")
    }
    assert all_options("monitor", "full")["monitor.activations.statistics"][0].startswith(
        "[mean, std, skew, "
    )


@pytest.mark.parametrize("target", ["normexp.norms.BatchNorm", "normexp.monitors.Activations"])
def test_docstrings_are_read_as_python_reads_them(target):
    """Without an import; the class itself is the witness."""
    found = docstrings(target)
    classes = [c for c in get_class(target).__mro__ if c.__module__.startswith("normexp") and c.__doc__]
    assert [text.split("\n")[0] for text in found] == [c.__doc__.strip().split("\n")[0] for c in classes]
    assert {BatchNorm, Activations} >= {get_class(target)}
    assert docstrings("torch.optim.SGD") == []


def test_sections_of_a_docstring_are_options_and_the_rest_is_prose():
    text = "First.\n\nMore.\n\nArgs:\n    a: one\n        two.\n    b, c: both.\n\nLast."
    assert sections(text) == ("First.\n\nMore.\n\nLast.", {"a": "one two.", "b": "both.", "c": "both."})


@pytest.mark.parametrize(
    ("word", "said"), [("norm=bachnorm", "did you mean batchnorm"), ("nrm", "did you mean norm")]
)
def test_help_for_what_there_is_not_is_one_line(word, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        train.show_help(["--help", word])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_a_claim_is_sent_to_the_command_that_judges_it():
    assert "write python scripts/verify.py claim=S36" in train.find_mistake(["claim=S36"])

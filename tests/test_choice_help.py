"""Help of one choice, one group, one key, and the columns that all help stands in."""

import re

import pytest

from normexp.cli import train
from normexp.cli.help import explain
from normexp.config.options import GROUPS, all_options, choices


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


@pytest.mark.parametrize(
    ("word", "said"), [("norm=bachnorm", "did you mean batchnorm"), ("nrm", "did you mean norm")]
)
def test_help_for_what_there_is_not_is_one_line(word, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        train.show_help(["--help", word])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err

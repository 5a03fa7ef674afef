"""Help of one choice, one group, one key, and all."""

import pytest
from refusals import refused

from normexp.cli import train
from normexp.cli.help import explain, help_text
from normexp.config.options import GROUPS, choices


@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_has_a_first_comment_which_all_help_shows(group):
    text = help_text()
    for name, comment in choices(group).items():
        assert comment, f"configs/{group}/{name}.yaml needs a first comment"
        assert name in text
        assert comment in text
        assert comment in explain(f"{group}={name}")


def test_a_choice_is_explained_by_its_file_and_its_class():
    text = explain("norm=batchnorm")
    assert "ema_keep: 0.9  # running = ema_keep" in text
    assert "0 divides the sum of squares by n" in text  # the base's docstring
    assert explain("lr").startswith("lr=VALUE")


@pytest.mark.parametrize(
    ("word", "said"), [("norm=bachnorm", "did you mean batchnorm"), ("nrm", "did you mean norm")]
)
def test_help_for_what_there_is_not_is_one_line(word, said):
    with refused(said):
        train.train(["--help", word])

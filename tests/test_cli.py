"""Hints, one-line errors and help of one choice, as functions; whole commands are in test_commands.py."""

import gc
import signal

import pytest
from hydra.core.global_hydra import GlobalHydra
from refusals import refused

from normexp.cli import train
from normexp.cli.help import explain, help_text
from normexp.config import folder
from normexp.config.compose import compose
from normexp.config.errors import NOTHING_YET, one_line, one_line_errors
from normexp.config.options import GROUPS, choices

WORD_OF_ITS_OWN = "cannot be read; write each setting as a word of its own"
SLIPS = [
    ("depth", "depth: arguments have the form key=value, for example norm=layernorm"),
    ("norm=LayerNorm", "norm=LayerNorm: no such choice; did you mean layernorm?"),
    ("norm=batch_norm", "did you mean batchnorm?"),
    ("optimizer=sdg", "did you mean sgd? choose from: adam, adamw, "),
    ("norm=batchnorm,layernorm", "norm=batchnorm,layernorm: several values make a sweep; add -m"),
    ("seed=range(3)", "seed=range(3): several values make a sweep; add -m: normexp train -m 'seed=range(3)'"),
    ("norm=[none,batchnorm]", "norm=[none,batchnorm]: a run has one norm; a sweep has several: -m norm=none,batchnorm"),
    ("+norm=[[layernorm]]", "choices are names; write norm=NAME"),
    ("norm=null", "norm=null: choices are names; write norm=NAME"),
    ("data=[0]", "data=[0]: choices are names; write data=NAME"),
    ("data=[]", "data=[]: chooses nothing; write data=NAME"),
    ("monitor=[]", "monitor=[]: chooses nothing; write monitor=none"),
    ("~lr", "~lr: a run needs one; write lr=VALUE instead"),
    ("~norm", "~norm: a run needs one; write norm=NAME instead"),
    ("data=[0", f"data=[0: {WORD_OF_ITS_OWN}, close quotes and brackets"),
    ("lr=0.1 seed=1", f"lr=0.1 seed=1: {WORD_OF_ITS_OWN}"),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "message"), SLIPS)
def test_slip_that_hydra_finds_gets_a_hint(argument, message):
    with pytest.raises(Exception) as error:  # of Hydra's types  # noqa: PT011
        compose([argument])
    assert message in one_line(error.value)


def test_unexpected_error_says_how_to_see_more():
    assert one_line(RuntimeError("boom")) == "RuntimeError: boom (HYDRA_FULL_ERROR=1 shows where)"


def test_interruption_that_an_import_turned_into_another_error_is_reported_as_one(capsys):
    """As importing numpy does when Ctrl-C comes at the wrong moment."""

    def imported():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise AttributeError("no attribute '_multiarray_umath'") from None

    with pytest.raises(SystemExit) as stopped, one_line_errors(), one_line_errors():
        imported()
    assert stopped.value.code == 130
    assert capsys.readouterr() == ("", f"{NOTHING_YET}\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size=8"], "write batch_size=8"),
        (["seed=0", "-m", "hydra.sweep.dir=x"], "hydra.sweep.dir=x: is not read; write outputs=x"),
        (["--cfg", "nothing"], "invalid choice"),
    ],
)
def test_slip_gets_a_hint(arguments, message):
    with refused(message):
        train.train(arguments)


def test_flags_may_stand_between_the_words(monkeypatch, tmp_path):
    words = ["norm=none", "-m", "seed=0,1", "--config-dir", str(tmp_path), "name=x", "--workers", "2"]
    seen: list = []
    monkeypatch.setenv(folder.ALLOWED, "")
    monkeypatch.setenv(folder.VARIABLE, "")
    monkeypatch.setattr(train, "sweep", lambda *given: seen.extend(given))
    assert train.main(words) == 0
    assert seen == [["norm=none", "seed=0,1", "name=x", "hydra.launcher.workers=2"], str(tmp_path)]


def test_python_collects_garbage_while_a_run_trains(monkeypatch, tmp_path):
    seen: list[bool] = []
    monkeypatch.setattr("normexp.training.train.train", lambda *_: seen.append(gc.isenabled()))
    train.run(["norm=none", f"outputs={tmp_path}"])
    assert seen == [True]


def test_a_process_may_call_a_command_twice(capsys):
    for seed in (3, 4):
        assert train.main(["--cfg", "job", f"seed={seed}"]) == 0
        assert f"\nseed: {seed}\n" in f"\n{capsys.readouterr().out}"
    GlobalHydra.instance().clear()


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

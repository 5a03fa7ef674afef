"""Hints and one-line errors, as functions; the whole commands are tested in test_train.py."""

import signal

import pytest
from hydra._internal.utils import get_args_parser

from normexp.cli import help, train
from normexp.config import folder
from normexp.config.compose import compose
from normexp.config.errors import one_line, one_line_errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--norm", "layernorm"], "write norm=layernorm"),
        (["--norm=layernorm"], "write norm=layernorm"),
        (["--batch-size", "8"], "write batch_size=8"),
        (["hydra.run.dir=x"], "hydra.run.dir=x: is not read; write run_dir=x"),
        (["hydra.sweep.dir=x"], "hydra.sweep.dir=x: is not read; write run_dir=x"),
        (["-m", "hydra.run.dir=x"], "hydra.run.dir=x: is not read; write outputs=x"),
        (["experiment=depth", "++hydra.run.dir=x"], "is not read; write outputs=x"),
    ],
)
def test_slip_gets_a_hint(arguments, message):
    assert message in train.find_mistake(arguments)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("norm", "norm: a value is missing; write norm=VALUE; choose from: adanorm, "),
        ("depth", "depth: arguments have the form key=value, for example norm=layernorm"),
        ("norm=LayerNorm", "norm=LayerNorm: no such choice; did you mean layernorm?"),
        ("norm=batch_norm", "did you mean batchnorm?"),
        ("optimizer=sdg", "did you mean sgd? choose from: adam, adamw, "),
        ("norm=batchnorm,layernorm", "norm=batchnorm,layernorm: several values make a sweep; add -m"),
        ("data=[0]", "data=[0]: choices are names; write data=NAME"),
        (
            "norm=[none,batchnorm]",
            "norm=[none,batchnorm]: a run has one norm; a sweep has several: -m norm=none,batchnorm",
        ),
        (
            "monitor=[light, null]",
            "monitor=[light, null]: choices are names; write monitor=NAME, or monitor=[NAME,NAME] for several",
        ),
        ("+norm=[[layernorm]]", "choices are names; write norm=NAME"),
        ("norm=null", "norm=null: choices are names; write norm=NAME"),
        ("data=[0", "data=[0: Hydra cannot read this; close its quotes and brackets"),
        ("lr=interval(1)", "lr=interval(1): missing a required argument: 'end'"),
        ("lr=foo(1)", "lr=foo(1): Unknown function 'foo'; Available: bool,choice,"),
        ("lr=0.1 seed=1", "lr=0.1 seed=1: 2 settings in one word; write each as its own: lr=0.1 seed=1"),
    ],
)
def test_slip_that_hydra_finds_gets_a_hint(argument, message):
    with pytest.raises(Exception) as error:  # of Hydra's types  # noqa: PT011
        compose([argument])
    assert message in one_line(error.value)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["norm=layernorm", "model.depth=3"],
        ["-m", "norm=batchnorm,layernorm"],
        ["norm=glob(*)", "-m"],
        ["monitor=[none]"],
        ["monitor=[light,hessian]", "norm=[layernorm]", "preset=[]"],
        ["--cfg", "job"],
        ["--config-dir", "mine", "norm=mine"],
        ["experiment=null"],
        # what Lightning starts each further process of trainer=ddp with
        [
            "trainer=ddp",
            'hydra.run.dir="."',
            "hydra.job.name=train_ddp_process_1",
            "hydra.output_subdir=null",
        ],
    ],
)
def test_correct_arguments_get_no_hint(arguments):
    assert train.find_mistake(arguments) is None


def test_unexpected_error_says_how_to_see_more():
    assert one_line(RuntimeError("boom")) == "RuntimeError: boom (HYDRA_FULL_ERROR=1 shows where)"


def test_help_lists_every_choice_with_its_first_comment():
    text = help.help_text()
    for group in help.GROUPS:
        for name, comment in help.choices(group).items():
            assert comment, f"configs/{group}/{name}.yaml needs a first comment"
            assert name in text
            assert comment in text


def test_interruption_before_training_is_one_line_and_status_130(capsys):
    with pytest.raises(SystemExit) as stopped, one_line_errors():
        raise KeyboardInterrupt
    assert stopped.value.code == 130
    assert capsys.readouterr() == ("", "interrupted before training; nothing was written\n")


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
    assert capsys.readouterr().err == "interrupted before training; nothing was written\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_flags_may_stand_between_the_words(monkeypatch, tmp_path):
    """Hydra's parser takes words at one place only."""
    words = ["norm=none", "-m", "seed=0,1", "--config-dir", str(tmp_path), "name=x"]
    seen: list[str] = []
    monkeypatch.setenv(folder.ALLOWED, "")
    monkeypatch.setattr(train, "by_hydra", seen.extend)
    assert train.main(words) == 0
    found = get_args_parser().parse_args(seen)
    assert (found.multirun, found.config_dir) == (True, str(tmp_path))
    assert found.overrides == ["norm=none", "seed=0,1", "name=x"]

"""A broken claim file is one line that names file, key, value and remedy, and stops no other claim."""

import json
import re
from pathlib import Path

import pytest
from committed import text_of
from hydra.errors import OverrideParseException

from normexp.claims.judge.plain_words import with_scope
from normexp.claims.spec import select
from normexp.claims.spec.claim_files import load_claims, load_each, read_claim
from normexp.cli import verify as command
from normexp.config.errors import why

ROOT = Path(__file__).parents[2]
GOOD = """name: n
sentence: s
source: s
covers: [X91]
evidence: training
metric: test/accuracy
measure: m
arms: {a: [norm=none], b: [norm=rmsnorm]}
factor: {batch_size: [2, 4]}
seeds: 10
comparison: {kind: greater, arm: a, baseline: b, margin: 0.1}
"""


def read(text: str, folder: Path):
    path = folder / "X91.yaml"
    path.write_text(text)
    return read_claim(path)


def test_the_claim_that_is_broken_below_is_good(tmp_path):
    claim = read(GOOD, tmp_path)
    assert (claim.covers, claim.seeds, claim.comparisons[0].margin) == (("X91",), 10, 0.1)


@pytest.mark.parametrize(
    ("key", "line", "message"),
    [
        ("covers", "covers: X91", "covers=X91: must be a list of ids"),
        (
            "seeds",
            "seeds: [5, 10]",
            r"seeds=\[5, 10\]: must be a whole number such as 10",
        ),
        ("seeds", "seeds: five", "seeds=five: must be a whole number"),
        ("seeds", "seeds: true", "seeds=True: must be a whole number"),
        ("arms", "arms: [a, b]", r"arms=\['a', 'b'\]: must be names with overrides"),
        ("arms", "arms: {a: norm=none, b: [norm=rmsnorm]}", "arms.a=norm=none: must be names with overrides"),
        ("arms", "arms: {a: {p: 1}, b: [norm=rmsnorm]}", "arms.a=.*: must be a list"),
        ("seeds", "tune: {lr: [0.1]}", "tune: each seed takes its own best rate over settings"),
        ("seeds", "fixed: model=mlp", "fixed=model=mlp: must be a list of overrides"),
        ("seeds", "seconds: soon", "seconds=soon: must be a number"),
        ("seeds", "better: more", "better=more: must be lower or higher"),
        ("seeds", "full: {seeds: 5}", "full: larger settings are cells of a bank now; .* ask with bank=gpu"),
        ("name", "note: n", "name: is missing"),
        ("name", "name: 3", "name=3: must be text"),
        (
            "factor",
            "factor: {batch_size: [8, 8]}",
            r"factor.batch_size=\[8, 8\]: 8 stands there twice; keep one",
        ),
        ("factor", "factor: {batch_size: [8, 2, 8.0]}", "factor.batch_size=.*: 8.0 stands there twice"),
        ("factor", "factor: {seed: [1, 2]}", "factor=.*: sets the seed, .* give first_seed and seeds"),
        ("arms", "arms: {a: [norm=none, seed=3], b: [norm=rmsnorm]}", "arms.a=.*: sets the seed"),
        ("seeds", "fixed: [+seed=3]", "fixed=.*: sets the seed"),
        ("seeds", "settings: {a: [model=mlp, seed=3]}", "settings.a=.*: sets the seed"),
        (
            "seeds",
            "settings: {x: [model=mlp], y: [model=mlp]}",
            "settings: y has the overrides of x; keep one",
        ),
        (
            "arms",
            "arms: {a: [batch_size=4], b: [norm=rmsnorm]}",
            "arms.a=.*: the factor sets batch_size in every arm; leave it out",
        ),
        ("arms", "arms: {a: [norm=none], b: [norm=none]}", "arms.b=.*: arm a is the same; compare different"),
        ("metric", "metric: {a: test/loss}", "metric=.*: has none for arm b"),
        ("factor", "factor: {batch_size: 2}", "factor.batch_size=2: must be a name with its values"),
        ("comparison", "comparison: greater", "comparison=greater: must be like {kind: greater"),
        ("comparison", "comparison: {arm: a}", "comparison.kind: is missing; add it"),
    ],
)
def test_a_key_of_a_wrong_kind_is_one_line(key, line, message, tmp_path):
    text = re.sub(rf"^{key}:.*$", line, GOOD, flags=re.M)
    with pytest.raises(ValueError, match=rf"X91\.yaml: {message}") as error:
        read(text, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("comparison", "message"),
    [
        ("kind: greater, arm: a, baseline: b, margin: big", "comparison.margin=big: must be a number"),
        ("kind: greater, arm: a, baseline: b, margin: 1e-3", "margin=1e-3: .* 1.0e-3"),
        ("kind: greater, arm: a, baseline: b, margin: .nan", "comparison.margin=nan: must be a number"),
        ("kind: different, arm: a, baseline: b, margin: -1", "comparison.margin=-1: must be 0 or above"),
        ("kind: greater, arm: a, target: none", "comparison.target=none: must be a number"),
        ("kind: greater, arm: a, baseline: b, log: 2", "comparison.log=2: must be true or false"),
        (
            "kind: greater, arm: a, baseline: b, at: 8",
            r"at=8: is no level of the factor; its levels are \[2, 4\]",
        ),
        ("kind: greater, arm: a, baseline: c", "baseline=c: is not among the arms a, b"),
        ("kind: flat, arm: a, by: rank, margin: 1", "comparison.by: no such key"),
        ("kind: every, at_most: much", "comparison.at_most=much: must be a number"),
        ("kind: every, at_most: [1]", r"at_most=\[1\]: must have 2 numbers"),
        ("kind: every, at_most: {a: 1}", "at_most=.*: has none for arm b"),
        ("kind: every, arm: b, at_most: {a: 1}", "at_most=.*: has none for arm b; add it"),
        ("kind: every, at_most: 1, at_least: {a: 0, b: [1, 2]}", "at_most=1: is below at_least=2; no value"),
        ("kind: greater, arm: a, baseline: a", "baseline=a: is the arm itself; name another one"),
        ("kind: increasing, arm: a, over: a", "over=a: is the arm itself"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_one_line(comparison, message, tmp_path):
    text = re.sub(r"^comparison:.*$", f"comparison: {{{comparison}}}", GOOD, flags=re.M)
    with pytest.raises(ValueError, match=message) as error:
        read(text, tmp_path)
    assert "\n" not in str(error.value)


def test_a_trend_needs_numbers_to_run_over(tmp_path):
    text = re.sub(r"^comparison:.*$", "comparison: {kind: increasing, arm: a}", GOOD, flags=re.M)
    assert read(text, tmp_path).comparisons[0].kind == "increasing"
    with pytest.raises(ValueError, match="kind=increasing: needs a factor of two or more numbers"):
        read(text.replace("[2, 4]", "[two, four]"), tmp_path)
    text = text.replace("arm: a}", "arm: a, log2_factor: true}")
    assert read(text, tmp_path).comparisons[0].log2_factor
    with pytest.raises(ValueError, match="log2_factor=true: level 0 has no logarithm; give levels above 0"):
        read(text.replace("[2, 4]", "[0, 4]"), tmp_path)


def test_equal_arms_may_differ_in_their_metric_and_bounds_may_meet(tmp_path):
    arms = re.sub("^arms:.*$", "arms: {a: [norm=none], b: [norm=none]}", GOOD, flags=re.M)
    assert read(
        arms.replace("metric: test/accuracy", "metric: {a: test/accuracy, b: val/accuracy}"), tmp_path
    )
    every = "comparison: {kind: every, arm: a, at_most: {a: 1}, at_least: [1, 0]}"
    assert read(re.sub("^comparison:.*$", every, GOOD, flags=re.M), tmp_path)


def test_a_key_that_a_merge_brings_in_may_be_set_anew(tmp_path):
    merged = "options: {x: &x {p: 1, q: 2}, y: {<<: *x, p: 3}}\n"
    assert read(GOOD + merged, tmp_path).options["y"] == {"p": 3, "q": 2}


FILES = {
    "empty": ("", "is empty; write name"),
    "comments": ("# later\n", "is empty; write name"),
    "syntax": ("name: n\narms: {a: [norm=none]\n", "line 3: .*; close brackets and quote text"),
    "colon": ("name: n\nsentence: a: b\n", "line 2: mapping values are not allowed"),
    "list": ("- name: n\n", "must be keys with values"),
    "binary": (b"\xff\xfe", "is no text in UTF-8"),
    "alias": ("name: &a [*a]\n", "cannot be read"),
    "twice": (GOOD + "seeds: 5\n", "line 12: seeds stands there twice; keep one"),
    "twice inside": (GOOD + "tune:\n  seeds: 2\n  'seeds': 3\n", "line 14: seeds stands there twice"),
    "deep": ("name: " + "[" * 3000, "cannot be read"),
}


@pytest.mark.integration
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_claim_is_one_line(kind, tmp_path):
    text, message = FILES[kind]
    (tmp_path / "X91.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "X92.yaml").write_text(GOOD)
    claims, broken = load_each(tmp_path)
    assert list(claims) == ["X92"]
    assert re.search(rf"X91\.yaml: .*{message}", broken["X91"])
    assert "\n" not in broken["X91"]
    with pytest.raises(ValueError, match=message):
        load_claims(tmp_path)


@pytest.fixture
def verify(tmp_path, monkeypatch):
    """`normexp verify` on S29, which takes no time, and two broken claims."""
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "S29.yaml").write_text(text_of("S29"))
    (folder / "S29b.yaml").write_text("")
    (folder / "X91.yaml").write_text("- 1")
    monkeypatch.setattr(command, "CONFIGS", folder)
    monkeypatch.setattr(select, "CONFIGS", tmp_path)
    return lambda *arguments: command.main([*arguments, f"out={tmp_path / 'out'}"])


def test_the_claim_that_was_asked_for_runs_and_no_other_is_read(verify, tmp_path, capsys):
    assert verify("claim=S29") == 2  # S29 brings S29b, its half, which is broken
    said = capsys.readouterr()
    assert json.loads((tmp_path / "out" / "S29" / "verdict.json").read_text())["verdict"] == "refuted"
    assert re.fullmatch(r"Error: .*S29b\.yaml: is empty.*\n", said.err)  # X91.yaml is not read


def test_a_broken_file_matters_to_who_asks_for_it(verify, tmp_path, capsys):
    assert verify("claim=x91") == 2
    assert re.fullmatch(
        r"Error: .*X91\.yaml: 1: must be .*\n|Error: .*X91\.yaml: \[1\]: .*\n", capsys.readouterr().err
    )
    assert verify("claim=X*") == 2
    assert "X91.yaml" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert verify("claim=law") == 0  # neither file says that it is one
    assert capsys.readouterr().err.count("Warning: ") == 2
    assert verify("page=" + str(tmp_path / "page.md")) == 2  # a page without them would not be all verdicts
    assert capsys.readouterr().err.startswith("Error: ")


def test_help_lists_what_can_be_read_and_warns_of_the_rest(verify, capsys):
    assert verify("--help") == 0
    said = capsys.readouterr()
    assert "\n  S29  " in said.out
    assert said.err.count("Warning: ") == 2


def test_an_error_of_hydra_is_the_line_that_training_says():
    error = OverrideParseException("lr", "missing EQUAL at '<EOF>'\nSee https://hydra.cc")
    assert why(error) == (
        "missing EQUAL at '<EOF>': arguments have the form key=value, for example norm=layernorm"
    )


def test_claims_that_fail_are_named_on_the_error_stream(tmp_path, capsys):
    from normexp.claims.verify import verify_all

    claim = read(GOOD.replace("norm=none", "norm.epss=1"), tmp_path)
    assert verify_all([claim], tmp_path / "out", command="") == 1
    said = capsys.readouterr()
    assert re.fullmatch(r"Error: X91: norm\.epss: no such key; did you mean norm\.eps\?.*\n", said.err)
    assert "Error" not in said.out


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("metric", "metric: test/error\nbetter: higher", "better=higher: test/error is better lower"),
        (
            "comparison",
            "comparison: {kind: equivalent, arm: a, baseline: b, margin: 1.5}",
            r"margin=1.5: no two values of test/accuracy differ by more; give one below 1",
        ),
        ("seeds", "seeds: 10\nfixed: [norm=layernorm]", "fixed: every arm sets norm itself; leave it out"),
        (
            "arms",
            "arms: {a: [norm=none, data.train_size=50], b: [norm=rmsnorm]}",
            "arms: data.train_size differs between them",
        ),
        ("sentence", 'sentence: "S\\e[2J1"', r"S\\x1b\[2J1: has a character that no line can show"),
        ("source", 'source: "O\\e]0;x\\a"', "has a character that no line can show"),
    ],
)
def test_a_claim_that_would_say_what_it_does_not_ask_is_refused(key, value, message, tmp_path):
    lines = [value if line.startswith(f"{key}:") else line for line in GOOD.splitlines()]
    with pytest.raises(ValueError, match=message) as caught:
        read("\n".join(lines) + "\n", tmp_path)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_the_line_of_a_verdict_says_that_a_loss_was_allowed():
    verdict = {"verdict": "supported", "scope": "in 20 of 24 drawn settings", "comparison": {"margin": -0.5}}
    assert with_scope(verdict) == "supported in 20 of 24 drawn settings; being up to 0.5 worse was allowed"

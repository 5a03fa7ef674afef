"""A broken claim file is one line that names file, key, value and remedy, and stops no other claim."""

import json
import re
from pathlib import Path

import pytest
from committed import read_claim, text_of
from refusals import refused

from normexp.claims.spec import find
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.find import load_claims, load_each
from normexp.claims.verify import verify_all
from normexp.cli.main import run
from normexp.sweeps.options import Options

HEAD = "name: n\nsentence: s\nsource: s\ncovers: [X91]\nmeasure: m\nseeds: 10\n"
GOOD = f"""{HEAD}evidence: training
metric: test/accuracy
arms: {{a: [norm=none], b: [norm=rmsnorm]}}
factor: {{batch_size: [2, 4]}}
comparison: {{kind: greater, arm: a, baseline: b, margin: 0.1}}
"""
LAW = f"""{HEAD}evidence: law
function: a.b
arms: {{a: [norm=none]}}
comparison: {{kind: every, at_most: 1}}
"""
OVER = f"""{HEAD}evidence: training
metric: test/error
arms: {{a: [norm=none], b: [norm=rmsnorm]}}
settings: [x, {{deep: [model=mlp, data=digits, model.depth=12]}}]
manipulation: {{metric: logged/shift, measure: shift, comparison: {{kind: smaller, arm: a, baseline: b}}}}
comparison: {{kind: smaller, arm: a, baseline: b, log: true, margin: 0.1}}
"""


def line(text: str, of: str) -> str:
    """The file with other lines for their keys, or more of them."""
    for one in text.split("\n"):
        found, changed = re.subn(rf"^{one.partition(':')[0]}:.*$", lambda _, one=one: one, of, flags=re.M)
        of = found if changed else f"{of}{one}\n"
    return of


def read(text: str, folder: Path):
    (folder / "cells.yaml").write_text("cells: {x: [model=mlp, data=digits], y: [model=mlp, data=mnist]}")
    path = folder / "X91.yaml"
    path.write_text(text)
    return read_claim(path, load_bank(folder / "cells.yaml"))


def test_the_claims_that_are_broken_below_are_good(tmp_path):
    claim = read(GOOD, tmp_path)
    assert (claim.covers, claim.seeds, claim.comparisons[0].margin) == (["X91"], 10, 0.1)
    assert read(LAW, tmp_path).comparisons[0].at_most == 1
    large = check("kind: smaller, arm: a, baseline: b, margin: 1.5")  # of a metric that is no share
    assert read(line(large, OVER), tmp_path).manipulation.comparison.margin == 1.5


def check(comparison: str, metric: str = "logged/shift") -> str:
    return f"manipulation: {{metric: {metric}, measure: m, comparison: {{{comparison}}}}}"


IN_ONE_SETTING = [
    ("covers: X91", "covers='X91': must be a list"),

    ("seeds: true", "seeds=True: must be a whole number"),
    ("first_seed: -1", "first_seed=-1: must be at least 0"),
    ("id: my claim/1  # mine", "id=my claim/1: must be of letters"),
    ("id: ..", "id=..: must be of letters"),
    ("id: cache", "id=cache: must be of letters, .* and not cache"),
    ("first_seed: 99999999999", "first_seed=99999999999: must be below 2147483648"),
    ("seeds: 2", "seeds=2: fewer than 5 seeds rank nothing; ask for 5 or more"),
    ("arms: [a, b]", r"arms=\['a', 'b'\]: must be keys with values"),
    ("arms: {a: norm=none, b: [norm=rmsnorm]}", "arms.a='norm=none': must be a list"),

    ("misure: m", r"misure: no such key; did you mean measure\?"),
    ('arms: {"a\\nb": [norm=none], b: [norm=rmsnorm]}', "arms: 'a.nb' is no name of one line; rename it"),
    ("seconds: soon", "seconds='soon': must be a number"),
    ("better: more", "better='more': choose from higher, lower"),
    ("name: 3", "name=3: must be text"),
    ("factor: {seed: [1, 2]}", "factor=.*: sets the seed, .* give first_seed and seeds"),
    ("fixed: [+seed=3]", "fixed=.*: sets the seed"),
    ("fixed: [model=mlp, ++model=cnn]", "fixed=.*: a key stands there twice; keep one"),
    ("fixed: ['lr=0.1,0.2']", "fixed: lr=0.1,0.2 has several values; write one, or make it a factor"),
    ("settings: [{a: [model=mlp, seed=3]}]", "settings.a=.*: sets the seed"),
    ("arms: {a: [batch_size=4], b: [norm=rmsnorm]}", "arms.a=.*: the factor sets batch_size in every arm"),
    ("arms: {a: [norm=none], b: [norm=none]}", "arms.b=.*: arm a is the same; compare different"),
    ("metric: {a: test/loss}", "metric=.*: has none for arm b"),
    ("metric: {a: test/loss, b: test/loss, c: test/loss}", "metric=.*: c is none of the arms a, b"),
    ("function: a.b", "function=a.b: evidence=training reads none"),
    ("evidence: law\nfunction: a.b", "metric=test/accuracy: evidence=law reads none"),
    ("options: {batch_size: 4}", "options=.*: the factor sets batch_size in every arm"),
    ("arms: {a: [norm=none], b: [norm=rmsnorm, ++outputs=x]}", "arms.b=.*: outputs says where a run lies"),
    ("metric: {a: logged/val/loss, b: logged/val/accuracy}", "compares accuracy with loss; give"),
    ("metric: {a: logged/last:mine_error_64/*, b: test/loss}", "compares error with loss; give"),
    ("metric: logged/sharpness - val/loss", "compares logged with loss; give metrics of one unit"),
    ("metric: logged/val/loss\nbetter: higher", "better=higher: of loss it is the other way; change"),
    ("metric: logged/last:val/loss\nmeasure: test accuracy", "measure=.* gives losses, not shares; say"),
    ("measure: steps until 90%", "measure=.*: metric=test/accuracy gives shares, not steps; say what it is"),
    ("metric: convergence/steps_to_0.9\nmeasure: accuracy", "measure=.* gives steps, not shares; say"),
    ("comparison: greater", "comparison.0.='greater': must be keys with values"),
    ("comparison: {arm: a}", "comparison.0..kind: is missing; give"),
    ("fixed: [batch_size=8]", "fixed=.*: the factor sets batch_size in every arm"),
    ("fixed: [norm=layernorm]", "fixed: every arm sets norm itself; leave it out"),
    ("arms: {a: [norm=none, data.train_size=50], b: [norm=rmsnorm]}", "arms: data.train_size differs"),
    ("arms: {on: [norm=none], off: [norm=rmsnorm]}", "arms: YAML reads on, yes or true as no text; quote it: 'on'"),
    ('sentence: ""', "sentence='': must be text, not empty"),
    ("rate: middle", "rate: is for claims of trained networks over several settings"),
    ("factor: {}\noptions: {batch_size: 4}", "options=.*: evidence=training reads none"),
    ("search: {cases: 5}", "search=.*: evidence=training reads none"),
    ('sentence: "S\\e[2J1"', r"S\\x1b\[2J1.*: has a character that no line can show"),
    ('paper_effect: {"a\\u202e": 1}', "a key|paper_effect.*: has a character that no line can show"),
    ("factor: {batch_size: [8, 8.0]}", "factor=.*: a level stands there twice; keep one"),

    ("metric: failed", "metric=failed: is for claims over several settings"),
    ("metric: test/errors", "metric=test/errors: no run will have it; did you mean test/error"),

    (check("kind: smaller, arm: a, baseline: b"), "manipulation: is for claims over"),
]  # fmt: skip
COMPARISONS = [
    ("kind: bigger", "kind='bigger': choose from every, greater"),
    ("kind: greater, arm: a, baseline: b, margin: big", "margin='big': must be a"),
    ("kind: greater, arm: a, baseline: b, margin: .nan", "margin=nan: must be finite"),
    ("kind: different, arm: a, baseline: b, margin: -1", "margin=-1: must be 0 or above"),
    ("kind: greater, arm: a, baseline: b, log: 2", "log=2: must be true or false"),
    ("kind: greater, arm: a, baseline: b, at: 8", r"at=8: is no level of the factor; .* \[2, 4\]"),
    ("kind: greater, arm: a, baseline: c", "baseline=c: is not among the arms a, b"),

    ("kind: greater, arm: a", "kind=greater: needs a baseline or a target"),
    ("kind: smaller, arm: a, baseline: b, target: 0", "target=0: there is baseline=b"),
    ("kind: smaller, arm: a, target: 0, log: true", "target=0: has no logarithm"),
    ("kind: flat, arm: a, by: rank, margin: 1", "by: no such key; the keys are: kind, arm"),
    ("kind: every", "kind=every: give at_most, at_least or equals"),
    ("kind: every, at_most: 1, log: true", "kind=every: has no baseline, target, margin or log"),
    ("kind: greater, arm: a, baseline: b, at_least: 0.1", "kind=greater: has no at_most, at_least or equals"),
    ("kind: every, at_most: []", "at_most.*: must be"),
    ("kind: every, at_most: [1]", r"at_most=\[1\]: must have 2 numbers"),
    ("kind: every, at_most: {a: 1}", "at_most=.*: has none for arm b; add it"),
    ("kind: every, at_most: {a: 1, b: 1, c: 1}", "at_most=.*: c is none of the arms a, b"),
    ("kind: greater, arm: a, baseline: a", "baseline=a: is the arm itself; name another one"),
    ("kind: equivalent, arm: a, baseline: b, margin: 1.5", "margin=1.5: no two values of test/accuracy"),
    ("kind: smaller, arm: a, target: 0.5, margin: -1.2", "margin=-1.2: no two values of test/accuracy"),
    ("kind: greater, arm: a, target: 90", "target=90: test/accuracy is a share, from 0 to 1; 20% is 0.2"),
    ("kind: every, at_least: 20", "at_least=20: test/accuracy is a share, from 0 to 1; 20% is 0.2"),
    ("kind: greater, arm: a, baseline: b, margin: 1%", "margin=1%: must be a number; write 0.01"),
    ("kind: greater, arm: a, baseline: b, tolerance: 0.1", "tolerance=0.1: belongs to equals; leave it out"),
    ("kind: every, at_most: 1, tolerance: 0.1", "kind=every: tolerance has nothing to change here"),
    ("kind: greater, arm: a, baseline: b, log2_factor: true", "log2_factor=true: belongs to a slope; leave"),
    ("kind: increasing, arm: a, at: 2", "at=2: kind=increasing is a slope over all levels; leave it out"),
    ("kind: every, arm: a, at_most: {a: [1, -0.1]}", "at_most=-0.1: test/accuracy is a share"),
    ("kind: every, equals: 0.5, tolerance: 2", "tolerance=2: no two values of test/accuracy differ by more"),
    ("kind: equivalent, arm: a, baseline: b", "kind=equivalent: needs a margin above 0"),
    ("kind: smaller, arm: a, baseline: b, margin: practical", "margin=practical: metric=test/accuracy"),
    ("kind: smaller, arm: a, baseline: b, log: true, margin: practical", "margin=practical: is for the"),
]  # fmt: skip
OVER_SETTINGS = [
    ("settings: x", "settings='x': must be"),
    ("settings: [mnist]", r"settings: mnist is no cell of bank=cells \(its cells are x, y\)"),
    ("settings: [x, {x: [model=mlp]}]", "settings: x stands there twice"),
    ("metric: test/accuracy", "metric=test/accuracy: .* which errors know; give test/error"),
    ("comparison: {kind: every, at_most: 1}", "kind=every: gives no number a setting"),
    ("arms: {a: [norm=none, lr=0.1], b: [norm=rmsnorm]}", "arms.a=.*: over settings .* leave lr out"),

    ("settings: [{z: [model=mlp, data=digits, optimizer.lr=1]}]", "settings.z=.*: over .* leave optimizer.lr out"),
    ("factor: {lr: [0.1, 1]}", "factor=.*: over settings .* leave lr out"),
    ("settings: [x, y]\nfixed: [data=digits]", "fixed: sets all in which settings x and y differ"),
    ("settings: [{z: [batch_size=4]}, x]", "settings.z=.*: names no model or no data"),
    ("evidence: law\nfunction: a.b", "manipulation: evidence=law has none"),
    ("manipulation: {measure: m, comparison: {kind: flat, arm: a}}", "kind=flat: needs a margin"),
    ("manipulation: {measure: m, comparison: {kind: flat, arm: a, margin: 1}}", "manipulation.metric: is missing"),
    (check("kind: every, at_most: 1"), "manipulation: kind=every: needs a difference or a slope"),
    (check("kind: smaller, arm: a, baseline: b, margin: practical"), "kind=smaller: .* and a number as margin"),
    (check("kind: smaller, arm: a, baseline: b", "val/eror"), "manipulation.metric=val/eror: no run .* mean val"),
    (check("kind: smaller, arm: a, baseline: b", "failed"), "manipulation.metric=failed: is no number of every"),
    (check("kind: smaller, arm: a, baseline: b", "convergence/steps_to_0.9"), "to_0.9: is no number of every run"),
    (check("kind: smaller, arm: a, baseline: b, margin: 1", "test/error"), "margin=1: no two values of test"),
    ("metric: failed", "log=true: .* `failed` is 0, which has no logarithm"),
]  # fmt: skip
SEARCHES = [
    ("search: {cases: 4, weights: true}", "search.cases=4: must be at least 5"),
    ("search: {cases: 40, choose: {mean: {low: 0}}}", "search.choose.mean.high: is missing"),
    ("search: {cases: 40, choose: {mean: {low: 9, high: 3}}}", "high=3 is below low=9; swap them"),
    ("search: {cases: 40}\nfactor: {mean: [0, 1]}", "search: is for a universal sentence"),
    ("search: {cases: 40}\ncomparison: {kind: greater, arm: a, target: 1}", "search: is for a universal sentence"),
]  # fmt: skip
FILES = {"good": GOOD, "over": OVER, "law": LAW}
BROKEN = [
    *(("good", *row) for row in IN_ONE_SETTING),
    *(("good", f"comparison: {{{comparison}}}", message) for comparison, message in COMPARISONS),
    *(("over", *row) for row in OVER_SETTINGS),
    *(("law", *row) for row in SEARCHES),
]


@pytest.mark.parametrize(("file", "text", "message"), BROKEN)
def test_what_cannot_be_asked_is_one_line(file, text, message, tmp_path):
    """What is found later would be found after all runs, or not at all."""
    is_refused(line(text, FILES[file]), message, tmp_path)


def is_refused(text: str, message: str, folder: Path) -> None:
    with refused(rf"X91\.yaml: .*{message}") as error:
        read(text, folder)
    assert "\x1b" not in str(error.value)


def test_a_trend_needs_numbers_to_run_over(tmp_path):
    text = line("comparison: {kind: increasing, arm: a}", GOOD)
    assert read(text, tmp_path).comparisons[0].kind == "increasing"
    is_refused(text.replace("[2, 4]", "[two, four]"), "needs a factor of two or more numbers", tmp_path)
    text = text.replace("arm: a}", "arm: a, log2_factor: true}")
    is_refused(text.replace("[2, 4]", "[0, 4]"), "level 0 has no logarithm", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "arms: {a: [norm=none], b: [norm=none]}\nmetric: {a: test/accuracy, b: val/accuracy}",
        "metric: logged/mine/accuracy\ncomparison: {kind: greater, arm: a, target: 90}",  # maybe in percent
        "arms: {50%: [norm=none], b: [norm=rmsnorm]}\ncomparison: {kind: smaller, arm: 50%, baseline: b}",
        "comparison: {kind: every, arm: a, at_most: {a: 1}, at_least: [1, 0]}",
    ],
)
def test_equal_arms_may_differ_in_their_metric_and_bounds_may_meet(text, tmp_path):
    assert read(line(text, GOOD), tmp_path)


def test_numbers_with_an_exponent_are_numbers(tmp_path):
    text = "seconds: 1e-6\ncomparison: {kind: every, at_most: {a: [1e-6, 1], b: 1E-6}}"
    claim = read(line(text, GOOD), tmp_path)
    assert (claim.seconds, claim.comparisons[0].at_most) == (1e-6, {"a": [1e-6, 1], "b": 1e-6})


NO_CLAIMS = {
    "empty": ("", "is empty; write name"),
    "syntax": ("name: n\narms: {a: [norm=none]\n", "line 3.*; close brackets and quote text"),
    "list": ("- name: n\n", "must be keys with values"),
    "binary": (b"\xff\xfe", "is no text in UTF-8"),
    "alias": ("name: &a [*a]\n", "more than 100,000 values"),
    "twice": (GOOD + "seeds: 5\n", "line 12: seeds stands there twice; keep one"),
    "deep": ("name: " + "[" * 3000, "cannot be read"),
}


@pytest.mark.integration
@pytest.mark.parametrize("kind", NO_CLAIMS)
def test_a_file_that_is_no_claim_is_one_line(kind, tmp_path):
    text, message = NO_CLAIMS[kind]
    (tmp_path / "X91.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "X92.yaml").write_text(GOOD)
    claims, broken = load_each(tmp_path)
    assert list(claims) == ["X92"]
    assert re.search(rf"X91\.yaml: .*{message}", broken["X91"])
    with refused(message):
        load_claims(tmp_path)


@pytest.fixture
def verify(tmp_path, monkeypatch):
    """`normexp verify` on S29, which takes no time, and two broken claims."""
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "S29.yaml").write_text(text_of("S29"))
    (folder / "S29b.yaml").write_text("")
    (folder / "X91.yaml").write_text("- 1")
    monkeypatch.setattr("normexp.cli.verify.CONFIGS", folder)
    monkeypatch.setattr(find, "CONFIGS", tmp_path)
    return lambda *arguments: run("verify", [*arguments, f"out={tmp_path / 'out'}"])


def test_the_claim_that_was_asked_for_runs_and_no_other_is_read(verify, tmp_path, capsys):
    assert verify("claim=S29") == 2  # S29 brings S29b, its half, which is broken
    said = capsys.readouterr()
    assert json.loads((tmp_path / "out" / "S29" / "verdict.json").read_text())["verdict"] == "refuted"
    assert re.fullmatch(r"Error: .*S29b\.yaml: is empty.*\n", said.err)  # X91.yaml is not read
    assert verify("--help") == 0
    assert "\n  S29  " in capsys.readouterr().out


def test_claims_that_fail_are_named_on_the_error_stream(tmp_path, capsys):
    assert (
        verify_all([read(GOOD.replace("norm=none", "norm.epss=1"), tmp_path)], tmp_path / "out", command="")
        == 2
    )
    said = capsys.readouterr()
    assert re.fullmatch(r"Error: X91: norm\.epss: no such key; did you mean norm\.eps\?.*\n", said.err)
    assert "Error" not in said.out


def test_a_broken_file_matters_to_whoever_asks_for_it(verify, tmp_path, capsys):
    assert verify("claim=x91") == 2
    assert re.fullmatch(r"Error: .*X91\.yaml: \[1\]: .*\n", capsys.readouterr().err)
    assert verify("claim=X*") == 2
    assert "X91.yaml" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert verify("claim=law") == 0  # neither file says that it is one
    capsys.readouterr()
    assert verify("page=" + str(tmp_path / "page.md")) == 2  # a page without them would not be all verdicts
    assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        ("invariances.nope", "", "function=invariances.nope: no such law"),
        ("invariances.smaller_batch", "options: {bach_size: 3}",
         "options.bach_size: is no option of invariances.smaller_batch; it takes .*batch_size"),
        ("invariances.weight_gradient_ratio", "", "options.scale: is missing, and invariances.weight_g"),
        ("population.batch_dependence", "options: {mode: evaluation}",
         "options.mode=evaluation: unknown; .* eval, training"),
        ("values.distance_to_formula", "options: {divide_by: varience}", "function: .* KeyError: 'varience'"),
    ],
)  # fmt: skip
def test_a_law_that_cannot_be_asked_is_one_line(function, more, message, tmp_path, capsys):
    claim = read(f"{line(f'function: {function}', LAW)}{more}", tmp_path)
    before_computing = not message.startswith("function: ")
    for plan in (True, False) if before_computing else (False,):
        assert verify_all([claim], tmp_path / "out", command="", options=Options(plan=plan)) == 2
        assert re.fullmatch(rf"Error: X91: {message}.*\n", capsys.readouterr().err)


def test_own_files_with_bad_names_are_refused(tmp_path, capsys):
    (tmp_path / "more").mkdir()
    for name in ("mine.yaml", "more/mine.yaml"):
        (tmp_path / name).write_text(GOOD)
    for words, message in (
        (f"{tmp_path / 'absent.yaml'}", "no such file; name a yaml"),
        (f"{tmp_path / 'mine.yaml'},{tmp_path / 'more' / 'mine.yaml'}", "two claims have the name mine"),
    ):
        assert run("verify", [f"claim={words}"]) == 2
        assert message in capsys.readouterr().err

"""Results that exist: their forms, the numbers that they give beside an independent twin, and what is refused."""

import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from fabricated import write_study
from refusals import refused
from scipy import stats

import normexp
from normexp.cli.main import run as command
from normexp.compare.answer import own_folder
from normexp.compare.columns import column, numbers
from normexp.compare.effect import MOST, first_at, running_best, seeds_to_decide, steps_ratio
from normexp.compare.judged import BETTER, EQUAL, METRICS, OPEN, WORSE
from normexp.compare.logged import parted
from normexp.compare.results import compare


def table(seeds=8, gain=0.9, spread=0.3, settings=("coco",), random=0):
    draw = np.random.default_rng(random)
    rows = itertools.product(("none", "bn"), range(seeds), settings)
    data = pd.DataFrame(rows, columns=["norm", "seed", "dataset"])
    return data.assign(mAP=78 + gain * (data["norm"] == "bn") + spread * draw.normal(size=len(data)))


def only(answer):
    (difference,) = answer.look.differences
    return difference


def one(data, margin=0.3, **options):
    """The difference of the two arms."""
    return only(compare(data, margin=margin, **options))


@pytest.mark.parametrize("random", range(5))
def test_paired_and_unpaired_intervals_equal_those_of_scipy(random):
    data = table(random=random)
    none, bn = (data[data["norm"] == norm]["mAP"].to_numpy() for norm in ("none", "bn"))
    paired, apart = one(data), one(data, paired=False)
    twin = stats.ttest_rel(bn, none).confidence_interval(0.95)
    assert paired.interval == pytest.approx((twin.low, twin.high))
    twin = stats.ttest_ind(bn, none, equal_var=False).confidence_interval(0.95)
    assert apart.interval == pytest.approx((twin.low, twin.high))
    assert (paired.paired, apart.paired, paired.seeds, apart.seeds) == (True, False, 8, 8)
    assert paired.relative == pytest.approx(paired.effect / none.mean())


def test_words_follow_the_interval_the_margin_and_the_way_that_is_better():
    for gain, higher, lower in ((2.0, BETTER, WORSE), (-2.0, WORSE, BETTER), (0.0, EQUAL, EQUAL)):
        data = table(gain=gain, spread=0.1)
        found = one(data, 0.5)  # mAP is known
        assert (found.word, found.more) == (higher, None)
        assert one(data.rename(columns={"mAP": "x"}), 0.5, better="lower").word == lower
    few = compare(table(seeds=4, gain=2), margin=0.1)
    assert only(few).word == OPEN
    assert "fewer than 5 seeds have no word" in str(few)
    for paired, seeds in itertools.product((True, False), (2, 3)):
        assert np.isfinite(one(table(seeds=seeds), paired=paired).interval).tolist() == [seeds == 3] * 2


@pytest.mark.parametrize(
    ("gain", "spread", "paired"), [(0.5, 0.6, True), (0.5, 0.6, False), (0.1, 0.4, True), (0.0, 0.3, False)]
)
def test_so_many_seeds_decide_in_four_of_five_draws(gain, spread, paired):
    margin, draw = 0.25, np.random.default_rng(0)
    n = seeds_to_decide(gain, spread, margin, 0.05, paired=paired)

    def decided(n):
        if paired:
            data = draw.normal(gain, spread, (4000, n))
            found = stats.ttest_1samp(data, 0, axis=1).confidence_interval()
        else:
            sides = draw.normal(0, spread / math.sqrt(2), (2, 4000, n))
            found = stats.ttest_ind(sides[0] + gain, sides[1], axis=1).confidence_interval()
        low, high = found.low, found.high
        return ((low > margin) | (high < -margin) | ((low > -margin) & (high < margin))).mean()

    assert decided(n) == pytest.approx(0.8, abs=0.06)
    assert decided(n) > 0.78
    assert n == 5 or decided(max(n // 2, 5)) < 0.75


def test_ten_thousand_seeds_are_the_most():
    needed = lambda spread: seeds_to_decide(1.0, spread, 0.5, 0.05, paired=True)  # noqa: E731
    low, high = 1.0, 100.0
    for _ in range(60):
        spread = (low + high) / 2
        low, high = (low, spread) if needed(spread) is None else (spread, high)
    assert needed(low) == MOST == 10_000


def test_numbers_in_hand_decide_nothing_and_say_what_would(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def told(*words):
        assert command("compare", [*words]) == 0
        return capsys.readouterr().out

    two = told("none:78", "batchnorm:78.2", "value=AP", "margin=0", "spread=0.3")
    assert two.startswith(
        "Two numbers decide nothing: batchnorm minus none, AP +0.200; if the runs of an arm "
    )
    assert "(assumed; spread=VALUE), it takes 37 seeds an arm" in two
    draw = np.random.default_rng(0).normal(0, 0.3, (2, 4000, 37))
    share = (stats.ttest_ind(draw[0] + 0.2, draw[1], axis=1).pvalue < 0.05).mean()
    assert share == pytest.approx(0.8, abs=0.03)
    words = ("better=higher", "margin=0.1")
    assert "B is not decided against A" in told("78,78.1,77.9", "78.2,78.5,78.3", *words)
    alone = told("78,78.1,77.9", "78.2", *words)
    assert alone.startswith("One run of an arm decides nothing: B minus A, value +0.20")
    several = compare({"in": [68.7, 69.4, 69.61, 70.07], "bn": 69.33}, value="dice", margin=0.5)
    assert "spread by 0.57, it takes 36 seeds an arm" in str(several)  # the standard deviation of the four


def test_settings_are_counted_and_arms_corrected_together():
    data, names = table(settings=("a", "b", "c"), gain=3), ("a", "b", "c")
    answer = compare(data, margin=0.3, setting="dataset")
    (line, *each) = str(answer).splitlines()
    assert "bn is better than none by more than the margin in 3 of 3 hand-picked settings" in line
    assert "have no word" in line
    assert len(each) == 3
    holm = np.maximum.accumulate(
        np.sort([one(data[data["dataset"] == name]).p for name in names]) * [3, 2, 1]
    )
    assert sorted(own.p for own in answer.look.differences) == pytest.approx(holm)
    near = compare(table(settings=names, gain=0.45), margin=0.3, setting="dataset").look
    assert len(near.open) > 1
    for own in near.open:
        needed = seeds_to_decide(own.effect, own.spread, 0.3, 0.05 / 3, paired=True, fewest=9)
        assert own.more == needed - 8


def test_failed_runs_are_counted_and_guesses_where_guessing_is_known():
    data = table()
    data.loc[data["norm"].eq("bn") & data["seed"].lt(3), "mAP"] = np.nan
    answer = compare(data, margin=0.3)
    assert only(answer).seeds == 5
    assert "failed runs: 0 of 8 with none, 3 of 8 with bn (left out; guess=VALUE counts" in str(answer)
    guessed = one(data, guess=0.0)
    assert guessed.seeds == 8
    assert guessed.effect < -20
    said = str(compare(table().assign(State=["crashed", "running", *["finished"] * 14]), margin=0.3))
    assert "1 of 7 with none" in said
    assert "left out: 1 run not finished" in said


def test_seeds_without_a_partner_are_left_out():
    data = table()
    bn = data["norm"].eq("bn")
    few = compare(data[~(bn & data["seed"].ge(6))], margin=0.3)
    assert only(few).seeds == 6
    assert "without a partner or a number: 2 of 8 with none" in str(few)
    moved = compare(data.assign(seed=data["seed"] + 3 * bn), margin=0.3)
    assert (only(moved).seeds, only(moved).paired) == (5, True)
    assert "without a partner or a number: 3 of 8 with none, 3 of 8 with bn" in str(moved)
    assert "not paired" in str(compare(data.drop(columns="seed"), margin=0.3))


@pytest.mark.parametrize(
    ("seeds", "paired"),
    [
        (lambda seed, bn: seed.astype(float), True),
        (lambda seed, bn: seed + 20240101.0, True),
        (lambda seed, bn: seed + 100 * bn, False),  # foreign ones
        (lambda seed, bn: 1_000_000 * (1 + seed) + bn, False),
    ],
)
def test_equal_seeds_make_pairs_however_a_table_has_them(seeds, paired):
    data = table()
    found = one(data.assign(seed=seeds(data["seed"], data["norm"].eq("bn"))))
    assert (found.seeds, found.paired) == (8, paired)
    single = pd.concat([data.assign(example=0), data.assign(example=1)])
    assert one(data.astype({"seed": float}), value="mAP", per_example=single).paired
    assert one(data.set_index(["norm", "seed"]), value="mAP").paired


def test_test_examples_are_a_sample_too():
    draw = np.random.default_rng(0)
    hard = draw.uniform(0.3, 0.9, 200)
    rows = itertools.product(("none", "bn"), range(6), range(200))
    single = pd.DataFrame(rows, columns=["norm", "seed", "example"])
    luck = draw.uniform(size=len(single)) < np.tile(hard, 12) + 0.1 * single["norm"].eq("bn")
    single["acc"] = luck.astype(float)
    runs = single.groupby(["norm", "seed"], as_index=False)["acc"].mean()
    alone, both = (one(runs, 0.01, per_example=own) for own in (None, single))
    assert both.effect == pytest.approx(alone.effect)
    assert np.diff(both.interval) > np.diff(alone.interval)
    percent = one(runs.assign(acc=100 * runs["acc"]), 1, per_example=single)
    assert percent.interval == pytest.approx(tuple(100 * end for end in both.interval))
    with refused("per_example=table: an example of a run stands there twice"):
        compare(runs, margin=0.01, per_example=pd.concat([single, single]))
    with refused("its means over examples are not the values of the runs"):
        compare(runs.assign(acc=runs["acc"] + 0.1), margin=0.01, per_example=single)


def write_wandb(folder, data):
    export = data.rename(columns={"mAP": "val/mAP"}).assign(Name="x", State="finished")
    export.to_csv(folder / "wandb.csv", index=False)
    return folder / "wandb.csv", {"value": "val/mAP"}


def write_chart(folder, data):
    """The chart that W&B exports: a column of each run, and of its least and largest values."""
    runs = {f"{own.norm}-s{own.seed} - val/mAP": [own.mAP - 1, own.mAP] for own in data.itertuples()}
    more = {f"{name}{end}": values for name, values in runs.items() for end in ("__MIN", "__MAX")}
    more |= {name.replace("val/mAP", "_step"): [10, 20] for name in runs}
    chart = pd.DataFrame({"trainer/global_step": [10, 20], **runs, **more}).iloc[::-1]
    chart.to_csv(folder / "chart.csv", index=False)
    return folder / "chart.csv", {"value": "val/mAP"}


def write_mlflow(folder, data):
    export = data.rename(columns={"mAP": "metrics.mAP", "norm": "params.norm", "seed": "params.seed"})
    export.assign(run_id="x", status="FINISHED").to_csv(folder / "mlflow.csv", index=False)
    return folder / "mlflow.csv", {"value": "mAP"}


def write_parquet(folder, data):
    data.assign(mAP=data["mAP"].map("{:.9f}%".format)).to_parquet(folder / "x.PARQUET")
    return folder / "x.PARQUET", {"value": "mAP"}


def write_tensorboard(folder, data):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    logged = [(f"seed_{own.seed}", own, "val/mAP") for own in data.itertuples()]
    logged.append(("seed_0/hparams", logged[0][1], "hp"))  # as of add_hparams
    for name, own, tag in logged:
        writer = EventFileWriter(str(folder / "tb" / own.norm / name))
        for step, value in ((1, own.mAP - 1), (2, own.mAP)):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(step=step, summary=summary))
        writer.close()
    return folder / "tb", {"value": "val/mAP"}


@pytest.mark.parametrize(("word", "other"), [("yes", "no"), ("True", "no"), (1.0, 0.0), ("crashed", "")])
@pytest.mark.parametrize("name", ["failed", "diverged"])
def test_a_run_that_failed_is_one_however_a_table_says_it(word, other, name):
    said = compare(table().assign(**{name: [word] + [other] * 15}), margin=0.3)
    assert "failed runs: 1 of 8 with none, 0 of 8 with bn" in str(said)
    assert only(said).seeds == 7


@pytest.mark.parametrize("separator", [",", ";", "\t", " , "])
def test_a_csv_may_have_comments_spaces_and_other_separators(separator, tmp_path):
    data = table()
    text = data.to_csv(sep=separator.strip(" ")).replace(",", separator if "," in separator else ",")
    (tmp_path / "r.csv").write_text(f"# made by x, y\n#\n\n{text}")  # with the index, whose name is empty
    assert one(tmp_path / "r.csv", value="mAP").interval == pytest.approx(one(data).interval)


def test_an_arm_called_none_is_the_baseline_and_an_empty_one_is_counted(tmp_path):
    data = table()
    data.assign(norm=data["norm"].replace("none", "None ")).iloc[::-1].to_csv(tmp_path / "r.csv", index=False)
    answer = compare(tmp_path / "r.csv", value="mAP", margin=0.3)
    assert answer.look.design.norms == ("None", "bn")
    assert only(answer).interval == pytest.approx(one(data).interval)
    for empty in (np.nan, " "):
        data.loc[16] = [empty, 9, "coco", 1.0]
        assert compare(data, margin=0.3).notes == ["left out: 1 run with an empty norm"]


READ = "seeds are read from the names of runs: "
FORMS = {
    write_wandb: [], write_mlflow: [], write_parquet: [], write_chart: [f"{READ}none-s0 is none, seed 0"],
    write_tensorboard: [f"{READ}bn/seed_0 is bn, seed 0", "left out: 1 folder inside those of runs, without val/mAP"],
}  # fmt: skip


@pytest.mark.parametrize("write", FORMS, ids=lambda own: own.__name__)
def test_every_form_gives_the_numbers_of_the_table(write, tmp_path):
    data = table()
    source, options = write(tmp_path, data)
    answer = compare(source, margin=0.3, **options)
    expected, found = one(data), only(answer)
    assert found.interval == pytest.approx(expected.interval, rel=1e-4)
    assert (found.paired, found.seeds, found.word) == (True, 8, expected.word)
    assert answer.notes == FORMS[write]


def test_finished_runs_of_normexp_are_compared_by_their_errors(tmp_path):
    folder = write_study(tmp_path / "study", norms=("none", "layernorm"))
    with refused("4 runs, which differ in batch_size, "):
        compare(folder)
    with refused("better=higher: of test/error the lower is better"):
        compare(folder, setting="batch_size", better="higher")
    answer = compare(folder, setting="batch_size")
    assert (answer.look.design.metric.name, answer.look.design.margin) == ("test error", "practical")
    assert not answer.notes
    logged = compare(folder, value="val/loss", margin=0.01, setting="batch_size")
    runs = normexp.runs.load(folder).query("metric == 'val/loss'").groupby(["norm", "batch_size", "seed"])
    loss = runs["value"].last().groupby(["norm", "batch_size"]).mean()
    right = normexp.runs.load_summaries(folder).groupby(["norm", "batch_size"])["test/accuracy"].mean()
    for found, means in ((answer, -right), (logged, loss)):
        effects = {int(own.arm.level): own.effect for own in found.look.differences}
        assert len(effects) == 4
        assert effects == pytest.approx({n: means["layernorm", n] - means["none", n] for n in effects})
    summary = next(folder.rglob("layernorm*/summary.json"))
    summary.rename(summary.with_suffix(".new"))
    assert "left out: 1 run not finished" in compare(folder, setting="batch_size").notes


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("batchnorm/seed_3", [("batchnorm", 3)]), ("seed=0/ln", [("ln", 0)]),
        ("resnet18/version_2 resnet50/version_2", [("resnet18", 2), ("resnet50", 2)]),
        ("bn-lr0.1-s12 bn-lr0.1-s3 ln-s3", [("bn-lr0.1", 12), ("bn-lr0.1", 3), ("ln", 3)]),
        ("ln_4 ln_5", [("ln", 4), ("ln", 5)]), ("s3bn s4bn", [("bn", 3), ("bn", 4)]),
        ("bn_1e-3 bn_1e-4", [("bn_1e-3", None), ("bn_1e-4", None)]),
        ("vit_s16 vit_b_16 resnet18", [("vit_s16", None), ("vit_b_16", None), ("resnet18", None)]),
        ("vit_s16 ours_0 ours_1", [("vit_s16", None), ("ours", 0), ("ours", 1)]),
        ("vit_s16_0 vit_s16_1", [("vit_s16", 0), ("vit_s16", 1)]),
    ],
)  # fmt: skip
def test_arm_and_seed_of_a_name(names, parts):
    assert list(parted(names.split()).values()) == parts


def test_how_names_of_runs_were_read_is_said():
    values = {"vit_s16 - acc": [0.0]} | {f"ours_{seed} - acc": [(1 + seed) / 10] for seed in range(5)}
    answer = compare(pd.DataFrame({"step": [1.0], **values}), margin=0.1)
    assert answer.notes == [f"{READ}ours_0 is ours, seed 0; vit_s16 is an arm without a seed"]
    assert (only(answer).arm.runs, only(answer).paired) == (5, False)


def renamed(name):
    return lambda data: data.rename(columns={"mAP": name})


def with_value(rows, value, name="mAP"):
    """Another value in some rows."""
    return lambda data: data.assign(**{name: data.get(name, data["mAP"]).where(~rows(data), value)})


def twice(**values):
    return lambda data: pd.concat([data.assign(**{name: x}) for name, own in values.items() for x in own])


def first(place):
    return lambda data: data.index == place


def of_bn(data):
    return data["norm"] == "bn"


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (None, {"margin": None}, "margin: practice knows none for mAP; write margin=NUMBER"),
        (None, {"margin": "practical"}, "margin: practice knows none for mAP"),
        (renamed("quality"), {"value": "quality"}, "metric=quality: which way is better?"),
        (None, {"value": "mAPs"}, "value=mAPs: no such column; write value=NAME, one of mAP"),
        (None, {"arms": ["none", "gn"]}, "arms=gn: no run has it; choose from none, bn"),
        (twice(lr=(0.1, 0.2)), {}, "arm=bn seed=0: 2 runs, which differ in lr"),
        (twice(step=(1, 2)), {"value": "mAP"}, "differ in step; keep the last row of each run"),
        (with_value(first(1), -1), {}, "value=mAP: -1 is below 0; leave the value of a failed run empty"),
        (with_value(of_bn, 0.78), {}, "is a share beside a percent; write all in one unit"),
        (with_value(first(1), 0.783), {}, "value=mAP: 0.783 beside 78"),
        (None, {"better": "lower"}, "better=lower: of mAP the higher is better; leave it out"),
        (renamed("test/accuracy"), {"value": "test/error"}, "value=test/error: test/accuracy is in percent"),
        (with_value(of_bn, np.nan), {"value": "mAP"}, "arm=bn: none of its runs has a value of mAP"),
        (renamed("test/error"), {"value": "test/error", "margin": None}, "knows shares of wrong answers, up to 1"),
        (None, {"arms": ["bn"]}, "arm: bn alone; two or more are compared"),
        (None, {"arms": ["bn", "bn"]}, "arms=bn,bn: one stands twice"),
        (None, {"arms": "bn,none"}, "arms='bn,none': must be a list"),
        (None, {"better": "max"}, "better='max': choose from higher, lower"),
        (None, {"margin": -1}, "margin=-1: must be at least 0"),
        (None, {"margin": "x"}, "margin='x': must be a number"),
        (None, {"margin": math.inf}, "margin=inf: must be finite"),
        (None, {"spread": -1}, "spread=-1: must be at least 0"),
        (None, {"looks": 0}, "looks=0: must be at least 1"),
        (None, {"looks": 1.5}, "looks=1.5: must be a whole number"),
        (with_value(first(3), None, "dataset"), {"setting": "dataset", "value": "mAP"}, "setting=dataset: 1 run"),
        (with_value(first(3), np.nan, "val"), {"value": "mAP", "tune": "val"}, "tune=val: no run of arm=none seed=3"),
        (with_value(first(0), np.nan, "seed"), {"value": "mAP"}, "seed=seed: 1 run without one"),
        (renamed("norm"), {}, "two columns are named norm; rename one"),
        (None, {"value": "mAP", "seed": "mAP"}, "mAP: is one column; name another for each"),
        (None, {"arm": "seed"}, "seed: is one column; name another for each"),
        (None, {"value": ["mAP"]}, "value=['mAP']: must be text"),
        (None, {"paired": "perhaps"}, "paired='perhaps': must be true or false"),
        (None, {"guess": math.nan}, "guess=nan: must be finite"),
        (lambda data: data.assign(mAP=data["mAP"] * 1e306), {}, "is too large; leave the value of a failed run empty"),
        (lambda data: data.assign(norm=None), {}, "arm: 16 runs whose arm is empty; two or more are compared"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_one_line(change, options, said):
    with refused(re.escape(said)):
        compare(change(table()) if change else table(), **{"margin": 1} | options)


@pytest.mark.parametrize("source", [None, 3, pd.Series([1.0]), [78, 79], [{"norm": "bn"}], print])
def test_what_is_no_source_is_one_line(source):
    with refused(r"is (of type|no arm with its numbers).*; (give|write) "):
        compare(source, value="mAP", margin=1)


def test_columns_of_two_names_are_refused():
    with refused(r"^table: its columns have 2 names each"):
        compare(table().pivot_table(index="seed", columns="norm", values=["mAP"]), value="mAP", margin=1)


def test_words_and_numbers_of_another_type_mean_what_they_say(tmp_path):
    data, file = table(), tmp_path / "indexed.parquet"
    apart = one(data, paired=False)
    for margin, paired in (("0.3", "no"), (np.float32(0.3), "false")):
        found = one(data, margin, paired=paired, looks="1", spread="0.2")
        assert (found.interval, found.word, found.paired) == (apart.interval, apart.word, False)
    data.set_index(["norm", "seed"]).to_parquet(file)  # names of an index are columns
    assert one(file).interval == one(data).interval


def test_a_number_of_seeds_is_forecast_only_from_a_spread():
    nothing = str(compare({"a": 78, "b": 78.2}, value="mAP", margin=0))
    assert nothing.endswith("mAP +0.200; how many seeds would, spread=VALUE says.")
    data = table()
    for values in (78.0, data["seed"] + data["norm"].eq("bn")):
        equal = str(compare(data.assign(mAP=values), margin=0.3))
        assert equal.endswith("all differences of pairs are equal, so they give no interval.")
    assert len(str(compare({"a": 78, "b": 78.2}, value="mAP", margin=1e-300))) < 200
    for paired, deviation in itertools.product(
        (True, False), (0.3, 0.0)
    ):  # runs without one leave the given one
        notes = compare(table(spread=deviation), margin=0.3, spread=2, paired=paired).notes
        assert notes == ["spread=2 is not used for bn: the runs say it themselves"] * bool(deviation)


def test_what_else_differs_between_arms_is_said():
    data = table()
    bn = data["norm"].eq("bn")
    for rates, said in ((0.1, 0), (np.where(bn, 0.1, 0.01), 1)):
        notes = compare(data.assign(**{"params.lr": rates}), value="mAP", margin=0.3).notes
        assert notes == ["arms differ in params.lr, too"] * said
    assert not compare(data.assign(lr=[0.1, 0.2] * 8), value="mAP", margin=0.3).notes
    assert not compare(data.assign(lr=rates), value="mAP", margin=0.3, tune="mAP").notes[1:]


def test_rates_are_chosen_by_validation_alone():
    data = pd.concat([table().assign(lr=0.1, val=1.0), table(gain=9, random=1).assign(lr=0.2, val=0.5)])
    found = compare(data, value="mAP", margin=0.3, tune="val", arms=["bn", "none"])
    assert (len(found.runs), found.look.design.baseline) == (16, "bn")
    assert found.runs["value"].max() < 82


def test_small_percents_beside_large_ones_are_no_shares():
    data = table().drop(columns="mAP")
    assert one(data.assign(error=[0.8, 0.7] * 4 + [25.0, 24.0] * 4)).effect == pytest.approx(23.75)
    assert one(data.assign(error=[90.2] + [0.95] * 7 + [0.7] * 8)).seeds == 8  # one run diverged
    with refused(r"value=error: 0\.22 beside 21\.8 is a share beside a percent"):
        compare(data.assign(error=[21.8, 0.22] * 8), margin=0.3)


def test_a_table_with_a_column_for_each_arm_is_that_of_its_runs():
    data = table()
    wide = data.pivot(index="seed", columns="norm", values="mAP").reset_index()[["seed", "none", "bn"]]
    answer = compare(wide.assign(Epoch=20, lr=0.1, failed=0), value="mAP", margin=0.3)
    assert only(answer).interval == pytest.approx(one(data).interval)
    assert answer.notes[0] == "each column is an arm: none, bn"
    assert compare(wide, value="mAP", margin=0.3).notes == answer.notes[:1]
    with refused(r"^arm: no column is called arm or norm; write arm=NAME, one of method, "):
        compare(data.rename(columns={"norm": "method"}), value="mAPs", margin=0.3)


def test_numbers_that_are_no_results_are_not_compared():
    assert "mAP" in str(compare(table().assign(**{"params.lr": 0.1, "Step": 9}), margin=0.3))
    assert "seconds" in str(compare(renamed("seconds")(table()), margin=0.3))  # there is no other


def test_arms_that_are_numbers_keep_their_digits():
    data = table().replace({"norm": {"none": 1.0, "bn": 2.0}})
    assert compare(data, margin=0.3, arms=["2.0", "1.0"]).look.design.norms == ("2.0", "1.0")


def test_what_a_difference_leaves_out_is_said():
    data = table(settings=("coco", "voc"))
    lacking = data[~(data["dataset"].eq("voc") & data["norm"].eq("bn"))]
    tuned = pd.concat([table().assign(lr=0.1, val=1.0), table().assign(lr=0.2, val=0.5)], ignore_index=True)
    tuned.loc[2, "val"] = np.nan
    shares = table().assign(mAP=table()["mAP"] / 100)
    for own, options, notes in (
        (lacking, {"setting": "dataset"}, ["no run, so not compared: bn in voc"]),
        (tuned, {"tune": "val"}, ["passed over: 1 run without a number of val"]),
        (tuned, {"tune": "mAP"}, ["tune=mAP: is what is judged, so the best of several draws counts"]),
        (table(), {}, []),
        (shares, {}, ["margin=0.3 is 30 points, as mAP is a share"]),
    ):
        assert compare(own, value="mAP", margin=0.3, **options).notes == notes


@pytest.mark.parametrize(("cut", "ends"), [([2], "1 run of 12"), ([*range(6)], "6 runs of 12")])
def test_runs_that_end_early_are_named(cut, ends):
    steps = np.arange(100.0, 1001, 100)
    chart = pd.DataFrame({"Step": steps})
    for arm, seed in itertools.product(("none", "bn"), range(6)):
        last = 300 if arm == "bn" and seed in cut else 1000
        chart[f"{arm}-s{seed} - acc"] = np.where(steps <= last, steps / 2000 + 0.001 * seed, np.nan)
    said = f"ended before step 1000: {ends}, bn-s{cut[0]} at 300; "
    assert any(note.startswith(said) for note in compare(chart, margin=0.01).notes)
    assert "ended before" not in str(compare(chart.head(3), margin=0.01))
    assert "ended before" not in str(compare(chart.rename(columns={"Step": "Relative Time"}), margin=0.01))


def test_mixed_units_in_a_column_are_refused():
    with refused("some values are percents and some are not"):
        numbers(pd.Series(["78%", "0.8"]), "mAP")


def test_steps_to_an_equal_loss():
    steps = np.arange(1, 101.0)

    def curves(pace):
        return [np.column_stack([steps, np.exp(-steps / (pace + seed / 10)) + seed]) for seed in range(4)]

    def found(first, second):
        return steps_ratio(zip(first, second, strict=True), 0.95)

    slow, fast = curves(50), curves(25)
    ratio, ends = found(fast, slow)
    assert ratio == pytest.approx(0.5, abs=0.01)
    assert ends[0] < ratio < ends[1]
    assert found(slow, fast)[0] == pytest.approx(2.0, abs=0.04)
    assert found([own[::-1] for own in fast], slow)[0] == ratio
    assert found([np.array([[1.0, np.nan]])] * 4, slow) is None
    line = np.array([[10.0, 1.0], [20.0, 2.0], [30.0, 0.0]])
    assert [first_at(running_best(line), target) for target in (1.0, 0.25, 0.0)] == [10.0, 27.5, 30.0]
    firsts = [np.array([[start, 0.0]]) for start in (0.0, 1.0, 1.0, 2.0)]  # 0 steps have no logarithm
    assert found(firsts, [np.array([[4.0, 0.0]])] * 4)[0] == pytest.approx((4 * 4 * 2) ** (-1 / 3))


@pytest.mark.parametrize(
    ("names", "asked", "found"),
    [
        (("params.norm", "norm"), "norm", "norm"), (("params.norm", "x"), "norm", "params.norm"),
        (("Norm", "x"), "norm", "Norm"), (("a/val/mAP", "b"), "val.mAP", "a/val/mAP"),
        (("params.lr", "config/lr"), "lr", "one of params.lr, config/lr$"),
        (("first", "second"), "zzz", "one of first, second$"),
    ],
)  # fmt: skip
def test_a_column_is_found_by_its_short_name(names, asked, found):
    data = pd.DataFrame(columns=list(names))
    if found in names:
        assert column(data, asked, "arm") == found
        return
    with refused(found):
        column(data, asked, "arm")


def test_an_effect_of_no_pair_is_nothing():
    assert "mAP +0.00, 8 pairs" in str(compare(table().assign(mAP=1e12), margin=0.3))
    assert METRICS["test/loss"].show(-1.5e12) == "−1.5e+12"
    answer = compare(table().assign(mAP=[1.0, *[np.nan] * 14, 1.0]), margin=0.3)
    assert only(answer).word == OPEN
    assert "no pair of runs has a number" in str(answer)


def test_the_page_and_tables_from_python_and_from_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = table(settings=("a <b>", "c_d"), gain=0.3)
    data.to_csv("r.csv", index=False)
    words = "r.csv --arm norm --value mAP --seed seed --better higher --margin 0.3 --setting dataset"
    assert command("compare", words.split()) == 0
    told = capsys.readouterr().out
    answer = normexp.compare(data, value="mAP", margin=0.3, setting="dataset")
    assert str(answer) in told
    out = tmp_path / "outputs" / "compare" / "r"
    assert "<b>" not in (out / "index.html").read_text().replace("a &lt;b&gt;", "")
    assert len(pd.read_csv(out / "tables" / "comparison.csv")) == 4 == len(answer.table)
    assert "c\\_d" in (out / "tables" / "comparison.tex").read_text()
    assert json.dumps(answer.table.to_dict("records"))


def test_a_page_belongs_to_the_comparison_that_its_note_agrees_with(tmp_path):
    now = {"source": "r.csv", "metric": {"name": "mAP", "higher": True}, "arms": ["none", "bn"], "looks": 1}
    named = lambda **change: own_folder(tmp_path, "r", now | change).name  # noqa: E731
    assert named() == "r"
    fewer = {"source": "r.csv", "metric": {"name": "mAP"}, "dropped": 3}
    for older in (fewer, ["r.csv", {"name": "mAP"}, ["none", "bn"]]):
        (tmp_path / "r" / "design.json").write_text(json.dumps(older))
        assert named() == "r"
    assert json.loads((tmp_path / "r" / "design.json").read_text()) == now
    assert [named(arms=["none"]), named(metric={"name": "mAP", "higher": False})] == ["r-2", "r-3"]
    (tmp_path / "r-2" / "design.json").write_text(
        '"numbers in hand"'
    )  # of an older version: whose page, is unknown
    assert named(arms=["none"]) == "r-4"


@pytest.mark.parametrize(
    ("first", "second"),
    [(["none:78", "ours:78.2"], ["none:70", "ours:78.2"]), (["r.csv"], ["r.csv", "arm=dataset"]),
     (["r.csv"], ["other/r.csv"]), (["r.csv"], ["r.csv", "looks=2"])],
)  # fmt: skip
def test_another_comparison_has_a_page_of_its_own_and_a_repeated_one_its_old_page(
    first, second, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    for path in ("r.csv", "other/r.csv"):
        table(seeds=3, settings=("a", "b")).assign(seed=range(12)).to_csv(path, index=False)
    for words, pages in ((first, 1), (second, 2), (first, 2), (second, 2)):
        assert command("compare", [*words, "value=mAP", "margin=0.3", "better=higher"]) == 0
        assert len([*tmp_path.rglob("index.html")]) == pages


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("r.csv", None, "r.csv: no such file"), ("r.txt", "norm", "r.txt: cannot be read; write one of .csv, "),
        ("r.csv", "", "r.csv: No columns to parse from file; write it anew"),
        ("r.csv", "norm,mAP", "r.csv: holds no run"),
        ("r.csv", "norm,mAP\na,1,9\nb,2,9", "r.csv: a row has more fields than the first line has names"),
        ("r.csv", "norm,mAP\na,1,oops\nb,2", "r.csv: a row has more fields than the first line has names"),
        ("r.csv", "norm,mAP\nä,1".encode("utf-16"), "r.csv: is no text in UTF-8; save it as that"),
        ("r.csv", "norm,mAP,state\na,1,CA\nb,2,CA", "state=CA: is no known state of a run; write finished,"),
        ("r.csv", "norm,mAP\nbn,1\n,2", "arm: bn alone, beside 1 run whose arm is empty; two or more"),
        ("r.csv", "norm;mAP\na;78,2\nb;78,1", "mAP=78,2 (row 1): is no number; write digits"),
        ("r.csv", "norm,seed,mAP,mAP\na,0,1,2", "r.csv: two columns are named mAP; rename one"),
        ("r.tsv", "norm\tmAP\tmAP\na\t1\t2", "r.tsv: two columns are named mAP"),
        ("r.csv", 'norm,mAP\na,1\nb,"78,2"', "mAP=78,2 (row 2): is no number; write digits and a point"),
        ("r.csv", "norm,mAP\na,1\nb,78.2 ± 0.3", "mAP=78.2 ± 0.3 (row 2): is no number"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_line(name, text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(f"^{re.escape(said)}"):
        compare(name, value="mAP", margin=1)

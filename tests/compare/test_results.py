"""Results that exist: their forms, the numbers that they give beside an independent twin, and what is refused."""

import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from fabricated import write_study
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
    rows = [
        {
            "norm": norm,
            "seed": seed,
            "dataset": setting,
            "mAP": 78 + gain * (norm == "bn") + spread * draw.normal(),
        }
        for norm in ("none", "bn")
        for seed in range(seeds)
        for setting in settings
    ]
    return pd.DataFrame(rows)


def only(answer):
    (difference,) = answer.look.differences
    return difference


@pytest.mark.parametrize("random", range(5))
def test_paired_and_unpaired_intervals_equal_those_of_scipy(random):
    data = table(random=random)
    none, bn = (data[data["norm"] == norm]["mAP"].to_numpy() for norm in ("none", "bn"))
    paired, apart = only(compare(data, margin=0.3)), only(compare(data, margin=0.3, paired=False))
    twin = stats.ttest_rel(bn, none).confidence_interval(0.95)
    assert paired.interval == pytest.approx((twin.low, twin.high))
    twin = stats.ttest_ind(bn, none, equal_var=False).confidence_interval(0.95)
    assert apart.interval == pytest.approx((twin.low, twin.high))
    assert (paired.paired, apart.paired, paired.seeds, apart.seeds) == (True, False, 8, 8)
    assert paired.relative == pytest.approx(paired.effect / none.mean())


def test_words_follow_the_interval_the_margin_and_the_way_that_is_better():
    for gain, higher, lower in ((2.0, BETTER, WORSE), (-2.0, WORSE, BETTER), (0.0, EQUAL, EQUAL)):
        data = table(gain=gain, spread=0.1)
        found = only(compare(data, margin=0.5))  # mAP is known
        assert (found.word, found.more) == (higher, None)
        assert only(compare(data.rename(columns={"mAP": "x"}), margin=0.5, better="lower")).word == lower
    assert only(compare(table(seeds=4, gain=2), margin=0.1)).word == OPEN
    assert "fewer than 5 seeds have no word" in str(compare(table(seeds=4, gain=2), margin=0.1))
    for paired in (True, False):
        ends = {
            seeds: only(compare(table(seeds=seeds), margin=0.1, paired=paired)).interval for seeds in (2, 3)
        }
        assert not np.isfinite(ends[2]).any()
        assert np.isfinite(ends[3]).all()


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
    low, high = 1.0, 100.0
    for _ in range(60):
        spread = (low + high) / 2
        low, high = (
            (low, spread) if seeds_to_decide(1.0, spread, 0.5, 0.05, paired=True) is None else (spread, high)
        )
    assert seeds_to_decide(1.0, low, 0.5, 0.05, paired=True) == MOST == 10_000


def test_numbers_in_hand_decide_nothing_and_say_what_would(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command("compare", ["none:78", "batchnorm:78.2", "value=AP", "margin=0", "spread=0.3"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "Two numbers decide nothing: batchnorm minus none, AP +0.200; if the runs of an arm spread"
    )
    assert "(assumed; spread=VALUE), it takes 37 seeds an arm" in told
    draw = np.random.default_rng(0).normal(0, 0.3, (2, 4000, 37))
    assert (stats.ttest_ind(draw[0] + 0.2, draw[1], axis=1).pvalue < 0.05).mean() == pytest.approx(
        0.8, abs=0.03
    )
    assert command("compare", ["78,78.1,77.9", "78.2,78.5,78.3", "better=higher", "margin=0.1"]) == 0
    assert "B is not decided against A" in capsys.readouterr().out
    assert command("compare", ["78,78.1,77.9", "78.2", "better=higher", "margin=0.1"]) == 0
    assert capsys.readouterr().out.startswith("One run of an arm decides nothing: B minus A, value +0.20")
    assert "spread by 0.57, it takes 36 seeds an arm" in str(
        compare({"in": [68.7, 69.4, 69.61, 70.07], "bn": 69.33}, value="dice", margin=0.5)
    )  # 0.57 is the standard deviation of the four


def test_settings_are_counted_and_arms_corrected_together():
    data = table(settings=("a", "b", "c"), gain=3)
    answer = compare(data, margin=0.3, setting="dataset")
    (line, *each) = str(answer).splitlines()
    assert "bn is better than none by more than the margin in 3 of 3 hand-picked settings" in line
    assert "have no word" in line
    assert len(each) == 3
    alone = [only(compare(data[data["dataset"] == name], margin=0.3)).p for name in ("a", "b", "c")]
    order = np.sort(alone) * [3, 2, 1]
    near = compare(table(settings=("a", "b", "c"), gain=0.45), margin=0.3, setting="dataset").look
    for own in near.open:
        needed = seeds_to_decide(own.effect, own.spread, 0.3, 0.05 / 3, paired=True, fewest=9)
        assert own.more == needed - 8
    assert len(near.open) > 1
    assert sorted(own.p for own in answer.look.differences) == pytest.approx(np.maximum.accumulate(order))


def test_failed_runs_are_counted_and_guesses_where_guessing_is_known():
    data = table()
    data.loc[data["norm"].eq("bn") & data["seed"].lt(3), "mAP"] = np.nan
    answer = compare(data, margin=0.3)
    assert only(answer).seeds == 5
    assert "failed runs: 0 of 8 with none, 3 of 8 with bn (left out; guess=VALUE counts" in str(answer)
    guessed = only(compare(data, margin=0.3, guess=0.0))
    assert guessed.seeds == 8
    assert guessed.effect < -20
    state = table().assign(State="finished")
    state.loc[:1, "State"] = ["crashed", "running"]
    answer = compare(state, margin=0.3)
    assert "1 of 7 with none" in str(answer)
    assert "left out: 1 run not finished" in str(answer)


def test_seeds_without_a_partner_are_left_out_and_foreign_ones_unpaired():
    data = table()
    few = data.drop(data.index[data["norm"].eq("bn") & data["seed"].ge(6)])
    answer = compare(few, margin=0.3)
    assert only(answer).seeds == 6
    assert "without a partner or a number: 2 of 8 with none" in str(answer)
    answer = compare(data.assign(seed=data["seed"] + 3 * data["norm"].eq("bn")), margin=0.3)
    assert (only(answer).seeds, only(answer).paired) == (5, True)
    assert "without a partner or a number: 3 of 8 with none, 3 of 8 with bn" in str(answer)
    foreign = data.assign(seed=data["seed"] + 100 * data["norm"].eq("bn"))
    assert not only(compare(foreign, margin=0.3)).paired
    assert "not paired" in str(compare(data.drop(columns="seed"), margin=0.3))


def test_test_examples_are_a_sample_too():
    draw = np.random.default_rng(0)
    hard = draw.uniform(0.3, 0.9, 200)
    single = pd.DataFrame(
        {
            "norm": norm,
            "seed": seed,
            "example": range(200),
            "acc": draw.uniform(size=200) < hard + 0.1 * (norm == "bn"),
        }
        for norm in ("none", "bn")
        for seed in range(6)
    ).explode(["example", "acc"])
    single["acc"] = single["acc"].astype(float)
    runs = single.groupby(["norm", "seed"], as_index=False)["acc"].mean()
    alone, both = (only(compare(runs, margin=0.01, per_example=own)) for own in (None, single))
    assert both.effect == pytest.approx(alone.effect)
    assert np.diff(both.interval) > np.diff(alone.interval)
    percent = only(compare(runs.assign(acc=100 * runs["acc"]), margin=1, per_example=single))
    assert percent.interval == pytest.approx(tuple(100 * end for end in both.interval))
    with pytest.raises(ValueError, match="per_example=table: an example of a run stands there twice"):
        compare(runs, margin=0.01, per_example=pd.concat([single, single]))
    with pytest.raises(ValueError, match="its means over examples are not the values of the runs"):
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


@pytest.mark.parametrize("word", ["yes", "True", 1.0, "crashed"])
def test_a_run_that_failed_is_one_however_a_table_says_it(word):
    other = 0.0 if word == 1.0 else "" if word == "crashed" else "no"
    for name in ("failed", "diverged"):
        said = compare(table().assign(**{name: [word] + [other] * 15}), margin=0.3)
        assert "failed runs: 1 of 8 with none, 0 of 8 with bn" in str(said)
        assert only(said).seeds == 7


def test_an_arm_called_none_is_the_baseline_and_an_empty_one_is_counted(tmp_path):
    data = table()
    data.assign(norm=data["norm"].replace("none", "None")).iloc[::-1].to_csv(tmp_path / "r.csv", index=False)
    answer = compare(tmp_path / "r.csv", value="mAP", margin=0.3)
    assert answer.look.design.norms == ("None", "bn")
    assert only(answer).interval == pytest.approx(only(compare(data, margin=0.3)).interval)
    data.loc[len(data)] = [np.nan, 9, "coco", 1.0]
    assert "left out: 1 run with an empty norm" in str(compare(data, margin=0.3))


@pytest.mark.parametrize(
    "write",
    [write_wandb, write_chart, write_mlflow, write_parquet, write_tensorboard],
    ids=lambda own: own.__name__,
)
def test_every_form_gives_the_numbers_of_the_table(write, tmp_path):
    data = table()
    source, options = write(tmp_path, data)
    answer = compare(source, margin=0.3, **options)
    expected, found = only(compare(data, margin=0.3)), only(answer)
    assert found.interval == pytest.approx(expected.interval, rel=1e-4)
    assert (found.paired, found.seeds, found.word) == (True, 8, expected.word)
    notes = {
        "chart": ["seeds are read from the names of runs: none-s0 is none, seed 0"],
        "tensorboard": [
            "seeds are read from the names of runs: bn/seed_0 is bn, seed 0",
            "left out: 1 folder inside those of runs, without val/mAP",
        ],
    }
    assert answer.notes == notes.get(write.__name__.removeprefix("write_"), [])


def test_finished_runs_of_normexp_are_compared_by_their_errors(tmp_path):
    folder = write_study(tmp_path / "study", norms=("none", "layernorm"))
    with pytest.raises(ValueError, match="4 runs, which differ in batch_size, "):
        compare(folder)
    answer = compare(folder, setting="batch_size")
    assert answer.look.design.metric.name == "test error"
    assert answer.look.design.margin == "practical"
    assert not answer.notes
    summary = next(folder.rglob("layernorm*/summary.json"))
    summary.rename(summary.with_suffix(".new"))
    assert "left out: 1 run not finished" in compare(folder, setting="batch_size").notes
    summary.with_suffix(".new").rename(summary)
    means = normexp.runs.load_summaries(folder).groupby(["norm", "batch_size"])["test/accuracy"].mean()
    found = {int(own.arm.level): own.effect for own in answer.look.differences}
    assert found == pytest.approx({size: means["none", size] - means["layernorm", size] for size in found})
    assert len(found) == 4
    logged = compare(folder, value="val/loss", margin=0.01, setting="batch_size")
    last = (
        normexp.runs.load(folder)
        .query("metric == 'val/loss'")
        .groupby(["norm", "batch_size", "seed"])["value"]
        .last()
    )
    means = last.groupby(["norm", "batch_size"]).mean()
    found = {int(own.arm.level): own.effect for own in logged.look.differences}
    assert found == pytest.approx({size: means["layernorm", size] - means["none", size] for size in found})
    with pytest.raises(ValueError, match="better=higher: of test/error the lower is better"):
        compare(folder, setting="batch_size", better="higher")


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("batchnorm/seed_3", [("batchnorm", 3)]),
        ("seed=0/ln", [("ln", 0)]),
        ("resnet18/version_2 resnet50/version_2", [("resnet18", 2), ("resnet50", 2)]),
        ("bn-lr0.1-s12 bn-lr0.1-s3 ln-s3", [("bn-lr0.1", 12), ("bn-lr0.1", 3), ("ln", 3)]),
        ("ln_4 ln_5", [("ln", 4), ("ln", 5)]),
        ("s3bn s4bn", [("bn", 3), ("bn", 4)]),
        ("bn_1e-3 bn_1e-4", [("bn_1e-3", None), ("bn_1e-4", None)]),
        ("vit_s16 vit_b_16 resnet18", [("vit_s16", None), ("vit_b_16", None), ("resnet18", None)]),
        ("vit_s16 ours_0 ours_1", [("vit_s16", None), ("ours", 0), ("ours", 1)]),
        ("vit_s16_0 vit_s16_1", [("vit_s16", 0), ("vit_s16", 1)]),
    ],
)
def test_arm_and_seed_of_a_name(names, parts):
    assert list(parted(names.split()).values()) == parts


def test_how_names_of_runs_were_read_is_said():
    names = ("vit_s16", *(f"ours_{seed}" for seed in range(5)))
    chart = pd.DataFrame(
        {"step": [1.0], **{f"{name} - acc": [place / 10] for place, name in enumerate(names)}}
    )
    answer = compare(chart, margin=0.1)
    read = "seeds are read from the names of runs: ours_0 is ours, seed 0; vit_s16 is an arm without a seed"
    assert answer.notes == [read]
    assert (only(answer).arm.runs, only(answer).paired) == (5, False)


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({}, {}, "margin: practice knows none for mAP; write margin=NUMBER"),
        ({}, {"margin": "practical"}, "margin: practice knows none for mAP"),
        ({"rename": "quality"}, {"margin": 1, "value": "quality"}, "metric=quality: which way is better?"),
        ({}, {"margin": 1, "value": "mAPs"}, "value=mAPs: no such column; write value=NAME, one of mAP"),
        ({}, {"margin": 1, "arms": ["none", "gn"]}, "arms=gn: no run has it; choose from none, bn"),
        ({"twice": True}, {"margin": 1}, "arm=bn seed=0: 2 runs, which differ in lr"),
        ({"below": True}, {"margin": 1}, "value=mAP: -1 is below 0; leave the value of a failed run empty"),
        ({"shares": True}, {"margin": 1}, "is a share beside a percent; write all in one unit"),
        ({"share": True}, {"margin": 1}, "value=mAP: 0.783 beside 78"),
        ({}, {"margin": 1, "better": "lower"}, "better=lower: of mAP the higher is better; leave it out"),
        (
            {"rename": "test/accuracy"},
            {"value": "test/error"},
            "value=test/error: test/accuracy is in percent",
        ),
        ({"absent": True}, {"margin": 1}, "arm=bn: none of its runs has a value of mAP"),
        (
            {"rename": "test/error"},
            {"value": "test/error"},
            "practice knows shares of wrong answers, up to 1",
        ),
        ({}, {"margin": 1, "arms": ["bn"]}, "arm: bn alone; two or more are compared"),
        ({}, {"margin": 1, "arms": ["bn", "bn"]}, "arms=bn,bn: one stands twice"),
        ({}, {"margin": 1, "arms": "bn,none"}, "arms='bn,none': must be a list"),
        ({}, {"margin": 1, "better": "max"}, "better='max': choose from higher, lower"),
        ({}, {"margin": -1}, "margin=-1: must be at least 0"),
        ({}, {"margin": "x"}, "margin='x': must be a number"),
        ({}, {"margin": math.inf}, "margin=inf: must be finite"),
        ({}, {"margin": 1, "spread": -1}, "spread=-1: must be at least 0"),
        ({}, {"margin": 1, "looks": 0}, "looks=0: must be at least 1"),
        ({}, {"margin": 1, "looks": 1.5}, "looks=1.5: must be a whole number"),
        (
            {"none": "dataset"},
            {"value": "mAP", "margin": 1, "setting": "dataset"},
            "setting=dataset: 1 run without one",
        ),
        (
            {"none": "val"},
            {"value": "mAP", "margin": 1, "tune": "val"},
            "tune=val: no run of arm=none seed=3 has a number",
        ),
        ({"rename": "norm"}, {"margin": 1}, "two columns are named norm; rename one"),
        ({}, {"margin": 1, "value": "mAP", "seed": "mAP"}, "mAP: is one column; name another for each"),
        ({}, {"margin": 1, "arm": "seed"}, "seed: is one column; name another for each"),
        ({}, {"margin": 1, "value": ["mAP"]}, "value=['mAP']: must be text"),
        ({}, {"margin": 1, "paired": "perhaps"}, "paired='perhaps': must be true or false"),
        ({}, {"margin": 1, "guess": math.nan}, "guess=nan: must be finite"),
        ({"scale": 1e306}, {"margin": 1}, "is too large; leave the value of a failed run empty"),
        ({"steps": True}, {"margin": 1, "value": "mAP"}, "differ in step; keep the last row of each run"),
        ({"nameless": True}, {"margin": 1}, "arm: 16 runs whose arm is empty; two or more are compared"),
    ],
)
def test_what_cannot_be_judged_is_one_line(change, options, said):
    data = table()
    if change.get("rename"):
        data = data.rename(columns={"mAP": change["rename"]})
    if change.get("none"):
        data = data.assign(val=data["mAP"])
        data.loc[3, change["none"]] = np.nan
    if change.get("twice"):
        data = pd.concat([data.assign(lr=0.1), data.assign(lr=0.2)])
    bn = data["norm"] == "bn"
    if change.get("shares"):
        data.loc[bn, "mAP"] /= 100
    if change.get("below"):
        data.loc[1, "mAP"] = -1
    if change.get("share"):
        data.loc[1, "mAP"] = 0.783
    if change.get("absent"):
        data.loc[bn, "mAP"] = np.nan
    if change.get("scale"):
        data["mAP"] *= change["scale"]
    if change.get("steps"):
        data = pd.concat([data.assign(step=1), data.assign(step=2)])
    if change.get("nameless"):
        data["norm"] = None
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        compare(data, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", [None, 3, pd.Series([1.0]), [78, 79], [{"norm": "bn"}], print])
def test_what_is_no_source_is_one_line(source):
    with pytest.raises(ValueError, match=r"is (of type|no arm with its numbers).*; (give|write) ") as error:
        compare(source, value="mAP", margin=1)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"^table: its columns have 2 names each"):
        compare(table().pivot_table(index="seed", columns="norm", values=["mAP"]), value="mAP", margin=1)


def test_words_and_numbers_of_another_type_mean_what_they_say(tmp_path):
    data, file = table(), tmp_path / "indexed.parquet"
    apart = only(compare(data, margin=0.3, paired=False))
    for margin, paired in (("0.3", "no"), (np.float32(0.3), "false")):
        found = only(compare(data, margin=margin, paired=paired, looks="1", spread="0.2"))
        assert (found.interval, found.word, found.paired) == (apart.interval, apart.word, False)
    data.set_index(["norm", "seed"]).to_parquet(file)  # names of an index are columns
    assert only(compare(file, margin=0.3)).interval == only(compare(data, margin=0.3)).interval


def test_a_number_of_seeds_is_forecast_only_from_a_spread():
    nothing = str(compare({"a": 78, "b": 78.2}, value="mAP", margin=0))
    assert nothing.endswith("mAP +0.200; how many seeds would, spread=VALUE says.")
    equal = str(compare(table(spread=0, gain=0), margin=0.3))
    assert equal.endswith("all differences of pairs are equal, so they give no interval.")
    assert len(str(compare({"a": 78, "b": 78.2}, value="mAP", margin=1e-300))) < 200
    for paired, deviation in itertools.product(
        (True, False), (0.3, 0.0)
    ):  # runs without one leave the given one
        notes = compare(table(spread=deviation), margin=0.3, spread=2, paired=paired).notes
        assert notes == ["spread=2 is not used for bn: the runs say it themselves"] * bool(deviation)


def test_what_else_differs_between_arms_is_said():
    data = table()
    for rates, said in (((0.1, 0.1), 0), ((0.1, 0.01), 1)):
        rates = np.where(data["norm"] == "bn", *rates)
        notes = compare(data.assign(**{"params.lr": rates}), value="mAP", margin=0.3).notes
        assert notes == ["arms differ in params.lr, too"] * said
    varied = data.assign(lr=[0.1, 0.2] * 8)
    assert not compare(varied, value="mAP", margin=0.3).notes
    assert not compare(data.assign(lr=rates), value="mAP", margin=0.3, tune="mAP").notes[1:]


def test_rates_are_chosen_by_validation_alone():
    data = pd.concat([table().assign(lr=0.1, val=1.0), table(gain=9, random=1).assign(lr=0.2, val=0.5)])
    chosen = compare(data, value="mAP", margin=0.3, tune="val").runs
    assert len(chosen) == 16
    assert chosen["value"].max() < 82
    assert (
        compare(data, value="mAP", margin=0.3, tune="val", arms=["bn", "none"]).look.design.baseline == "bn"
    )


def test_small_percents_beside_large_ones_are_no_shares():
    data = table().assign(error=[0.8, 0.7] * 4 + [25.0, 24.0] * 4).drop(columns="mAP")
    assert only(compare(data, margin=0.3)).effect == pytest.approx(23.75)
    data["error"] = [90.2] + [0.95] * 7 + [0.7] * 8  # of a run that diverged
    assert only(compare(data, margin=0.3)).seeds == 8
    data["error"] = [21.8, 0.22] * 8
    with pytest.raises(ValueError, match=r"value=error: 0\.22 beside 21\.8 is a share beside a percent"):
        compare(data, margin=0.3)


def test_a_table_with_a_column_for_each_arm_is_that_of_its_runs():
    data = table()
    wide = data.pivot(index="seed", columns="norm", values="mAP").reset_index()[["seed", "none", "bn"]]
    answer = compare(wide, value="mAP", margin=0.3)
    assert only(answer).interval == pytest.approx(only(compare(data, margin=0.3)).interval)
    assert answer.notes == ["each column is an arm: none, bn"]
    with pytest.raises(
        ValueError, match=r"^arm: no column is called arm or norm; write arm=NAME, one of method, "
    ):
        compare(data.rename(columns={"norm": "method"}), value="mAPs", margin=0.3)


def test_a_csv_may_begin_with_comments_and_have_other_separators(tmp_path):
    data = table()
    expected = only(compare(data, value="mAP", margin=0.3)).interval
    for separator in ",;\t":
        text = data.to_csv(sep=separator)  # with the index, whose name is empty
        (tmp_path / "r.csv").write_text(f"# made by x, y\n#\n\n{text}")
        assert only(compare(tmp_path / "r.csv", value="mAP", margin=0.3)).interval == pytest.approx(expected)


def test_spaces_around_names_and_arms_tell_nothing_apart(tmp_path):
    data = table()
    text = data.to_csv(index=False).replace(",", " , ").replace("none", "none ")
    (tmp_path / "r.csv").write_text(text)
    found = only(compare(tmp_path / "r.csv", value="mAP", margin=0.3))
    assert found.interval == pytest.approx(only(compare(data, margin=0.3)).interval)
    lost = data.assign(norm=[" ", *data["norm"][1:]])
    assert compare(lost, margin=0.3).notes == ["left out: 1 run with an empty norm"]


def test_arms_that_are_numbers_keep_their_digits():
    data = table().replace({"norm": {"none": 1.0, "bn": 2.0}})
    assert compare(data, margin=0.3, arms=["2.0", "1.0"]).look.design.norms == ("2.0", "1.0")


def test_numbers_that_are_no_results_are_no_arms():
    wide = table().pivot(index="seed", columns="norm", values="mAP").reset_index()
    answer = compare(wide.assign(Epoch=20, lr=0.1, failed=0), value="mAP", margin=0.3)
    assert answer.look.design.norms == ("none", "bn")
    assert "mAP" in str(compare(table().assign(**{"params.lr": 0.1, "Step": 9}), margin=0.3))
    assert "seconds" in str(
        compare(table().rename(columns={"mAP": "seconds"}), margin=0.3)
    )  # there is no other


def test_what_a_difference_leaves_out_is_said():
    data = table(settings=("coco", "voc"))
    lacking = compare(data.drop(data.index[(data["dataset"] == "voc") & (data["norm"] == "bn")]), value="mAP",
                      setting="dataset", margin=0.3)  # fmt: skip
    assert lacking.notes == ["no run, so not compared: bn in voc"]
    data = pd.concat([table().assign(lr=0.1, val=1.0), table().assign(lr=0.2, val=0.5)], ignore_index=True)
    data.loc[2, "val"] = np.nan
    assert compare(data, value="mAP", margin=0.3, tune="val").notes == [
        "passed over: 1 run without a number of val"
    ]
    assert compare(data, value="mAP", margin=0.3, tune="mAP").notes == [
        "tune=mAP: is what is judged, so the best of several draws counts"
    ]
    data = table()
    assert not compare(data, margin=0.3).notes
    assert compare(data.assign(mAP=data["mAP"] / 100), margin=0.3).notes == [
        "margin=0.3 is 30 points, as mAP is a share"
    ]


@pytest.mark.parametrize(
    ("cut", "ends"), [({2: 300}, "1 run of 12"), (dict.fromkeys(range(6), 300), "6 runs of 12")]
)
def test_runs_that_end_early_are_named(cut, ends):
    steps = np.arange(100.0, 1001, 100)
    chart = {"Step": steps}
    for arm, seed in itertools.product(("none", "bn"), range(6)):
        last = cut.get(seed, 1000) if arm == "bn" else 1000
        chart[f"{arm}-s{seed} - acc"] = np.where(steps <= last, steps / 2000 + 0.001 * seed, np.nan)
    chart = pd.DataFrame(chart)
    first = next(iter(cut))
    said = f"ended before step 1000: {ends}, bn-s{first} at 300; "
    assert any(note.startswith(said) for note in compare(chart, margin=0.01).notes)
    assert "ended before" not in str(compare(chart.head(3), margin=0.01))
    assert "ended before" not in str(compare(chart.rename(columns={"Step": "Relative Time"}), margin=0.01))


def test_mixed_units_in_a_column_are_refused():
    with pytest.raises(ValueError, match="some values are percents and some are not"):
        numbers(pd.Series(["78%", "0.8"]), "mAP")


def test_steps_to_an_equal_loss():
    steps = np.arange(1, 101.0)
    slow, fast = (
        [np.column_stack([steps, np.exp(-steps / (pace + seed / 10)) + seed]) for seed in range(4)]
        for pace in (50, 25)
    )
    ratio, ends = steps_ratio(zip(fast, slow, strict=True), 0.95)
    assert ratio == pytest.approx(0.5, abs=0.01)
    assert ends[0] < ratio < ends[1]
    assert steps_ratio(zip(slow, fast, strict=True), 0.95)[0] == pytest.approx(2.0, abs=0.04)
    assert steps_ratio([(own[::-1], other) for own, other in zip(fast, slow, strict=True)], 0.95)[0] == ratio
    assert steps_ratio([(np.array([[1.0, np.nan]]), other) for other in slow], 0.95) is None
    line = np.array([[10.0, 1.0], [20.0, 2.0], [30.0, 0.0]])
    assert [first_at(running_best(line), target) for target in (1.0, 0.25, 0.0)] == [10.0, 27.5, 30.0]
    later, firsts = np.array([[4.0, 0.0]]), (0.0, 1.0, 1.0, 2.0)  # 0 steps have no logarithm
    ratio, _ = steps_ratio([(np.array([[first, 0.0]]), later) for first in firsts], 0.95)
    assert ratio == pytest.approx((4 * 4 * 2) ** (-1 / 3))


@pytest.mark.parametrize(
    ("names", "asked", "found"),
    [
        (("params.norm", "norm"), "norm", "norm"),
        (("params.norm", "x"), "norm", "params.norm"),
        (("Norm", "x"), "norm", "Norm"),
        (("a/val/mAP", "b"), "val.mAP", "a/val/mAP"),
        (("params.lr", "config/lr"), "lr", "one of params.lr, config/lr$"),
        (("first", "second"), "zzz", "one of first, second$"),
    ],
)
def test_a_column_is_found_by_its_short_name(names, asked, found):
    data = pd.DataFrame(columns=list(names))
    if found in names:
        assert column(data, asked, "arm") == found
        return
    with pytest.raises(ValueError, match=found):
        column(data, asked, "arm")


def test_seeds_are_numbers_however_a_table_has_them():
    data, single = table(), table().assign(example=0)
    single = pd.concat([single, single.assign(example=1)])
    found = only(compare(data.astype({"seed": float}), value="mAP", margin=0.3, per_example=single))
    assert (found.seeds, found.paired) == (8, True)
    data.loc[0, "seed"] = np.nan
    with pytest.raises(ValueError, match="seed=seed: 1 run without one"):
        compare(data, margin=0.3)
    data = table()
    assert only(compare(data.assign(seed=20240101.0 + data["seed"]), margin=0.3)).paired
    foreign = 1_000_000 * (1 + data["seed"]) + data["norm"].eq("bn")
    assert not only(compare(data.assign(seed=foreign), margin=0.3)).paired
    assert only(compare(data.set_index(["norm", "seed"]), value="mAP", margin=0.3)).paired
    equal = data.assign(mAP=data["seed"] + data["norm"].eq("bn"))
    assert "all differences of pairs are equal, so they give no interval" in str(compare(equal, margin=0.3))


def test_an_effect_of_no_pair_is_nothing():
    data = table()
    data["mAP"] = 1e12
    assert "mAP +0.00, 8 pairs" in str(compare(data, margin=0.3))
    assert METRICS["test/loss"].show(-1.5e12) == "−1.5e+12"
    data["mAP"] = np.nan
    data.loc[0, "mAP"] = 1.0
    data.loc[15, "mAP"] = 1.0
    answer = compare(data, margin=0.3)
    assert only(answer).word == OPEN
    assert "no pair of runs has a number" in str(answer)


def test_the_page_and_tables_from_python_and_from_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = table(settings=("a <b>", "c_d"), gain=0.3)
    data.to_csv("r.csv", index=False)
    words = [
        "r.csv",
        "--arm",
        "norm",
        "--value",
        "mAP",
        "--seed",
        "seed",
        "--better",
        "higher",
        "--margin",
        "0.3",
    ]
    assert command("compare", [*words, "--setting", "dataset"]) == 0
    told = capsys.readouterr().out
    answer = normexp.compare(data, value="mAP", margin=0.3, setting="dataset")
    assert str(answer) in told
    out = tmp_path / "outputs" / "compare" / "r"
    assert "<b>" not in (out / "index.html").read_text().replace("a &lt;b&gt;", "")
    assert len(pd.read_csv(out / "tables" / "comparison.csv")) == 4 == len(answer.table)
    assert "c\\_d" in (out / "tables" / "comparison.tex").read_text()
    assert json.dumps(answer.table.to_dict("records"))
    (tmp_path / "other").mkdir()
    data.to_csv("other/r.csv", index=False)
    first = (out / "index.html").read_bytes()
    for _ in range(2):
        assert command("compare", ["other/r.csv", "setting=dataset", "value=mAP", "margin=0.3"]) == 0
    assert (out / "index.html").read_bytes() == first
    assert sorted(own.name for own in out.parent.iterdir()) == ["r", "r-2"]
    older = [str(tmp_path / "other" / "r.csv"), "mAP", True, 0.3, "dataset", None, None, True]  # by position
    (out.with_name("r-2") / "design.json").write_text(json.dumps(older))
    assert command("compare", ["other/r.csv", "setting=dataset", "value=mAP", "margin=0.3"]) == 0
    assert sorted(own.name for own in out.parent.iterdir()) == ["r", "r-2"]
    assert command("compare", ["other/r.csv", "setting=dataset", "value=mAP", "margin=0.3", "looks=2"]) == 0
    assert (out.with_name("r-3") / "index.html").is_file()


def test_a_page_belongs_to_the_comparison_that_its_note_agrees_with(tmp_path):
    now = {"source": "r.csv", "metric": {"name": "mAP", "higher": True}, "arms": ["none", "bn"], "looks": 1}
    assert own_folder(tmp_path, "r", now).name == "r"
    for older in (
        {"source": "r.csv", "metric": {"name": "mAP"}, "dropped": 3},
        ["r.csv", {"name": "mAP"}, ["none", "bn"]],
    ):
        (tmp_path / "r" / "design.json").write_text(json.dumps(older))
        assert own_folder(tmp_path, "r", now).name == "r"
    assert json.loads((tmp_path / "r" / "design.json").read_text()) == now
    for place, change in enumerate(({"arms": ["none"]}, {"metric": {"name": "mAP", "higher": False}}), 2):
        assert own_folder(tmp_path, "r", now | change).name == f"r-{place}"
    (tmp_path / "r-2" / "design.json").write_text(
        '"numbers in hand"'
    )  # of an older version: whose page it is, is unknown
    assert own_folder(tmp_path, "r", now | {"arms": ["none"]}).name == "r-4"


@pytest.mark.parametrize(
    ("first", "second"),
    [(["none:78", "ours:78.2"], ["none:70", "ours:78.2"]), (["r.csv"], ["r.csv", "arm=dataset"])],
)
def test_another_comparison_has_a_page_of_its_own_and_a_repeated_one_its_old_page(
    first, second, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    table(settings=("a", "b")).assign(seed=range(32)).to_csv("r.csv", index=False)
    for words, count in ((first, 1), (second, 2), (first, 2), (second, 2)):
        assert command("compare", [*words, "value=mAP", "margin=0.3", "better=higher"]) == 0
        assert len([*tmp_path.rglob("index.html")]) == count


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("r.csv", None, "r.csv: no such file"),
        ("r.txt", "norm", "r.txt: cannot be read; write one of .csv, "),
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
)
def test_a_file_that_cannot_be_used_is_one_line(name, text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"^{re.escape(said)}") as error:
        compare(name, value="mAP", margin=1)
    assert "\n" not in str(error.value)

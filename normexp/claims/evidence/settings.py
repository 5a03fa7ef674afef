"""The settings that the judge counts. Of finished runs: which are compared, which failed, and which arms had not
learned to an end. Of networks before training: which are equal, and so count once."""

import numpy as np
import pandas as pd
from scipy import stats

from normexp.claims.evidence.grid import ARM, OF_BANK, RUN, runs_of
from normexp.claims.evidence.metric import quantity_of, with_values
from normexp.claims.evidence.rates import tuned_runs
from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.cell import BankCell, labels_of
from normexp.claims.spec.claim import Claim, split_options
from normexp.claims.spec.population import Length

ABOVE_CHANCE = 0.001  # of a thousand runs that guess, one is taken for a run that learned
MOST_LOSS = 10.0  # times that of guessing, of a run that did not fail
FAILURE_RULES = {
    "p above which a run never got above chance": ABOVE_CHANCE,
    "loss of a drawn run that did not fail, at most, times that of guessing": MOST_LOSS,
}
NETWORK = "network"  # the part by which networks are told apart
SAME = 1e-4  # the largest relative difference of equal networks: sums are rounded in another order
DIRECTIONS = "depth.direction"
DIFFERENT = {  # of drawn networks before training; a registered protocol holds it
    "passed over": "a draw that has in every arm and seed the values and directions of an earlier one",
    "directions": DIRECTIONS,
    "within": SAME,
}


def settings(claim: Claim, runs: pd.DataFrame, *, manipulation: bool = False) -> list[Setting]:
    """The settings of a claim from its `compared_runs`. `manipulation`: with the values of its manipulation check."""
    return [
        setting_of(claim, claim.cells[str(name)], rows, manipulation=manipulation)
        for name, rows in runs.groupby("setting", sort=False)
    ]


def compared_runs(claim: Claim, runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that a verdict compares, of the finished runs of a grid: one per setting, arm, level and seed, at its
    rate, with the columns `value`, `check` and `failed`. Settings stand in the bank's order, whichever ended first."""
    chosen = rates_of_all_seeds(with_values(claim, runs))
    if claim.rate == "own":  # else the grid has one rate for each arm
        chosen = tuned_runs(chosen, quantity_of(claim))
    by_setting = {str(name): rows for name, rows in chosen.groupby("setting", sort=False)}
    cells = {name: cell for name, cell in claim.cells.items() if name in by_setting}
    parts = [
        by_setting[name].assign(failed=failed_runs(by_setting[name], cell)) for name, cell in cells.items()
    ]
    return pd.concat(parts, ignore_index=True) if parts else chosen.assign(failed=[])


def finished_settings(claim: Claim, grid: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The runs of the settings of which none is missing, with those of the same arms and seeds that the table has at
    other rates: a curve of losses over rates may have two valleys, and a search from a few rates finds one of them."""
    if claim.rate == "own":
        more = grid[[*ARM, "overrides", "seed"]].drop_duplicates().merge(table[RUN], on=["overrides", "seed"])
        grid = pd.concat([grid, more[grid.columns]]).drop_duplicates([*ARM, *RUN], ignore_index=True)
    runs = runs_of(grid, table)
    return runs[runs["status"].notna().groupby(runs["setting"]).transform("all")]


def rates_of_all_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs without those at rates that a wider grid gave to some seeds of an arm alone."""
    seeds = runs.groupby(ARM, sort=False)["seed"].transform("nunique")
    return runs[runs.groupby([*ARM, "lr"], sort=False)["seed"].transform("nunique") == seeds]


def setting_of(claim: Claim, cell: BankCell, runs: pd.DataFrame, *, manipulation: bool = False) -> Setting:
    """One setting from its `compared_runs`."""
    quantity, failed = "value" if manipulation else quantity_of(claim), runs["failed"]
    values = failed.astype(float) if quantity == "failed" else runs["check" if manipulation else "value"]
    table = runs[["arm", "seed"]].assign(factor=runs["level"], value=values, failed=failed)
    if quantity == "steps":
        table["unreached"] = runs["unreached"]
    guesses = {"error": 1 - cell.chance, "loss": cell.guess_loss, "fit": cell.guess_loss, "failed": 1.0}
    bank = claim.drawn_from
    length = bank.population.length if bank and bank.population and cell.name in bank.cells else None
    return Setting.of_table(
        table,
        cell.name,
        quantity=quantity,
        guess=float(runs["steps"].max()) if quantity == "steps" else guesses.get(quantity),
        answer=answer_of(cell, runs) if quantity == "error" else 0.0,
        labels=claim.labels_in(cell.labels),
        # A factor makes several networks of a setting, of which its trial run says nothing.
        learned=None if claim.factor else cell.learned,
        unfitted=unfitted_arms(cell, runs, length) if length and not claim.factor else (),
    )


def answer_of(cell: BankCell, runs: pd.DataFrame) -> float:
    """What one test answer of a setting is worth; that of validation where its runs do not say how many there are."""
    answers = runs["answers"].iloc[0]
    return 1 / (cell.validation if np.isnan(answers) else answers)


def failed_runs(runs: pd.DataFrame, cell: BankCell) -> np.ndarray:
    """Whether each run failed: it diverged, or only guessed, or ended, in a drawn setting, with a loss above ten times
    that of guessing. It guessed if at its end it had no more validation answers right than guessing gives, by a
    one-sided binomial test at 0.1%; a guess is right with the share of the largest class."""
    if not cell.validation:
        raise ValueError(
            f"setting={cell.name}: its facts are not known; write facts: {{validation: ...}} into its bank"
        )
    right = np.round(runs["val_accuracy"].fillna(0.0).to_numpy(float) * cell.validation)
    guessed = stats.binom.sf(right - 1, cell.validation, cell.chance) > ABOVE_CHANCE
    failed = guessed | (runs["status"] != "completed").to_numpy()
    if cell.draw:
        losses = runs[["train_loss", "val_loss"]].to_numpy(float)  # not a number: failed
        failed |= ~(losses <= MOST_LOSS * cell.guess_loss).all(1)
    return failed


def unfitted_arms(cell: BankCell, runs: pd.DataFrame, rules: Length) -> tuple[str, ...]:
    """Arms of a drawn setting that did not learn to an end in most of their runs: the error on the training split is at
    least `learned` of guessing's (not required on a text), and that on validation (on a text: the loss) still fell by
    `gain` or more after two fifths of the updates. On a text also those with a loss no lower than the bank's
    `counts_loss`, that of counting tokens. See `late_gain`. None where an arm has runs of the bank's grid, of which it
    is not known, as pilots found their length: it would be told of the other arm alone."""
    if runs["asked_by"].str.contains(OF_BANK, regex=False).any():
        return ()
    done = runs[~runs["failed"] & runs["late_gain"].notna()]
    open_ = done["late_gain"] >= rules.gain
    if cell.test == "blocks":
        open_ |= done["val_loss"] >= cell.counts_loss
    else:
        open_ &= 1 - done["train_accuracy"] >= rules.learned * (1 - cell.chance)
    shares = open_.groupby(done["arm"], sort=False).mean()
    return tuple(str(arm) for arm, share in shares.items() if share > 0.5)


def settings_of_values(claim: Claim, table: pd.DataFrame) -> list[Setting]:
    """The settings of networks before training, from the table of their values."""
    rows = table[(table["part"] == "") & table["seed"].isin(list(claim.seed_range))]
    by_setting = dict(iter(rows.groupby("setting", sort=False)))
    return [
        Setting.of_table(by_setting[name], name, labels=initial_labels(claim, cell))
        for name, cell in claim.cells.items()
    ]


def different(claim: Claim, table: pd.DataFrame) -> list[Setting]:
    """The settings; of drawn ones without those that are the same network as an earlier one: drawn twice, or apart only
    in what the claim's arms fix or do not use, or in a scale of the weights that a norm removes. Equal values alone, of
    a measure at the end of its range, do not make networks equal: those of `NETWORK` are compared, too."""
    settings = settings_of_values(claim, table)
    if not claim.drawn:
        return settings
    rows = table[table["seed"].isin(list(claim.seed_range))]
    wide = rows.pivot(index="setting", columns=["part", "arm", "factor", "seed"], values="value")
    numbers, distinct = dict(zip(wide.index, wide.to_numpy(float), strict=True)), dict[str, Setting]()
    for setting in settings:
        own, earlier = numbers[setting.name], (numbers[name] for name in distinct)
        if not any(np.allclose(own, other, rtol=SAME, equal_nan=True) for other in earlier):
            distinct[setting.name] = setting
    return list(distinct.values())


def initial_labels(claim: Claim, cell: BankCell) -> dict[str, str]:
    """The labels of a setting of initial networks, for the scope. A network without a data set sees noise."""
    if claim.drawn_from:
        return claim.labels_in(cell.labels)
    labels = labels_of([*split_options(cell.overrides)[0], *claim.fixed])
    noise = "random tokens" if labels.get("model") == "GPT" else "Gaussian noise"
    return {"data": noise} | labels

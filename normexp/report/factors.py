"""What varies in a study: its factors, the columns that go with another, and contents of data that differ."""

from pathlib import Path

import pandas as pd

from normexp.runs.summary import decided_by, varying

# Choices that decide other keys: a norm decides `norm.*`.
GROUPS = ("study", "norm", "model", "data", "optimizer", "schedule")


def check_data(path: Path, summaries: pd.DataFrame) -> None:
    """Refuse runs that saw different contents of their data. Options of the data may decide the content; so may the
    seed, where a user's own class draws it."""
    if summaries["fingerprint"].nunique() < 2:
        return
    by = [name for name in varying(summaries) if name.startswith("data.")]
    contents = (summaries.groupby(by, dropna=False) if by else summaries)["fingerprint"].nunique()
    if by and (contents == 1).all():
        return
    if "data.kind" in summaries:  # normexp.data.OwnData
        each = summaries.groupby([*by, "seed"], dropna=False)["fingerprint"].agg(["nunique", "first"])
        if (each["nunique"] == 1).all() and not each.reset_index().duplicated([*by, "first"]).any():
            return
    contents = summaries["fingerprint"].unique()
    found = ", ".join(name[:8] or "none" for name in contents[:4])
    raise ValueError(
        f"path={path}: its runs saw {len(contents)} contents of the data (fingerprints {found}), as "
        "if files had changed between two launches; keep the runs of one, and give others their own name="
    )


def find_factors(summaries: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """The columns in which the runs differ, except the seed and columns that another choice decides. `norm.eps` differs
    between norms, but not within one; so it makes no arm. A column that a choice of another kind decides makes none
    either, and stands in the second result, because it may be the reason of a difference."""
    names = [name for name in varying(summaries) if name not in ("seed", "fingerprint")]
    # A key that equals the seed in every run, such as data.split_seed=${seed}, is the seed.
    names = [name for name in names if not (summaries[name] == summaries["seed"]).all()]
    choices = [name for name in GROUPS if name in names]
    factors, goes_with = list(choices), {}
    for name in names:
        group = name.partition(".")[0]
        if name in choices or (group in choices and decided_by(summaries, name, group)):
            continue
        deciding = [choice for choice in choices if decided_by(summaries, name, choice)]
        if deciding:
            goes_with[name] = deciding[0]
        else:
            factors.append(name)
    return factors, goes_with


def is_axis(column: pd.Series) -> bool:
    """Whether every run has a number there, so that a figure can have it as its axis."""
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return bool(numeric and column.notna().all())

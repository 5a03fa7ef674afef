"""The table of equal arms: which comparisons stand in it, and what it says of their error rate."""

from pathlib import Path

from committed import CLAIMS
from tables import table_of

from normexp.claims.judge.equal_arms import equal_arms
from normexp.claims.judge.error_rates import chance, of_real_runs
from normexp.claims.judge.false_words import most_errors


def write(folder: Path, name: str, arms: dict[str, list]) -> None:
    (folder / name).mkdir()
    table_of(arms).to_csv(folder / name / "evidence.csv", index=False)


def test_each_arm_of_ten_seeds_meets_itself_once(tmp_path):
    same, other = [0.9 + 0.01 * (seed % 3) for seed in range(10)], [*[0.1, 0.11, 0.1, 0.12, 0.1], *[0.9] * 5]
    write(tmp_path, "P12", {"norm_free": same, "batchnorm": other})
    # Runs that P12 has already, and too few.
    write(tmp_path, "P11", {"powernorm": same, "batchnorm": same[:5]})
    write(tmp_path, "S32", {"after": same})  # judged over settings
    write(tmp_path, "S31", {"a": same})  # not trained
    found = equal_arms(CLAIMS, ["P12", "P11", "S32", "S31"], tmp_path)
    assert [(row["claim"], row["arm"], row["different"]) for row in found] == [
        ("P12", "norm_free", False),
        ("P12", "batchnorm", True),
    ]
    assert "1 of 2 are called different" in "\n".join(of_real_runs(found))


def test_chance_is_one_minus_the_probability_of_fewer_errors():
    assert abs(chance(1, 40) - (1 - 0.95**40)) < 1e-12
    assert chance(0, 40) == 1.0


def test_the_bound_is_the_most_errors_whose_chance_exceeds_five_percent():
    for trials in (40, 100, 2000):
        most = most_errors(trials)
        assert chance(most, trials) > 0.05 >= chance(most + 1, trials)
    assert most_errors(40) == 4

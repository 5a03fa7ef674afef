"""Which runs of a sweep share a process."""

from pathlib import Path

import pytest

from normexp.sweeps.cell import Cell
from normexp.sweeps.grouping import MOST, arrange, share_time, why_apart

FASTER = {4: 1.5, 8: 2.0, 16: 3.0}


def cells(*counts: int, first_seed: int = 0, **more) -> list[Cell]:
    """So many seeds of each of several kinds."""
    return [
        Cell(
            f"norm={kind} seed={seed}", [], {}, {"seed": seed}, "", Path(f"{kind}-{seed}"), 12.0,
            kind=str(kind), **{"speedups": FASTER, **more},
        )
        for kind, count in enumerate(counts)
        for seed in range(first_seed, first_seed + count)
    ]  # fmt: skip


def sizes(found: list[Cell], places: int = 2) -> list[int]:
    return [len(job) for job in arrange(found, places)]


def test_runs_of_one_kind_share_a_process_and_every_run_has_one():
    found = cells(5, 5, 5, 5)
    jobs = arrange(found, 2)
    assert jobs == [list(range(start, start + 5)) for start in (0, 5, 10, 15)]


@pytest.mark.parametrize(
    ("counts", "places", "expected"),
    [
        ((16,), 2, [8, 8]),  # no place stays empty
        ((16,), 1, [16]),
        ((5,), 2, [1] * 5),  # five side by side would take longer than three one after the other
        ((2, 2, 2), 2, [1] * 6),  # two at a time were not measured to be faster
        ((40,), 1, [13, 13, 14]),
        ((1, 1), 2, [1, 1]),
        ((), 2, []),
    ],
)
def test_cut_so_that_all_are_through_soonest(counts, places, expected):
    assert sizes(cells(*counts), places) == expected
    assert all(size <= MOST for size in expected)


def test_one_kind_that_cannot_keeps_all_apart_so_that_pairs_do_not_mix():
    found = cells(8) + cells(8, alone="vmap cannot", first_seed=8)
    found[8].kind = found[9].kind = "odd"
    for cell in found[8:]:
        cell.kind = "odd"
    assert sizes(found) == [1] * 16
    assert why_apart(found) == "norm=0 seed=8: vmap cannot"


def test_kind_of_a_single_run_does_not_keep_others_apart():
    found = cells(8, 8)
    odd = cells(1, alone="vmap cannot")[0]
    odd.kind = "odd"
    assert sorted(sizes([*found, odd])) == [1, 8, 8]


def test_kind_that_would_be_slower_keeps_all_apart():
    found = cells(8, 8)
    for cell in found[8:]:
        cell.speedups = {4: 0.9}
    assert sizes(found) == [1] * 16


def test_runs_pair_with_finished_ones_that_were_computed_alone():
    finished = cells(8, state="skipped", mode="alone")
    more = cells(8)
    for cell in more:
        cell.kind = "another norm"
    assert sizes(finished + more, 1) == [1] * 8
    assert why_apart(finished + more) == "norm=0 seed=0 was computed alone, and pairs do not mix"
    for cell in finished:
        cell.mode = "replica"
    assert sizes(finished + more, 1) == [8]
    for cell in finished:
        cell.mode, cell.config = "alone", {"seed": cell.config["seed"] + 100}  # more seeds of the same arms
    assert sizes(finished + more, 1) == [8]


def test_times_say_what_is_saved():
    found = cells(16)
    share_time(arrange(found, 1), found)
    assert {cell.estimate for cell in found} == {4.0}
    unknown = cells(16)
    for cell in unknown:
        cell.estimate = None  # a GPU computes
    jobs = arrange(unknown, 1)
    share_time(jobs, unknown)
    assert [len(job) for job in jobs] == [16]
    assert {cell.estimate for cell in unknown} == {None}

"""Which runs of a sweep share a process."""

from pathlib import Path

import pytest

from normexp.runs import write_summary
from normexp.runs.summary import NEEDED
from normexp.sweeps.cell import Cell
from normexp.sweeps.grouping import MOST, arrange, share_time

FASTER = {4: 1.5, 8: 2.0, 16: 3.0}


def cells(*counts: int, first_seed: int = 0, place: Path = Path("nowhere"), **more) -> list[Cell]:
    """So many seeds of each of several kinds."""
    return [
        Cell(
            f"norm={kind} seed={seed}", [], {}, {"seed": seed, "run_dir": None}, "", [place / f"{kind}-{seed}"],
            12.0, kind=str(kind), **{"speedups": FASTER, **more},
        )
        for kind, count in enumerate(counts)
        for seed in range(first_seed, first_seed + count)
    ]  # fmt: skip


def sizes(found: list[Cell], places: int = 2) -> list[int]:
    arrangement = arrange(found, places)
    assert arrangement.stacked or all(len(job) == 1 for job in arrangement.jobs)
    return [len(job) for job in arrangement.jobs]


def finished(place: Path, kind: str, seeds: range, mode: str) -> None:
    for seed in seeds:
        folder = place / f"{kind}-{seed}"
        folder.mkdir(parents=True)
        known = {"status": "completed", "config": {"seed": seed}, "execution": {"mode": mode}}
        summary = {key: {} for key in NEEDED} | known
        write_summary(folder, summary)


def test_runs_of_one_kind_share_a_process_and_every_run_has_one():
    found = cells(5, 5, 5, 5)
    arrangement = arrange(found, 2)
    assert arrangement.stacked
    assert arrangement.jobs == [list(range(start, start + 5)) for start in (0, 5, 10, 15)]


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
    assert arrange(found, 2).reason == "norm=0 seed=8: vmap cannot"


def test_single_run_of_a_kind_is_computed_as_those_that_it_pairs_with():
    found = cells(8, 8, 1)
    assert sorted(sizes(found)) == [1, 8, 8]
    found[-1].alone = "vmap cannot"
    assert sizes(found) == [1] * 17


def test_kind_that_would_be_slower_keeps_all_apart():
    found = cells(8, 8)
    for cell in found[8:]:
        cell.speedups = {4: 0.9}
    assert sizes(found) == [1] * 16


def test_finished_runs_of_the_study_that_were_computed_alone_keep_their_partners_alone(tmp_path):
    finished(tmp_path, "other", range(7, 9), "alone")
    found = cells(8, place=tmp_path)
    assert sizes(found, 1) == [1] * 8
    assert "other-7 was computed alone, and pairs do not mix" in arrange(found, 1).reason
    assert sizes(cells(8, first_seed=9, place=tmp_path), 1) == [8]  # other seeds are no partners


def test_finished_runs_that_were_computed_side_by_side_keep_their_partners_so(tmp_path):
    finished(tmp_path, "other", range(8), "replica")
    assert arrange(cells(1, place=tmp_path), 2).stacked
    assert arrange(cells(8, place=tmp_path, speedups={}), 2).stacked  # slower, and comparable
    forbidden = cells(8, place=tmp_path, alone="vmap cannot")
    assert sizes(forbidden) == [1] * 8
    assert arrange(forbidden, 2).reason == "norm=0 seed=0: vmap cannot"


def test_times_say_what_is_saved():
    found = cells(16)
    share_time(arrange(found, 1), found)
    assert {cell.estimate for cell in found} == {4.0}
    unknown = cells(16)
    for cell in unknown:
        cell.estimate = None  # a GPU computes
    arrangement = arrange(unknown, 1)
    share_time(arrangement, unknown)
    assert [len(job) for job in arrangement.jobs] == [16]
    assert {cell.estimate for cell in unknown} == {None}

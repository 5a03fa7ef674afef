"""A norm of one's own beside a bank: only its arm is trained, the others are the bank's finished runs; its row and its
badge, an SVG and the JSON that badge services read (https://shields.io/badges/endpoint-badge)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from normexp.claims.conclude import conclude
from normexp.claims.evidence.plan import missing_keys
from normexp.claims.evidence.stored import StoredEvidence, ledger_of_bank
from normexp.claims.judge.comparison import PRACTICAL, Comparison
from normexp.claims.judge.plain_words import ends
from normexp.claims.rounds import Rounds
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import LENGTHS, value_of
from normexp.claims.spec.claim import Claim
from normexp.claims.verify_claims import exit_status
from normexp.format import pluralize
from normexp.runs.files import write_json, write_text
from normexp.sweeps.options import Options

COUNTS = {"ahead": "beyond", "alike": "within", "behind": "opposite", "failed": "failed"}
COLUMNS = ("against", *COUNTS, "share ahead (95%)", "median")


def arm_claim(bank: Bank, norm: Sequence[str], ledger: Path, most: int, at: str) -> Claim:
    """The comparison of a norm with each of a bank's, in the first settings of its grid that the ledger has whole.

    Args:
        norm: its overrides, such as [norm=mine, norm.alpha=0.1].
        ledger: the folder of the bank's runs.
        most: how many settings, in the order drawn or listed.
        at: `final` or `early`, the length of the runs.

    Raises ValueError with one line.
    """
    name = value_of("norm", norm)
    if name in bank.norms:
        raise ValueError(f"norm={name}: is a norm of bank={bank.word} already; name another one")
    if not bank.norms or (bank.population and not bank.population.rates):
        raise ValueError(f"bank={bank.word}: trains no networks; name one with rates and a grid")
    if not bank.drawn and at != LENGTHS[0]:
        raise ValueError(
            f"at={at}: the settings of bank={bank.word} are listed and have one length; leave it out"
        )
    stored = StoredEvidence(ledger)
    manifest = stored.manifest
    lengths = len(LENGTHS) if bank.drawn else 1  # a drawn setting stands in the grid at each
    grid_cells = list(bank.grid.cells.values())[LENGTHS.index(at) :: lengths]
    cells = [cell for cell in grid_cells if f"bank/{cell.name}.csv" in manifest][:most]
    if not cells:
        raise ValueError(
            f"bank={bank.word}: {ledger} has no setting of it; normexp evidence grid bank={bank.word} trains them, "
            "and evidence=DIR names another folder"
        )
    return Claim(
        id=name,
        name=f"{name}_in_{bank.name}",
        sentence=f"{name} errs less than the norms of bank={bank.name}.",
        source=bank.name,
        covers=(),
        evidence="training",
        metric="test/error",
        measure="share of wrong answers on test",
        arms={name: list(norm), **{other: [f"norm={other}"] for other in bank.norms}},
        seeds=bank.seeds,
        bank=bank.name,
        drawn_from=bank if bank.drawn else None,
        settings={cell.name: list(cell.overrides) for cell in cells},
        cells={cell.name: cell for cell in cells},
        comparisons=[Comparison(kind="smaller", arm=name, baseline=n, margin=PRACTICAL) for n in bank.norms],
    )


def add(
    bank: Bank,
    norm: Sequence[str],
    evidence: Path,
    out: Path,
    options: Options,
    words: str,
    most: int,
    at: str,
) -> int:
    """Print what is missing and its cost, train it, and write row and badge. Returns the exit status.

    Args:
        evidence: a ledger; the bank's own one is a folder in it.
        words: the command, which resumes it.
    """
    claim = arm_claim(bank, norm, ledger_of_bank(bank, evidence) if bank.drawn else evidence, most, at)
    rounds = Rounds([claim], out, command=words, evidence=StoredEvidence(evidence))
    if known := rounds.known.get(claim.id):
        missing = missing_keys(claim, known)
        seconds = [claim.cells[key.setting].seconds for key in missing]  # of a listed setting not known yet
        cost = f", {sum(filter(None, seconds)) / 60:.3g} core-minutes" if all(seconds) else ""
        there = f"{pluralize(len(claim.cells), 'setting')} of {len(bank.cells)} ({at} length; {most} were asked for)"
        print(f"norm={claim.id} in {there}, {pluralize(claim.seeds, 'seed')}; known: {', '.join(bank.norms)}")
        runs = pluralize(len(missing), "run")
        print(f"at most {runs} to train{cost}; more where the best rate is an edge", flush=True)
    folder = out / "bank" / bank.name / claim.id
    rounds.run(options, lambda of, known: show(of, conclude(known.claim, known)[1], folder, at))
    return exit_status(rounds.failed)


def show(claim: Claim, verdict: dict[str, Any], folder: Path, at: str) -> None:
    """Print the row of a norm, and write `row.json`, `badge.json` and `badge.svg`."""
    rows = [row_of(counts) for counts in verdict["comparisons"]]
    table = [tuple(map(str, line)) for line in (COLUMNS, *map(cells_of, rows))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print(f"\n{claim.id} in {pluralize(len(claim.cells), 'setting')} of bank={claim.bank}, {at} length")
    for line in table:
        print("  ".join(map(str.ljust, line, widths)).rstrip())
    print("ahead and behind: beyond the practical margin (docs/claims.md); median: points of test error")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / "row.json",
        {
            "norm": claim.arms[claim.id], "bank": claim.bank, "length": at, "settings": list(claim.cells),
            "seeds": claim.seeds, "protocol": claim.protocol, "against": rows, "runs": verdict["runs"],
        },
    )  # fmt: skip
    print(f"{folder / 'row.json'}\n{write_badge(folder, claim.id, rows)}")


def row_of(counts: dict[str, Any]) -> dict[str, Any]:
    """The counts of one comparison, see `normexp.claims.judge.settings_count.count`, in words of a row."""
    row = {"against": counts["comparison"]["baseline"], "n": counts["n"], "failed_runs": counts["failures"]}
    row |= {word: counts[side] for word, side in COUNTS.items()}
    return row | {key: counts[key] for key in ("share", "share_interval", "median")}


def cells_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row for the screen."""
    median = "none" if row["median"] is None else f"{100 * row['median']:+.2f}"
    share = f"{row['share']:.2f}{ends(row['share_interval'], '.2f')}"
    return (row["against"], *(row[word] for word in COUNTS), share, median)


COLORS = {"better": "#2a7f3f", "mixed": "#6a6a6a", "worse": "#b04a2f"}
LETTER, ROOM = 6.3, 12  # pixels of a letter of 11 pixels, and around a text


def message_of(rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """(text, color) of the norm against which it stands worst, so that no choice among norms flatters it."""
    worst = min(rows, key=lambda row: (row["ahead"] - row["behind"] - row["failed"], row["ahead"]))
    ahead, behind = worst["ahead"], worst["behind"] + worst["failed"]
    word = "better" if 2 * ahead > worst["n"] else "worse" if 2 * behind > worst["n"] else "mixed"
    return f"ahead of {worst['against']} in {ahead} of {worst['n']}, behind in {behind}", COLORS[word]


def write_badge(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    """Write `badge.json` and `badge.svg`; returns the path of the SVG."""
    label, (message, color) = f"normexp: {name}", message_of(rows)
    write_json(
        folder / "badge.json", {"schemaVersion": 1, "label": label, "message": message, "color": color}
    )
    write_text(folder / "badge.svg", svg(label, message, color))
    return folder / "badge.svg"


def svg(label: str, message: str, color: str) -> str:
    """Two texts beside each other, the second on a color."""
    left, right = (round(len(text) * LETTER) + ROOM for text in (label, message))
    texts = "".join(
        f'<text x="{x}" y="14" text-anchor="middle">{escape(text)}</text>'
        for text, x in ((label, left / 2), (message, left + right / 2))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">'
        f"<title>{escape(f'{label}: {message}')}</title>"
        f'<rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20" fill="{color}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )

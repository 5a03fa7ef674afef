"""The page of a comparison: finding, differences, what failed, and the words for a paper."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from normexp import __version__
from normexp.compare.judged import UNITS, Design, Look, at, finding, show
from normexp.compare.run import Result
from normexp.config.process import command
from normexp.format import pluralize
from normexp.report.drawing import WIDTH, Drawing, new_figure, save_all
from normexp.report.latex import booktabs
from normexp.report.page import list_html, save_page
from normexp.report.style import Style, drawing_style
from normexp.report.tables import plain
from normexp.runs.files import write_text

FOR_A_PAPER = Markup("<p>{}</p><p>Curves and every rate: <code>{}</code></p>")


def write(result: Result, out: Path, made_by: str) -> Path:
    """Write index.html, tables/ and figures/ into a folder. Returns the page."""
    design, last = result.design, result.last
    names = {"arm": "norm", "level": "batch_size"}
    found = {name: getattr(result, name).rename(columns=names) for name in ("runs", "chosen")}
    tables = {f"{name}.csv": rows.loc[:, ~rows.columns.duplicated()] for name, rows in found.items()}
    with drawing_style():
        figure = Drawing(
            "differences",
            f"Difference in test {design.measure} to {design.baseline}",
            "Mean over paired seeds with its interval at the level of one look; shaded: within the margin.",
            differences(result),
        )
        pictures = save_all([figure], out / "figures", made_by, pdf=True)
    report = f"{command('report')} {shlex.quote(str(out / 'cache' / 'runs'))}"
    table = list_html(table_of_norms(last, design))
    sections = [
        {"title": "Differences", "id": "differences", "html": table, "figures": [figure]},
        {"title": "What failed", "id": "failed", "html": Markup("<p>{}</p>").format(failures(result))},
        {"title": "For a paper", "id": "paper", "html": FOR_A_PAPER.format(methods(result), report)},
    ]
    facts = [
        " ".join(design.words),
        pluralize(last.seeds, "seed"),
        f"{len(result.looks)} of {len(design.looks)} looks",
        f"{result.runs['seconds'].sum() / 60:.1f} minutes of training",
    ]
    text = f"In this setting: {finding(last, design.baseline, design.measure)}"
    norms = table_of_norms(last, design).astype(str)
    head, rows = [*norms.columns], norms.to_numpy().tolist()
    page = save_page(
        out,
        title=design.name,
        facts=facts,
        finding=text,
        cautions=["One setting: this says nothing of other data, networks or lengths."],
        sections=sections,
        pictures=pictures,
        provenance=[made_by],
        runs_text=f"{pluralize(len(result.runs), 'run')}; {result.ended}.",
        made_by=made_by,
        tables=tables | {"norms.csv": norms},
    )
    write_text(out / "tables" / "norms.tex", booktabs(head, rows, text))
    lines = [head, ["---"] * len(head), *([plain(cell) for cell in row] for row in rows)]
    grid = "\n".join(f"| {' | '.join(row)} |" for row in lines)
    write_text(
        out / "report.md", f"# {plain(design.name)}\n\n{plain(text)}\n\n{grid}\n\n{plain(methods(result))}\n"
    )
    return page


def table_of_norms(look: Look, design: Design) -> pd.DataFrame:
    """Each norm at each batch size: its mean and its difference, both with their intervals; margin and word."""
    measure, judged = design.measure, {(own.norm, own.level): own for own in look.differences}
    rows = []
    for arm in look.arms:
        row = {
            "norm": arm.norm,
            "batch size": arm.level,
            measure: show(arm.mean, measure),
            "95% interval": interval(arm.interval, measure),
            "failed runs": arm.failed,
        }
        if difference := judged.get((arm.norm, arm.level)):
            row |= {
                f"minus {design.baseline}": show(difference.effect, measure, sign=True),
                "interval": interval(difference.interval, measure, sign=True),
                "margin": show(difference.margin, measure),
                "p, adjusted": f"{difference.p:.2g}",
                "verdict": difference.word,
            }
        rows.append(row)
    table = pd.DataFrame(rows).fillna("")
    return table.drop(columns="batch size") if design.levels == ("",) else table


def interval(ends: tuple[float, float], measure: str, *, sign: bool = False) -> str:
    """Both ends in words."""
    return " to ".join(show(end, measure, sign=sign) for end in ends)


def failures(result: Result) -> str:
    """Which runs failed, at which rates."""
    bad = result.runs[result.runs["status"] == "diverged"].groupby(["arm", "lr"]).size()
    worst = [f"{arm.norm}{at(arm.level)}: {arm.failed}" for arm in result.last.arms if arm.failed]
    if bad.empty and not worst:
        return "No run diverged, and every seed's best run learned."
    where = "; ".join(f"{norm} at rate {rate:g}: {count}" for (norm, rate), count in bad.items())  # type: ignore[misc, has-type]
    guesses = f" Best runs that failed and count as guesses: {', '.join(worst)}." if worst else ""
    return f"Diverged runs: {where or 'none'}.{guesses}"


def methods(result: Result) -> str:
    """The paragraph for a methods section."""
    design, last = result.design, result.last
    rule = (
        "of practice (0.3 points up to an error of 3%, a tenth of it up to 10%, a point above; 0.02 nats of loss)"
        if isinstance(design.margin, str)
        else f"of {design.margin:g} in {design.measure}"
    )
    rates = ", ".join(f"{rate:g}" for rate in sorted(result.runs["lr"].unique()))
    return (
        f"We compared {', '.join(design.norms)} with normexp {__version__} (settings: {' '.join(design.words)})."
        " Under equal seeds all arms had equal initial weights and batches. Each arm was trained at learning"
        f" rates {rates}; every seed took its own best rate by validation, so intervals contain the noise of"
        f" tuning. Differences to {design.baseline} are means over {last.seeds} paired seeds with Student's t"
        " intervals; a failed run counts as a guess. A difference counts as decided if its interval lies"
        f" wholly beyond or wholly within a margin {rule}, fixed beforehand. Looks were planned at"
        f" {', '.join(map(str, design.looks))} seeds; each spends {last.alpha:.3g} of an error rate of 0.05 (Bonferroni"
        f" over looks, Holm over {pluralize(len(last.differences), 'comparison')}). It ended because {result.ended}."
    )


def differences(result: Result) -> Figure:
    """A row for each difference: its mean and interval, and the margin around zero."""
    design, rows = result.design, result.last.differences[::-1]
    scale, style = 100 if design.measure == "error" else 1, Style(design.norms)
    figure, (axes,) = new_figure(1, panel=(WIDTH, 0.8 + 0.32 * max(len(rows), 3)))
    axes.axvline(0, color="#999999", linewidth=0.8)
    for y, row in enumerate(rows):
        color, margin = style.color[row.norm], scale * row.margin
        axes.fill_betweenx([y - 0.4, y + 0.4], -margin, margin, color="#eeeeee", linewidth=0)
        if np.isfinite(row.interval).all():
            axes.plot(scale * np.array(row.interval), [y, y], color=color, linewidth=1.6)
        axes.plot(scale * row.effect, y, "o", color=color)
    axes.set_yticks(range(len(rows)), [f"{row.norm}{at(row.level)}: {row.word}" for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{design.measure} minus that of {design.baseline}, in {UNITS[design.measure][0]}")
    return figure

"""Write the site: `index.html`, `claims/<id>.html`, and the runs and protocols that they link to."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from normexp.claims.pages.figure import COLORS
from normexp.claims.pages.site.drawings import ENVIRONMENT
from normexp.claims.pages.site.facts import KEPT, PROTOCOLS, by_topic, facts, index_row
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import REGISTRY, read_registry
from normexp.report.drawing import dark_colors
from normexp.report.style import FREE, OWN

FILTERS = {
    "topic": "topic",
    "word": "word",
    "scope": "scope",
    "paper": "paper or document",
    "kind": "whose sentence",
    "evidence": "evidence",
    "model": "model",
    "data": "data",
}


def write_site(
    folder: Path, claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]], root: Path
) -> str:
    """Write every page. `root` holds `docs/evidence`. Returns a line on what was written."""
    (folder / "claims").mkdir(parents=True, exist_ok=True)
    path = root / REGISTRY
    registry = read_registry(path) if path.exists() else []
    dark = dark_colors([*OWN.values(), *FREE, *COLORS.values()])
    rows = [index_row(claim, verdicts.get(name)) for name, claim in claims.items()]
    options = {name: sorted({one for row in rows for one in _listed(row[name])}) for name in FILTERS}
    style = (
        ENVIRONMENT.get_template("page.css.j2").render(dark=dark)
        + ENVIRONMENT.get_template("site.css.j2").render()
    )
    (folder / "style.css").write_text(style)
    index = ENVIRONMENT.get_template("index.html.j2")
    (folder / "index.html").write_text(
        index.render(
            rows=rows, chapters=by_topic(rows), filters=FILTERS, options=options, counts=counts(rows)
        )
    )
    page = ENVIRONMENT.get_template("claim.html.j2")
    for name, claim in claims.items():
        own = facts(claim, verdicts.get(name), registry, root)
        (folder / "claims" / f"{name}.html").write_text(page.render(**own))
        take_along(own, root, folder)
    return f"{folder / 'index.html'}: {len(claims)} claims, {len(verdicts)} verdicts"


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def counts(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """The number of claims with each word, the most frequent first."""
    return Counter(row["word"] for row in rows).most_common()


def take_along(own: dict[str, Any], root: Path, folder: Path) -> None:
    """Copy the files that a page links to."""
    files = [(path, f"runs/{name}") for name, path in own.get("runs", {}).items()]
    files += [(KEPT / name, f"values/{name}") for name in own.get("kept", ())]
    files += [
        (PROTOCOLS / one["file"], f"protocols/{one['file']}") for one in own["registered"] if one["file"]
    ]
    for path, place in files:
        (folder / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / path, folder / place)

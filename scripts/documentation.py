"""Write the numbers of the documentation.

python scripts/documentation.py norms                # docs/norms.md: every norm, and its invariances, measured
python scripts/documentation.py check                # docs/check.md: the thresholds of all findings
python scripts/documentation.py readme [study=FOLDER] [walk=FOLDER]   # README.md: the study that it names, with its
                                                     # report, and the folder of its first verdict
python scripts/documentation.py gallery FOLDER       # docs/gallery.md: what `normexp figure all --out FOLDER` made
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DATA = DOCS / "data"  # the numbers behind the pages
README, RECORD, FIGURE = ROOT / "README.md", DATA / "readme.json", DOCS / "images" / "batch_size.png"
PICTURES = DOCS / "images" / "gallery"


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table. A cell that is None is a dash."""
    head = list(head)
    lines = [
        head,
        ["---"] * len(head),
        *(["–" if cell is None else str(cell) for cell in row] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with each part between `<!-- numbers: NAME -->` and `<!-- end -->`.

    Raises ValueError if a part has no place, or several.
    """
    for name, part in parts.items():
        pattern = rf"(<!-- numbers: {re.escape(name)} -->\n).*?(<!-- end -->)"
        text = part.replace("\\", "\\\\")  # as a template of `re`
        page, count = re.subn(pattern, rf"\g<1>{text}\n\g<2>", page, flags=re.S)
        if count != 1:
            raise ValueError(f"{count} places are marked `numbers: {name}`; mark one")
    return page


def fill(page: Path, parts: dict[str, str]) -> None:
    """Write these parts into a page; see `filled`."""
    page.write_text(filled(page.read_text(), parts))


def norms() -> dict[str, str]:
    """The file of each norm, its class and its first comment; and what norm(W x) is invariant to, measured as
    tests/norms/test_invariances.py does it."""
    from omegaconf import OmegaConf

    sys.path.append(str(ROOT / "tests"))
    from norms.layers import NAMES
    from norms.test_invariances import COLUMNS, ON_IMAGES, measured

    rows = []
    for path in sorted((ROOT / "configs" / "norm").glob("*.yaml")):
        target = str(OmegaConf.select(OmegaConf.load(path), "_target_")).rpartition(".")[2]
        rows.append([f"`{path.stem}`", f"`{target}`", path.read_text().splitlines()[0].removeprefix("# ")])
    labels = {name: f"`{name}`" + " (images)" * (name in ON_IMAGES) for name in NAMES}
    invariances = [[labels[name], *measured(name).split()] for name in NAMES]
    return {
        "members": table(["name", "class", "what"], rows),
        "invariances": table(["name", *COLUMNS], invariances),
    }


def limits() -> str:
    """The thresholds of all findings of `normexp check`, with their reasons."""
    from normexp.check.finding import declared

    rows = [
        [f"`{name}`", f"`{limit}`", f"{value:g} {unit}", reason]
        for name, kind in declared().items()
        for limit, (value, unit, reason) in kind.texts.get("limits", {}).items()
    ]
    return table(["finding", "threshold", "value", "why"], rows)


def read_study(folder: Path) -> dict[str, Any]:
    """The results of README's study: its sentence, its table and every value behind them. Draws its figure, narrower
    than on a report's page, so that its letters can be read on a telephone."""
    from normexp.report.drawing import WIDTH, save
    from normexp.report.figures.results import by_level
    from normexp.report.finding import finding
    from normexp.report.study import open_study
    from normexp.report.style import Style, drawing_style
    from normexp.report.tables import comparison, markdown

    study = open_study(folder)
    compared = comparison(study, "none")
    command = re.sub(r"\S*/train\.py", "train.py", study.command.partition(" outputs=")[0])
    with drawing_style():
        drawing = by_level(study, Style(study.arms))
        drawing.name = FIGURE.stem
        drawing.figure.set_figwidth(WIDTH / 2)
        save(drawing, FIGURE.parent, command)
    return {
        "command": command,
        "finding": finding(study, compared),
        "table": markdown(study, compared).partition("\n\nPaired difference")[0],
        "values": study.chosen[["arm", study.x, "seed", study.metric]].values.tolist(),
    }


def read_walk(folder: Path) -> dict[str, Any]:
    """The results of README's claim."""
    from normexp.claims.conclude import conclude
    from normexp.claims.evidence.disk import DiskRuns
    from normexp.claims.gather import gathered
    from normexp.claims.spec.find import find
    from normexp.claims.words import paragraph

    (path,) = folder.glob("outputs/claims/*/verdict.json")
    verdict = json.loads(path.read_text())
    names = ("verdict", "effect", "interval", "n_seeds", "seconds")
    ((claim,), _) = find(str(next(folder.glob("*.yaml"))))
    evidence = gathered(claim, None, DiskRuns(claim, path.parents[1] / "cache"))
    return {"text": paragraph(conclude(evidence)[1]), **{name: verdict[name] for name in names}}


def readme(record: dict[str, Any]) -> dict[str, str]:
    """Marker -> what stands there."""
    study = record["study"]
    walk = f"```\n{record['walk']['text']}\n```"
    return {"finding": study["finding"], "walk": walk}


def gallery(folder: Path) -> str:
    """The page of all figures, whose pictures are copied. Every one must have been made, in full size."""
    from PIL import Image

    from normexp.claims.pages.markdown import markdown_page
    from normexp.figures.gallery import figures

    made = [json.loads((folder / f"{name}.json").read_text()) for name in figures()]
    if small := [figure["name"] for figure in made if figure["small"]]:
        raise SystemExit(f"Error: {folder}: made with --small: {', '.join(small)}; make them without it")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for figure in made:
        picture = Image.open(folder / f"{figure['name']}.png").convert("RGB")
        picture.quantize(128).save(PICTURES / f"{figure['name']}.png", optimize=True)
    minutes = sum(figure["cpu_seconds"] for figure in made) / 60
    return markdown_page("gallery.md.j2", figures=made, minutes=minutes)


def main(page: str = "", *arguments: str) -> None:
    """Write a page."""
    if page == "norms":
        fill(DOCS / "norms.md", norms())
    elif page == "check":
        fill(DOCS / "check.md", {"limits": limits()})
    elif page == "readme":
        record = json.loads(RECORD.read_text())
        for word in arguments:
            part, _, folder = word.partition("=")
            record[part] = {"study": read_study, "walk": read_walk}[part](Path(folder))
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        fill(README, readme(record))
    elif page == "gallery":
        (DOCS / "gallery.md").write_text(gallery(Path(*arguments)))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])

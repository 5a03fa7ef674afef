"""Write the numbers of the documentation, and make its site: a hook of `mkdocs build`.

    python scripts/documentation.py norms                # docs/norms.md: every norm, and its invariances, measured
    python scripts/documentation.py recipes [FOLDER]     # docs/recipes.md, from docs/data and new runs in a folder
    python scripts/documentation.py readme [study=FOLDER] [walk=FOLDER]   # README.md, likewise: the study that it
                                                         # names, with its report, and the folder of its first verdict
    python scripts/documentation.py gallery FOLDER       # docs/gallery.md: what `normexp figure all --out FOLDER` made

As a hook it turns README, notebooks and verdicts into pages of the site, and checks the whole.
"""

import base64
import html.parser
import json
import posixpath
import re
import shutil
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from doc_tables import DATA, DOCS, ROOT, fill, read_rows, table, write_rows

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

README, RECORD, FIGURE = ROOT / "README.md", DATA / "readme.json", DOCS / "images" / "batch_size.png"
PICTURES = DOCS / "images" / "gallery"
RUNS = DATA / "recipes.json"
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
RECIPES = {"mlp": 0.003, "cnn": 0.003, "resnet": 0.003, "transformer": 0.005, "gpt": 0.002}  # their rates
SEEDS = 5  # a rate with fewer was given up
ALLOWED = {"accuracy": 0.02, "loss": 0.1}  # difference from the tuned best
FAR_OFF = {"accuracy": 0.0, "loss": 100.0}  # the value of a diverged run
Row = dict[str, Any]  # model, norm, lr, recipe (whether the rate is the recipe's); val and test of each seed


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


def metric_of(model: str) -> str:
    return "loss" if model == "gpt" else "accuracy"


def values(row: Row, split: str) -> list[float]:
    return [FAR_OFF[metric_of(row["model"])] if value is None else value for value in row[split]]


def behind(row: Row, other: Row, split: str) -> float:
    """How much worse the mean of one row is than that of another, in accuracy or in nats."""
    gap = statistics.fmean(values(other, split)) - statistics.fmean(values(row, split))
    return gap if metric_of(row["model"]) == "accuracy" else -gap


def best_of(rows: list[Row]) -> Row:
    """The tuned rate: the best on validation. The lower rate wins a tie."""
    return min(sorted(rows, key=lambda row: row["lr"]), key=lambda row: behind(row, rows[0], "val"))


def recipe_rows(folder: str) -> list[Row]:
    """Rows of finished runs, which are those of the sweeps that docs/recipes.md names."""
    from normexp.runs import load_summaries

    rows = []
    runs = load_summaries(folder).sort_values("seed")
    for (model, norm, rate), cell in runs.groupby(["model", "norm", "lr"], observed=True):
        row: Row = {"model": model, "norm": norm, "lr": rate, "recipe": rate == RECIPES[str(model)]}
        for split in ("val", "test"):
            results = cell[f"{split}/{metric_of(str(model))}"].astype(object)
            row[split] = results.where(cell.status == "completed", None).tolist()
        rows.append(row | {"steps": int(cell.steps.iloc[0]), "seconds": round(float(cell.seconds.sum()), 1)})
    return rows


def recipe_lines(rows: list[Row]) -> list[list[str]]:
    """For each norm: the recipe's test result, beside that of the rate with the best mean on validation."""
    lines = []
    for norm in NORMS:
        norm_rows = [row for row in rows if row["norm"] == norm]
        recipe = next(row for row in norm_rows if row["recipe"])
        best = best_of([row for row in norm_rows if len(row["val"]) == SEEDS])
        metric, tests = metric_of(recipe["model"]), values(recipe, "test")
        scale, digits, worst = (100, 1, min) if metric == "accuracy" else (1, 3, max)
        gap = behind(recipe, best, "test")
        results = (statistics.fmean(tests), worst(tests), statistics.fmean(values(best, "test")))
        mean, least, tuned = (f"{scale * result:.{digits}f}" for result in results)
        diverged, fits = str(recipe["test"].count(None)), "yes" if gap <= ALLOWED[metric] else "**no**"
        behind_by = f"{scale * gap:+.{digits}f}"
        lines.append([f"`{norm}`", mean, least, diverged, tuned, f"{best['lr']:g}", behind_by, fits])
    return lines


def recipes(rows: list[Row]) -> dict[str, str]:
    """Model -> its table."""
    parts = {}
    for model in RECIPES:
        unit, within = {"accuracy": ("%", "2 points"), "loss": ("nats", "0.1 nats")}[metric_of(model)]
        head = ["norm", f"recipe, {unit}", "worst seed", "diverged", "tuned best", "at lr", "behind"]
        model_rows = [row for row in rows if row["model"] == model]
        parts[model] = table([*head, f"within {within}"], recipe_lines(model_rows))
    return parts


def with_new_runs(folder: str) -> list[Row]:
    """The rows of docs/data; those of a model and norm that has new runs are replaced."""
    new = recipe_rows(folder) if folder else []
    again = {(row["model"], row["norm"]) for row in new}
    rows = [row for row in read_rows(RUNS) if (row["model"], row["norm"]) not in again] + new
    write_rows(RUNS, rows)
    return rows


def read_study(folder: Path) -> dict[str, Any]:
    """The results of README's study: its sentence, its table and every value behind them. Copies its figure."""
    from normexp.report.finding import finding
    from normexp.report.study import open_study
    from normexp.report.tables import comparison, markdown

    study = open_study(folder)
    compared = comparison(study, "none")
    shutil.copy(folder / "report" / "figures" / "final.png", FIGURE)
    return {
        "command": re.sub(r"\S*/train\.py", "train.py", study.command.partition(" outputs=")[0]),
        "finding": finding(study, compared),
        "table": markdown(study, compared).partition("\n\nPaired difference")[0],
        "values": study.chosen[["arm", study.x, "seed", study.metric]].values.tolist(),
    }


def read_walk(folder: Path) -> dict[str, Any]:
    """The results of README's claim."""
    from normexp.claims.judge.plain_words import paragraph

    (path,) = folder.glob("outputs/claims/*/verdict.json")
    verdict = json.loads(path.read_text())
    names = ("verdict", "effect", "interval", "n_seeds", "seconds")
    return {"text": paragraph(verdict), **{name: verdict[name] for name in names}}


def readme(record: dict[str, Any]) -> dict[str, str]:
    """Marker -> what stands there."""
    study = record["study"]
    walk = f"```\n{record['walk']['text']}\n```"
    return {"finding": study["finding"], "table": study["table"], "walk": walk}


def gallery(folder: Path) -> str:
    """The page of all figures, whose pictures are copied. Every one must have been made, in full size."""
    from PIL import Image

    from normexp.claims.pages import markdown_page
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


def main(page: str = "", *words: str) -> None:
    """Write a page."""
    if page == "norms":
        fill(DOCS / "norms.md", norms())
    elif page == "recipes":
        fill(DOCS / "recipes.md", recipes(with_new_runs("".join(words))))
    elif page == "readme":
        record = json.loads(RECORD.read_text())
        for word in words:
            part, _, folder = word.partition("=")
            record[part] = {"study": read_study, "walk": read_walk}[part](Path(folder))
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        fill(README, readme(record))
    elif page == "gallery":
        (DOCS / "gallery.md").write_text(gallery(Path(*words)))
    else:
        sys.exit(__doc__)


URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
ABOVE = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
NOTEBOOKS = ("tour", "lesson")
VERDICTS = ROOT / "outputs" / "pages" / "verdicts"
LOADED = {"src", "srcset", "data"}  # attributes that fetch; so does href of <link>


def on_startup(command: str, dirty: bool) -> None:
    """Judge all claims again from the ledger into a static site, unless outputs/pages has one."""
    if not VERDICTS.exists():
        judge = [sys.executable, "-m", "normexp", "verify", f"page={VERDICTS}"]
        subprocess.run(judge, cwd=ROOT, check=True)


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Take the site's address from pyproject.toml, the one file that has addresses."""
    config.site_url = URLS["Documentation"]
    return config


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages that are no Markdown of docs/."""
    from mkdocs.structure.files import File

    for path, source in ABOVE.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text()))
    for name in NOTEBOOKS:
        files.append(File.generated(config, f"{name}.md", content=notebook(ROOT / "docs" / f"{name}.ipynb")))
    for file in VERDICTS.rglob("*.*"):
        place = Path("verdicts") / file.relative_to(VERDICTS)
        if file.suffix != ".html":
            files.append(File.generated(config, place.as_posix(), abs_src_path=str(file)))
            continue
        back = f'<nav class="facts"><a href="{"../" * (len(place.parts) - 1)}findings.html">Documentation</a></nav>'
        content = file.read_text().replace("<header>", f"<header>\n  {back}", 1)
        files.append(File.generated(config, place.as_posix(), content=content))
    return files


def notebook(path: Path) -> str:
    """A notebook as Markdown. Answers, cells with that tag, are closed until they are asked for."""
    import nbformat
    from nbconvert import MarkdownExporter

    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        single = nbformat.v4.new_notebook(cells=[cell])
        body, resources = MarkdownExporter().from_notebook_node(single)
        for name, image in resources["outputs"].items():
            kind = "svg+xml" if name.endswith("svg") else "png"
            body = body.replace(f"({name})", f"(data:image/{kind};base64,{base64.b64encode(image).decode()})")
        body = re.sub("^<details>", '<details markdown="1">', body, flags=re.M)
        if "answer" in cell.metadata.get("tags", []):
            body = (
                f'<details markdown="1">\n<summary>Answer: code and result</summary>\n\n{body}\n</details>\n'
            )
        parts.append(body)
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Links of README lead into docs/, those to a claim's file to its verdict, and others outside to the repository."""
    above = page.file.src_uri in ABOVE

    def there(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        place = posixpath.normpath(posixpath.join("" if above else "docs", path))
        if claim := re.fullmatch(r"configs/claim/(\w+)\.yaml", place):
            return f"{match[1]}verdicts/claims/{claim[1]}.html)"
        inside = place.removeprefix("docs/").replace(".ipynb", ".md")
        inside = "index.md" if inside == "README.md" else inside
        page = files.get_file_from_path(inside)
        if page and page.inclusion.is_included():
            return f"{match[1]}{inside}{mark}{anchor})"
        return f"{match[1]}{URLS['Repository']}/blob/main/{place})" if (ROOT / place).exists() else match[0]

    return re.sub(r"(\]\()(?!\w+:|#)([^)\s]+)\)", there, markdown)


class Links(html.parser.HTMLParser):
    """What a page loads, where its links lead, and the names of its places."""

    def __init__(self, text: str):
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.names.add(value)
            elif value and name == "href":
                fetched = tag == "link" and ("rel", "canonical") not in attrs
                (self.loads if fetched else self.leads).append(value)
            elif value and name in LOADED:
                self.loads.append(value)


def on_post_build(config: "MkDocsConfig") -> None:
    """Refuse a page that loads from another host, or has a link to a file or place that does not exist."""
    site = Path(config.site_dir)
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    wrong = []
    for path, links in pages.items():
        name = path.relative_to(site)
        wrong += [f"{name} loads {url}" for url in links.loads if urlsplit(url).netloc]
        for url in links.loads + links.leads:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            place = unquote(parts.fragment)
            if not there.exists() or (
                place and there in pages and place not in pages[there].names | {"__top"}
            ):
                wrong.append(f"{name}: nothing at {url}")
    if wrong:
        from mkdocs.exceptions import PluginError

        raise PluginError("\n".join(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A hook of `mkdocs build`: README, notebooks and verdicts become pages of the site, and the whole is checked."""

import html.parser
import posixpath
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
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


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the site's address from pyproject.toml, the one file that has addresses."""
    config.site_url = URLS["Documentation"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are no Markdown of docs/."""
    for path, source in ABOVE.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text()))
    for name in NOTEBOOKS:
        files.append(File.generated(config, f"{name}.md", content=notebook(ROOT / "docs" / f"{name}.ipynb")))
    for path in VERDICTS.rglob("*.*"):
        place = Path("verdicts") / path.relative_to(VERDICTS)
        if path.suffix != ".html":
            files.append(File.generated(config, place.as_posix(), abs_src_path=str(path)))
            continue
        back = f'<nav class="facts"><a href="{"../" * (len(place.parts) - 1)}findings.html">Documentation</a></nav>'
        content = path.read_text().replace("<header>", f"<header>\n  {back}", 1)
        files.append(File.generated(config, place.as_posix(), content=content))
    return files


def notebook(path: Path) -> str:
    """A notebook as Markdown. Answers, cells with that tag, are closed until they are asked for."""
    import nbformat
    from nbconvert import MarkdownExporter

    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        one = nbformat.v4.new_notebook(cells=[cell])
        body, found = MarkdownExporter().from_notebook_node(one)
        for name, image in found["outputs"].items():
            kind = "svg+xml" if name.endswith("svg") else "png"
            body = body.replace(f"({name})", f"(data:image/{kind};base64,{_base64(image)})")
        body = re.sub("^<details>", '<details markdown="1">', body, flags=re.M)
        if "answer" in cell.metadata.get("tags", []):
            body = (
                f'<details markdown="1">\n<summary>Answer: code and result</summary>\n\n{body}\n</details>\n'
            )
        parts.append(body)
    return "\n\n".join(parts)


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
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


def on_post_build(config: MkDocsConfig) -> None:
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
        raise PluginError("\n".join(wrong))

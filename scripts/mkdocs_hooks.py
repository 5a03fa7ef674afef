"""A hook of `mkdocs build`: README, notebooks and the table of verdicts become pages of the site."""

import base64
import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
ABOVE = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
NOTEBOOKS = ("tour", "lesson")


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
    return files


def notebook(path: Path) -> str:
    """A notebook as Markdown. Answers, cells with that tag, are closed until they are asked for."""
    import nbformat
    from nbconvert import MarkdownExporter

    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        single = nbformat.v4.new_notebook(cells=[cell], metadata={"language_info": {"name": "python"}})
        body, resources = MarkdownExporter().from_notebook_node(single)
        for name, image in resources["outputs"].items():
            kind = "svg+xml" if name.endswith("svg") else "png"
            body = body.replace(f"({name})", f"(data:image/{kind};base64,{base64.b64encode(image).decode()})")
        body = re.sub(r"(?: *\n){4,}", "\n\n", body)  # between what a cell printed and its value
        body = re.sub("^<details>", '<details markdown="1">', body, flags=re.M)
        if "answer" in cell.metadata.get("tags", []):
            body = (
                f'<details markdown="1">\n<summary>Answer: code and result</summary>\n\n{body}\n</details>\n'
            )
        parts.append(body)
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Links of README lead into docs/, and those to other files to the repository."""
    above = page.file.src_uri in ABOVE

    def there(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        target = posixpath.normpath(posixpath.join("" if above else "docs", path))
        inside = target.removeprefix("docs/").replace(".ipynb", ".md")
        inside = "index.md" if inside == "README.md" else inside
        page = files.get_file_from_path(inside)
        if page and page.inclusion.is_included():
            return f"{match[1]}{inside}{mark}{anchor})"
        return f"{match[1]}{URLS['Repository']}/blob/main/{target})" if (ROOT / target).exists() else match[0]

    markdown = re.sub(r'(<img src=")docs/', r"\1", markdown) if above else markdown
    return re.sub(r"(\]\()(?!\w+:|#)([^)\s]+)\)", there, markdown)

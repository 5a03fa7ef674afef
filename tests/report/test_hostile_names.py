"""Names that hold HTML, Markdown, a formula or a screen's markup are shown as they are, and obeyed by nothing."""

import html.parser
import re

import pytest
from fabricated import write_run
from markdown_it import MarkdownIt

from normexp.cli.report import runs
from normexp.report.page import write_report
from normexp.report.study import open_study
from normexp.report.tables import fenced, plain

NAMES = [
    "<script>alert(1)<script>", "[x](javascript:alert)", "$x_{$", "**bold** _it_ ~~gone~~", "`code`", "a|b", "# head",
    "&amp;", "- item", "[/red]", "\\", "layernorm_channels",
]  # fmt: skip


class Tags(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


def rendered(markdown: str) -> Tags:
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return Tags(reader.render(markdown))


@pytest.mark.parametrize("name", NAMES)
def test_line_of_markdown_reads_as_the_text(name):
    for place in ("{}", "# {}", "- {}", "| {} |\n|---|\n| x |"):
        found = rendered(place.format(plain(name)))
        assert found.tags <= {"p", "h1", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}
        assert found.text.replace("\n", "").removesuffix("x") == name


@pytest.mark.parametrize("text", ["python train.py", "a ``` b", "````\n<script>\n````"])
def test_block_of_code_ends_where_it_ends(text):
    found = rendered(fenced(text) + "\nafter")
    assert found.tags == {"pre", "code", "p"}
    assert found.text == f"{text}\n\nafter\n"


@pytest.mark.integration
def test_report_of_hostile_names_shows_them_and_has_none_of_their_tags(tmp_path):
    study = "<script>alert(1)</script> $x_{ [/red] | ```"
    for norm in ("<img src=x>", "$\\frac{", "[/red]"):
        for seed in (0, 1):
            write_run(tmp_path, norm, 8, seed, name=study)
    page = write_report(open_study(tmp_path), tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    found = rendered(text)
    table = {"table", "thead", "tbody", "tr", "th", "td"}
    assert found.tags <= {"h1", "p", "ul", "li", "strong", "pre", "code"} | table
    assert not {"<script", "<img"} & set(re.findall(r"<\w+", text))
    assert all(name in found.text for name in (study, "<img src=x>", "$\\frac{", "[/red]"))
    assert not {"script"} & Tags(page.read_text()).tags
    assert "<img src=x>" not in page.read_text()


def test_names_in_the_list_of_runs_are_text(tmp_path, capsys):
    write_run(tmp_path, "[/red]", 8, 0)
    runs(tmp_path)
    assert "[/red]" in capsys.readouterr().out

"""docs/check.md: its example runs, and it names every finding and every threshold."""

import torch
from committed import ROOT
from documentation import limits

from normexp.check.finding import declared

PAGE, ANSWERS = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("check", "answers"))


def test_example_runs(capsys):
    torch.manual_seed(0)
    exec(PAGE.split("<!-- tested -->\n```python\n")[1].split("```")[0], {})
    printed = capsys.readouterr().out
    for word in ("frozen_thaws", "small_batch", "statistics_cold", "False", "stale_average"):
        assert word in printed
    assert "```\n" + "\n".join(printed.splitlines()[:3]) + "\n...\n```" in PAGE


def test_page_names_every_finding_and_threshold():
    assert [name for name in declared() if f"| `{name}` |" not in PAGE] == []
    assert len({word for word in declared() if f"`{word}`" in ANSWERS}) >= 12
    assert limits() in PAGE

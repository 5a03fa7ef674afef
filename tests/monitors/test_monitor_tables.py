import json
from pathlib import Path

import monitor_tables

ROOT = Path(__file__).parents[2]


def test_tables_of_the_page_are_those_of_the_measurements():
    page = (ROOT / "docs" / "monitors.md").read_text()
    assert monitor_tables.filled(page) == page


def test_the_light_set_costs_at_most_three_percent():
    rows = json.loads(monitor_tables.BENCHMARK.read_text())
    light = {row["model"]: row["ratio"] for row in rows if row["monitors"] == "light"}
    assert set(light) == {"mlp", "cnn", "transformer"}
    assert max(light.values()) <= 1.03

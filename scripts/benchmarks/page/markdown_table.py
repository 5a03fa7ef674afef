"""Tables in Markdown."""


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def by_shape(rows: list[dict], corner: str, hand: str) -> str:
    """Ratios of forward and backward, one line per norm. `hand` formats the ratio of the tutorials' form."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    found = {(row["norm"], row["shape"]): row["both"] for row in rows}

    def cell(both: dict | None) -> str:
        if both is None:
            return "–"
        by_hand = hand.format(both["hand"]["ratio"]) if "hand" in both else ""
        return f"{both['ours']['ratio']:.2f}{by_hand}"

    names = dict.fromkeys(row["norm"] for row in rows)
    lines = [[f"`{name}`", *(cell(found.get((name, shape))) for shape in shapes)] for name in names]
    return table([corner, *shapes], lines)

"""Draw docs/images/blocks.svg: the places of norms in a block, and attention. `python scripts/block_figures.py`

The drawings follow `Residual.places` and `Attention.forward`.
"""

from pathlib import Path

OUT = Path(__file__).parents[1] / "docs" / "images" / "blocks.svg"
# norm_position -> formula, boxes of the branch from below, boxes of the stream after the sum, label of the stream.
PLACES = {
    "pre": ("x + f(N(x))", ("N", "f"), (), ""),
    "post": ("N(x + f(x))", ("f",), ("N",), ""),
    "sandwich": ("x + N'(f(N(x)))", ("N", "f", "N'"), (), ""),
    "output": ("x + N(f(x))", ("f", "N"), (), ""),
    "keel": ("N'(2L x + f(N(x)))", ("N", "f"), ("N'",), "2L"),
}
WHO = {
    "pre": "GPT-2, Llama, Qwen3, gpt-oss, nanochat", "post": "Vaswani et al. 2017",
    "sandwich": "Peri-LN, Gemma 2 and 3", "output": "OLMo 2", "keel": "Chen, Wei 2026; L blocks",
}  # fmt: skip
# Boxes of attention from left to right: text, and the options that are there; an optional step has a dashed frame.
ATTENTION = (
    ("Q, K, V = W x", "", False), ("norm Q, K", "qk_norm, qk_norm_place=before", True),
    ("rotate Q, K", "position=rope", True), ("norm Q, K", "qk_norm, qk_norm_place=after", True),
    ("softmax(Q K / √d) V", "attention_scale, attention_sink", False), ("× sigmoid(W x)", "attention_gate", True),
    ("W y", "", False),
)  # fmt: skip
COLORS = {"N": "#f5c26b", "N'": "#f5c26b", "f": "#9cc3e6"}
WIDTH, PANEL, TOP = 1120, 224, 46


def text(x: float, y: float, words: str, size: int = 13, color: str = "#222", anchor: str = "middle") -> str:
    safe = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" text-anchor="{anchor}">{safe}</text>'


def box(x: float, y: float, width: float, words: str, color: str, dashed: bool = False) -> str:
    """A box of height 30 around (x, y)."""
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    left, top = x - width / 2, y - 15
    shape = (
        f'<rect x="{left}" y="{top}" width="{width}" height="30" rx="5" fill="{color}" stroke="#444"{dash}/>'
    )
    return shape + text(x, y + 5, words)


def line(*points: tuple[float, float], arrow: bool = False) -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    end = ' marker-end="url(#arrow)"' if arrow else ""
    return f'<polyline points="{path}" fill="none" stroke="#444" stroke-width="1.5"{end}/>'


def placement(index: int, name: str) -> str:
    """One branch and the stream beside it, from below."""
    formula, branch, after, factor = PLACES[name]
    stream, side = index * PANEL + 62, index * PANEL + 148
    middle = index * PANEL + PANEL / 2
    foot, fork, total, head = TOP + 296, TOP + 270, TOP + 92, TOP + 16
    parts = [text(middle, TOP - 20, name, 16), text(middle, TOP, formula, 13, "#555")]
    parts += [line((stream, foot), (stream, total + 11), arrow=True)]
    parts += [line((stream, total - 10), (stream, head), arrow=True)]
    parts += [line((stream, fork), (side, fork), (side, total), (stream + 12, total), arrow=True)]
    parts.append(f'<circle cx="{stream}" cy="{total}" r="10" fill="white" stroke="#444" stroke-width="1.5"/>')
    parts.append(text(stream, total + 5, "+", 16))
    gap = (fork - total) / (len(branch) + 1)
    parts += [box(side, fork - gap * (k + 1), 66, words, COLORS[words]) for k, words in enumerate(branch)]
    parts += [box(stream, total - 44, 46, words, COLORS[words]) for words in after]
    if factor:
        parts += [box(stream, (fork + total) / 2, 46, f"× {factor}", "white")]
    return "".join([*parts, text(middle, foot + 22, WHO[name], 11, "#555")])


def attention(y: float) -> str:
    """The steps of attention at height y, and the way of the values above them."""
    parts = [
        text(24, y - 96, "attention, the first f of a block; dashed frames are options", 14, anchor="start")
    ]
    step = (WIDTH - 40) / len(ATTENTION)
    width, centers = step - 22, [20 + step * (place + 0.5) for place in range(len(ATTENTION))]
    for x, (words, options, dashed) in zip(centers, ATTENTION, strict=True):
        parts.append(box(x, y, width, words, "#eef" if dashed else COLORS["f"], dashed))
        parts += [text(x, y + 31 + 14 * n, each, 11, "#555") for n, each in enumerate(options.split(", "))]
    parts += [
        line((x + width / 2, y), (x + step - width / 2 - 2, y), arrow=True) for x in centers[:-1]
    ]  # fmt: skip
    start, middle, end = centers[0], centers[2], centers[4]
    parts.append(line((start, y - 15), (start, y - 56), (end, y - 56), (end, y - 17), arrow=True))
    parts += [
        box(middle, y - 56, width, "norm V", "#eef", dashed=True),
        text(middle, y - 29, "v_norm", 11, "#555"),
    ]
    return "".join(parts)


def drawing() -> str:
    panels = "".join(placement(index, name) for index, name in enumerate(PLACES))
    arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 560" font-family="Helvetica, Arial, sans-serif">'
        f'<defs>{arrow}<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>'
        f'<rect width="{WIDTH}" height="560" fill="white"/>{panels}{attention(496)}</svg>\n'
    )


if __name__ == "__main__":
    OUT.write_text(drawing())

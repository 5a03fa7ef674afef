"""Write docs/gallery.md and its pictures from the figures that `normexp figure all --out FOLDER` made.

`python scripts/gallery.py FOLDER`
"""

import json
import sys
from pathlib import Path

from doc_tables import DOCS, ROOT
from PIL import Image

sys.path.insert(0, str(ROOT))  # so that it also runs where the package is not installed

PAGE, PICTURES = DOCS / "gallery.md", DOCS / "images" / "gallery"
HEAD = """# Gallery

<!-- Written by `python scripts/gallery.py FOLDER`; changes by hand are lost. -->

Known figures about normalization, computed anew on small networks: all {count} in {minutes:.0f} minutes of one core.
Each has one sentence about what is seen here and one about what its paper shows; where they differ, both stand. They
show one setting, and say nothing about others. `normexp figure NAME` draws one
as PNG, PDF and SVG, with its numbers as JSON.
"""
FIGURE = """
## {title}

![{title}](images/gallery/{name}.png)

**Here:** {seen}

**There:** {paper} *{source}.*

`normexp figure {name}`: {cpu_seconds:.0f} s of one core.
"""


def main(folder: Path) -> None:
    """Every figure must have been made, in full size."""
    from normexp.figures.gallery import figures

    made = [json.loads((folder / f"{name}.json").read_text()) for name in figures()]
    if small := [one["name"] for one in made if one["small"]]:
        raise SystemExit(f"Error: {folder}: made with --small: {', '.join(small)}; make them without it")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for one in made:
        picture = Image.open(folder / f"{one['name']}.png").convert("RGB")
        picture.quantize(128).save(PICTURES / f"{one['name']}.png", optimize=True)
    minutes = sum(one["cpu_seconds"] for one in made) / 60
    PAGE.write_text(
        HEAD.format(count=len(made), minutes=minutes) + "".join(FIGURE.format(**one) for one in made)
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The figures' font, cut down once so that embedding it in every PDF is cheap."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fontTools import subset
from matplotlib import font_manager

FAMILY = "DejaVu Sans"  # comes with matplotlib; draws whatever the cut-down copy lacks
# Latin with accents, Greek, punctuation, sub- and superscripts, arrows, mathematics
RANGES = ((0x20, 0x250), (0x370, 0x400), (0x2010, 0x2050), (0x2070, 0x20A0), (0x2190, 0x2300))


@cache
def families() -> tuple[str, str]:
    """Names of the font to draw with and of the one that stands in for missing characters.

    TrueType fonts in a PDF are what publishers accept (matplotlib's default, Type 3, is refused by many), and cutting
    6,000 glyphs and their layout rules down to those of one figure takes longer than drawing it. So the rules, which
    matplotlib does not use, and rare scripts are cut away here, once for all figures.
    """
    folder = Path(tempfile.mkdtemp(prefix="normexp-fonts-"))
    atexit.register(
        shutil.rmtree, folder, ignore_errors=True
    )  # not earlier: matplotlib opens the files again
    name = f"{FAMILY} cut"
    for weight in ("normal", "bold"):
        found = font_manager.findfont(font_manager.FontProperties(family=FAMILY, weight=weight))
        path = folder / Path(found).name
        cut(found, path, name)
        font_manager.fontManager.addfont(path)
    return name, FAMILY


def cut(font: str | Path, to: Path, name: str) -> None:
    """Write a font that has only the characters of RANGES, under another name."""
    options = subset.Options(
        layout_features=[], drop_tables=["GSUB", "GPOS", "GDEF", "FFTM"], legacy_kern=True
    )
    with subset.load_font(str(font), options) as parts:
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=[code for low, high in RANGES for code in range(low, high)])
        subsetter.subset(parts)
        for record in parts["name"].names:
            if record.nameID in (1, 16):  # family
                record.string = name
        subset.save_font(parts, str(to), options)

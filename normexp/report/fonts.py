"""The figures' font, cut down once so that embedding it in every PDF is cheap."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fontTools import subset
from matplotlib import font_manager

FAMILY = "DejaVu Sans"  # comes with matplotlib; draws the characters that the cut-down copy lacks
# Latin with accents, Greek, punctuation, sub- and superscripts, arrows, mathematics
RANGES = ((0x20, 0x250), (0x370, 0x400), (0x2010, 0x2050), (0x2070, 0x20A0), (0x2190, 0x2300))


@cache
def families() -> tuple[str, str]:
    """Names of the font to draw with, and of the font for missing characters.

    Publishers accept TrueType fonts in a PDF; many refuse matplotlib's default, Type 3. To cut 6,000 glyphs and their
    layout rules down to those of one figure takes longer than drawing it. So the rules, which matplotlib does not use,
    and rare scripts are removed here, once for all figures.
    """
    folder = Path(tempfile.mkdtemp(prefix="normexp-fonts-"))
    # Only at the end, because matplotlib opens the files again.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
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

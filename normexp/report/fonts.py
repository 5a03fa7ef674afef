"""The figures' font, cut down once so that embedding it in every PDF is cheap."""

import contextlib
import hashlib
import io
from functools import cache
from pathlib import Path

import fontTools
import matplotlib
from fontTools import subset
from matplotlib import font_manager

from normexp.runs.files import atomic_write

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
    name = f"{FAMILY} cut"
    for weight in ("normal", "bold"):
        found = font_manager.findfont(font_manager.FontProperties(family=FAMILY, weight=weight))
        try:
            add(Path(found), name)
        except OSError:  # no room, or nothing may be written: larger files, and the same figures
            return FAMILY, FAMILY
    return name, FAMILY


def add(font: Path, name: str) -> None:
    """Add the font, cut down, from matplotlib's cache; cut it first if it is not there, or not whole.

    Where the user has no cache, matplotlib gives a temporary folder and removes it at the end.
    """
    content = hashlib.sha256(font.read_bytes())
    content.update(repr((RANGES, name, fontTools.version)).encode())
    path = Path(matplotlib.get_cachedir()) / f"normexp-{font.stem}-{content.hexdigest()[:16]}.ttf"
    with contextlib.suppress(OSError, RuntimeError):  # the second from FreeType
        font_manager.fontManager.addfont(path)
        return
    small = cut(font, name)
    with atomic_write(path) as file:
        file.write(small)
    font_manager.fontManager.addfont(path)


def cut(font: Path, name: str) -> bytes:
    """A font that has only the characters of RANGES, under another name."""
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
        file = io.BytesIO()
        subset.save_font(parts, file, options)
    return file.getvalue()

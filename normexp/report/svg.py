"""Figures inside the page: colors for light and dark mode, values at the points, names for screen readers."""

import colorsys
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ET.register_namespace("", SVG)
ET.register_namespace("xlink", XLINK)
COLOR = re.compile(r"#([0-9a-f]{6})\b")
# Light gray on white becomes dark gray on black. Other colors get lighter.
DARK = {
    "ffffff": "#16181b",
    "222222": "#e6e6e6",
    "6b6b6b": "#a5a5a5",
    "999999": "#6f6f6f",
    "e6e6e6": "#31353a",
}
DARK |= {"eeeeee": "#2a2d31", "dddddd": "#3a3e43", "000000": "#e6e6e6"}


class Told(NamedTuple):
    """The name of a curve, and the text at each of its points."""

    name: str
    points: list[str]


_told: "WeakKeyDictionary[Figure, dict[str, Told]]" = WeakKeyDictionary()


def tell(axes: Axes, xs: Sequence[float], ys: Sequence[float], name: str, points: Sequence[str]) -> None:
    """Give a curve its values. The page shows them under the mouse, and screen readers read the focused one aloud.

    Invisible marks stand at the points. Other formats of the figure do not change.
    """
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    mine = _told.setdefault(figure, {})
    key = f"told{len(mine)}"
    mine[key] = Told(name, list(points))
    axes.plot(
        xs, ys, "o", markersize=9, alpha=0, color="#222222", gid=key, scalex=False, scaley=False, zorder=9
    )


def told_by(figure: Figure) -> dict[str, Told]:
    """The values that `tell` got for a figure."""
    return _told.get(figure, {})


def inline(svg: bytes, name: str, title: str, told: Mapping[str, Told]) -> Markup:
    """An SVG file as an element of a page. `name` makes its ids differ from those of other figures."""
    root = ET.fromstring(svg)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for attribute in ("width", "height"):
        root.attrib.pop(attribute, None)
    root.attrib |= {"role": "group", "aria-label": title}
    for group in root.iter(f"{{{SVG}}}g"):
        key = group.get("id", "")
        if key in told:
            _name(group, told[key])
    for element in root.iter():
        _keep_apart(element, name)
        for attribute in ("style", "fill", "stroke"):
            if attribute in element.attrib:
                element.set(attribute, COLOR.sub(r"var(--c-\1, #\1)", element.get(attribute, "")))
    text = ET.tostring(root, encoding="unicode")
    return Markup(re.sub(r"\n\s*", "\n", text))


def _name(group: ET.Element, told: Told) -> None:
    group.attrib |= {
        "class": "curve",
        "tabindex": "0",
        "role": "img",
        "aria-label": f"{told.name}: {'; '.join(told.points)}",
    }
    marks = list(group.iter(f"{{{SVG}}}use"))
    if len(marks) == len(told.points):  # points outside the axes are not drawn
        for mark, words in zip(marks, told.points, strict=True):
            ET.SubElement(mark, f"{{{SVG}}}title").text = f"{told.name}, {words}"
    else:
        title = ET.Element(f"{{{SVG}}}title")
        title.text = told.name
        group.insert(0, title)


def _keep_apart(element: ET.Element, name: str) -> None:
    if element.tag == f"{{{SVG}}}image":
        # The id depends only on the content, so equal images would have equal ids.
        element.attrib.pop("id", None)
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.get('id')}")
    link = f"{{{XLINK}}}href"
    if element.get(link, "").startswith("#"):
        element.set(link, f"#{name}-{element.get(link, '')[1:]}")
    for attribute, value in element.attrib.items():
        if "url(#" in value:
            element.set(attribute, value.replace("url(#", f"url(#{name}-"))


def dark_colors(colors: Iterable[str]) -> dict[str, str]:
    """Name of the variable -> color on a dark page, for all colors of figures, bright enough for text."""
    found = {f"--c-{key}": value for key, value in DARK.items()}
    for color in sorted({color.lower().lstrip("#") for color in colors} - DARK.keys()):
        hue, light, saturation = colorsys.rgb_to_hls(*(int(color[i : i + 2], 16) / 255 for i in (0, 2, 4)))
        channels = colorsys.hls_to_rgb(hue, max(light, 0.62), min(saturation, 0.75))
        found[f"--c-{color}"] = "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
    return found

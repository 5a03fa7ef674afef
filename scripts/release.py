"""Before a release: the tag, the version, the changelog's date and every address agree, and none is a placeholder.

python scripts/release.py v0.2.0
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = re.compile(r"[\w.]+\.example\b|10\.0000/")
CHECKED = ("pyproject.toml", "CITATION.cff", "docs/lesson.ipynb", "mkdocs.yml", "docs/llms.txt")


def mistakes(tag: str, root: Path = ROOT) -> list[str]:
    """What a release with this tag would say wrong, a line each."""
    found = []
    version = re.search(r'__version__ = "(.*)"', (root / "normexp/__init__.py").read_text())[1]  # type: ignore[index]
    if tag != f"v{version}":
        found.append(f"tag {tag}: normexp/__init__.py says {version}; tag v{version}")
    if not re.search(
        rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", (root / "CHANGELOG.md").read_text(), re.M
    ):
        found.append(f"CHANGELOG.md: version {version} has no date; write ## {version} (YYYY-MM-DD)")
    if "not yet on the package index" in (root / "README.md").read_text():
        found.append(
            "README.md: says that no index has it; set INSTALL in normexp/format.py, then what its test names"
        )
    for name in CHECKED:
        if (root / name).exists() and (hit := PLACEHOLDER.search((root / name).read_text())):
            found.append(f"{name}: {hit[0]} is a placeholder; fill [project.urls] of pyproject.toml")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Error: name the tag: python scripts/release.py v0.2.0")
    if found := mistakes(sys.argv[1]):
        sys.exit("\n".join(f"Error: {line}" for line in found))
    print(f"{sys.argv[1]} may be built")

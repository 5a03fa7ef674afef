"""A hook of the build: the README of the package index, whose links and pictures have full addresses."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?\[[^\]]*\]\()(?!\w+:|#)([^)\s]+)\)")


def full_addresses(text: str, repository: str, version: str) -> str:
    """README with links into the repository at the tag of this version, and pictures as their files."""
    return LINK.sub(
        lambda m: f"{m[1]}{repository}/{'raw' if m[1][0] == '!' else 'blob'}/v{version}/{m[2]})", text
    )


class Readme(MetadataHookInterface):
    """Sets `project.readme` from README.md and `project.urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = full_addresses(text, metadata["urls"]["Repository"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

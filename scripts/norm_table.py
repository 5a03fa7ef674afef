"""Write the tables of docs/norms.md, every norm and its invariances: `python scripts/norm_table.py`

A row of invariances is measured as tests/norms/test_invariances.py does it.
"""

import sys

from doc_tables import DOCS, ROOT, filled, table
from omegaconf import OmegaConf

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

PAGE = DOCS / "norms.md"


def members() -> str:
    """The file of each norm, its class and its first comment."""
    rows = []
    for path in sorted((ROOT / "configs" / "norm").glob("*.yaml")):
        target = OmegaConf.load(path)["_target_"].rpartition(".")[2]
        rows.append([f"`{path.stem}`", f"`{target}`", path.read_text().splitlines()[0].removeprefix("# ")])
    return table(["name", "class", "what"], rows)


def invariances() -> str:
    """What norm(W x) is invariant to, for each norm."""
    from norms.layers import NAMES
    from norms.test_invariances import COLUMNS, ON_IMAGES, measured

    labels = {name: f"`{name}`" + " (images)" * (name in ON_IMAGES) for name in NAMES}
    return table(["name", *COLUMNS], [[labels[name], *measured(name).split()] for name in NAMES])


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), {"members": members(), "invariances": invariances()}))

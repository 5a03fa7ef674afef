"""Where the yaml files are: at the top of the repository, or in the package where it was installed from a wheel."""

from pathlib import Path


def configs_folder(package: Path) -> Path:
    """The folder of `train.yaml` and of a folder for each group, given that of `normexp`."""
    carried = package / "configs"  # by the wheel
    return carried if carried.is_dir() else package.parent / "configs"


CONFIGS = configs_folder(Path(__file__).parents[1])

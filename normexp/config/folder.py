"""Where the yaml files are: at the top of the repository, or in the package where it was installed from a wheel."""

from pathlib import Path


def configs_folder(package: Path) -> Path:
    """The folder of `train.yaml` and of a folder for each group, given that of `normexp`."""
    carried = package / "configs"  # by the wheel
    return carried if carried.is_dir() else package.parent / "configs"


def project_folder(package: Path) -> Path:
    """Where files lie that people commit, such as the registry: the checkout, or the present folder without one."""
    return Path() if configs_folder(package).parent == package else package.parent


PACKAGE = Path(__file__).parents[1]
CONFIGS = configs_folder(PACKAGE)
PROJECT = project_folder(PACKAGE)

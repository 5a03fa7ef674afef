"""The folder of the yaml files: at the top of the repository, or in the package if a wheel installed it."""

from pathlib import Path


def configs_folder(package: Path) -> Path:
    """The folder with `train.yaml` and one folder per group. `package` is the folder of `normexp`."""
    carried = package / "configs"  # in a wheel
    return carried if carried.is_dir() else package.parent / "configs"


def project_folder(package: Path) -> Path:
    """The folder of committed files such as the registry: the checkout, or the working directory without one."""
    return Path() if configs_folder(package).parent == package else package.parent


PACKAGE = Path(__file__).parents[1]
CONFIGS = configs_folder(PACKAGE)
PROJECT = project_folder(PACKAGE)

"""Lets Hydra find the yaml files of installed packages that the command line allows; see `normexp.config.folder`."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from normexp.config.folder import more_folders, own_folder


class AllowedPackages(SearchPathPlugin):
    """Their folders come last, so they replace no file of normexp or of the user."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in more_folders():
            if folder != own_folder():  # Hydra has that one from --config-dir
                search_path.append("normexp", f"file://{folder.as_posix()}")

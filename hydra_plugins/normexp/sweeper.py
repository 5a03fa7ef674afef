"""Hydra's basic sweeper, without its check of each cell where the project's launcher makes a better one."""

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

from hydra_plugins.normexp.launcher import NormexpLauncher


class NormexpSweeper(BasicSweeper):
    """The product of all overrides. Composing every cell twice would cost a fifth of a second for each of them."""

    def validate_batch_is_legal(self, batch) -> None:
        if not isinstance(self.launcher, NormexpLauncher):
            super().validate_batch_is_legal(batch)

"""Hydra reads and merges the files of a choice once for all tests. Composing takes 70 ms, mostly for that, and the
tests compose a thousand times. Overrides of values are applied anew each time. Hydra changes what it is given, so all
is kept pickled: a copy from there takes an eighth of the time of a deep copy."""

import os
import pickle
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import DefaultsList, Overrides
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.default_element import InputDefault, ResultDefault
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig

_list, _merge = config_loader_impl.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
_map = defaults_list._create_interpolation_map
_lists: dict[Hashable, DefaultsList] = {}
_merged: dict[int, bytes] = {}  # of the list with this id
_starts: dict[Hashable, bytes] = {}  # what the files of Hydra and train.yaml make together
_read: dict[Hashable, bytes] = {}


def cache_hydra() -> None:
    """From now on, in this process."""
    config_loader_impl.create_defaults_list = _listed
    ConfigLoaderImpl._compose_config_from_defaults_list = _composed
    defaults_list._create_interpolation_map = _mapped
    Plugins.instance()  # which loads the classes of sources anew
    for scheme in ("file", "pkg"):
        source = SourcesRegistry.instance().resolve(scheme)
        source.load_config = _loading_once(source.load_config)


def _listed(
    repo: IConfigRepository, config_name: str | None, overrides_list: list[Override], **options: Any
) -> DefaultsList:
    """The files to merge. Another file, a changed one, or another guard of what is read gives another answer."""
    if any(override.is_sweep_override() for override in overrides_list):
        return _list(repo, config_name, overrides_list, **options)
    chosen, values = [], []
    for override in overrides_list:
        is_choice = repo.group_exists(override.key_or_group) and not isinstance(override.value(), dict)
        (chosen if is_choice else values).append(override)
    sources = tuple((source.scheme(), source.path) for source in repo.get_sources())
    files = tuple(file for scheme, path in sources if scheme == "file" for file in _files(path))
    lines = tuple(override.input_line for override in chosen)
    key = (config_name, lines, *options.values(), sources, files, ConfigRepository.load_config)
    if key not in _lists:
        _lists[key] = _list(repo, config_name, overrides_list, **options)
    found = _lists[key]
    return DefaultsList(found.defaults, found.defaults_tree, values, found.overrides)


def _composed(
    self: ConfigLoaderImpl, defaults: Sequence[ResultDefault], repo: IConfigRepository
) -> DictConfig:
    """What the files of a list make together. The list stays in `_lists`, so its id is its own."""
    if id(defaults) not in _merged:
        _merged[id(defaults)] = pickle.dumps(_merged_from_start(self, defaults, repo))
    return pickle.loads(_merged[id(defaults)])


def _merged_from_start(
    self: ConfigLoaderImpl, defaults: Sequence[ResultDefault], repo: IConfigRepository
) -> DictConfig:
    """Most of the time goes to Hydra's own files, which come first and are the same for nearly every list."""
    end = next((place for place, default in enumerate(defaults, 1) if default.config_path == "train"), 0)
    read = [repo.load_config(default.config_path).config for default in defaults[:end]]
    key = (tuple(map(repr, defaults[:end])), repr(read))
    if key not in _starts:
        _starts[key] = pickle.dumps(_merge(self, defaults[:end], repo))
    start, load = ResultDefault(config_path=""), self._load_single_config

    def loaded(default: ResultDefault, repo: IConfigRepository) -> ConfigResult:
        if default is not start:
            return load(default=default, repo=repo)
        return ConfigResult(config=pickle.loads(_starts[key]), path="", provider="", header={})

    self._load_single_config = loaded
    try:
        return _merge(self, [start, *defaults[end:]], repo)
    finally:
        del self._load_single_config


def _mapped(overrides: Overrides, defaults: list[InputDefault], self_added: bool) -> DictConfig | None:
    """The choices that a file's own list may name. Only one file names some, and Hydra makes this for each."""
    if any(default.is_interpolation() for default in defaults):
        return _map(overrides, defaults, self_added)
    return None


def _loading_once(
    load: Callable[[ConfigSource, str], ConfigResult],
) -> Callable[[ConfigSource, str], ConfigResult]:
    """Each file is parsed once."""

    def loaded(self: ConfigSource, config_path: str) -> ConfigResult:
        file = os.path.join(self.path, self._normalize_file_name(config_path))
        # Files in the package of Hydra do not change.
        written = _written(os.stat(file)) if os.path.isfile(file) else ()
        key = (self.scheme(), self.provider, file, written)
        if key not in _read:
            _read[key] = pickle.dumps(load(self, config_path))
        return pickle.loads(_read[key])

    return loaded


def _files(folder: str) -> Iterator[tuple]:
    """Every file below a folder, and when it was written."""
    if not os.path.isdir(folder):
        return
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _files(entry.path)
        else:
            yield entry.path, *_written(os.stat(entry.path))


def _written(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mtime_ns, status.st_size, status.st_ino

"""What a command does to its process."""

import gc

import pytest

from normexp.config.process import fast_imports


def test_nothing_is_searched_for_garbage_while_imports_are_made():
    seen: list[str] = []

    def note(phase: str, info: dict) -> None:
        seen.append(phase)

    collects, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.enable()
    gc.callbacks.append(note)
    try:
        with fast_imports():
            seen.clear()
            kept = [[index] for index in range(5000)]
            assert (seen, gc.isenabled()) == ([], False)
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen + len(kept)
        more = [[index] for index in range(5000)]
        assert seen, len(more)
        with pytest.raises(ImportError), fast_imports():
            raise ImportError
        assert gc.isenabled()
        gc.disable()
        with fast_imports():  # of a caller who wants no collection
            pass
        assert not gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        (gc.enable if collects else gc.disable)()

"""scripts/benchmark.py: it times the project's own training and layers in turn with a reference."""

import argparse

import benchmark
import pytest

pytestmark = pytest.mark.integration


def given(only: str, **more) -> argparse.Namespace:
    return argparse.Namespace(only=only, seconds=0.0, **more)


def test_a_run_and_the_bare_loop_are_timed_in_turn(monkeypatch):
    monkeypatch.setitem(benchmark.MODELS, "mlp, digits", ["model=mlp", "data=digits", "batch_size=16"])
    ((_, pairs),) = benchmark.steps(given("mlp, digits"))
    assert len(pairs) >= 3
    assert all(own > 0 and bare > 0 for own, bare in pairs)


def test_layers_are_timed_in_turn():
    ((_, pairs),) = benchmark.norms(given("layernorm, rows"))
    assert len(pairs) == 3
    assert all(own > 0 and twin > 0 for own, twin in pairs)


def test_commands_ask_for_another_checkout():
    with pytest.raises(SystemExit, match="--against"):
        list(benchmark.commands(given("", against=None)))

"""`test_examples.npz` comes back as it was written; what was cut or is absent is said or passed over."""

import numpy as np
import pytest
from refusals import refused

from normexp.runs import TestExamples, load_test_examples, write_test_examples


@pytest.fixture(params=[(10_000,), (37, 64)], ids=["images", "text"])
def examples(request) -> TestExamples:
    random = np.random.default_rng(0)
    loss = random.lognormal(size=request.param[0]).astype(np.float32)
    loss[:3] = np.nan, np.inf, 0
    return TestExamples(random.random(request.param) < 0.7, loss, "0123456789abcdef")


def test_what_is_read_is_what_was_written(examples, tmp_path):
    write_test_examples(tmp_path, examples)
    read = load_test_examples(tmp_path)
    assert read.right.dtype == bool
    assert np.array_equal(read.right, examples.right)
    assert np.array_equal(read.loss, examples.loss, equal_nan=True)
    assert read.test_set == examples.test_set
    assert [path.name for path in tmp_path.iterdir()] == ["test_examples.npz"]


def test_an_answer_takes_a_bit(tmp_path):
    right = np.random.default_rng(0).random(10_000) < 0.5
    write_test_examples(tmp_path, TestExamples(right, np.zeros(10_000), ""))
    assert 1250 <= (tmp_path / "test_examples.npz").stat().st_size < 2500


def test_a_run_without_the_file_has_none(tmp_path):
    assert load_test_examples(tmp_path) is None
    assert load_test_examples(tmp_path / "nowhere") is None


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_was_cut_is_said_in_one_line(share, examples, tmp_path):
    write_test_examples(tmp_path, examples)
    path = tmp_path / "test_examples.npz"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with refused(r"test_examples.npz: damaged .* run it again"):
        load_test_examples(tmp_path)


def test_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "test_examples.npz", shape=np.array([{}], dtype=object))
    with refused("damaged"):
        load_test_examples(tmp_path)

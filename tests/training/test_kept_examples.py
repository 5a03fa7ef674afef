"""Every run keeps what it made of each test example, and the file says what the summary says."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_one_run import weights

from normexp.runs import load_test_examples


def test_a_run_on_images_keeps_each_test_image(train, make_parts, monkeypatch):
    monkeypatch.setattr("normexp.training.result.TRAIN_SAMPLES", 100)
    summary, folder = train("max_epochs=1", "data.eval_batch_size=100")
    kept = load_test_examples(folder)
    assert kept.right.shape == kept.loss.shape == (360,)
    assert kept.right.mean() == pytest.approx(summary["metrics"]["test/accuracy"], abs=1e-12)
    assert kept.loss.mean(dtype=np.float64) == pytest.approx(summary["metrics"]["test/loss"], rel=1e-6)

    parts = make_parts("max_epochs=1")
    state = weights(folder)
    parts.module.load_state_dict(state)
    x, y = parts.data.rows("test", torch.device("cpu"))
    with torch.no_grad():
        logits = parts.module.eval()(x).double()
    assert np.array_equal(kept.right, logits.argmax(1) == y)
    expected = F.cross_entropy(logits, y, reduction="none").numpy()
    np.testing.assert_allclose(kept.loss, expected, rtol=1e-5, atol=1e-6)
    x, y = parts.data.rows("train", torch.device("cpu")).take(slice(100))
    with torch.no_grad():
        assert summary["metrics"]["train/loss"] == pytest.approx(F.cross_entropy(parts.module(x), y).item())


def test_a_run_on_text_keeps_each_window(train, tmp_path):
    text = "the quick brown fox jumps over the lazy dog. " * 60
    (tmp_path / "fox.txt").write_text(text)
    summary, folder = train(
        "model=gpt", "data=text_file", f"data.path={tmp_path / 'fox.txt'}", "data.context_length=16",
        "batch_size=8", "max_steps=2", "model.heads=2",
    )  # fmt: skip
    kept = load_test_examples(folder)
    assert kept.right.shape == (len(kept.loss), 16)
    assert len(kept.loss) == (len(text) - len(text) * 95 // 100 - 1) // 16
    assert kept.right.mean() == pytest.approx(summary["metrics"]["test/accuracy"], abs=1e-12)
    assert kept.loss.mean(dtype=np.float64) == pytest.approx(summary["metrics"]["test/loss"], rel=1e-6)

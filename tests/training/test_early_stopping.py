"""Early stopping: when a run ends, that an interrupted one ends there too, and what its identity is."""

from recorded import curve as rows_of


def test_a_run_ends_after_patience_validations_without_a_better_accuracy(train):
    summary, folder = train("max_epochs=60", "early_stopping=2", "norm=batchnorm", "lr=0.01")
    curve = [float(value) for _, _, metric, value in rows_of(folder) if metric == "val/accuracy"]
    assert summary["stopped_early"] is True
    assert summary["status"] == "completed"
    assert len(curve) < 60
    assert max(curve[-2:]) <= max(curve[:-2])
    for end in range(3, len(curve)):  # and not before
        assert max(curve[end - 2 : end]) > max(curve[: end - 2])
    whole, _ = train("max_epochs=2")
    assert "stopped_early" not in whole

"""`debug=overfit` and `debug=limit`."""

import pytest

from normexp.config.run_spec import specs
from normexp.training.build import build


@pytest.mark.integration
@pytest.mark.parametrize("data", ["digits", "python_docs"])
def test_presets_take_little_data_of_every_kind(data, tmp_path):
    model = "mlp" if data == "digits" else "gpt"
    for preset, most in (("overfit", 64), ("limit", 256)):
        parts = build(specs([f"debug={preset}", f"data={data}", f"model={model}", f"outputs={tmp_path}"])[0])
        assert parts.config["name"] == "debug"
        batches = len(parts.data.training_order(parts.data.splits["train"]))
        assert 0 < batches * parts.config["batch_size"] <= most

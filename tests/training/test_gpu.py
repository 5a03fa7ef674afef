"""What only a GPU can show: the same run as on the CPU, and CUDA graphs. Skipped without one; every other test of
training that does not ask for the CPU runs there too."""

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
SMALL = {
    "mlp": [], "cnn": ["model.depth=[1]"], "resnet": ["model.depth=8"], "transformer": ["model.heads=2"],
}  # fmt: skip


@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("norm", ["batchnorm_unbiased", "layernorm_annotated", "rmsnorm"])
def test_gpu_run_is_the_cpu_run(train, tmp_path, model, norm):
    # sgd: adam makes steps out of the rounding noise of gradients that are zero
    options = ["monitor=light", "max_epochs=1", "optimizer=sgd", f"model={model}", f"norm={norm}"]
    options += SMALL[model]
    on_gpu, cpu = (
        train("trainer=float64", f"trainer.accelerator={device}", f"outputs={tmp_path / device}", *options)[0]
        for device in ("gpu", "cpu")
    )
    assert on_gpu["execution"]["device"] == "cuda:0"
    assert on_gpu["metrics"] == pytest.approx(cpu["metrics"], rel=1e-6, abs=1e-9)


def test_cuda_graphs_give_the_plain_run_up_to_rounding(train, tmp_path):
    options = ["trainer=gpu", "monitor=light", "norm=batchnorm"]
    plain, _ = train(*options, f"outputs={tmp_path / 'plain'}")
    graphs, _ = train(*options, "compile=reduce-overhead")
    assert graphs["hash"] == plain["hash"]
    assert graphs["metrics"]["train/loss"] == pytest.approx(plain["metrics"]["train/loss"], rel=1e-3)

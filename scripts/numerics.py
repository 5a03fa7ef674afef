"""Record what small runs compute on this processor: `python scripts/numerics.py` writes tests/numerics.json.

tests/test_numerics.py trains the runs again. When bits have moved on purpose, raise `normexp.NUMERICS` and run this.
Processors and versions of torch compute other bits, so each kind has its own record. Losses agree everywhere.
"""

import contextlib
import hashlib
import io
import itertools
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import normexp
from normexp.runs.summary import REESTIMATED

RECORD = Path(__file__).parents[1] / "tests" / "numerics.json"

# Whatever decides a number stands here, so that a new default does not look like a change of code.
SHARED = (
    "seed=1 batch_size=16 max_steps=3 val_every_n_steps=3 log_every_n_steps=1 eps=1e-5 optimizer=sgd lr=0.05 "
    "optimizer.momentum=0.9 optimizer.weight_decay=0.01 schedule=warmup_cosine schedule.warmup_steps=1 "
    "schedule.final_fraction=0.1 trainer=cpu threads=1 accuracies=[0.1] monitor=none data=digits channels_last=true "
    "data.train_size=200"
)
BLOCK = "model.depth=2 model.width=16 model.heads=2 model.initialization=xavier"
MODELS = {
    "mlp": "model.depth=2 model.width=16 model.initialization=he",
    "cnn": "model.depth=[1,1] model.width=4 model.initialization=he",
    "resnet": "model.depth=8 model.width=4 model.initialization=he",
    "transformer": BLOCK,
    "gpt": f"{BLOCK} data=text_file data.path={{text}} data.context_length=16",
}
# color images: of gray ones torch keeps no channels_last
COLOR = (
    "data=image_folder data.path={images} data.cache={images} data.image_size=12 data.val_size=16 "
    "data.train_size=null"
)
BF16, F64 = "trainer.precision=bf16-mixed", "trainer.precision=64-true"
RUNS = (
    "mlp none", "mlp batchnorm", "mlp batchnorm_eps_outside", "mlp batchnorm_ghost norm.virtual_batch_size=4",
    "mlp batchnorm_l1",
    "mlp batchnorm_precise", "mlp batchrenorm", "mlp layernorm", "mlp layernorm_detach", "mlp layernorm_unbiased",
    "mlp adanorm", "mlp rmsnorm_partial", "mlp powernorm", "mlp affine", f"mlp layernorm {F64}",
    "mlp layernorm optimizer=adamw lr=0.01", "mlp batchnorm optimizer=muon lr=0.01",
    "mlp layernorm trainer.accumulate_grad_batches=2 trainer.gradient_clip_val=0.1",
    "mlp layernorm label_smoothing=0.1 model.norm_position=post_activation model.activation=tanh",
    "mlp none model.weight_norm={_target_:normexp.norms.WeightNormalization}",
    "cnn batchnorm data.augment=true", "cnn layernorm", "cnn layernorm_channels", "cnn layernorm_eps_outside",
    "cnn groupnorm", "cnn groupnorm channels_last=false", "cnn instancenorm", "cnn switchablenorm",
    "cnn batchnorm_noisy norm.population_statistics=ema", "cnn layernorm color", "cnn groupnorm color",
    "cnn instancenorm color", "cnn layernorm_eps_outside color", f"resnet layernorm color {BF16}",
    f"cnn groupnorm {BF16}", "cnn none model.weight_norm={_target_:normexp.norms.WeightStandardization}",
    "resnet none model.alpha=0.2", "resnet batchnorm", "resnet layernorm", "transformer layernorm",
    "transformer layernorm model.norm_position=post model.dropout=0.1", f"transformer layernorm {BF16}",
    "transformer dyt", "gpt rmsnorm", "gpt scalenorm", "gpt layernorm preset=qwen3", f"gpt rmsnorm {BF16}",
)  # fmt: skip


def kind() -> str:
    """What decides the bits of a record: the processor's maker, its vector instructions, the version of torch, and what
    torch alone computes there. Two processors of one maker may differ, and so may one under other variables."""
    vendor = platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        vendor = next((line.split()[-1] for line in lines if line.startswith("vendor_id")), vendor)
    release = ".".join(torch.__version__.split(".")[:2])
    return f"{vendor} {torch.backends.cpu.get_cpu_capability()} torch {release} {of_torch_alone()}"


def of_torch_alone() -> str:
    """A hash of what plain torch computes on one thread: draws, sums, functions, products, attention, convolutions,
    updates. No code of the project takes part, so it tells another machine from another program."""
    content, threads = hashlib.sha256(), torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            for form in (torch.contiguous_format, torch.channels_last):
                images = torch.randn(16, 4, 8, 8).to(dtype).contiguous(memory_format=form).requires_grad_()
                kernels, rows = torch.randn(4, 4, 3, 3).to(dtype), torch.randn(16, 64).to(dtype)
                square = torch.randn(64, 64).to(dtype)
                leaves = [images, *(leaf.requires_grad_() for leaf in (kernels, rows, square))]
                convolved = F.group_norm(F.conv2d(images, kernels, padding=1), 2)
                hidden = F.gelu(F.layer_norm(rows @ square, (64,))).tanh() + F.softmax(rows, -1)
                loss = F.batch_norm(convolved, None, None, training=True).relu().exp().mean() + hidden.var()
                tokens = rows.reshape(2, 2, 16, 16)
                attended = F.scaled_dot_product_attention(tokens, tokens.sin(), tokens, is_causal=True)
                loss = loss + F.cross_entropy(attended.reshape(16, 64) @ square.T, torch.arange(16)).to(dtype)
                loss.backward()
                torch.optim.AdamW(leaves, fused=True).step()
                values = [loss, *leaves]
                for n, k, m in itertools.product(
                    (1, 16, 250), (16, 43, 64), (10, 26, 64)
                ):  # sizes choose kernels
                    left, right, back = (torch.randn(size).to(dtype) for size in ((n, k), (m, k), (n, m)))
                    values += [left @ right.T, back @ right, back.T @ left]
                for value in values:
                    content.update(
                        value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
                    )
    torch.set_num_threads(threads)
    return content.hexdigest()[:6]


def draw_images(folder: Path) -> Path:
    """A folder of small color images of two classes, whose pixels a formula gives."""
    for split, count in (("train", 48), ("test", 16)):
        for number in range(count):
            kind = number % 2
            pixels = (np.arange(12 * 12 * 3, dtype=np.int64) * (7 + kind) + 31 * number) ** 2 % 251
            path = folder / split / f"class_{kind}" / f"{number:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8).reshape(12, 12, 3)).save(path)
    return folder


def compute(run: str) -> dict[str, Any]:
    """The final metrics of a run, and a hash of them and its weights."""
    model, norm, *more = run.split()
    chosen: dict[str, str] = {}
    more = " ".join(COLOR if word == "color" else word for word in more).split()
    for word in (*SHARED.split(), f"model={model}", *MODELS[model].split(), f"norm={norm}", *more):
        key, _, value = word.partition("=")
        # another choice takes the options of the last one along
        chosen = {other: old for other, old in chosen.items() if not other.startswith(f"{key}.")}
        chosen[key] = value
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        text = Path(folder, "text.txt")
        text.write_text("".join(chr(97 + n * n * n % 26) for n in range(20_000)))
        images = draw_images(Path(folder, "images"))
        paths = {"{text}": str(text), "{images}": str(images)}
        overrides = [f"{key}={paths.get(value, value)}" for key, value in chosen.items()]
        made = normexp.train(*overrides, outputs=folder)
        assert made.folder is not None
        state = torch.load(made.folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    found = made.summary["metrics"]
    metrics = {name: value for name, value in found.items() if not name.endswith(REESTIMATED)}  # came later
    content = hashlib.sha256(json.dumps(metrics, sort_keys=True).encode())
    for name, tensor in sorted(state.items()):
        content.update(name.encode() + tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return {"loss": metrics["train/loss"], "bits": content.hexdigest()[:12]}


def main() -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if record.get("numerics") != normexp.NUMERICS:
        record = {"numerics": normexp.NUMERICS, "bits": {}}
    found = {}
    for index, run in enumerate(RUNS):
        print(f"{index + 1}/{len(RUNS)} {run}", file=sys.stderr)
        found[run] = compute(run)
    record["bits"][kind()] = {run: one["bits"] for run, one in found.items()}
    record["loss"] = {run: one["loss"] for run, one in found.items()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

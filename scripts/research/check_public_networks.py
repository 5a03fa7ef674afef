"""What `normexp check` says of 28 public networks and of this project's, fresh and after 50 updates on noise.

    python scripts/research/check_public_networks.py  # all; writes docs/data/check.json and docs/check.md
    python scripts/research/check_public_networks.py resnet18 gpt2    # only these; the others keep their rows
    python scripts/research/check_public_networks.py --table          # the table alone, from the file

Needs timm and, for six networks, transformers; the rows of what is not installed stay as they are.
"""

import importlib
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from doc_tables import DATA, DOCS, ROOT, fill, read_rows, table, write_rows
from torch import nn

from normexp.check.finding import declared
from normexp.check.inputs import loss_of_output, split
from normexp.check.run import check

ROWS, PAGE = DATA / "check.json", DOCS / "check.md"
SAMPLES, SIDE, UPDATES, RATE = 16, 32, 50, 1e-3
TORCHVISION = (
    "resnet18", "vgg11_bn", "densenet121", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf",
    "shufflenet_v2_x0_5", "googlenet", "convnext_tiny", "swin_t",
)  # fmt: skip
TIMM = (
    "resnet10t", "convnext_atto", "mobilenetv3_small_050", "regnetx_002", "ghostnet_050", "repvgg_a0", "lcnet_050",
    "edgenext_xx_small", "poolformer_s12", "vit_tiny_patch16_224",
)  # fmt: skip
TEXT = {
    "vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128,
}  # fmt: skip
HUGGING_FACE: dict[str, tuple[str, str, dict]] = {
    "bert": ("BertConfig", "BertForSequenceClassification", TEXT),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"vocab_size": 97, "n_embd": 64, "n_layer": 4, "n_head": 4}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", TEXT),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {**TEXT, "head_dim": 16, "num_key_value_heads": 1}),
    "t5": ("T5Config", "T5ForConditionalGeneration", {"vocab_size": 97, "d_model": 64, "d_kv": 16, "d_ff": 128,
                                                     "num_layers": 3, "num_heads": 4, "decoder_start_token_id": 0}),
    "resnet": ("ResNetConfig", "ResNetForImageClassification", {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 128],
                                                               "depths": [1, 1, 1, 1], "layer_type": "basic"}),
}  # fmt: skip
OURS = [
    (model, norm) for model in ("mlp", "cnn", "resnet", "transformer") for norm in ("layernorm", "batchnorm")
]
OURS.append(("gpt", "layernorm"))  # BatchNorm sees the future there, and says so itself


def batch(kind: str) -> tuple | dict:
    """Noise: images with classes, or tokens."""
    if kind in ("images", "pixels"):
        x, y = torch.randn(SAMPLES, 3, SIDE, SIDE), torch.randint(0, 10, (SAMPLES,))
        return (x, y) if kind == "images" else {"pixel_values": x, "labels": y % 2}
    tokens = torch.randint(1, 97, (SAMPLES, 32))
    return {"input_ids": tokens, "labels": torch.randint(0, 2, (SAMPLES,)) if kind == "classes" else tokens}


def library(name: str) -> Any:
    """The module of a library; None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return print(f"{name} is not installed")


def networks() -> dict[str, tuple[str, Callable[[], nn.Module], Callable[[], tuple | dict]]]:
    """Name -> (library, how to build it, a batch)."""
    import torchvision

    builders: dict[str, tuple[str, Callable, Callable]] = {}
    images, build = partial(batch, "images"), torchvision.models.get_model
    for name in TORCHVISION:
        more: dict[str, Any] = {"init_weights": True} if name == "googlenet" else {}
        builders[name] = "torchvision", partial(build, name, weights=None, num_classes=10, **more), images
    vit = partial(torchvision.models.VisionTransformer, SIDE, 8, 2, 4, 64, 128, num_classes=10)
    builders["vit (2 blocks)"] = "torchvision", vit, images
    if timm := library("timm"):
        for name in TIMM:
            more = {"img_size": SIDE} if name.startswith("vit") else {}
            make = partial(timm.create_model, name, pretrained=False, num_classes=10, **more)
            builders[f"timm {name}"] = "timm", make, images
    if transformers := library("transformers"):
        for name, words in HUGGING_FACE.items():
            kind = {"bert": "classes", "resnet": "pixels"}.get(name, "text")
            make = partial(hugging_face, transformers, *words)
            builders[f"transformers {name}"] = "transformers", make, partial(batch, kind)
    for model, norm in OURS:
        make, data = partial(own_model, model, norm), partial(own_batch, model, norm)
        builders[f"{model}, {norm}"] = "normexp", make, data
    return builders


def hugging_face(transformers: Any, config: str, model: str, options: dict) -> nn.Module:
    return getattr(transformers, model)(getattr(transformers, config)(**options))


def parts(model: str, norm: str):
    from normexp.config.run_spec import specs
    from normexp.training.build import build

    text = ["data=text_file", f"data.path={ROOT / 'README.md'}"] if model == "gpt" else ["data=digits"]
    (spec,) = specs([f"model={model}", f"norm={norm}", *text, f"batch_size={SAMPLES}", "trainer=cpu"])
    return build(spec)


def own_model(model: str, norm: str) -> nn.Module:
    return parts(model, norm).module.model


def own_batch(model: str, norm: str) -> tuple:
    data = parts(model, norm).data
    data.setup("fit")
    x, y = next(iter(data.train_dataloader()))
    return (torch.randn_like(x) if x.is_floating_point() else x[torch.randperm(len(x))]), y


def update(model: nn.Module, make: Callable) -> None:
    """A few updates on noise."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    for _ in range(UPDATES):
        inputs, target = split(make())
        output = model(**inputs) if isinstance(inputs, dict) else model(inputs)
        optimizer.zero_grad()
        loss_of_output(output, target)[0].backward()
        optimizer.step()


def row(name: str, library: str, make: Callable[[], nn.Module], data: Callable) -> dict:
    """Both checks of one network. The second has everything that its first lacked."""
    torch.manual_seed(0)
    model, two = make(), [data(), data()]
    fresh = check(model, two)
    update(model, data)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    later = check(model, two, optimizer=optimizer, precision="bf16-mixed", devices=1, steps=UPDATES,
                  state_dict=model.state_dict(), averaged=model)  # fmt: skip
    norms, seconds = fresh.facts[0].partition(";")[0], round(fresh.seconds, 1)
    entry = {"network": name, "library": library, "norms": norms, "seconds": seconds}
    for when, result in (("fresh", fresh), ("updated", later)):
        keys = ("id", "severity", "sentence", "number")
        entry[when] = [{key: getattr(finding, key) for key in keys} for finding in result.findings]
        entry[f"{when}_healthy"] = len(result.healthy)
    return entry


def cells(entry: dict) -> list[str]:
    """The line of a network: its norms, and the warnings and notes of each check."""
    texts = [entry["network"], entry["norms"]]
    for when in ("fresh", "updated"):
        bad = [f"`{f['id']}` {f['sentence']}" for f in entry[when] if f["severity"] != "note"]
        notes = [f"`{f['id']}`" for f in entry[when] if f["severity"] == "note"]
        texts += ["; ".join(bad) or "0", ", ".join(notes) or "–"]
    return texts


def markdown(rows: list[dict]) -> str:
    """The rows in Markdown."""
    head = ["network", "norms", "fresh: warnings", "notes", "after 50 updates: warnings", "notes"]
    return table(head, map(cells, rows))


def limits() -> str:
    """The thresholds of all findings in Markdown."""
    rows = [
        [f"`{name}`", f"`{limit}`", f"{value:g} {unit}", reason]
        for name, kind in declared().items()
        for limit, (value, unit, reason) in kind.texts.get("limits", {}).items()
    ]
    return table(["finding", "threshold", "value", "why"], rows)


def main(arguments: list[str]) -> None:
    available = {} if "--table" in arguments else networks()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in arguments or available:
        if name in available:
            entry = row(name, *available[name])
            rows = {other["network"]: other for other in read_rows(ROWS)} | {name: entry}
            write_rows(ROWS, list(rows.values()))
            print(f"{name}: {entry['seconds']} s, {' '.join(cells(entry)[2::2])}", flush=True)
    fill(PAGE, {"networks": markdown(read_rows(ROWS)), "limits": limits()})


if __name__ == "__main__":
    main(sys.argv[1:])

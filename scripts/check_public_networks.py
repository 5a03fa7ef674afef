"""What `normexp check` says of 28 public networks and of this project's, fresh and after 50 updates on noise.

    python scripts/check_public_networks.py                  # all; writes docs/data/check.json and docs/check.md
    python scripts/check_public_networks.py resnet18 gpt2    # only these; the others keep their rows
    python scripts/check_public_networks.py --table          # the table alone, from the file

Needs timm and, for six networks, transformers; the rows of what is not installed stay as they are.
"""

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from doc_tables import DATA, DOCS, ROOT, filled, read_rows, table, write_rows
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
    "vocab_size": 97,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
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
    (model, norm)
    for model in ("mlp", "cnn", "resnet", "transformer", "gpt")
    for norm in ("layernorm", "batchnorm")
]
OURS.remove(("gpt", "batchnorm"))  # sees the future, and says so itself


def batch(kind: str) -> tuple | dict:
    """Noise: images with classes, or tokens."""
    if kind == "images":
        return torch.randn(SAMPLES, 3, SIDE, SIDE), torch.randint(0, 10, (SAMPLES,))
    tokens = torch.randint(1, 97, (SAMPLES, 32))
    if kind == "classes":
        return {"input_ids": tokens, "labels": torch.randint(0, 2, (SAMPLES,))}
    return {"input_ids": tokens, "labels": tokens}


def networks() -> dict[str, tuple[str, Callable[[], nn.Module], Callable[[], tuple | dict]]]:
    """Name -> (library, how to build it, a batch)."""
    import torchvision

    found: dict[str, tuple[str, Callable, Callable]] = {}
    for name in TORCHVISION:
        more = {"init_weights": True} if name == "googlenet" else {}
        make = partial(torchvision.models.get_model, name, weights=None, num_classes=10, **more)
        found[name] = "torchvision", make, partial(batch, "images")
    vit = partial(torchvision.models.VisionTransformer, SIDE, 8, 2, 4, 64, 128, num_classes=10)
    found["vit (2 blocks)"] = "torchvision", vit, partial(batch, "images")
    try:
        import timm

        for name in TIMM:
            more = {"img_size": SIDE} if name.startswith("vit") else {}
            make = partial(timm.create_model, name, pretrained=False, num_classes=10, **more)
            found[f"timm {name}"] = "timm", make, partial(batch, "images")
    except ImportError:
        print("timm is not installed")
    try:
        import transformers

        for name, (config, model, options) in HUGGING_FACE.items():
            make = partial(
                lambda c, m, o: getattr(transformers, m)(getattr(transformers, c)(**o)),
                config,
                model,
                options,
            )
            kind = {"bert": "classes", "resnet": "images"}.get(name, "text")
            found[f"transformers {name}"] = (
                "transformers",
                make,
                partial(pixels if kind == "images" else batch, kind),
            )
    except ImportError:
        print("transformers is not installed")
    for model, norm in OURS:
        found[f"{model}, {norm}"] = "normexp", partial(own, model, norm), partial(own_batch, model, norm)
    return found


def pixels(kind: str) -> dict:
    x, y = batch(kind)
    return {"pixel_values": x, "labels": y % 2}


def parts(model: str, norm: str):
    from normexp.config.run_spec import specs
    from normexp.training.train import build

    text = ["data=text_file", f"data.path={ROOT / 'README.md'}"] if model == "gpt" else ["data=digits"]
    (spec,) = specs([f"model={model}", f"norm={norm}", *text, f"batch_size={SAMPLES}", "trainer=cpu"])
    return build(spec)


def own(model: str, norm: str) -> nn.Module:
    return parts(model, norm).module.model


def own_batch(model: str, norm: str) -> tuple:
    data = parts(model, norm).data
    data.setup("fit")
    x, y = next(iter(data.train_dataloader()))
    return (torch.randn_like(x) if x.is_floating_point() else x[torch.randperm(len(x))]), y


def updated(model: nn.Module, make: Callable) -> nn.Module:
    """After a few updates on noise."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    for _ in range(UPDATES):
        inputs, target = split(make())
        output = model(**inputs) if isinstance(inputs, dict) else model(inputs)
        optimizer.zero_grad()
        loss_of_output(output, target)[0].backward()
        optimizer.step()
    return model


def row(name: str, library: str, make: Callable[[], nn.Module], data: Callable) -> dict:
    """Both checks of one network. The second has everything that its first lacked."""
    torch.manual_seed(0)
    model, two = make(), [data(), data()]
    begun = time.perf_counter()
    fresh = check(model, two)
    seconds = time.perf_counter() - begun
    updated(model, data)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    later = check(model, two, optimizer=optimizer, precision="bf16-mixed", devices=1, steps=UPDATES,
                  state_dict=model.state_dict(), averaged=model)  # fmt: skip
    told = {
        "network": name,
        "library": library,
        "norms": fresh.facts[0].partition(";")[0],
        "seconds": round(seconds, 1),
    }
    for when, result in (("fresh", fresh), ("updated", later)):
        told[when] = [
            {"id": f.id, "severity": f.severity, "sentence": f.sentence, "number": f.number}
            for f in result.findings
        ]
        told[f"{when}_healthy"] = len(result.healthy)
    return told


def told(rows: list[dict]) -> str:
    """The rows in Markdown."""
    cells = []
    for one in rows:
        cells.append([one["network"], one["norms"]])
        for when in ("fresh", "updated"):
            bad = [f for f in one[when] if f["severity"] != "note"]
            cells[-1].append("; ".join(f"`{f['id']}` {f['sentence']}" for f in bad) or "0")
            cells[-1].append(", ".join(f"`{f['id']}`" for f in one[when] if f["severity"] == "note") or "–")
    return table(
        ["network", "norms", "fresh: warnings", "notes", "after 50 updates: warnings", "notes"], cells
    )


def limits() -> str:
    """The thresholds of all findings in Markdown."""
    rows = [
        [f"`{name}`", f"`{limit}`", f"{value:g} {unit}", reason]
        for name, kind in declared().items()
        for limit, (value, unit, reason) in kind.texts.get("limits", {}).items()
    ]
    return table(["finding", "threshold", "value", "why"], rows)


def main(arguments: list[str]) -> None:
    known = networks()
    if "--table" not in arguments:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        for name, (library, make, data) in known.items():
            if not arguments or name in arguments:
                found = row(name, library, make, data)
                rows = {one["network"]: one for one in read_rows(ROWS)} | {name: found}
                write_rows(ROWS, [rows[each] for each in known if each in rows])
                bad = [f"{f['id']}: {f['sentence']}" for when in ("fresh", "updated") for f in found[when]
                       if f["severity"] != "note"]  # fmt: skip
                print(f"{name}: {found['seconds']} s, {bad or 'no warning'}", flush=True)
    PAGE.write_text(filled(PAGE.read_text(), {"networks": told(read_rows(ROWS)), "limits": limits()}))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The networks that the benchmark compares with are the project's, written in plain torch."""

import pytest
import torch
from plain_networks import plain

# Of a block: torch's layer has its norms last, ours each before its branch.
OF_OURS = (2, 3, 4, 5, 8, 9, 10, 11, 0, 1, 6, 7)


@pytest.mark.parametrize(
    "words",
    [["model=mlp", "model.depth=3"], ["model=cnn", "model.depth=[1,2]"], ["model=resnet", "model.depth=14"],
     ["model=transformer"], ["model=gpt", "data=python_docs", "data.context_length=8"]],
)  # fmt: skip
def test_plain_networks_give_the_logits_of_ours(make_parts, words):
    parts = make_parts(*words, "norm=layernorm", "model.width=16")
    ours, choice = parts.module.model, parts.choices["model"]
    twin = plain(choice, parts.config["model"], parts.data.input_shape, parts.data.num_classes)
    weights = list(ours.parameters())
    if choice in ("transformer", "gpt"):
        head = 1 if choice == "gpt" else 2  # of the embedding
        positions, *blocks = weights[: -2 - head]
        blocks, final = blocks[:-2], blocks[-2:]
        blocks = [blocks[start + k] for start in range(0, len(blocks), 12) for k in OF_OURS]
        weights = [positions, *weights[-2 - head : -2], *blocks, *final, *weights[-2:]]
    inputs, _ = parts.data.probe_batch(4)
    with torch.no_grad():
        for own, given in zip(twin.parameters(), weights, strict=True):
            own.copy_(given + torch.randn_like(given) / 10)
            given.copy_(own)
    torch.testing.assert_close(twin(inputs), ours(inputs))

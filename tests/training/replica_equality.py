"""The difference between replicas and the same runs trained alone."""

import torch

from normexp.config.run_spec import specs
from normexp.training.parts import build_all
from normexp.training.replicas.fit_replicas import ReplicaModule, why_not

TINY = {
    "mlp": ["model.depth=2", "model.width=8"],
    "cnn": ["model.depth=[1,1]", "model.width=4"],
    "resnet": ["model.depth=8", "model.width=4"],
    "transformer": ["model.depth=1", "model.width=32", "model.heads=2"],
    "gpt": ["model.depth=1", "model.width=32", "model.heads=2", "data=python_docs", "data.context_length=8"],
}


def largest_difference(model: str, norm: str, steps: int = 3, device: str = "cpu") -> float | str:
    """Largest difference, in float64 and after some steps, between any weight or buffer of two replicas and of the same
    models trained alone. Or the reason why they cannot be trained together."""
    overrides = [
        f"model={model}", *TINY[model], f"norm={norm}", "batch_size=32", "monitor=none", "trainer=cpu", "replicas=2",
    ]  # fmt: skip
    runs = specs(overrides)
    parts = build_all(runs)
    for replica in parts:
        replica.module.double()
    reason = why_not(parts[0])
    if reason:
        return reason
    alone = build_all(runs)
    for replica in (*parts, *alone):
        replica.module.double().to(device)
    batches = [
        [
            (step, _double(batch, device))
            for step, batch in zip(range(steps), p.data.train_dataloader(), strict=False)
        ]
        for p in alone
    ]
    together = ReplicaModule([p.module for p in parts], [0.1, 0.1])
    optimizer = torch.optim.SGD(together.parameters(), 0.1, momentum=0.9)
    together.bind()
    for step in range(steps):
        pairs = [own[step][1] for own in batches]
        optimizer.zero_grad()
        both = tuple(torch.cat(side) for side in zip(*pairs, strict=True))
        together.training_step(both, step)["loss"].backward()
        optimizer.step()
    worst = 0.0
    for replica, own in enumerate(batches):
        module = alone[replica].module.train()
        optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
        for step, batch in own:
            optimizer.zero_grad()
            module.training_step(batch, step)["loss"].backward()
            optimizer.step()
        for name, value in parts[replica].module.state_dict().items():
            worst = max(worst, (value - module.state_dict()[name]).abs().max().item())
    return worst


def _double(batch, device: str):
    x, y = (part.to(device) for part in batch)
    return (x.double() if x.is_floating_point() else x), y

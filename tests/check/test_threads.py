"""The faults of public threads, rebuilt in a few lines each, and what a check says of them."""

import copy
from pathlib import Path

import pytest
import torch
from small_networks import cnn, train
from torch import nn

from normexp.check.run import check

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def two_classes(n):
    y = torch.randint(0, 2, (n,))
    return torch.randn(n, 3, 8, 8) + y.view(-1, 1, 1, 1), y


def network():
    return cnn(classes=2, bias=True)


def test_error_is_high_with_eval():
    """pytorch 4741: good with the batch's own statistics, high in eval mode."""
    model, batches = network(), [two_classes(2) for _ in range(3)]
    train(model, batches * 2, rate=0.1)
    model[1].running_var *= 400  # as after a few steps on inputs of another scale
    result = check(model, batches)
    assert "estimated anew" in result["mode_gap"].sentence
    assert "update_bn" in result["mode_gap"].fix
    assert result["small_batch"].number == 2


def test_frozen_batchnorm_still_changes():
    """pytorch 86590: requires_grad=False, and after training all running statistics have changed."""
    model = network()
    for p in model[:2].parameters():
        p.requires_grad_(False)
    before = model[1].running_mean.clone()
    warning = check(model, two_classes(32))["frozen_thaws"]
    train(model, [two_classes(32)], rate=0.1)
    moved = ((model[1].running_mean - before) / (1 + 1e-5) ** 0.5).square().mean().sqrt()
    assert warning.number == pytest.approx(float(moved), rel=0.3)  # that of another batch
    assert ".eval()" in warning.fix


def test_adapter_lacks_running_statistics():
    """peft 1732: only what the adapter trained is saved, and the base model is loaded as it was."""
    model = network()
    model[0].requires_grad_(False)
    model[1].requires_grad_(False)
    adapter = {f"base_model.model.{n}": p for n, p in model.named_parameters() if p.requires_grad}
    warning = check(model, two_classes(32), state_dict=adapter)["not_saved"]
    assert set(warning.layers) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_averaged_model_has_old_statistics():
    """mean-teacher 9: update_ema_variables averages parameters only."""
    model = network()
    teacher = copy.deepcopy(model)

    @torch.no_grad()
    def average():
        for mean, p in zip(teacher.parameters(), model.parameters(), strict=True):
            mean.lerp_(p, 0.2)

    batches = [two_classes(32) for _ in range(40)]
    train(model, batches, rate=0.1, after=average)
    warning = check(model, batches, averaged=teacher)["stale_average"]
    assert "with statistics estimated anew" in warning.sentence
    assert "averaged_model" in warning.fix


def test_padding_enters_the_statistics():
    """pytorch 70529: BatchNorm1d on sequences of variable length takes the padding in."""

    class Speech(nn.Module):
        def __init__(self, norm):
            super().__init__()
            self.conv, self.norm, self.output = nn.Conv1d(4, 8, 1), norm, nn.Linear(8, 2)

        def forward(self, x):
            return self.output(self.norm(self.conv(x)).mean(-1))

    x = 2 + torch.randn(16, 4, 20)
    for row, length in zip(x, range(4, 20), strict=True):
        row[:, length:] = 0
    warning = check(Speech(nn.BatchNorm1d(8)), x, mask=lambda batch: batch.abs().sum(1) > 0)[
        "padding_counted"
    ]
    assert "43% of the positions are padding (mask=)" in warning.sentence
    assert "mask=" in check(Speech(nn.BatchNorm1d(8)), x).not_checked["padding_counted"]


def test_snippet_of_the_page_runs(capsys):
    page = (ROOT / "docs" / "check.md").read_text()
    exec(page.split("<!-- tested -->\n```python\n")[1].split("```")[0], {})
    printed = capsys.readouterr().out
    for word in ("frozen_thaws", "small_batch", "statistics_cold", "False", "stale_average"):
        assert word in printed


def test_pages_name_every_finding():
    from normexp.check.finding import declared

    page, answers = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("check", "answers"))
    assert [name for name in declared() if f"| `{name}` |" not in page] == []
    asked = {word for word in declared() if f"`{word}`" in answers}
    assert len(asked) >= 12

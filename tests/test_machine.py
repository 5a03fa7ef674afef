"""What this machine's processor makes of a run."""

import pytest
import torch

from normexp import machine
from normexp.machine import precision_here


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("flags : fpu avx512f avx512_bf16 avx512_vnni", "bf16-mixed by avx512_bf16"),
        ("flags : fpu amx_bf16 amx_tile", "bf16-mixed by amx_bf16"),
        ("Features : fp asimd bf16 i8mm", "bf16-mixed by bf16"),
        ("flags : fpu avx512f notbf16", "bf16-mixed (slow: this processor has no bfloat16 instructions"),
    ],
)
def test_bfloat16_is_said_to_be_slow_where_the_processor_has_none(flags, said, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n")
    monkeypatch.setattr(machine, "CPU_INFO", tmp_path / "cpuinfo")
    trainer = {"precision": "bf16-mixed", "accelerator": "auto"}
    if not torch.cuda.is_available():
        assert precision_here(trainer).startswith(said)
    assert precision_here(trainer | {"accelerator": "cpu"}).startswith(said)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert precision_here(trainer) == "bf16-mixed"
    assert precision_here({"precision": "32-true", "accelerator": "cpu"}) == "32-true"
    monkeypatch.setattr(machine, "CPU_INFO", tmp_path / "absent")  # macOS, Windows
    assert precision_here(trainer | {"accelerator": "cpu"}) == "bf16-mixed"

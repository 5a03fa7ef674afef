"""All measurements of docs/performance.md: their files, and their sizes on a CPU, on a GPU and for a trial.

On a GPU `seconds` limits each of them. The limits add up to less than ten minutes.
"""

from dataclasses import dataclass

MNIST, DIGITS = "data=mnist", "data=digits"
TINY_RUN = "data=digits model.width=16"


@dataclass(frozen=True)
class Measurement:
    """Args:
    file: in docs, or in docs/gpu.
    command: sub-command of benchmark.py.
    cpu, gpu, tiny: its arguments for the page, for a GPU and for a trial of all commands; None: not measured there.
    seconds: the most that it may take on a GPU, with the start of Python.
    """

    file: str
    command: str
    cpu: str | None
    gpu: str | None
    tiny: str | None
    seconds: int = 0


EVERYTHING = {
    "synchronizations": Measurement(
        "synchronizations.json", "synchronizations", "", "", "--models mlp --norms layernorm", 25,
    ),
    "loop": Measurement(
        "loop_benchmark.json", "loop", f"--models mlp,cnn,transformer --loops normexp,tutorial {MNIST}",
        f"--models mlp,cnn,transformer --seconds 3 {DIGITS}", f"--batch-sizes 16 --seconds 0.1 {DIGITS}", 45,
    ),
    # At a batch of 512 three blocks would take 17 minutes of a CPU.
    "loop of text": Measurement(
        "loop_benchmark.json", "loop", "--models gpt --batch-sizes 64", "--models gpt --batch-sizes 64 --seconds 3",
        None, 25,
    ),
    "replicas": Measurement(
        "replicas_benchmark.json", "replicas",
        f"--models mlp:64,mlp:256 --counts 4,8,16 {DIGITS} trainer=cpu val_every_n_steps=60",
        f"--models mlp:64,mlp:256,cnn:16,transformer:64 --counts 4,16 --steps 60 --rounds 1 {DIGITS}",
        f"--models mlp:16 --counts 2 --steps 4 --rounds 1 {DIGITS}", 80,
    ),
    "compiled": Measurement(
        "compiled_benchmark.json", "compiled", MNIST,
        f"--models mlp,transformer --steps 60 --rounds 1 {DIGITS}", None, 80,
    ),
    "norms": Measurement(
        "norms_benchmark.json", "norms", "", "--device cuda --rounds 11",
        "--norms layernorm --shapes dense --rounds 3 --device cpu", 35,
    ),
    "compiled norms": Measurement(
        "norms_benchmark.json", "norms",
        "--compile",
        "--device cuda --compile --modes both --rounds 11 --shapes tokens --norms batchnorm layernorm rmsnorm",
        None, 50,
    ),
    "evaluation": Measurement(
        "evaluation_benchmark.json", "evaluation", MNIST,
        f"--rounds 5 {DIGITS}", f"--models mlp --rounds 2 {DIGITS}", 25,
    ),
    "families": Measurement(
        "families_benchmark.json", "families", "",
        "--families digits_mlp_64 --epochs 2 --rounds 1 --replicas 20",
        "--families digits_mlp_64 --epochs 1 --rounds 1 --replicas 4 --alone 1 --workers 1", 35,
    ),
    "monitors": Measurement(
        "monitors_benchmark.json", "monitors", MNIST,
        f"--models mlp,transformer --pairs 5 --monitors light,naive {DIGITS}",
        f"--models mlp --pairs 2 --monitors light {TINY_RUN}", 25,
    ),
    "scale": Measurement(
        "scale_benchmark.json", "scale", "--models mlp,cnn,transformer",
        "--models mlp,cnn,transformer --seconds 0.3 --rounds 1",
        "--axes replicas --seconds 0.01 --rounds 1 model.width=16", 45,
    ),
    "leak": Measurement("leak_benchmark.json", "scale", "--leak", "--leak --steps 2000", "--leak --steps 100", 25),
    "equality": Measurement(
        "replicas_equality.json", "replicas", "--equality", "--equality --norms batchnorm,layernorm,groupnorm,rmsnorm",
        "--equality --norms layernorm", 20,
    ),
    "startup": Measurement("startup_benchmark.json", "startup", "", "--rounds 2", None, 35),
    "sweep": Measurement(
        "sweep_benchmark.json", "sweep", "", f"--only launcher --rounds 1 --share-gpu 4 {DIGITS}", None, 45,
    ),
}  # fmt: skip

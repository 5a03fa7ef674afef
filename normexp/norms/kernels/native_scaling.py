"""What makes torch's native kernels compute more than the one formula they were written for.

Let y = (x - mean) r(v) w + b with the biased variance v and any decreasing r. With g the gradient of y, that of x is
    w r (g - mean g) + 2 w r' (x - mean) mean(g (x - mean)),
and the native backward of a layer with inverse deviation s and weight q w gives
    q w s (g - mean g) - q w s^3 (x - mean) mean(g (x - mean)).
They agree for s = sqrt(-2 r' / r) and q = r / s, and then the forward agrees too: y is the native layer with s and q w.
With k = n / (n - correction):
    eps inside, r = (k v + eps)^-1/2:          s = (v + eps / k)^-1/2,   q = k^-1/2, the same for all values;
    eps outside, r = 1 / (sqrt(k v) + eps):    s and q of `eps_outside`.
"""

import math

import torch
from torch import Tensor

TINY = 1e-30  # added to v where v^-1/2 is needed, so that it is finite for v = 0


class KernelFunction(torch.autograd.Function):
    """A Function that works under torch.func and vmap, where it needs `setup_context`, and is quick outside them.

    torch binds the arguments of such a Function anew at every call, which takes longer than the kernels of a small
    layer. So `run` tries the older form first, made of the same parts; torch.func refuses that one.

    `forward` gives a tuple, of which `run` returns the first `wanted` outputs. The others are there to be saved for
    the backward pass: torch.func lets nothing else be saved, while the older form need not return them.
    """

    generate_vmap_rule = True
    wanted = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()

        def setup_context(ctx, inputs, outputs):
            cls.save(ctx, inputs, outputs)
            ctx.mark_non_differentiable(*outputs[1:])

        def forward(ctx, *inputs):
            outputs = cls.forward(*inputs)
            cls.save(ctx, inputs, outputs)
            return cls.answer(outputs)

        cls.setup_context = staticmethod(setup_context)
        parts = {"forward": staticmethod(forward), "backward": staticmethod(cls.backward)}
        cls.quick = type(f"{cls.__name__}Quick", (torch.autograd.Function,), parts)

    @staticmethod
    def save(ctx, inputs: tuple, outputs: tuple) -> None:
        """What `backward(ctx, grad, *_)` will need."""

    @classmethod
    def run(cls, *inputs):
        try:
            return cls.quick.apply(*inputs)
        except RuntimeError:  # what is wrong with the inputs comes up again
            return cls.answer(cls.apply(*inputs))

    @classmethod
    def answer(cls, outputs: tuple):
        return outputs[: cls.wanted] if cls.wanted > 1 else outputs[0]


def usable(x: Tensor) -> bool:
    """The compiler fuses the written formula better than it could a call of kernels it cannot look into."""
    return x.device.type in ("cpu", "cuda") and not torch.compiler.is_compiling()


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    eps: float,
    training: bool = False,
    momentum: float = 0.0,
) -> Tensor:
    """`F.batch_norm` without its check that eps is positive: an eps of 0 is a formula too."""
    cudnn = torch.backends.cudnn.enabled
    return torch.batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, cudnn)


def eps_outside(rstd: Tensor, eps: float, k: float) -> tuple[Tensor, Tensor]:
    """s and q from v^-1/2: with t = sqrt(k) + eps v^-1/2, r = v^-1/2 / t, q = (t sqrt(k))^-1/2 and s = r / q."""
    c = math.sqrt(k)
    q = (rstd * eps).add_(c).mul_(c).rsqrt_()
    return rstd * q * c, q

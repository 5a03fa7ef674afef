"""How torch's native kernels, written for one formula, compute others too.

Let y = (x - mean) r(v) w + b with the biased variance v and any decreasing r. Let g be the gradient of y. Then x has
the gradient
    w r (g - mean g) + 2 w r' (x - mean) mean(g (x - mean)).
The native backward pass of a layer with inverse deviation s and weight q w gives
    q w s (g - mean g) - q w s^3 (x - mean) mean(g (x - mean)).
They agree for s = sqrt(-2 r' / r) and q = r / s. Then the forward passes agree too: the native layer with s and q w
gives y.
With k = n / (n - correction):
    eps inside, r = (k v + eps)^-1/2:          s = (v + eps / k)^-1/2,   q = k^-1/2, the same for all values;
    eps outside, r = 1 / (sqrt(k v) + eps):    s and q of `eps_outside`.
"""

import math

import torch
from torch import Tensor

TINY = 1e-30  # added to v before v^-1/2 is taken, which keeps it finite for v = 0


class KernelFunction(torch.autograd.Function):
    """An autograd Function that works under torch.func and vmap, and is quick outside them.

    torch.func needs a Function with `setup_context`. torch binds the arguments of such a Function anew at every call,
    which takes longer than the kernels of a small layer. So `run` first tries a Function of the older form, made of the
    same parts. torch.func refuses that form; then `run` falls back to the newer one.

    `forward` gives a tuple, and `run` returns its first `wanted` outputs. The other outputs are saved for the backward
    pass: under torch.func only inputs and outputs can be saved. The older form does not return them.
    """

    generate_vmap_rule = True
    wanted = 1
    quick: type[torch.autograd.Function] | None = None

    @classmethod
    def make_quick(cls) -> type[torch.autograd.Function]:
        """The older form; the newer one gets its `setup_context` too."""

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
        return cls.quick

    @staticmethod
    def save(ctx, inputs: tuple, outputs: tuple) -> None:
        """What `backward(ctx, grad, *_)` will need."""

    @classmethod
    def run(cls, *inputs):
        try:
            return (cls.quick or cls.make_quick()).apply(*inputs)
        except RuntimeError:  # under torch.func; wrong inputs raise again in the newer form
            return cls.answer(cls.apply(*inputs))

    @classmethod
    def answer(cls, outputs: tuple):
        return outputs[: cls.wanted] if cls.wanted > 1 else outputs[0]


def usable(x: Tensor) -> bool:
    """Whether to call the kernels; not under the compiler, which fuses the written formula but no opaque kernel."""
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
    """`F.batch_norm` without its check that eps is positive: eps=0 is allowed here."""
    cudnn = torch.backends.cudnn.enabled
    return torch.batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, cudnn)


def eps_outside(rstd: Tensor, eps: float, k: float) -> tuple[Tensor, Tensor]:
    """s and q from v^-1/2: with t = sqrt(k) + eps v^-1/2, r = v^-1/2 / t, q = (t sqrt(k))^-1/2 and s = r / q."""
    c = math.sqrt(k)
    q = (rstd * eps).add_(c).mul_(c).rsqrt_()
    return rstd * q * c, q

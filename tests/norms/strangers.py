"""Norms as other people write them: each class with what it is."""

import torch
from torch import nn
from torch.nn import functional as F


def vector(size, value=1.0):
    return nn.Parameter(torch.full((size,), value))


class GPTLayerNorm(nn.Module):
    """As nanoGPT's: eps stands in the call alone."""

    def __init__(self, size, bias=True):
        super().__init__()
        self.weight, self.bias = vector(size), vector(size, 0.0) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-6)


class LengthRMSNorm(nn.Module):
    """As lucidrains': a vector of length sqrt(C)."""

    def __init__(self, size, dim=-1):
        super().__init__()
        self.g, self.dim = nn.Parameter(torch.ones(size if dim == -1 else (1, size, 1, 1))), dim

    def forward(self, x):
        return F.normalize(x, dim=self.dim) * self.g * x.shape[self.dim] ** 0.5


class ScaleNorm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.g, self.eps, self.num_features = nn.Parameter(torch.tensor(size**0.5)), eps, size

    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True).clamp(min=self.eps) * self.g


class BareLayerNorm(nn.Module):
    """As OLMo's: no parameters."""

    def __init__(self, size):
        super().__init__()
        self.normalized_shape = (size,)

    def forward(self, x):
        return F.layer_norm(x.float(), self.normalized_shape, eps=1e-5).to(x.dtype)


class DynamicTanh(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.alpha, self.weight, self.bias = vector(1, 0.5), vector(size), vector(size, 0.0)

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class HeadLayerNorm(nn.Module):
    """As Cohere's of queries and keys: a gain for each head, statistics over one."""

    def __init__(self, *size):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(size)), 1e-5

    def forward(self, x):
        wide = x.float() - x.float().mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.weight.float() * wide).to(x.dtype)


class Rooted(nn.Module):
    """Its class is not named a norm, its eps is odd, and its gain starts at 0."""

    def __init__(self, size, eps=1.0):
        super().__init__()
        self.gamma, self.eps = vector(size, 0.0), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.gamma


class AnnotatedLayerNorm(nn.Module):
    """As in the annotated transformer: n - 1, and eps outside of the root."""

    def __init__(self, size):
        super().__init__()
        self.a_2, self.b_2, self.eps = vector(size), vector(size, 0.0), 1e-6

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class GatedRMSNorm(Rooted):
    def forward(self, x, gate=None):
        return super().forward(x if gate is None else x * F.silu(gate))


class PixelNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-8)


class OwnBatchNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gamma, self.beta, self.eps = vector(size), vector(size, 0.0), 1e-5
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
            self.running_mean.lerp_(mean.detach(), 0.1)
            self.running_var.lerp_(var.detach(), 0.1)
        wide = [value[:, None, None] for value in (mean, var, self.gamma, self.beta)]
        return (x - wide[0]) / torch.sqrt(wide[1] + self.eps) * wide[2] + wide[3]


class OwnGroupNorm(nn.Module):
    def __init__(self, size, groups):
        super().__init__()
        self.num_groups, self.weight, self.bias = groups, vector(size), vector(size, 0.0)

    def forward(self, x):
        return F.group_norm(x, self.num_groups, self.weight, self.bias, 1e-6)


class ReLUBatchNorm(nn.BatchNorm2d):
    def forward(self, x):
        return F.relu(super().forward(x))


class ConditionalBatchNorm(nn.BatchNorm2d):
    def __init__(self, size):
        super().__init__(size, affine=False)
        self.embedding = nn.Embedding(3, size)

    def forward(self, x, label):
        return super().forward(x) * self.embedding(label)[:, :, None, None]


class RenamedBatchNorm(nn.BatchNorm2d):
    """A subclass whose forward does no more."""

    def forward(self, image):
        return super().forward(image)


class GlobalResponseNorm(nn.Module):
    """As in ConvNeXt V2: no norm over its channels."""

    def __init__(self, size):
        super().__init__()
        self.weight, self.bias, self.eps = vector(size, 0.0), vector(size, 0.0), 1e-6

    def forward(self, x):
        length = x.norm(dim=(1, 2), keepdim=True)
        return x + self.bias + self.weight * x * length / (length.mean(-1, keepdim=True) + self.eps)


class LayerScale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gamma = vector(size)

    def forward(self, x):
        return x * self.gamma


class NoisyNorm(GPTLayerNorm):
    def forward(self, x):
        return super().forward(x) + torch.randn_like(x) * 0.1


class CountingNorm(GPTLayerNorm):
    """Remembers its calls."""

    def __init__(self, size):
        super().__init__(size)
        self.calls, self.seen = 0, []
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape)
        self.total += 1
        return super().forward(x)

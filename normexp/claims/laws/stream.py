"""The residual stream of a transformer at initialization."""

import torch
from torch import Tensor

from normexp.claims.laws.common import gradient_of
from normexp.claims.laws.sites import SiteNetwork, input_batch, linear_outputs, modules_of, observed, outputs


def stream_norms(network: SiteNetwork, *, seed: int, batch_size: int) -> Tensor:
    """Mean squared length of a token's vector in the residual stream, divided by the width: at the embedding, then
    after each branch, (2 L + 1,)."""
    stream = observed(network, input_batch(network, seed, batch_size), "residual")
    return torch.stack([x.double().square().mean() for x in stream])  # E||x||^2 / d = mean of squares


def block_norm(
    network: SiteNetwork, *, seed: int, batch_size: int, block: int, added: float | str = 0.0
) -> float:
    """E||x||^2 / d after block `block`, minus `added`, or minus that of the `embedding`. Lemma 2 of Xiong et al. 2020:
    3/2 for Post-LN before its last norm; between 1 + l/2 and 1 + 3l/2 for Pre-LN."""
    norms = stream_norms(network, seed=seed, batch_size=batch_size)
    return float(norms[2 * block] - (norms[0] if isinstance(added, str) else added))


def stream_growth(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """Mean square of the stream after the last block, divided by that at the embedding."""
    norms = stream_norms(network, seed=seed, batch_size=batch_size)
    return float(norms[-1] / norms[0])


def unit_drift(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """How the deviation of a unit's values changes over the blocks: |log2 of its ratio to that at the first block's
    output|, the mean over tokens at the block where it is largest. Outputs of a Post-LN block are behind its norm."""
    stream, norms, post = branches(network, seed, batch_size)
    blocks = norms[1::2] if post else stream[2::2]
    stds = torch.stack([x.double().std(-1, correction=0) for x in blocks])  # (L, N, T)
    return float((stds / stds[0]).log2().abs().mean((1, 2)).max())


@torch.no_grad()
def branches(network: SiteNetwork, seed: int, batch_size: int) -> tuple[list[Tensor], list[Tensor], bool]:
    """(the stream at the embedding and after each branch, outputs of the norms, whether it is Post-LN)."""
    with outputs(network.train(), "residual") as stream, outputs(network, "norm") as norms:
        network(input_batch(network, seed, batch_size))
    return stream, norms, len(norms) == len(stream) - 1  # no norm behind the last block, which ends in one


def branch_input_std(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """Standard deviation of a token's values after the norms: the value farthest from 1 over all norms."""
    norms = observed(network, input_batch(network, seed, batch_size), "norm")
    stds = torch.stack([y.std(-1, correction=0).mean() for y in norms])
    return float(stds[(stds - 1).abs().argmax()])


def last_block_gradient(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """Norm of the gradient by the last block's second MLP map. The loss uses the mean over tokens."""
    linear_outputs(network, seed, batch_size)  # for its backward pass
    return float(gradient_of(modules_of(network, "linear")[-2].get_parameter("weight")).norm())


def share_exponent(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """Slope of log(|f_l| / |x_l|) over log(l), of the share of branch l in the stream behind it, from the fourth on.
    -1/2 if each branch adds the same to a stream that adds up, 0 if the stream is normalized after each branch."""
    stream, norms, post = branches(network, seed, batch_size)
    before = [stream[0], *norms[:-1]] if post else stream
    shares = [(x - old).norm() / x.norm() for old, x in zip(before, stream[1:], strict=False)]
    y = torch.stack(shares[3:]).double().log()
    x = torch.arange(4, len(shares) + 1, dtype=torch.float64).log()
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())

"""Three layers that reduce what they share: activations in the tensor-parallel group, gradients among replicas.

All tensors have the same size, because gloo aborts the process where sizes differ.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

WIDTH = 64


class Layer:
    """A layer of one vector. `tp` is None where activations are not split."""

    def __init__(self, tp: dist.ProcessGroup | None, replicas: dist.ProcessGroup | None) -> None:
        self.weight = torch.ones(WIDTH)
        self.tp, self.replicas = tp, replicas

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Scale the activations, and sum them over the tensor-parallel group."""
        hidden = hidden * self.weight
        if self.tp is not None:
            dist.all_reduce(hidden, group=self.tp)
        return hidden / hidden.norm()


class Embedding(Layer):
    """Its gradient is averaged over the replicas."""

    def reduce_gradient(self, gradient: torch.Tensor) -> None:
        """One all_reduce, from this line."""
        dist.all_reduce(gradient, group=self.replicas)


class Attention(Layer):
    """Its gradient is scaled before it is averaged."""

    def reduce_gradient(self, gradient: torch.Tensor) -> None:
        """One all_reduce, from this line."""
        gradient.mul_(0.5)
        dist.all_reduce(gradient, group=self.replicas)


class Mlp(Layer):
    """Its gradient is clipped before it is averaged."""

    def reduce_gradient(self, gradient: torch.Tensor) -> None:
        """One all_reduce, from this line."""
        gradient.clamp_(-1.0, 1.0)
        dist.all_reduce(gradient, group=self.replicas)

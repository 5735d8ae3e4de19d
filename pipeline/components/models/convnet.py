"""A small convolutional classifier."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated

from annotated_types import Ge, MinLen
from torch import Tensor, nn


class ConvNet(nn.Module):
    """Stages of 3x3 convolution, GroupNorm and ReLU, then the mean over space and a linear layer.

    GroupNorm, unlike batch norm, lets no sample see the others, so the result does not depend on
    how a batch is split. Every stage but the first halves the height and width.
    Takes images (N, in_channels, H, W), or (N, H, W) where in_channels is 1; gives logits (N, num_classes).

    Args:
        in_channels: channels of the images.
        channels: channels of each stage, each a multiple of ``groups``.
        num_classes: classes to tell apart.
        groups: groups of channels that GroupNorm normalises together.
    """

    def __init__(
        self,
        in_channels: Annotated[int, Ge(1)],
        channels: Annotated[list[Annotated[int, Ge(1)]], MinLen(1)],
        num_classes: Annotated[int, Ge(1)],
        groups: Annotated[int, Ge(1)] = 8,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        stages: list[nn.Module] = []
        width = in_channels
        for next_width in channels:
            if next_width % groups:
                raise ValueError(f"channels must be multiples of groups = {groups}, got {channels}")
            stride = 2 if stages else 1
            stages.append(_stage(width, next_width, stride, groups))
            width = next_width
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() == 3:
            images = images.unsqueeze(1)
        if images.dim() != 4 or images.shape[1] != self.in_channels:
            raise ValueError(
                f"expected images (N, {self.in_channels}, H, W), or (N, H, W) with in_channels = 1; "
                f"got {tuple(images.shape)}"
            )
        features: Tensor = self.stages(images)
        # A mean, not AdaptiveAvgPool2d, whose backward on CUDA is not deterministic.
        logits: Tensor = self.head(features.mean((-2, -1)))
        return logits


def _stage(in_channels: int, out_channels: int, stride: int, groups: int) -> nn.Module:
    """A convolution without bias, since the norm behind it takes any constant away and adds its own."""
    layers: dict[str, nn.Module] = {
        "conv": nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False),
        "norm": nn.GroupNorm(groups, out_channels),
        "relu": nn.ReLU(),
    }
    return nn.Sequential(OrderedDict(layers))

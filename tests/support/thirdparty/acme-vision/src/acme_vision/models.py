"""Two classifiers, in plain torch."""

from __future__ import annotations

from torch import Tensor, nn


class RowPooling(nn.Module):
    """Logits (N, classes) of images (N, H, W), from the mean of every row."""

    def __init__(self, height: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(height, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(images.mean(dim=2))
        return logits


class MLP(nn.Module):
    """A name that pipeline-ddp has too. Logits (N, classes) of images (N, H, W)."""

    def __init__(self, pixels: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 8), nn.ReLU(), nn.Linear(8, classes))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits

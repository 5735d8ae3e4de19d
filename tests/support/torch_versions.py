"""What the torch that is installed lacks of the components that are named for it."""

from __future__ import annotations

import torch

LACKING = frozenset() if hasattr(torch.optim, "Muon") else frozenset({"muon"})  # which came with torch 2.9

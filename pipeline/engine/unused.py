"""Parameters that no loss depends on: with several ranks their gradients, and others', are never joined.

DDP joins gradients in buckets, and one that waits for a missing gradient is left out without a word:
the ranks drift apart in that very step, and DDP complains at the next one, by number. So it is looked
for before the update, and reported by name.
"""

from __future__ import annotations

import re

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pipeline.errors import ComponentError

_COMPLAINT = "Expected to have finished reduction in the prior iteration"
_SHOWN = 8


class Unused:
    """Finds the parameters of a module in training that its loss did not depend on.

    Only a module in DDP is watched, and only where DDP was not told to expect such parameters.
    """

    def __init__(self, module: nn.Module) -> None:
        watched = (
            isinstance(module, DistributedDataParallel)
            and not module.find_unused_parameters
            and not module.static_graph
        )
        inner = module.module if isinstance(module, DistributedDataParallel) else module
        self._parameters: list[Tensor] = [p for p in inner.parameters() if p.requires_grad] if watched else []
        self._earlier: list[tuple[Tensor, int]] = []
        """The gradients that earlier microbatches have left, and how often each was written."""
        self._names = [_own_name(name) for name, p in inner.named_parameters() if p.requires_grad]

    def before_last(self) -> None:
        """Remember what earlier microbatches have left: the last one is to add to all of it."""
        gradients = [parameter.grad for parameter in self._parameters]
        # Where one is missing now, the last backward makes it or ``found`` misses it.
        self._earlier = [(one, one._version) for one in gradients if one is not None]

    def found(self) -> ComponentError | None:
        """Look at the gradients after a backward pass; once a step, and without a look at their values.

        Returns:
            An error naming the parameters without one, or without one from the last microbatch; None: all
            have theirs.
        """
        for parameter in self._parameters:
            if parameter.grad is None:
                return self._error([at for at, one in enumerate(self._parameters) if one.grad is None])
        earlier, self._earlier = self._earlier, []
        stale = {id(gradient) for gradient, version in earlier if gradient._version == version}
        if stale and any(id(parameter.grad) in stale for parameter in self._parameters):
            return self._error([at for at, one in enumerate(self._parameters) if id(one.grad) in stale])
        return None

    def explained(self, error: RuntimeError) -> ComponentError | None:
        """DDP's complaint with names in place of numbers; None: the error is another one.

        It comes where a parameter is used in some microbatches of a step, but not in the last.
        """
        if _COMPLAINT not in str(error):
            return None
        numbers = re.search(r"did not receive grad for rank \d+:((?: \d+)+)", str(error))
        return self._error([int(number) for number in numbers[1].split()] if numbers else [])

    def _error(self, missing: list[int]) -> ComponentError:
        names = [self._names[at] for at in missing]
        shown = ", ".join(names[:_SHOWN]) + (
            f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        )
        return ComponentError(
            f"the loss does not depend on {shown or 'some parameters'}, so the gradients cannot be joined "
            "over the ranks; use these parameters in every batch, name them in model.freeze, or set "
            "distributed.find_unused_parameters = true"
        )


def _own_name(name: str) -> str:
    """The model's parameters by their own names, an objective's as ``objective.NAME``."""
    return name.removeprefix("model.")

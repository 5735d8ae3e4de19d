"""What an outcome shows to metrics."""

from __future__ import annotations

from typing import Any

from pipeline.api.outcome import Outcome
from pipeline.errors import ComponentError


def predictions_and_targets(outcome: Outcome, metric: str) -> tuple[Any, Any]:
    """The outcome's predictions and targets.

    Raises:
        ComponentError: if the objective gave none.
    """
    if outcome.predictions is None or outcome.targets is None:
        missing = "predictions" if outcome.predictions is None else "targets"
        raise ComponentError(
            f"metric {metric} needs predictions and targets, but the objective's outcome has no {missing}; "
            "use another objective or leave the metric out"
        )
    return outcome.predictions, outcome.targets

"""How activations are kept where a batch does not fit into the budget as it is."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

_LEAST_GAIN = 1.05  # of what another way is worth


class ActivationChoice:
    """Open until a batch did not fit, or until the control loop has decided: then memory will do."""

    def __init__(self, device_type: str) -> None:
        self._ways = ["raw", "lossless"]  # all give the same gradients
        if device_type != "cpu":  # whose host memory is the budget's
            self._ways.append("offloaded")

    def best(self, open_session: Callable[..., Any], samples: int, loss_of: Callable[[int, int], Any]) -> dict[str, Any]:
        """Options of the session that trains fastest within the budget; empty: none fits. Tries a few steps of each."""
        best: tuple[int, float] | None = None
        found = ""
        for way in self._ways:
            session = open_session(activations=way)
            plan = session.best_plan(samples, loss_of)
            del session  # one at a time has the budget
            if plan is not None and (best is None or plan[1] > _LEAST_GAIN * best[1]):
                found, best = way, plan
        if best is None:
            return {}
        if found != "raw":
            warnings.warn(f"a batch of {samples} does not fit whole: activations are kept {found!r}, with {best[0]} samples per"
                          " pass", RuntimeWarning, stacklevel=6)
        return {"activations": found, "planned_pass": best[0]}

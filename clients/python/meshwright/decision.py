"""The fail-open rule: a job launches with its own plan when there is no answer in time."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Dict, Optional

from . import v1
from ._messages import to_dict
from .errors import MeshwrightError

log = logging.getLogger("meshwright")


@dataclass(frozen=True)
class Decision:
    """The plan to launch a job with."""

    # The plan; the caller's own if `is_own`, which is None if none was stated.
    plan: Optional[v1.Plan]
    # True: launch with the job's own settings, because there is no answer.
    is_own: bool
    # Empty for an answer of the server. Otherwise why there is none: the reason of the error, such
    # as UNAVAILABLE, DEADLINE_EXCEEDED or SERVER_BUSY.
    reason: str = ""
    message: str = ""
    answer: Optional[v1.RecommendResponse] = None
    error: Optional[MeshwrightError] = None

    @property
    def study_id(self) -> str:
        """The study to report the job's result to; empty if none keeps the answer."""
        return self.answer.study_id if self.answer is not None else ""

    def flags(self, framework: str = "") -> Optional[str]:
        """Returns the launch flags of the server's plan for a framework, or of the only one that the
        answer has; None if the plan is the caller's own, or if the framework takes no flags."""
        if self.answer is None or self.is_own:
            return None
        best = self.answer.result.plans[0]
        names = [framework] if framework else list(best.exports)
        if len(names) != 1 or names[0] not in best.exports:
            return None
        if names[0] in best.launches and best.launches[names[0]].file_name:
            return None  # a file, not flags
        return str(best.exports[names[0]])

    def to_dict(self) -> Dict[str, Any]:
        return {"plan": to_dict(self.plan) if self.plan is not None else None, "is_own": self.is_own,
                "reason": self.reason, "message": self.message, "study_id": self.study_id}


def answered(response: v1.RecommendResponse, own_plan: Optional[v1.Plan]) -> Decision:
    if not response.result.plans:  # no server answers so, but a job must launch all the same
        return _own(own_plan, "NO_PLAN", "the answer has no plan", None)
    return Decision(response.result.plans[0].plan, False, answer=response)


def failed(error: MeshwrightError, own_plan: Optional[v1.Plan], raises_mistakes: bool) -> Decision:
    """Returns the caller's own plan, or raises an error that the question itself has caused."""
    if error.is_mistake:
        if raises_mistakes:
            raise error
        log.error("the question for a plan has a mistake: %s", error)
    return _own(own_plan, error.reason, error.message, error)


def _own(own_plan: Optional[v1.Plan], reason: str, message: str, error: Optional[MeshwrightError]) -> Decision:
    log.warning("launching with the job's own plan: %s: %s", reason, message)
    return Decision(own_plan, True, reason, message, error=error)

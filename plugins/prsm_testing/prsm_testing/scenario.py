"""Scenarios for tests: the format is documented in prsm_core.builtin.script.scenario."""

from prsm_core.builtin.script.scenario import Scenario
from prsm_core.builtin.script.steps import Call, HttpError, Lane, Step, StreamError

__all__ = [
    "Call",
    "HttpError",
    "Lane",
    "Scenario",
    "Step",
    "StreamError",
]

"""Scenarios for tests: the format is documented in prsm_demo.script.scenario."""

from prsm_demo.script.scenario import Scenario
from prsm_demo.script.steps import Call, HttpError, Lane, Step, StreamError

__all__ = [
    "Call",
    "HttpError",
    "Lane",
    "Scenario",
    "Step",
    "StreamError",
]

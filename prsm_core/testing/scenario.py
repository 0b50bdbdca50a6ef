"""Scenarios for tests: the format is documented in prsm_core.builtin.script.scenario."""

from prsm_core.builtin.script.reading import DEFAULT_USAGE
from prsm_core.builtin.script.scenario import Scenario
from prsm_core.builtin.script.steps import FOREVER, Call, HttpError, Lane, Step, StreamError

__all__ = [
    "DEFAULT_USAGE",
    "FOREVER",
    "Call",
    "HttpError",
    "Lane",
    "Scenario",
    "Step",
    "StreamError",
]

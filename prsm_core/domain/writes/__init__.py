"""Writes: every kind of fact that a step can hold, each with its rows and its events.

runs      a run's start and end, and what is only told
agents    an agent's birth, states, lives and end
messages  sent and consumed
turns     opened and closed
calls     of orchestration tools: opened and closed
requests  to a person: opened and resolved; what a person granted
"""

from prsm_core.domain.writes.agents import (
    AgentEnded,
    AgentRestarted,
    AgentSpawned,
    ModelSwitched,
    ResultClaimed,
    StateChanged,
    ThreadKept,
)
from prsm_core.domain.writes.calls import CallClosed, CallOpened
from prsm_core.domain.writes.messages import MessagesConsumed, MessageSent
from prsm_core.domain.writes.requests import Granted, RequestOpened, RequestResolved
from prsm_core.domain.writes.runs import RunFinished, RunStarted, Told
from prsm_core.domain.writes.turns import TurnClosed, TurnOpened

__all__ = [
    "AgentEnded",
    "AgentRestarted",
    "AgentSpawned",
    "CallClosed",
    "CallOpened",
    "Granted",
    "MessageSent",
    "MessagesConsumed",
    "ModelSwitched",
    "RequestOpened",
    "RequestResolved",
    "ResultClaimed",
    "RunFinished",
    "RunStarted",
    "StateChanged",
    "ThreadKept",
    "Told",
    "TurnClosed",
    "TurnOpened",
]

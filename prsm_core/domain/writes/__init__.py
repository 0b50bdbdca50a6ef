"""Writes: every kind of fact that a step can hold, each with its rows and its events."""

from prsm_core.domain.writes.agents import (
    AgentEnded,
    AgentHeld,
    AgentNoted,
    AgentRelabelled,
    AgentRestarted,
    AgentSpawned,
    AgentsResumed,
    ModelSwitched,
    ModeSwitched,
    ResultClaimed,
    StateChanged,
    ThreadKept,
)
from prsm_core.domain.writes.calls import CallClosed, CallOpened, EffectNoted, ReceivesUndone
from prsm_core.domain.writes.changes import ChangesDecided, FileChanged, SnapshotTaken
from prsm_core.domain.writes.messages import MessagesConsumed, MessageSent
from prsm_core.domain.writes.requests import Granted, RequestOpened, RequestResolved
from prsm_core.domain.writes.runs import RunFinished, RunResumed, RunStarted, SessionNamed, Told
from prsm_core.domain.writes.turns import TurnClosed, TurnMetered, TurnOpened

__all__ = [
    "AgentEnded",
    "AgentHeld",
    "AgentNoted",
    "AgentRelabelled",
    "AgentRestarted",
    "AgentSpawned",
    "AgentsResumed",
    "CallClosed",
    "CallOpened",
    "ChangesDecided",
    "EffectNoted",
    "FileChanged",
    "Granted",
    "MessageSent",
    "MessagesConsumed",
    "ModeSwitched",
    "ModelSwitched",
    "ReceivesUndone",
    "RequestOpened",
    "RequestResolved",
    "ResultClaimed",
    "RunFinished",
    "RunResumed",
    "RunStarted",
    "SessionNamed",
    "SnapshotTaken",
    "StateChanged",
    "ThreadKept",
    "Told",
    "TurnClosed",
    "TurnMetered",
    "TurnOpened",
]

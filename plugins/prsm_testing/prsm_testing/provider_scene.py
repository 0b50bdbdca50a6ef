"""A provider in front of its scripted model: what the contract of providers is played on."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from prsm_core.domain.turns import TurnEnded
from prsm_testing.doubles import LocalServices, RecordingHost, only, session_request, turn_context

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.domain.turns import AgentError, ProviderEvent, StopReason
    from prsm_core.interfaces.provider import Provider, ProviderSession
    from prsm_testing.playback import Conversation

LEDGER_MARK = "of-the-ledger-only"
# What a context has for the ledger: none of it may be in a request to a model.
FOR_THE_LEDGER: Mapping[str, Any] = {
    **dict.fromkeys(("run_id", "session_label", "parent_turn_id", "role"), LEDGER_MARK),
    **dict.fromkeys(("toolset_name", "source_event_id"), LEDGER_MARK),
    "permissions_granted": (LEDGER_MARK,),
    "workspace_path": f"/{LEDGER_MARK}",
}


class ModelRequest(Protocol):
    """One request the model got."""

    @property
    def conversation(self) -> Conversation:
        """What the request says."""


class ScriptedModel(Protocol):
    """A model that follows a scenario, as `ModelServer` does."""

    @property
    def requests(self) -> Sequence[ModelRequest]:
        """Every request so far."""

    @property
    def failures(self) -> Sequence[str]:
        """What did not go by the scenario."""

    async def wait_for_requests(self, count: int) -> None:
        """Return once `count` requests have come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A scripted model, and the settings that lead the provider to it."""

    model: ScriptedModel
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A provider in front of its scripted model."""

    provider: Provider
    services: LocalServices
    stage: Stage
    cwd: Path

    def session(
        self, host: RecordingHost | None = None, **changes: Any
    ) -> AbstractAsyncContextManager[ProviderSession]:
        """Open a session of an agent; `changes` are fields of its SessionRequest."""
        return self.provider.open_session(
            session_request(self.cwd, **changes), host or RecordingHost()
        )

    @property
    def heard(self) -> Conversation:
        """What the model's last request says."""
        return self.stage.model.requests[-1].conversation

    def outputs(self, call: str) -> list[str]:
        """Return what the model's last request holds as outputs of the call with this id."""
        return [text for call_id, _, text in self.heard.outputs if is_call(call_id, call)]

    def was_told(self, text: str) -> bool:
        """Return whether the model's last request holds a text: as an output, or somewhere else."""
        outputs = (output for _, _, output in self.heard.outputs)
        return any(text in part for part in (*self.heard.system, *self.heard.user, *outputs))

    def times(self, prompt: str) -> int:
        """Return how often the model's last request holds a prompt."""
        return sum(text.count(prompt) for text in self.heard.user)


def is_call(call_id: str, call: str) -> bool:
    """Whether a call id on the wire is that of the scenario's call."""
    return call_id.startswith(f"call_{call}__")


def call(tool: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    """Return a tool call of a scenario."""
    return {"tool": tool, "id": call_id, "arguments": arguments}


def failure(status: int, **fields: Any) -> dict[str, Any]:
    """Return a step that answers with an HTTP error."""
    return {"error": {"status": status, "message": "scripted", **fields}}


def end(events: Sequence[ProviderEvent]) -> TurnEnded:
    """Return how a turn ended."""
    return only(TurnEnded, events)[-1]


def reason(events: Sequence[ProviderEvent]) -> StopReason:
    """Return why a turn stopped."""
    return end(events).stop_reason


def error(events: Sequence[ProviderEvent]) -> AgentError:
    """Return the error a turn ended with."""
    ended = end(events)
    if ended.error is None:
        pytest.fail(f"the turn ended without an error: {ended}")
    return ended.error


def needs(given: object, capability: str) -> None:
    """Skip the test of something that the provider's capabilities do not promise."""
    if not given:
        pytest.skip(f"the provider's capabilities do not promise it: {capability}")


def streaming(session: ProviderSession, text: str) -> aclosing[AsyncGenerator[ProviderEvent, None]]:
    """Return a turn as a stream that is closed on leaving."""
    stream: AsyncGenerator[ProviderEvent, None] = session.run_turn(turn_context(text))  # type: ignore[assignment]
    return aclosing(stream)

"""The table of what plugins' code may do wrong: a case is a kind of object, a deed, and its price.

Of every case three things are asked: it ends, nothing it guards is lost in silence, and whose
fault it is can be read. What is played in a process of its own stands in `processes.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    ModelInfo,
    Notice,
    ProviderCapabilities,
    ProviderStatus,
    StopReason,
    TextDelta,
    TokenUsage,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.permissions import Allow, Ask, Deny
from tests.engine.harness import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable


class UnreadableError(Exception):
    """An error that cannot even be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclass(frozen=True, slots=True)
class Case:
    """One sabotage.

    Attributes:
        kind: Which object is the saboteur, and which of its calls: "sink write".
        name: What it does.
        deed: Does it; what it returns is what the call returns. A coroutine is awaited.
        told: What is said of it, beside its name.
    """

    kind: str
    name: str
    deed: Callable[[], Any]
    told: str

    @property
    def seconds(self) -> float:
        """How long its call may take: a moment where nothing else ends it."""
        return 0.05 if self.deed is hang else DEADLINE

    def __str__(self) -> str:
        """Return the id of its test."""
        return f"{self.kind}: {self.name}".replace(" ", "-")


def _raise(make: Callable[[], BaseException]) -> Any:
    raise make()


def _same(value: Any) -> Any:
    return value


async def hang() -> None:
    await asyncio.Event().wait()


class Stubborn:
    """Waits for ever and swallows its cancellation, until the test lets go of it."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def __call__(self, answer: Any = None) -> Any:
        while not self.released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.released.wait()
        return answer


ERRORS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "an error": (lambda: RuntimeError("boom"), "RuntimeError: boom"),
    "sys.exit": (lambda: SystemExit(3), "SystemExit: 3"),
    "GeneratorExit": (GeneratorExit, "GeneratorExit"),
    "a cancellation nobody asked for": (asyncio.CancelledError, "it cancelled itself"),
    "a time-out": (TimeoutError, "TimeoutError"),
    "a recursion": (lambda: RecursionError("too deep"), "RecursionError: too deep"),
    "Ctrl-C that nobody pressed": (KeyboardInterrupt, "KeyboardInterrupt"),
    "such a Ctrl-C in a group": (
        lambda: BaseExceptionGroup("g", [KeyboardInterrupt()]),
        "BaseExceptionGroup: g",
    ),
    "a group": (lambda: BaseExceptionGroup("g", [SystemExit(1)]), "BaseExceptionGroup: g"),
    "an error without words": (UnreadableError, "UnreadableError"),
}
CALLS = (
    "sink factory",
    "sink write",
    "sink aclose",
    "scorer",
    "check",
    "provider factory",
    "provider capabilities",
    "provider probe",
    "provider list_models",
    "provider open_session",
    "provider run_turn",
    "provider steer",
    "provider aclose",
    "frontend factory",
    "frontend run",
)
RAISED = [
    Case(call, name, partial(_raise, make), told)
    for call in CALLS
    for name, (make, told) in ERRORS.items()
]


def gives(kind: str, told: str, /, **values: Any) -> list[Case]:
    """Return a case for each of the values, which are given by their names."""
    return [Case(kind, name, partial(_same, value), told) for name, value in values.items()]


def _usage(**fields: Any) -> UsageReported:
    return UsageReported(TokenUsage(input_tokens=1), **fields)


NO_PROVIDER = "gave a"
WRONG = [
    *gives("sink factory", "its factory", none=None, text="a sink", number=5),
    *gives("scorer", "not 0 to 1", text="good", above=1.5, nan=float("nan"), true=True, many=[0.5]),
    *gives("scorer", "not 0 to 1", minus=-1, object=object(), later=float("inf")),
    *gives("check", "no Allow or Deny or Ask", text="yes", true=True, number=1, many=[Allow()]),
    *gives("check", "no Allow or Deny or Ask", kind=Deny, mapping={"verdict": "allow"}),
    *gives("check", "whose reason is", deny=Deny(5), ask=Ask(None), allow=Allow(b"yes")),  # type: ignore[arg-type]
    *gives("check", "whose options is", none=Ask("?", ()), odd=Ask("?", ("perhaps",))),
    *gives("check", "whose options is", text=Ask("?", "once")),  # type: ignore[arg-type]
    *gives("check", "whose allow_rules is", rules=Ask("?", allow_rules=(5,))),  # type: ignore[arg-type]
    *gives("provider factory", NO_PROVIDER, none=None, text="a provider", kind=dict),
    *gives("provider capabilities", "capabilities", none=None, mapping={"resume": "none"}),
    *gives("provider capabilities", "whose resume is", odd=ProviderCapabilities(resume="maybe")),
    *gives("provider capabilities", "whose steer is", steer=ProviderCapabilities(steer="yes")),  # type: ignore[arg-type]
    *gives("provider probe", "no ProviderStatus", none=None, true=True, text="ok"),
    *gives("provider probe", "whose available is", text=ProviderStatus(available="yes")),  # type: ignore[arg-type]
    *gives("provider probe", "whose version is", number=ProviderStatus(available=True, version=2)),  # type: ignore[arg-type]
    *gives("provider probe", "whose gaps is", text=ProviderStatus(available=True, gaps="none")),  # type: ignore[arg-type]
    *gives("provider list_models", "list_models", none=None, text="m1", mapping={"m1": {}}),
    *gives("provider list_models", "no ModelInfo", names=["m1", "m2"]),
    *gives("provider list_models", "whose model_id is", number=[ModelInfo(model_id=5)]),  # type: ignore[arg-type]
    *gives("provider event", "which is no", none=None, text="hello", mapping={"text": "hello"}),
    *gives("provider event", "which is no", kind=TextDelta, error=RuntimeError("boom")),
    *gives("provider event", "whose text is", number=AssistantMessage(5), none=TextDelta(None)),  # type: ignore[arg-type]
    *gives("provider event", "whose text is", bytes=Notice("info", b"hi")),  # type: ignore[arg-type]
    *gives("provider event", "whose thinking is", thinking=AssistantMessage("hi", ["hm"])),  # type: ignore[arg-type]
    *gives("provider event", "whose level is", level=Notice("fatal", "hi")),
    *gives("provider event", "whose call_id is", call=ToolCallStarted(1, "Bash", {})),  # type: ignore[arg-type]
    *gives("provider event", "whose arguments is", text=ToolCallStarted("1", "Bash", "ls")),  # type: ignore[arg-type]
    *gives(
        "provider event",
        "whose arguments is",
        object=ToolCallStarted("1", "Bash", {"at": datetime(2026, 1, 1)}),
        keys=ToolCallStarted("1", "Bash", {1: "one"}),  # type: ignore[dict-item]
    ),
    *gives("provider event", "whose status is", status=ToolCallFinished("1", "done")),
    *gives("provider event", "whose result is", result=ToolCallFinished("1", "failed", {})),  # type: ignore[arg-type]
    *gives("provider event", "whose usage is", none=UsageReported(None)),  # type: ignore[arg-type]
    *gives("provider event", "whose usage is", text=UsageReported(TokenUsage(input_tokens="5"))),  # type: ignore[arg-type]
    *gives("provider event", "whose cost_usd is", text=_usage(cost_usd="1 $")),
    *gives("provider event", "whose provenance is", word=_usage(provenance="guess")),
    *gives("provider event", "whose stop_reason is", word=TurnEnded("ended")),  # type: ignore[arg-type]
    *gives(
        "provider event",
        "whose error is",
        text=TurnEnded(StopReason.ERROR, "it broke"),  # type: ignore[arg-type]
        number=TurnEnded(StopReason.ERROR, AgentError(kind=ErrorKind.UNKNOWN, message=5)),  # type: ignore[arg-type]
        kind=TurnEnded(StopReason.ERROR, AgentError(kind="odd", message="it broke")),  # type: ignore[arg-type]
    ),
    *gives("provider session", "which is no ProviderSession", none=None, text="a session"),
    *gives("provider stream", "asynchronous generator", none=None, many=[TextDelta("hi")]),
    *gives("frontend factory", "which is no Frontend", none=None, text="a frontend"),
    *gives("frontend run", "no exit code", text="done", minus=-1, big=256, true=True, half=0.5),
]
HANGS = [
    Case("sink write", "never returns", hang, "has not written all"),
    Case("sink aclose", "never returns", hang, "has not closed"),
    Case("check", "never returns", hang, "gave no verdict within"),
    Case("provider probe", "never returns", hang, "the probe did not end within"),
    Case("provider list_models", "never returns", hang, "no answer within"),
    Case("provider open_session", "never returns", hang, "open_session: it did not end within"),
    Case("provider aclose", "never returns", hang, "did not end within"),
]
TABLE = [*RAISED, *WRONG, *HANGS]


def cases(*kinds: str) -> list[Case]:
    """Return those of these kinds."""
    return [case for case in TABLE if case.kind in kinds]

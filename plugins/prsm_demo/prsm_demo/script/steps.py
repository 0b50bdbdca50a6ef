"""What a scenario is made of: lanes, their steps, and the calls and failures of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Mapping

FOREVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call; `kind` is tool, shell, patch, edit or ask_user."""

    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    namespace: str | None = None
    kind: str = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpError:
    """An HTTP error for the next `times` requests of a lane."""

    status: int = 500
    code: str | None = None
    message: str = "scripted error"
    times: float = 1
    retry_after: float | None = None  # seconds, told in the header


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamError:
    """A failure told inside a stream that began well."""

    code: str = "server_error"
    message: str = "scripted stream error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that the next `times` turns of a lane end with."""

    message: str = "scripted failure"
    kind: ErrorKind = ErrorKind.UNKNOWN
    retryable: bool = False
    retry_after_s: float | None = None
    times: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The answer to one model request."""

    say: str | None = None
    think: str | None = None
    calls: tuple[Call, ...] = ()
    error: HttpError | None = None
    fail: Failure | None = None
    stream_error: StreamError | None = None
    incomplete: str | None = None
    cut: bool = False
    crash: str | None = None
    hang: float = 0.0  # seconds; FOREVER = until the client goes
    delay: float = 0.0  # seconds
    usage: Mapping[str, int] | None = None  # None: not given
    expect: tuple[str, ...] = ()
    on_denied: str = "continue"  # continue | fail
    on_error: str = "continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The script of one agent, found by its marker or by the agent's name."""

    name: str
    marker: str
    steps: tuple[Step, ...]

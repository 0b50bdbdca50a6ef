"""What a run is asked to be, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

# msgspec reads the annotations.
from prsm_core.domain.account import Problem  # noqa: TC001
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.record import Record
from prsm_core.domain.usage import Spent, TokenUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.tools import McpServer
    from prsm_core.domain.turns import AbortSignal


class RunOptions(Record, frozen=True, kw_only=True):
    """What the command line asked for; without a task the frontend starts one, or none."""

    task: str | None = None
    workspace: str = "."
    provider: str | None = None
    model: str | None = None
    mode: PermissionMode = PermissionMode.DEFAULT
    session: str | None = None
    on_ask: str = "deny"  # headless answer to an Ask: deny | allow
    timeout_s: float | None = None
    unattended_s: float | None = None  # how long a request waits while nobody attends; None = for
    # as long as for a person who is there
    effort: str | None = None  # how hard the master's model thinks; None: as is configured
    mcp_servers: Mapping[str, McpServer] | None = None  # of the master, by name: laid over all that
    # are configured; None: those of the configuration whose tags fit
    abort_signal: AbortSignal | None = None  # ends the runs of these options, in this process, and
    # keeps them from starting once it is set
    images: tuple[str, ...] = ()  # that the task is about: paths, or `data:` URLs in base64
    labels: Mapping[str, str] = field(default_factory=dict)  # of the master, which its children
    # inherit; with `continues` they are laid over those it has
    resumes: bool = False  # the first `start_run` goes on with the session's newest run
    continues: bool = False  # the first `start_run` gives its task to the session's last master
    command_line: Mapping[str, Any] = field(default_factory=dict)  # kept with each run, for whoever
    # goes on with it: options by name, JSON values without secrets


class RunResult(Record, frozen=True, kw_only=True):
    """How a run ended: status completed | failed | killed | interrupted.

    `spent` is what it used, and what of that nobody told; `usage` is its tokens alone.
    """

    status: str
    summary: str
    exit_code: int
    usage: TokenUsage = field(default_factory=TokenUsage)
    error: str | None = None
    evidence: str | None = None  # of a completed run: claimed | checked | verified
    spent: Spent = field(default_factory=Spent)
    problems: tuple[Problem, ...] = ()  # what speaks against its result, the gravest first

"""Permission requests, verdicts, and the questions only a person can answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.agents import AgentRole, PermissionMode

ASK_OPTIONS = ("once", "always", "allow_rule", "deny_rule", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """One thing an agent wants to do.

    `tool` is the canonical name (Bash, Read, Edit …). Only a request with a `command` is shell;
    the command is the text the model wrote, without the vendor's wrapping.
    """

    agent_id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cwd: str = "."
    command: str | None = None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allow:
    """It may run."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides; `options` is a subset of ASK_OPTIONS."""

    reason: str
    options: tuple[str, ...] = ("once", "always", "deny")


@dataclass(frozen=True, slots=True)
class Deny:
    """It may not run; the reason is told to the agent."""

    reason: str


Verdict = Allow | Ask | Deny


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionContext:
    """What a decision may depend on beside the request itself."""

    mode: PermissionMode
    role: AgentRole
    provider: str
    workspace: str
    trusted: bool = False
    interactive: bool = False
    tools: frozenset[str] = frozenset()  # native tools of the agent
    lineage: tuple[str, ...] = ()  # agent ids from the agent itself up to the master
    shell_reads: bool = False  # the vendor has no reader but its shell
    active: bool = True  # False: the agent has ended or is an older incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person; with options they are offered as choices."""

    text: str
    options: tuple[str, ...] = ()
    multiple: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's answer: the chosen options, or free text, or both."""

    choices: tuple[str, ...] = ()
    text: str | None = None

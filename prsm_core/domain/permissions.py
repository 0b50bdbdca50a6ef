"""Permission requests, verdicts, and the questions only a person can answer."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import field

from prsm_core.domain.record import Labelled, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.agents import AgentRole, PermissionMode

ASK_OPTIONS = ("once", "always", "allow_rule", "deny_rule", "deny")
# The answers that make a rule: its verdict, and whether it is the project's or the user's own.
RULE_ANSWERS: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "allow_project": ("allow", True),
        "allow_global": ("allow", False),
        "deny_project": ("deny", True),
        "deny_global": ("deny", False),
    }
)
ALLOWING = frozenset({"once", "always", "allow_project", "allow_global"})


class PermissionRequest(Labelled, frozen=True, eq=False, kw_only=True):
    """One thing an agent wants to do.

    `tool` is the canonical name (Bash, Read, Edit …). Only a request with a `command` is shell: the
    model's text, without the vendor's wrapping. `call_id` is that of `ToolCallStarted`, if known.
    """

    agent_id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cwd: str = "."
    command: str | None = None
    paths: tuple[str, ...] = ()
    call_id: str | None = None

    _labels: ClassVar[frozenset[str]] = frozenset({"call_id"})


class Allow(Record, frozen=True):
    """It may run."""

    reason: str = ""


class Ask(Labelled, frozen=True, eq=False):
    """A person decides; `options` is a subset of ASK_OPTIONS.

    `parts` are the parts of the command that it is about. With `allow_rule` or `deny_rule` among
    the options, `allow_rules` or `deny_rules` are the rules such an answer makes, first words of a
    command. The broker sets `check`, the plugin's check that asks.
    """

    reason: str
    options: tuple[str, ...] = ("once", "always", "deny")
    parts: tuple[str, ...] = ()
    allow_rules: tuple[tuple[str, ...], ...] = ()
    deny_rules: tuple[tuple[str, ...], ...] = ()
    check: str | None = None
    hint: str | None = None

    _labels: ClassVar[frozenset[str]] = frozenset({"check", "hint"})


class Deny(Labelled, frozen=True, eq=False):
    """It may not run; the agent is told the reason. The broker sets `check`, a plugin's check."""

    reason: str
    check: str | None = None

    _labels: ClassVar[frozenset[str]] = frozenset({"check"})


Verdict = Allow | Ask | Deny
"""What a check answers; the strongest of all wins, and a denial is the strongest."""


class PermissionContext(Record, frozen=True, kw_only=True):
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
    region: tuple[str, ...] | None = None  # what it may write; None: all of its own folder
    apart: bool = False  # that is in a worktree of its own, of which its region alone is merged
    leased: tuple[
        tuple[str, str], ...
    ] = ()  # a file or folder, and the name of the agent that has it
    sandboxed: bool = False  # it runs in the sandbox, which writes in no region of others
    labels: Mapping[str, str] = field(default_factory=dict)  # of the agent, as they are now


class Question(Labelled, frozen=True, eq=False, kw_only=True):
    """A question to a person; with options they are offered as choices, one or `multiple`.

    `call_id` is that of the asking call, if known. `data` are JSON values, at most 64 KiB, that a
    user interface may draw beside the text, which says enough without them.
    """

    text: str
    options: tuple[str, ...] = ()
    multiple: bool = False
    call_id: str | None = None
    data: Mapping[str, Any] | None = None

    _labels: ClassVar[frozenset[str]] = frozenset({"call_id"})


class Answer(Record, frozen=True, kw_only=True):
    """A person's answer: the chosen options, or free text, or both.

    choices: The options that were chosen, as they were offered.
    text: What was written instead, or besides.
    """

    choices: tuple[str, ...] = ()
    text: str | None = None

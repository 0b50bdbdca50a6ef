"""What a command policy is: it reads shell commands and says what becomes of each.

The core asks it in the order of its own rules, and looks after paths, tools and modes itself.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import field

from prsm_core.domain.record import Record
from prsm_core.interfaces.records import Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.domain.agents import PermissionMode
    from prsm_core.domain.permissions import Ask, Deny, Verdict
    from prsm_core.policies.own_state import OwnState, Trespass
    from prsm_core.policies.written import Written

Words = tuple[str, ...]
"""The words of a rule, or other texts in their order."""


class CommandSetting(Record, frozen=True, kw_only=True):
    """What the verdict on a command depends on beside its text.

    On the thread of a loop nobody waits for git: what needs its answer raises UnaskedError.
    """

    mode: PermissionMode
    cwd: str
    workspace: str
    trusted: bool
    waits: bool = True

    @property
    def folder(self) -> str:
        """The folder that a command begins in, resolved; as it is named if it cannot be."""
        try:
            return os.path.realpath(Path(self.workspace, self.cwd))
        except ValueError:  # a NUL, or half a character
            return self.workspace


class UnaskedError(Exception):
    """A verdict needs an answer of git's that nobody may wait for here.

    `ask` waits for it: call it in a thread, and judge again.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__("git was not asked yet")
        self.ask = ask


class Judgement(Record, frozen=True, kw_only=True):
    """A verdict with the rule behind it ("deny git push"), if there is one."""

    verdict: Verdict
    rule: str | None = None


class CommandPart(Record, frozen=True, kw_only=True):
    """One simple command of a text, as it is written there, behind its wrappers.

    Attributes:
        text: The command.
        program: The name of its program, without a path.
        check: The check of the project that it runs, and what that is given; None if it is none.
        folders: Those that were entered before it.
        is_told: Whether it has succeeded if the text has.
    """

    text: str
    program: str
    check: tuple[str, Words] | None = None
    folders: Words = ()
    is_told: bool = False


class CommandRules(Record, frozen=True, kw_only=True):
    """The rules of all layers; each is the first words of a command, or a class such as @builds.

    Attributes:
        allow: Commands that run without asking.
        ask: Commands that are always asked about.
        deny: Commands that never run.
        workspace_allow: They allow only where the user trusts the workspace.
        broken: Why not all rules to ask and to deny could be read; None if they could.
        own: PRSM's own state, which is not for agents.
        written: What agents may have written of the project's environment.
    """

    allow: tuple[Words, ...] = ()
    ask: tuple[Words, ...] = ()
    deny: tuple[Words, ...] = ()
    workspace_allow: tuple[Words, ...] = ()
    broken: str | None = None
    own: OwnState
    written: Written


class CommandPolicy(ABC):
    """Says what becomes of shell commands; what cannot be told is never allowed.

    An error, a late or a wrong answer refuses the command. `judge`, `asked`, `offered`, `safe` and
    `stays_inside` may raise UnaskedError. Methods with a body answer as one that knows nothing.
    """

    @abstractmethod
    def judge(self, command: str, setting: CommandSetting) -> Judgement:
        """Return the verdict on a command by the policy alone, and the rule behind it."""

    @abstractmethod
    def denied(self, command: str) -> Deny | None:
        """Return a Deny when a deny rule matches a command anywhere in the text."""

    @abstractmethod
    def trespass(self, command: str, setting: CommandSetting) -> Trespass | None:
        """Return why a command is not for agents by PRSM's own state, None if it may be."""

    @abstractmethod
    def asked(self, command: str, setting: CommandSetting) -> Ask | None:
        """Return an Ask when a rule wants one, or when a deny rule may be evaded or missing."""

    @abstractmethod
    def told(self) -> list[dict[str, Any]]:
        """Return the rules as JSON values: `verdict`, `words`, and `layer` (own or workspace)."""

    @abstractmethod
    def add(self, verdict: str, rule: str | Sequence[str]) -> None:
        """Let one more rule of the user's own hold from now on."""

    def offered(self, command: str, setting: CommandSetting) -> Verdict:
        """Return the verdict on a command; an Ask comes with the rules that its answers make."""
        return self.judge(command, setting).verdict

    def safe(self, command: str, setting: CommandSetting) -> bool:
        """Return whether a command surely changes nothing and shows no secret."""
        return False

    def stays_inside(self, command: str, setting: CommandSetting) -> bool:
        """Return whether a command surely writes in the workspace and nowhere else."""
        return False

    def note_edits(self, names: Iterable[str]) -> None:
        """Take note of what an agent writes of the project's environment, by its names."""
        return

    def note_command(self, command: str, setting: CommandSetting) -> None:
        """Take note of a command that was let through: what of the environment it may write."""
        return

    def only_reads(self, command: str) -> bool:
        """Return whether a command changes nothing, by its text alone."""
        return False

    def looks_up(self, command: str) -> bool:
        """Return whether a command does no more than look how something is, by its text alone."""
        return False

    def exact(self, command: str) -> str:
        """Return a command in the form that is equal for equal commands."""
        return command.strip()

    def parts(self, command: str) -> tuple[CommandPart, ...] | None:
        """Return the simple commands of a text; None for one that cannot be read."""
        return None

    def programs(self, command: str) -> Words:
        """Return the programs that a text looks for on the PATH."""
        return ()

    def rules_for(self, command: str, setting: CommandSetting) -> tuple[Words, ...]:
        """Return rules by which a command would run unasked; none for what is dangerous."""
        return ()

    def covers(self, rule: Words, command: str, setting: CommandSetting) -> bool:
        """Return whether a rule to allow covers a part of a command."""
        return False


class CommandPolicySpec(Registration, frozen=True, kw_only=True):
    """Registers a command policy; `permissions.command_policy` of the configuration names one.

    `factory`, maybe an import string, is called with the rules of all layers at the first command.
    `timeout` is the seconds of one answer. `project_checks` says, by class and for people, what
    runs unasked in a trusted workspace.
    """

    word = "command policy"

    factory: str | Callable[[CommandRules], CommandPolicy]
    timeout: float = 5.0
    project_checks: Mapping[str, str] = field(default_factory=dict)

"""What a version of Codex can enforce, and what it leaves open. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_codex.config import CodexConfig

HOOK_SINCE = (0, 169)  # before, the hook was not told in which folder a command runs
_NO_TERMINALS_SINCE = (0, 163)
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\S*")

_WEB_SEARCH = "web search runs at the vendor and is not asked"
_KILLED = (
    "a call whose hook's shell is killed begins, inside Codex's sandbox; Codex is ended at once"
)
_LEAVES = "a command that was accepted runs outside Codex's sandbox"
_TERMINALS = (
    "input to a terminal is not asked: commands that want one are denied, in a resumed thread "
    "only those that start an interpreter"
)
_SANDBOX_ONLY = "no call is asked: only Codex's sandbox limits them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What PRSM uses of a Codex.

    hooked: The tool hook asks before each call, and commands stay in the sandbox.
    no_terminals: The shell has none, so nothing can be typed into running commands.
    too_old: The hook was wanted, but the version has none.
    untrusted: Why the hook that was wanted cannot be trusted; else blank.
    asks: Without a hook, the backend can ask for approval.
    """

    hooked: bool = True
    no_terminals: bool = True
    too_old: bool = False
    untrusted: str = ""
    asks: bool = True

    @classmethod
    def of(cls, config: CodexConfig, version: str | None) -> Features:
        """Return the features of a version; None counts as recent."""
        recent, wanted = _is_since(version, HOOK_SINCE), config.enforcement != "approval"
        return cls(
            hooked=recent and wanted,
            no_terminals=_is_since(version, _NO_TERMINALS_SINCE),
            too_old=wanted and not recent,
            asks=config.backend == "app-server",
        )

    @property
    def enforcement(self) -> str:
        """How far the permission function reaches; see ProviderCapabilities."""
        if self.hooked:
            return "pre_tool"
        return "approval" if self.asks else "sandbox"

    @property
    def gaps(self) -> tuple[str, ...]:
        """What PRSM cannot enforce."""
        if self.hooked:
            return (_KILLED, _WEB_SEARCH)
        old = tuple(filter(None, (self.too_old_text if self.too_old else "", self.untrusted_text)))
        if not self.asks:
            return (*old, _SANDBOX_ONLY, _WEB_SEARCH)
        terminals = () if self.no_terminals else (_TERMINALS,)
        return (*old, _LEAVES, *terminals, _WEB_SEARCH)

    def without_hook(self, why: str) -> Features:
        """Return the features that remain if the hook cannot be trusted."""
        return replace(self, hooked=False, untrusted=why)

    @property
    def untrusted_text(self) -> str:
        """The warning about a hook that cannot be trusted; else blank."""
        if not self.untrusted:
            return ""
        return f"Codex's hook cannot be trusted ({self.untrusted}): {_SANDBOX_ONLY}"

    @property
    def too_old_text(self) -> str:
        """The warning about a version without the hook."""
        since = ".".join(map(str, HOOK_SINCE))
        instead = "approvals are asked for instead" if self.asks else "nothing is asked for"
        return f"this codex has no tool hook that can be relied on (from {since} on): {instead}"


def _is_since(version: str | None, since: tuple[int, int]) -> bool:
    match = _VERSION.search(version or "")
    return match is None or (int(match[1]), int(match[2])) >= since

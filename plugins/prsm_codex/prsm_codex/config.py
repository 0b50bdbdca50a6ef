"""The provider's section of the configuration, and what a version of Codex can enforce."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_core.kit import (
    Key,
    Parser,
    find_key,
    model_of_keys,
    parse_argv,
    parse_choice,
    parse_environment,
    parse_flag,
    parse_models,
    parse_text,
    parse_url,
    read_section,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import ModelInfo

KEYS: dict[str, Parser] = {
    "api_key_env": parse_text,
    "backend": Key(parse_choice("app-server", "exec"), "app-server, or exec: one process a turn."),
    "base_url": parse_url,
    "command": parse_argv,
    "enforcement": Key(
        parse_choice("auto", "pre_tool", "approval"),
        "auto, pre_tool (the tool hook, or nothing) or approval.",
    ),
    "env": parse_environment,
    "home": parse_text,
    "lean": Key(
        parse_flag,
        "Leave out built-in tools that are no plain functions, for servers that are not OpenAI's.",
    ),
    "models": parse_models,
    "network": Key(parse_flag, "Whether commands in the sandbox use the network."),
}
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
class CodexConfig:
    """How to run Codex, by default with its own login; KEYS describes the settings."""

    command: tuple[str, ...] = ("codex",)
    base_url: str | None = None
    api_key_env: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    models: tuple[ModelInfo, ...] = ()
    lean: bool = False
    backend: str = "app-server"
    enforcement: str = "auto"
    network: bool = False
    home: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, section: str = "codex") -> CodexConfig:
        """Check a provider section, which `section` names in errors; raise ConfigError."""
        config = cls(**read_section(f"providers.{section}", settings, KEYS))
        if config.backend == "exec" and config.enforcement == "approval":
            raise ConfigError(
                f"providers.{section}.enforcement: `codex exec` cannot ask for approval",
                hint="Use `enforcement: pre_tool`, or `backend: app-server`.",
            )
        return config

    @property
    def custom_server(self) -> bool:
        """Whether the configuration, not Codex's own login, says which server to use."""
        return self.base_url is not None or self.api_key_env is not None

    def key(self, environ: Mapping[str, str]) -> str | None:
        """Return the API key from `env` or else `environ`, if it is set."""
        return find_key(self.api_key_env, self.env, environ)


SETTINGS = model_of_keys("CodexSettings", KEYS, CodexConfig.from_settings)


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

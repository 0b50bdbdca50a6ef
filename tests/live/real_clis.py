"""The real CLIs, and how each provider is told to run them in front of a model server."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.install_cli import CLIS

if TYPE_CHECKING:
    from prsm_testing.model_server import ModelServer

Clis = Mapping[str, str]  # paths by name

KEY = {"api_key_env": "LIVE_TEST_KEY"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """A provider over real CLIs.

    needs: Their names.
    model: One that it takes.
    section: Returns its section of the configuration.
    name: The provider's name; by default what it is called in PROVIDERS.
    """

    needs: tuple[str, ...]
    model: str
    section: Callable[[Clis, ModelServer], dict[str, Any]]
    name: str | None = None


def _codex(clis: Clis, server: ModelServer) -> dict[str, Any]:
    return {"command": [clis["codex"]], "base_url": server.base_url, **KEY}


def _claude(clis: Clis, server: ModelServer) -> dict[str, Any]:
    return {"command": [clis["claude"]], "base_url": server.root_url, **KEY}


def _gemini(clis: Clis, server: ModelServer) -> dict[str, Any]:
    return {"command": [clis["gemini"]], "base_url": server.root_url, **KEY}


def _headless(clis: Clis, server: ModelServer) -> dict[str, Any]:
    return {"backend": "headless", **_gemini(clis, server)}


def _acp(clis: Clis, server: ModelServer) -> dict[str, Any]:
    home = str(Path(clis["home"]) / "gemini")
    argv = [clis["gemini"], "--acp"]
    return {
        "kind": "acp",
        "agent": "gemini",
        "home": home,
        **_gemini(clis, server),
        "command": argv,
    }


def _preset(clis: Clis, server: ModelServer) -> dict[str, Any]:
    """Masters run on Claude Code, all others on Codex, as without any settings."""
    claude, codex = _claude(clis, server), _codex(clis, server)
    del claude["api_key_env"], codex["api_key_env"]
    return {"claude": claude, "codex": codex, **KEY}


PROVIDERS = {
    "codex": Real(needs=("codex",), model="scripted-1", section=_codex),
    "claude": Real(needs=("claude",), model="claude-scripted-1", section=_claude),
    "gemini": Real(needs=("gemini",), model="gemini-2.5-pro", section=_gemini),
    "gemini-headless": Real(
        needs=("gemini",), model="gemini-2.5-pro", section=_headless, name="gemini"
    ),
    "acp": Real(needs=("gemini",), model="gemini-2.5-pro", section=_acp, name="some-agent"),
}
PRESETS = {
    "minimax": Real(needs=("claude", "codex"), model="MiniMax-M3", section=_preset),
    "alibaba": Real(needs=("claude", "codex"), model="qwen3.7-max", section=_preset),
}


def find_clis(name: str) -> dict[str, str]:
    """Return the paths of a provider's CLIs; skip the test where one is not installed."""
    found = {cli: _bundled() if cli == "claude" else _told(cli) for cli in _real(name).needs}
    for cli, path in found.items():
        if path is None or not path.is_file():
            pytest.skip(_why_missing(cli))
    return {cli: str(path) for cli, path in found.items()}


def configuration(name: str, clis: Clis, home: Path, server: ModelServer) -> dict[str, Any]:
    """Return a configuration whose agents run on the provider; `home` is where CLIs keep files."""
    real = _real(name)
    section = real.section({**clis, "home": str(home)}, server)
    return {
        "defaults": {"provider": real.name or name, "model": real.model},
        "providers": {real.name or name: section},
    }


def _real(name: str) -> Real:
    return {**PROVIDERS, **PRESETS}[name]


def _told(name: str) -> Path:
    return Path(os.environ.get(f"PRSM_LIVE_{name.upper()}", ""))


def _why_missing(name: str) -> str:
    if name == "claude":
        return "the claude CLI is not installed: claude-agent-sdk is missing"
    return CLIS[name].why_missing(_told(name))


def _bundled() -> Path | None:
    """Return the CLI that the Claude Agent SDK brings along."""
    found = importlib.util.find_spec("claude_agent_sdk")
    origin = found.origin if found is not None else None
    return Path(origin).with_name("_bundled") / "claude" if origin is not None else None

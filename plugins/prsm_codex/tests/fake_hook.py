"""The tool hook of the small app-server: untrusted it does not run, and where it fails it allows.

That is how Codex does it, too. Loaded by fake_codex.py, which runs alone.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KEY = "/<session-flags>/config.toml:pre_tool_use:0:0"


class Hook:
    """The hook of the command line, if it has one; its trust is kept in `home`."""

    def __init__(self, home: Path, arguments: list[str]) -> None:
        self._trust = home / "trusted.json"
        settings = [word for word in arguments if word.startswith("hooks.")]
        self._command = _command(settings[0]) if settings else None

    def listed(self) -> list[dict]:
        """As `hooks/list` tells it."""
        if self._command is None:
            return []
        hook = {
            "key": KEY,
            "eventName": "preToolUse",
            "source": "sessionFlags",
            "command": self._command,
            "enabled": True,
            "currentHash": self._command,
            "trustStatus": "trusted" if self._is_trusted() else "untrusted",
        }
        return [hook]

    def trust(self, edit: dict) -> bool:
        """Take a setting; return whether it is known."""
        known = bool(edit["keyPath"] == f'hooks.state."{KEY}".trusted_hash')
        if known:
            self._trust.write_text(edit["value"])
        return known

    def run(self, payload: dict) -> tuple[str | None, str | None]:
        """Return why it blocks a call, if it does, and its status, if it was run."""
        if self._command is None or not self._is_trusted():
            return None, None
        done = subprocess.run(
            ["bash", "-c", self._command],
            input=json.dumps(payload),
            capture_output=True,
            text=True,
        )
        if done.returncode == 2 and done.stderr.strip():
            return done.stderr.strip(), "blocked"
        if done.returncode != 0:
            return None, "failed"
        if not done.stdout.strip():
            return None, "completed"
        told = json.loads(done.stdout)["hookSpecificOutput"]
        return told["permissionDecisionReason"], "blocked"

    def _is_trusted(self) -> bool:
        return self._trust.exists() and self._trust.read_text() == self._command


def _command(setting: str) -> str:
    (group,) = tomllib.loads(setting)["hooks"]["PreToolUse"]
    (hook,) = group["hooks"]
    return str(hook["command"])

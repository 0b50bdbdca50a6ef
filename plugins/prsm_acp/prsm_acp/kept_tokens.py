"""Tokens that an agent keeps in files of its own: the answer to a cancelled prompt tells none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prsm_core.kit import as_object, token_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_GEMINI = {"input_tokens": "input", "output_tokens": "output"}


def read_gemini(home: Path, session_id: str) -> Mapping[str, int]:
    """Return what a session of Gemini CLI has used; empty where that cannot be read.

    A response is written down before its calls are made, and once more with each of their answers.
    """
    if not session_id.replace("-", "").isalnum():
        return {}
    used: dict[str, Mapping[str, Any]] = {}
    for path in home.glob(f".gemini/tmp/*/chats/session-*-{session_id[:8]}.jsonl"):
        for message in _messages(path):
            if tokens := as_object(message.get("tokens")):
                used[str(message.get("id"))] = tokens
    return {
        name: sum(token_count(tokens.get(key)) or 0 for tokens in used.values())
        for name, key in _GEMINI.items()
        if used
    }


def _messages(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield as_object(json.loads(line))
        except (ValueError, RecursionError):
            continue  # it is being written

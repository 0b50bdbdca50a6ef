"""Claude's home: a private one with the user's login linked in, and its transcripts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.kit import as_object, as_objects, link_login, make_private, require_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping

    from prsm_claude.config import ClaudeConfig

_LOGIN = ".credentials.json"
_BLOCK = 2**20  # bytes
# How Claude Code marks a call that has no answer: by kind, and in older entries by words alone.
_NO_ANSWER = frozenset({"cancelled", "interrupted"})
_CUT_OFF = (
    "[Tool call interrupted",
    "The tool call was interrupted",
    "The user doesn't want to proceed",
    "The user doesn't want to take this action",
)
_PROMPTS = (b'"user"', b'"queued_command"')  # in the lines of what the model was told
_TOOL_RESULT = b'"tool_result"'
LOGIN_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")


def check_key(config: ClaudeConfig, environ: Mapping[str, str]) -> None:
    """Raise ProviderNotAvailableError when the configured key variable is not set."""
    if config.api_key_env:
        require_key(config.api_key_env, config.env, environ)


def user_login(environ: Mapping[str, str]) -> Path:
    """Return the file of the user's login. It is linked, never read."""
    home = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(home) if home else Path.home() / ".claude") / _LOGIN


def is_logged_in(config: ClaudeConfig, environ: Mapping[str, str]) -> bool | None:
    """Return whether there is a login or a key; None if that cannot be known."""
    if config.api_key_env:
        return config.key(environ) is not None
    if config.base_url:
        return None
    variables = config.env if config.home else {**environ, **config.env}
    if any(variables.get(name) for name in LOGIN_VARIABLES):
        return True
    login = Path(config.home).expanduser() / _LOGIN if config.home else user_login(environ)
    return login.exists()


def prepare_home(state_dir: Path, config: ClaudeConfig, environ: Mapping[str, str]) -> Path:
    """Make the home. A private one gets a link to the user's login, if that is used."""
    if config.home:
        return make_private(Path(config.home).expanduser())
    home = make_private(state_dir / "claude-home")
    link_login(home / _LOGIN, None if config.custom_server else user_login(environ))
    return home


class Transcript(Struct, frozen=True, kw_only=True):
    """What a transcript says that the resumed CLI does not; what cannot be read is None.

    spent_usd: The cost so far.
    deferred: The id of a call that was let go of and waits for its answer.
    """

    spent_usd: float | None = None
    deferred: str | None = None


def find_transcript(home: Path, session_id: str) -> Path | None:
    """Return the transcript of a session, if it was written."""
    return next(home.glob(f"projects/*/{session_id}.jsonl"), None)


async def read_transcript(path: Path) -> Transcript:
    """Read what a resume needs."""
    spent: float | None = None
    deferred: str | None = None
    async for line in _lines(path):
        if b'"cost-state"' in line:
            spent = _number(_decoded(line).get("totalCostUSD"))
        elif b'"hook_deferred_tool"' in line:
            call_id = as_object(_decoded(line).get("attachment")).get("toolUseID")
            deferred = call_id if call_id and isinstance(call_id, str) else deferred
        elif deferred and _TOOL_RESULT in line and deferred.encode() in line:
            deferred = None
    return Transcript(spent_usd=spent, deferred=deferred)


async def holds(path: Path, message_id: str) -> bool:
    """Return whether the text with this id has reached the transcript."""
    wanted = message_id.encode()
    is_there = False
    async for line in _lines(path):
        is_there = is_there or wanted in line
    return is_there


class Held(Struct, frozen=True, kw_only=True):
    """What a transcript has of a turn: ids of texts and of answered calls, and texts."""

    ids: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


async def held(path: Path, wanted: Collection[str], texts: Collection[str] = ()) -> Held:
    """Return the ids and texts that a transcript has. Notes of a cut-off call are no answers."""
    marks = [message_id.encode() for message_id in wanted]
    ids: set[str] = set()
    words: set[str] = set()
    async for line in _lines(path):
        if any(mark in line for mark in marks):
            ids.update(_held(_decoded(line)))
        if texts and _TOOL_RESULT not in line and any(mark in line for mark in _PROMPTS):
            words.update(_prompts(_decoded(line)))
    return Held(ids=frozenset(ids.intersection(wanted)), texts=frozenset(words.intersection(texts)))


def _held(entry: Mapping[str, Any]) -> Iterator[str]:
    if entry.get("type") != "user":
        return
    yield str(entry.get("uuid"))
    if str(entry.get("toolDenialKind")) in _NO_ANSWER:
        return
    for block in as_objects(as_object(entry.get("message")).get("content")):
        is_cut_off = block.get("is_error") and _said(block.get("content")).startswith(_CUT_OFF)
        if block.get("type") == "tool_result" and not is_cut_off:
            yield str(block.get("tool_use_id"))


def _prompts(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of a prompt, or of one that was put into a running turn."""
    attachment = as_object(entry.get("attachment"))
    if entry.get("type") == "user":
        yield _said(as_object(entry.get("message")).get("content"))
    elif attachment.get("type") == "queued_command":
        yield _said(attachment.get("prompt"))


def _said(content: object) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    return "".join(str(as_object(part).get("text", "")) for part in parts)


async def _lines(path: Path) -> AsyncIterator[bytes]:
    """Yield the lines of a file. It may be large, so let others run meanwhile."""
    for block in _blocks(path):
        for line in block:
            yield line
        await asyncio.sleep(0)


def _blocks(path: Path) -> Iterator[list[bytes]]:
    with path.open("rb") as file:
        while block := file.readlines(_BLOCK):
            yield block


def _decoded(line: bytes) -> Mapping[str, Any]:
    try:
        return as_object(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)

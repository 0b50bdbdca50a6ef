"""What an agent asks of its client, answered by its host: leave, and files."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from prsm_acp import files, permissions, tools
from prsm_acp.errors import INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND, AcpError
from prsm_core import (
    Deny,
    PermissionRequest,
    ToolCallFinished,
    ToolCallStarted,
)
from prsm_core.kit import as_object, as_objects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_acp.events import Translator
    from prsm_acp.manifest import Manifest
    from prsm_acp.turn import AcpTurn
    from prsm_core import (
        AgentHost,
        SessionRequest,
    )

    Json = dict[str, Any]

_PERMISSION = "session/request_permission"
_READ = "fs/read_text_file"
_WRITE = "fs/write_text_file"
_OVER = "the turn is over"
_NO_ONCE = "the agent offers no way to allow this once"


class Responder:
    """Answers one agent's requests."""

    def __init__(
        self,
        session: SessionRequest,
        host: AgentHost,
        manifest: Manifest,
        translator: Translator,
    ) -> None:
        self._session = session
        self._host = host
        self._manifest = manifest
        self._translator = translator
        self._allowed: dict[str, str] = {}  # texts that may be written once, by path
        self._granted: dict[str, PermissionRequest] = {}  # the last leave of each call

    async def respond(self, turn: AcpTurn | None, method: str, params: Json) -> Json:
        """Return the answer to a request; raise AcpError to refuse it.

        Outside its turn, and for a turn that is not wanted any more, everything is refused.
        """
        if method == _PERMISSION:
            if turn is None:
                return permissions.CANCELLED
            work = partial(self._permission, turn, params)
            answer: Json = await turn.answer(work, permissions.CANCELLED, "acp permission")
            return answer
        works = {_READ: self._read, _WRITE: self._write}
        if method not in works or not self._manifest.files:
            raise AcpError(f"{method} is not supported", number=METHOD_NOT_FOUND)
        given = (
            await turn.answer(partial(works[method], turn, params), None, "acp file")
            if turn
            else None
        )
        if given is None:
            raise AcpError(_OVER)
        done: Json = given
        return done

    async def _permission(self, turn: AcpTurn, params: Json) -> Json:
        options = as_objects(params.get("options"))
        call, events = self._translator.asked(as_object(params.get("toolCall")))
        await turn.put(events)
        if self._translator.is_ours(call):
            option = self._own_tool_option(options, call)
            return permissions.selected(option) if option else permissions.CANCELLED
        once = permissions.find_option(options, "allow_once")
        refusal = await self._refusal_of(call)
        if refusal is None and once is not None:
            self._allowed |= _writable(call)
            return permissions.selected(once)
        await turn.put(self._translator.denied(call, refusal or _NO_ONCE))
        reject = permissions.find_option(options, "reject_once")
        return permissions.selected(reject) if reject else permissions.CANCELLED

    def _own_tool_option(
        self, options: Sequence[Mapping[str, Any]], call: Mapping[str, Any]
    ) -> str | None:
        """Return the option for a tool of PRSM's own: it decides by itself what it lets pass.

        For good it is allowed only by a name that is the vendor's: a title may be the model's text.
        """
        preferred = self._manifest.quirks.always_option
        once = permissions.find_option(options, "allow_once")
        if call.get(tools.OWN_NAME) is None:
            return once
        if any(option.get("optionId") == preferred for option in options):
            return preferred
        return permissions.find_option(options, "allow_always") or once

    async def _refusal_of(self, call: Mapping[str, Any]) -> str | None:
        """Return why a call may not be made; the same question about it is asked once.

        Some agents ask for a command a second time when it names a place outside its folder.
        """
        call_id = str(call.get("toolCallId", ""))
        wanted = permissions.wanted(self._session.agent_id, call, self._cwd)
        if self._granted.get(call_id) == wanted:
            return None
        refusal = await self._refusal(wanted)
        if refusal is None:
            self._granted[call_id] = wanted
        return refusal

    async def _refusal(self, wanted: PermissionRequest) -> str | None:
        """Return why something may not be done; None if it may."""
        if wanted.tool == "Bash" and not (wanted.command or "").strip():
            return "its command is not known"
        verdict = await self._host.authorize(wanted)
        return verdict.reason if isinstance(verdict, Deny) else None

    async def _read(self, turn: AcpTurn, params: Mapping[str, Any]) -> Json:
        path = files.real_path(params.get("path"))
        if self._may_read(path):
            return await self._content(path, params)
        async with self._asked(turn, "Read", path, str(params["path"])):
            return await self._content(path, params)

    async def _content(self, path: str, params: Mapping[str, Any]) -> Json:
        try:
            text = await files.read(path, params.get("line"), params.get("limit"))
        except AcpError as error:
            if error.number != NOT_FOUND or not self._manifest.quirks.missing_is_empty:
                raise
            text = ""
        return {"content": text}

    def _may_read(self, path: str) -> bool:
        """Whether a call was given leave to read a file."""
        return any(
            files.real_path(told) == path
            for wanted in self._granted.values()
            if wanted.tool == "Read"
            for told in wanted.paths
            if files.is_usable(told)
        )

    async def _write(self, turn: AcpTurn, params: Mapping[str, Any]) -> Json:
        path, text = files.real_path(params.get("path")), params.get("content")
        if not isinstance(text, str):
            raise AcpError("a content is needed", number=INVALID_PARAMS)
        if self._allowed.pop(path, None) == text:  # what was shown as a diff is not asked twice
            await files.write(path, text)
            return {}
        # The content says which lines are the agent's, and which somebody else's.
        async with self._asked(turn, "Write", path, str(params["path"]), content=text):
            await files.write(path, text)
        return {}

    @asynccontextmanager
    async def _asked(
        self, turn: AcpTurn, tool: str, path: str, written: str, **arguments: str
    ) -> AsyncIterator[None]:
        """Let a file be read or written within the block, if the host allows it.

        It is part of the agent's call that is about that file. Where the agent has told of none, it
        is told as a call of its own.
        """
        call_id = self._translator.open_call_on(path)
        own_id = None if call_id is not None else f"file-{uuid4()}"
        wanted = PermissionRequest(
            agent_id=self._session.agent_id,
            tool=tool,
            arguments={"file_path": written, **arguments},
            cwd=self._cwd,
            paths=tuple(dict.fromkeys((written, path))),
            call_id=call_id or own_id,
        )
        if own_id is not None:
            await turn.put([ToolCallStarted(own_id, tool, wanted.arguments)])
        refusal = await self._refusal(wanted)
        if refusal is not None:
            await _end(turn, own_id, "denied", refusal)
            raise AcpError(f"refused: {refusal}")
        try:
            yield
        except AcpError as error:
            await _end(turn, own_id, "failed", error.message)
            raise
        await _end(turn, own_id, "completed", None)

    def forget(self) -> None:
        """Take back what may be written: the turn it was asked in is over."""
        self._allowed.clear()
        self._granted.clear()

    @property
    def _cwd(self) -> str:
        return self._session.cwd


async def _end(turn: AcpTurn, own_id: str | None, status: str, error: str | None) -> None:
    if own_id is not None:
        await turn.put([ToolCallFinished(own_id, status, error=error)])


def _writable(call: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a call has shown as its diffs, by real path."""
    texts = tools.new_texts(call)
    return {files.real_path(path): text for path, text in texts.items() if files.is_usable(path)}

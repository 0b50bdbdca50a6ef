"""An agent's conversation with Claude: the CLI that holds it, and what a crash may have lost."""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import TYPE_CHECKING

from prsm_claude import command
from prsm_claude.home import Held, find_transcript, held, holds, read_transcript
from prsm_claude.link import RESUME_FAILED, Link
from prsm_claude.transport import CliTransport
from prsm_claude.turn import text_id
from prsm_core import ProviderNotAvailableError, read_notes
from prsm_core.kit import SeenImages

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_claude.config import ClaudeConfig
    from prsm_claude.control import Callbacks
    from prsm_claude.link import Listener
    from prsm_claude.usage import UsageMeter
    from prsm_core import (
        Carried,
        ProviderServices,
        SessionRequest,
    )

NOTES = ("CLAUDE.md", ".claude/CLAUDE.md")  # by which a repository speaks to Claude


class Conversation:
    """Owns the CLI; one that has died is started again and resumes.

    `id` is the vendor's id of the conversation, `deferred` a call that was let go of: the CLI
    asks about it again by itself.
    """

    def __init__(
        self,
        request: SessionRequest,
        config: ClaudeConfig,
        services: ProviderServices,
        program: tuple[str, ...],
        home: Path,
        meter: UsageMeter,
        *,
        orchestrates: bool,
    ) -> None:
        self._request = request
        self._config = config
        self._services = services
        self._program = program
        self._meter = meter
        self._orchestrates = orchestrates
        self._home = home
        self.images = SeenImages()
        self._unsure: tuple[str, str] | None = None  # text and id of a prompt that may be lost
        self._resumes = self._kept = request.resume_token is not None
        self.id = request.resume_token or str(uuid.uuid4())
        self.deferred: str | None = None
        self.link: Link | None = None

    async def start(self, callbacks: Callbacks, listener: Listener) -> Link:
        """Start the CLI, or return the one that runs.

        Raises ProviderNotAvailableError; its code is `resume_failed` when Claude does not know
        the conversation any more.
        """
        if self.link is not None:
            if not self.link.is_over:
                return self.link
            await self.close()
            self._choose_beginning()
        if self._resumes:
            await self._recall(find_transcript(self._home, self.id))
        self.link = await self._open(callbacks, listener)
        return self.link

    def _choose_beginning(self) -> None:
        """Resume, or begin anew if the first turn never reached the disk."""
        self._resumes = find_transcript(self._home, self.id) is not None
        if self._resumes:
            return
        if self._kept:
            raise ProviderNotAvailableError(
                "claude has lost the transcript of the conversation",
                hint="The conversation is rebuilt from the ledger.",
                code=RESUME_FAILED,
            )
        self.id = str(uuid.uuid4())
        self._meter.spent_usd = 0.0

    async def send(self, link: Link, text: str, message_id: str) -> None:
        """Give the CLI the text of a turn, and the images that it cites."""
        self._unsure = (text, message_id)
        await link.send(text, message_id, self.images.of(text))

    def with_lost(self, text: str | None) -> str | None:
        """Return the text of a turn, before it a prompt that was lost in a crash."""
        lost = self._unsure[0] if self._unsure else None
        parts = [part for part in (lost if lost != text else None, text) if part]
        return "\n\n".join(parts) or None

    def arrived(self, taken: set[str]) -> None:
        """Take note, at the end of a turn, of the texts that the model has."""
        self._kept = True
        if self._unsure and self._unsure[1] in taken:
            self._unsure = None

    async def taken(self, carried: Carried) -> frozenset[str]:
        """Return which prompts and calls of a turn that goes on the transcript has.

        A call that was let go of is answered, once the CLI asks about it. A text that was put into
        the running turn had no id of the ledger's: one that was heard is known by its words.
        """
        prompts = {text_id(name): name for name in carried.prompts}
        answered = {call.call_id for call in carried.calls if call.outcome is not None}
        path = find_transcript(self._home, self.id)
        heard = {name: text for name, text in carried.prompts.items() if name in carried.heard}
        wanted = (*prompts, *(call.call_id for call in carried.calls))
        found = Held() if path is None else await held(path, wanted, heard.values())
        by_words = {name for name, text in heard.items() if text in found.texts}
        let_go = answered & {self.deferred}
        return frozenset(prompts.get(one, one) for one in found.ids) | by_words | let_go

    def kill(self, why: str) -> None:
        """End the CLI at once, so that the conversation can be resumed as it is now."""
        if self.link is not None:
            self.link.kill(why)

    async def close(self) -> None:
        """End the CLI; that goes on when the one who waits for it is cancelled."""
        link, self.link = self.link, None
        if link is not None:
            closed = asyncio.Event()
            self._services.start_soon(_closed, link, closed, name="claude close")
            await closed.wait()

    async def _open(self, callbacks: Callbacks, listener: Listener) -> Link:
        request = self._request
        with command.mcp_config(self._services.state_dir, request, self.id) as servers:
            argv = command.cli_argv(
                self._program,
                request,
                servers,
                session_id=self.id,
                resume=self._resumes,
                orchestrates=self._orchestrates,
            )
            env = command.cli_env(self._config, os.environ, self._home)
            env |= command.model_env(request)
            env |= request.variables
            transport = CliTransport(
                self._services,
                argv,
                cwd=request.cwd,
                env=env,
                box=None if request.box is None else request.box.opened(str(self._home)),
            )
            role = await self._role()
            return await Link.open(self._services, callbacks, transport, listener, role=role)

    async def _role(self) -> str:
        """Return the system prompt: what PRSM says, then what the repository tells agents.

        Claude Code itself is told to load nothing of the project. Its notes are text, which an
        agent that may read files could read, and Codex does read its own.
        """
        request = self._request
        if not self._config.project_notes or "Read" not in request.native_tools:
            return request.system_prompt
        workspace = request.workspace or request.cwd
        notes = await asyncio.to_thread(read_notes, workspace, request.cwd, NOTES)
        return request.prompt_with(notes) if notes else request.system_prompt

    async def _recall(self, path: Path | None) -> None:
        """Take from the transcript what the CLI will not say."""
        if path is None:
            return  # the CLI will say that there is none
        known = await read_transcript(path)
        self._meter.spent_usd = known.spent_usd
        self.deferred = known.deferred
        if self._unsure is not None:
            arrived = await holds(path, self._unsure[1])
            self._unsure = None if arrived else self._unsure


async def _closed(link: Link, done: asyncio.Event) -> None:
    try:
        await link.close()
    finally:
        done.set()

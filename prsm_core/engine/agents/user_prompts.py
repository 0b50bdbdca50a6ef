"""Prompts of persons: their texts, and how they reach agents.

A text is made before anything is written, so that a person hears of mistakes. What it refers to by
`@path` is read once, here, so a resume sends the same text.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from msgspec import Struct, field

from prsm_core.domain.messages import MessageType
from prsm_core.domain.record import Record
from prsm_core.domain.writes import MessagesConsumed, MessageSent, Told
from prsm_core.engine.state import MESSAGES_IN_A_PROMPT, is_peer
from prsm_core.engine.turns.context import render_messages
from prsm_core.errors import ConfigError, FencedError, MessageRoutingError
from prsm_core.kit.sanitize import UNFIT_CURE, is_fit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from prsm_core.config import Settings
    from prsm_core.engine.agents.session import Lives
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.engine.workspace_files import WorkspaceFiles
    from prsm_core.interfaces.provider import ProviderCapabilities
    from prsm_core.kit.background import Background
    from prsm_core.messaging.router import Match, MessageRouter
    from prsm_core.permissions import PermissionBroker
    from prsm_core.workspace.references import Read


class KeptText(Record, frozen=True):
    """The text of a prompt, and the reasons for references that are not shown."""

    text: str
    told: Sequence[str] = ()

    @property
    def notices(self) -> Sequence[Told]:
        """The notices of those, for the step that keeps the text."""
        return [Told(kind="notice", data={"level": "warning", "text": one}) for one in self.told]


class UserPrompts(Struct, eq=False):
    """Makes the texts of prompts, with their images and references."""

    providers: ProviderRegistry
    settings: Settings
    journal: Journal
    workspace: str
    state_dir: Path
    files: WorkspaceFiles

    @asynccontextmanager
    async def text(
        self, said: str, images: Sequence[str], provider: str, folder: str, agent: str | None = None
    ) -> AsyncIterator[KeptText]:
        """Yield a prompt's text as the ledger keeps it, with its images kept.

        Leave this once a ledger has the text. Until then none of its images is removed and nothing
        new is written to files; then a snapshot of the `folder` is taken. Each image is a path, a
        `data:` URL, or the mark of a kept one. Raises ConfigError for an unfit image (code
        `unfit_image`), for a provider that takes none (`no_images`), for text that no ledger can
        keep (`unfit`), and for a `blank` one, before which an agent could not end.
        """
        if not said.strip() and not images:
            raise ConfigError("what is said is blank", hint="say something", code="blank")
        if not is_fit(said):  # nothing has begun yet: later a step would be refused in the middle
            raise ConfigError("what is said is no Unicode text", hint=UNFIT_CURE, code="unfit")
        async with (
            self._text(said, images, provider) as kept,
            self.files.before(said, folder, agent),
        ):
            yield kept

    @asynccontextmanager
    async def _text(
        self, said: str, images: Sequence[str], provider: str
    ) -> AsyncIterator[KeptText]:
        may_refer = "@" in said and self.settings.context.references
        if not images and not may_refer:
            yield KeptText(said)
            return
        is_external = self.providers.is_external(provider)
        shows_images = not is_external and (await self.providers.get(provider)).capabilities.images
        if images and not shows_images:
            raise ConfigError(
                f"{provider} takes no images", hint="choose another provider", code="no_images"
            )
        from prsm_core.workspace.images import IMAGES, holding_images  # once there may be an image
        from prsm_core.workspace.references import Read

        read = Read()
        if may_refer and not is_external:
            read = await self._read(said, shows_images=shows_images)
        has_images = images or read.images
        async with holding_images(self.state_dir / IMAGES) if has_images else nullcontext():
            yield await asyncio.to_thread(self._kept, said, images, read)

    async def _read(self, said: str, *, shows_images: bool) -> Read:
        from prsm_core.permissions.paths import why_not_read  # once there may be a reference
        from prsm_core.workspace.references import read_references

        def why_not(path: str) -> str | None:
            return why_not_read(path, workspace, workspace)

        workspace = self.workspace
        return await asyncio.to_thread(
            read_references, said, workspace, why_not, shows_images=shows_images
        )

    def _kept(self, said: str, images: Sequence[str], read: Read) -> KeptText:
        from prsm_core.workspace.images import IMAGES, keep_images
        from prsm_core.workspace.references import with_references

        folder, told = self.state_dir / IMAGES, list(read.told)
        marks = keep_images(images, folder)
        for path in read.images:
            try:
                marks = keep_images([*marks, path], folder)
            except ConfigError as unfit:
                told.append(unfit.message)
        text = "\n".join((said, "", *marks)) if marks else said
        if read.blocks:
            text = with_references(text, [self.journal.redact(block) for block in read.blocks])
        return KeptText(text, told)


DELIVERIES = ("inject", "queue", "interrupt")


class Prompting(Struct, eq=False):
    """Delivers what persons and peers write to agents, also into running turns."""

    roster: Roster
    lives: Lives
    router: MessageRouter
    steps: AgentSteps
    background: Background
    capabilities: Callable[[str], ProviderCapabilities]
    user_prompts: UserPrompts
    broker: PermissionBroker
    workspace: str
    # Agents whose turn is about to be given what is unread.
    _looking: set[str] = field(default_factory=set)
    # Held while an agent's vendor is given something, and gone with the last who wants it.
    _giving: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def _busy_turn(self, record: AgentRecord) -> TurnRun | None:
        session = self.lives.session_of(record.agent_id)
        turn = None if session is None else session.turn
        if turn is None or not turn.is_open:
            return None
        waits = any(call.name == "wait_for_message" for call in turn.calls.open)
        return None if waits else turn

    def look(self, agent_id: str) -> None:
        """Give an agent's running turn what peers have written, if anything."""
        if not self.router.has_had_letters(agent_id):
            return  # whatever waits for it to read, as may the results of all its children
        record = self.roster.get(agent_id)
        if agent_id in self._looking or record.takes_messages or record.is_over:
            return
        if not self.router.has_unread(agent_id, is_peer):
            return
        turn = self._busy_turn(record)
        can = self.capabilities(record.descriptor.provider).steer
        if not can or turn is None or turn.is_external or not turn.is_running:
            return  # it comes with the next prompt, if the turn does not go on
        self._looking.add(agent_id)
        self.background.launch(self._give_unread(record, turn), name="steering")

    async def _give_unread(self, record: AgentRecord, turn: TurnRun) -> None:
        self._looking.discard(record.agent_id)  # what comes from here on has a look of its own
        try:
            await self._give(record, turn, is_peer)
        except FencedError:
            return  # the agent has ended meanwhile: nobody reads any more

    async def settled(self, agent_id: str) -> None:
        """Wait for deliveries to an agent's vendor: they may come back unread."""
        if (lock := self._giving.get(agent_id)) is not None:
            async with lock:
                return

    async def _give(self, record: AgentRecord, turn: TurnRun, match: Match) -> bool:
        router, agent_id = self.router, record.agent_id
        async with self._giving.setdefault(agent_id, asyncio.Lock()):
            claimed = router.claim_all(agent_id, match, MESSAGES_IN_A_PROMPT)
            if not claimed:
                return False  # read already
            wanted = tuple(message.message_id for message in claimed)
            taken = False
            turn.pause()  # meanwhile its session is needed
            try:
                taken = await turn.steer(render_messages(claimed, self.roster.names()))
            finally:
                turn.go_on()
                if not taken:
                    router.unclaim(agent_id, wanted)
            if taken:
                step = self.steps.build(record, MessagesConsumed(messages=wanted))
                await self.steps.commit(step, consumed=wanted)
        return taken

    async def prompt(
        self, agent_id: str, text: str, delivery: str, images: Sequence[str] = ()
    ) -> str:
        """Send a person's prompt; return `injected`, `queued` or `interrupting`.

        `inject` puts it into the running turn if the provider can. `interrupt` ends the turn and
        begins the next one with it. Otherwise it is read at the next wait_for_message or turn.

        Raises MessageRoutingError for an ended agent, ConfigError for an unknown delivery, and what
        `UserPrompts.text` raises; then nothing was sent.
        """
        if delivery not in DELIVERIES:
            raise ConfigError(
                f"there is no delivery {delivery!r}", hint=f"use one of {', '.join(DELIVERIES)}"
            )
        record = self.roster.get(agent_id)
        _check_lives(record)
        agent = record.descriptor
        told = self.user_prompts.text(text, images, agent.provider, agent.cwd, agent_id)
        async with told as said:
            _check_lives(record)  # it may have ended meanwhile
            self.router.check(agent_id)
            payload = {"text": said.text}
            message = self.steps.message(None, MessageType.USER_PROMPT, agent_id, payload)
            await self.steps.write(record, MessageSent(message=message), *said.notices)
        # Whoever prompts has perhaps mended something, and says so.
        self.broker.changed_by_hand(record.descriptor.cwd, self.workspace)
        turn = self._busy_turn(record)
        if turn is None or delivery == "queue" or turn.is_external:
            return "queued"
        if delivery == "inject":
            wanted = message.message_id
            taken = await self._give(record, turn, lambda m: m.message_id == wanted)
            return "injected" if taken else "queued"
        turn.interrupt()
        return "interrupting"


def _check_lives(record: AgentRecord) -> None:
    if record.is_over:
        raise MessageRoutingError(
            f"{record.descriptor.name} has ended",
            hint="a restart gives it a new task",
            code="agent_ended",
        )

"""What turns and their calls are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.domain.record import Record
from prsm_core.domain.turns import IMAGE_SCHEME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.images import Image
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.outcome import RunAbort
    from prsm_core.engine.quiet import QuietMoment
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.permits import Permits, Standing
    from prsm_core.engine.turns.ports import Steered
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import ProviderCapabilities
    from prsm_core.kit.background import Background
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker


class TurnImages(Struct, eq=False):
    """Finds the images that texts cite, and reports those that the model is not shown."""

    state_dir: Path
    capable: Callable[[str], ProviderCapabilities]
    journal: Journal

    def __call__(self, record: AgentRecord, texts: Sequence[str]) -> tuple[Image, ...]:
        """Return the images to show; tell a person which are left out, and why."""
        if not any(IMAGE_SCHEME in text for text in texts):
            return ()
        from prsm_core.workspace.images import IMAGES, cited_images  # once there is an image

        images = cited_images(texts, self.state_dir / IMAGES)
        provider = record.descriptor.provider
        there = tuple(image for image in images if Path(image.path).is_file())
        self._tell(record, [i for i in images if i not in there], "is there no more")
        if there and not self.capable(provider).images:
            self._tell(record, there, f"is not shown to its model: {provider} takes no images")
            return ()
        return there

    def _tell(self, record: AgentRecord, images: Sequence[Image], why: str) -> None:
        for image in images:
            text = f"the image {image.name} {why}"
            self.journal.note("notice", record.agent_id, level="warning", text=text)


class TurnParts(Record, frozen=True, kw_only=True):
    """What the turns and calls of all agents use."""

    settings: Settings
    workspace: Callable[[str], str]  # of the session, for who works in a folder
    system_prompt: Callable[[AgentDescriptor], str]  # as a model is given it now
    clock: Clock
    new_id: Callable[[], str]  # a ULID
    now_ms: Callable[[], int]  # Unix milliseconds
    background: Background
    journal: Journal
    steps: AgentSteps
    router: MessageRouter
    broker: PermissionBroker
    permits: Permits
    quiet: QuietMoment
    standing: Standing
    requests: HumanRequests
    budgets: BudgetLedger
    window: Callable[[str, str], int | None]  # of a model, in tokens, by provider and name
    abort: RunAbort
    steering: Steered
    images: TurnImages
    program_of: Callable[[str], str | None]  # the program that a provider is, None for a model's
    # Adds to an answer to an agent's call of a tool what became known of its team.
    with_news: Callable[[AgentRecord, str, ToolOutcome], ToolOutcome]

"""What a model says while it says it: its texts and its thoughts, told in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.turns import TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.engine.journal.unit import Journal, LiveText

_KINDS = {TextDelta: "text_delta", ThinkingDelta: "thinking_delta"}


class LiveTexts:
    """Owns the texts of one turn that stream now, by the kind of their pieces."""

    __slots__ = (
        "_agent_id",
        "_journal",
        "_texts",
    )

    def __init__(self, journal: Journal, agent_id: str) -> None:
        self._journal = journal
        self._agent_id = agent_id
        self._texts: dict[type, LiveText] = {}

    def heed(self, event: ProviderEvent) -> None:
        """Tell a piece of text, and end the texts that go on no further: they come by turns."""
        for kind in [kind for kind in self._texts if kind is not type(event)]:
            self._texts.pop(kind).end()
        if isinstance(event, (TextDelta, ThinkingDelta)):
            kind = type(event)
            if kind not in self._texts:
                self._texts[kind] = self._journal.live_text(_KINDS[kind], self._agent_id)
            self._texts[kind].feed(event.text)

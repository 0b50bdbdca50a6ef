"""A page of a history, as blocks of a transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_tui.model.blocks import Block, Call, Prompt, Said, Thought
from prsm_tui.model.calls import call_of
from prsm_tui.model.spoken import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEXTS: Mapping[str, type[Prompt] | type[Thought] | type[Said]] = {
    "user_message": Prompt,
    "thinking": Thought,
    "text": Said,
}


class Page:
    """Blocks that stand in front of others.

    A call whose end stands on a later page is one with it: `ended_later` are the ends, which the
    call itself takes the place of.
    """

    def __init__(self, ends: dict[str, Call]) -> None:
        self.blocks: list[Block] = []
        self.ended_later: list[Call] = []
        self._ends = ends  # by call; those that are found are taken out, those that miss put in
        self._open: dict[str, Call] = {}

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add the next entry."""
        seq, at, kind = entry.get("seq"), float(entry.get("at") or 0.0), str(entry.get("kind"))
        if kind in _TEXTS:
            self.blocks.append(_TEXTS[kind](seq=seq, at=at, text=shown(entry.get("text"))))
        elif kind == "tool_call":
            self._begin(call_of(seq, at, entry))
        elif kind == "tool_result":
            self._end(seq, at, entry)

    def open_calls(self) -> Sequence[Call]:
        """Return the calls that have not ended."""
        return list(self._open.values())

    def _begin(self, call: Call) -> None:
        end = self._ends.pop(call.call, None)
        if end is None:
            self._open[call.call] = call
        else:
            call.status, call.result = end.status, end.result
            call.duration_s, call.exit_code = end.duration_s, end.exit_code
            call.ended = end.ended
            self.ended_later.append(end)
        self.blocks.append(call)

    def _end(self, seq: int | None, at: float, entry: Mapping[str, Any]) -> None:
        name = str(entry.get("call"))
        call = self._open.pop(name, None)
        if call is None:
            call = self._ends[name] = Call(call=name, seq=seq, at=at)
            self.blocks.append(call)
        call.close({"seq": seq, "status": entry.get("status"), "result": entry.get("text")})

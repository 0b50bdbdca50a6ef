"""The blocks of one agent in the order of its events, and what it is saying right now.

Blocks far up are let go unless somebody reads there, so memory does not grow with a run. They come
again as a page of the history. What streams is kept apart from what is committed, so a late piece
cannot change a committed message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import structs

from prsm_core.door import CallEntry, Entry, ResultEntry, TextEntry, ThinkingEntry, UserEntry
from prsm_tui.model.blocks import Block, Call, Prompt, Said, Thought, call_of
from prsm_tui.model.spoken import Spoken, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core.door import HistoryEntry

KEPT = 150  # blocks, at least; twice as many at most


@dataclass(slots=True)
class Saying:
    """A message that is not committed: what it thinks, and what it says."""

    thinking: Spoken = field(default_factory=Spoken)
    text: Spoken = field(default_factory=Spoken)
    thought: Thought = field(default_factory=lambda: Thought(is_whole=False))
    said: Said = field(default_factory=lambda: Said(is_whole=False))

    def take(self, kind: str, at: int | None, piece: str) -> bool:
        """Take a piece of a kind, `text` or `thinking`; return whether it says anything new."""
        spoken, block = (self.text, self.said) if kind == "text" else (self.thinking, self.thought)
        if not spoken.take(at, piece):
            return False
        block.text = spoken.text
        block.change()
        return True

    def blocks(self) -> Iterator[Block]:
        """Yield what there is of it."""
        yield from (block for block in (self.thought, self.said) if block.text)


class Transcript:
    """Owns the blocks of one agent.

    `since` is the number of the event from which on nothing is missing; what is before it comes by
    pages of the history. `is_whole` tells that there is nothing before it.
    """

    def __init__(self, since: int = 0, *, has_pages: bool = True) -> None:
        self.since = since
        self.is_held = not has_pages  # somebody reads far up, or nothing would come again
        self.is_whole = since == 0
        self.blocks: list[Block] = []
        self._says: dict[tuple[str, int], Saying] = {}
        self._committed: dict[str, int] = {}  # the last message of each turn
        self._over: set[str] = set()  # turns
        self._open: dict[str, Call] = {}
        self._ends: dict[str, Call] = {}  # calls of which only the end was seen

    def __len__(self) -> int:
        return len(self.blocks)

    def saying(self) -> Sequence[Block]:
        """Return what is being said now."""
        return [block for says in self._says.values() for block in says.blocks()]

    def open_calls(self) -> Sequence[Call]:
        """Return the calls that run, the first one first."""
        return list(self._open.values())

    def put(self, block: Block) -> None:
        """Add a block at the end."""
        self.blocks.append(block)
        if len(self.blocks) >= 2 * KEPT and not self.is_held:
            self._forget()

    def find_call(self, call: str) -> Call | None:
        """Return a call that runs."""
        return self._open.get(call)

    def find_block(self, call: str) -> Call | None:
        """Return a call, whether it runs or not."""
        found = (one for one in self.blocks if isinstance(one, Call) and one.call == call)
        return next(found, None)

    def begin(self, call: Call) -> None:
        """Add a call."""
        self._open[call.call] = call
        self.put(call)

    def end(self, call: str, **fields: Any) -> Call:
        """End a call; one whose beginning is not here stands where it ended."""
        block = self._open.pop(call, None)
        if block is None:
            block = self._ends[call] = Call(call=call, seq=fields.get("seq"), at=fields["at"])
            block.close(fields)
            self.put(block)
        else:
            block.close(fields)
        return block

    def say(self, kind: str, data: Mapping[str, Any]) -> bool:
        """Take a piece of text or thinking; return whether anything is new."""
        turn, message = str(data.get("turn") or ""), _number(data.get("message"))
        if turn in self._over or message <= self._committed.get(turn, 0):
            return False
        says = self._says.setdefault((turn, message), Saying())
        return says.take(kind, data.get("at"), str(data.get("text") or ""))

    def write(self, data: Mapping[str, Any]) -> bool:
        """Take a piece of what a call writes; return whether anything is new."""
        call = self._open.get(str(data.get("call")))
        if call is None or not call.output.take(data.get("at"), str(data.get("text") or "")):
            return False
        call.change()
        return True

    def commit(self, seq: int | None, at: float, data: Mapping[str, Any]) -> None:
        """Take a whole message: it stands for all that streamed of it."""
        if data.get("role") != "assistant":
            self.put(Prompt(seq=seq, at=at, text=shown(data.get("text"))))
            return
        turn, message = str(data.get("turn") or ""), data.get("message")
        last = _number(message) if message is not None else self._newest(turn)
        self._committed[turn] = max(last, self._committed.get(turn, 0))
        self._says = {
            key: says for key, says in self._says.items() if key[0] != turn or key[1] > last
        }
        if data.get("thinking"):
            self.put(Thought(seq=seq, at=at, text=shown(data["thinking"])))
        if data.get("text"):
            self.put(Said(seq=seq, at=at, text=shown(data["text"])))

    def close(self, turn: str | None = None) -> None:
        """End a turn, or all: what is not committed by then never will be."""
        if turn is None:
            self._over.update(key[0] for key in self._says)
            self._says.clear()
            return
        self._over.add(turn)
        self._committed.pop(turn, None)
        self._says = {key: says for key, says in self._says.items() if key[0] != turn}

    def prepend(self, entries: Sequence[HistoryEntry]) -> None:
        """Put a page of the history in front; an empty one says that nothing is before."""
        if not entries:
            self.is_whole = True
            return
        page = Page(self._ends)
        for entry in entries:
            page.add(entry)
        ended = {id(block) for block in page.ended_later}
        self.blocks = [*page.blocks, *(block for block in self.blocks if id(block) not in ended)]
        self._open = {**page.open, **self._open}
        self.since = entries[0].seq
        self.is_whole = self.since <= 1

    def _forget(self) -> None:
        """Let go of blocks that a page of the history would bring again.

        No event is cut in two. A call that goes, and ends later, is told of by its end.
        """
        blocks = self.blocks
        for cut in range(len(blocks) - KEPT, len(blocks)):
            seq = blocks[cut].seq
            if seq is not None and seq != blocks[cut - 1].seq:
                break
        else:
            return
        gone = [block for block in blocks[:cut] if isinstance(block, Call)]
        self.blocks, self.since, self.is_whole = blocks[cut:], seq, False
        self._ends = {
            name: call
            for name, call in (*self._ends.items(), *((call.call, call) for call in gone))
            if call.ended is not None and call.ended >= seq
        }
        for call in gone:
            self._open.pop(call.call, None)

    def _newest(self, turn: str) -> int:
        return max((number for of, number in self._says if of == turn), default=1)


def _number(message: object) -> int:
    return message if isinstance(message, int) else 1


_TEXTS: Mapping[type[Entry], type[Prompt] | type[Thought] | type[Said]] = {
    UserEntry: Prompt,
    ThinkingEntry: Thought,
    TextEntry: Said,
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
        self.open: dict[str, Call] = {}  # calls that have not ended

    def add(self, entry: HistoryEntry) -> None:
        """Add the next entry."""
        seq = entry.seq
        if isinstance(entry, CallEntry):
            self._begin(call_of(seq, entry.at, structs.asdict(entry)))
        elif isinstance(entry, ResultEntry):
            self._end(seq, entry)
        else:
            self.blocks.append(_TEXTS[type(entry)](seq=seq, at=entry.at, text=shown(entry.text)))

    def _begin(self, call: Call) -> None:
        end = self._ends.pop(call.call, None)
        if end is None:
            self.open[call.call] = call
        else:
            call.status, call.result = end.status, end.result
            call.duration_s, call.exit_code = end.duration_s, end.exit_code
            call.ended = end.ended
            self.ended_later.append(end)
        self.blocks.append(call)

    def _end(self, seq: int | None, entry: ResultEntry) -> None:
        name = entry.call
        call = self.open.pop(name, None)
        if call is None:
            call = self._ends[name] = Call(call=name, seq=seq, at=entry.at)
            self.blocks.append(call)
        call.close({"seq": seq, "status": entry.status, "result": entry.text})

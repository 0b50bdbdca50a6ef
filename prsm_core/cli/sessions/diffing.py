"""Finds what is different between two sessions by their logs, and prints it.

Two logs are never equal: ids, times and the order in which agents came by differ. So each agent is
compared with the one of its name, and of what it did its decisions, calls, messages and files,
each sort in its own order. What stands in both from the start is what a fork and its origin share.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict, replace

from prsm_core.cli.ledger import choose_session, open_ledger
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.listing import name_of
from prsm_core.domain.record import Record
from prsm_core.domain.usage import Spent, total
from prsm_core.kit.text import escape_exact, first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prsm_core.domain.events import Event
    from prsm_core.interfaces.store import SessionInfo

    Pair = tuple[int, int]  # where something stands in one list and in the other


KINDS = ("agent", "decision", "call", "message", "file", "end")
_TOKEN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{7,}")
_IDS = frozenset({"turn", "mid", "correlation_id", "request", "call", "id"})
_LATE = 1 << 62
_ENDS = frozenset({"completed", "failed", "killed"})
_SHORTEST = 8  # characters of an id that is looked for in texts


class Item(Record, frozen=True, kw_only=True):
    """Something that an agent did: `key` says what, `value` how it came out."""

    kind: str
    agent: str
    key: str
    value: Any
    began: int  # number of its first event
    seq: int  # of the event that tells how it came out


class Difference(Record, frozen=True, kw_only=True):
    """One difference: what one session has and the other has not, or has otherwise."""

    kind: str  # one of KINDS
    agent: str
    what: str
    a: Any = None  # None: only the other has it
    b: Any = None
    seq_a: int | None = None
    seq_b: int | None = None

    @property
    def place(self) -> int:
        """Where it stands: the smaller of its numbers."""
        return min(_LATE if seq is None else seq for seq in (self.seq_a, self.seq_b))


def compare(one: Iterable[Event], other: Iterable[Event]) -> list[Difference]:
    """Return the differences of two logs, the first of them first."""
    ours, theirs = items_of(one), items_of(other)
    found: list[Difference] = []
    for sort in sorted(ours.keys() | theirs.keys()):
        found += _compare(ours.get(sort, []), theirs.get(sort, []))
    return sorted(found, key=lambda each: (each.place, KINDS.index(each.kind), each.agent))


def items_of(events: Iterable[Event]) -> Mapping[tuple[str, str], list[Item]]:
    """Return what was done, by kind and agent, in order."""
    log = _Log()
    for event in events:
        log.add(event)
    found: defaultdict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in log.items():
        found[item.kind, item.agent].append(item)
    return found


def _compare(ours: Sequence[Item], theirs: Sequence[Item]) -> Iterable[Difference]:
    ends = len(ours), len(theirs)
    pairs = aligned([item.key for item in ours], [item.key for item in theirs])
    i = j = 0
    for i_next, j_next in (*pairs, ends):
        yield from (_only(item, is_ours=True) for item in ours[i:i_next])
        yield from (_only(item, is_ours=False) for item in theirs[j:j_next])
        if (i_next, j_next) != ends and ours[i_next].value != theirs[j_next].value:
            a, b = ours[i_next], theirs[j_next]
            yield replace(_only(a, is_ours=True), a=a.value, b=b.value, seq_b=b.seq)
        i, j = i_next + 1, j_next + 1


def _only(item: Item, *, is_ours: bool) -> Difference:
    value = True if item.value is None else item.value
    side = {"a": value, "seq_a": item.seq} if is_ours else {"b": value, "seq_b": item.seq}
    return Difference(kind=item.kind, agent=item.agent, what=item.key, **side)


class _Log:
    """What the events so far tell, with names in the place of ids."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._open: dict[tuple[str, str], Item] = {}  # asked and called, by agent and id
        self._done: list[Item] = []

    def items(self) -> list[Item]:
        return sorted([*self._done, *self._open.values()], key=lambda item: item.began)

    def add(self, event: Event) -> None:
        data = event.data
        for name in _IDS & data.keys():
            if isinstance(data[name], str) and len(data[name]) >= _SHORTEST:
                self._names.setdefault(data[name], f"<{name}>")
        self._take_deed(event, data)
        self._take_request(event, data)

    def _take_deed(self, event: Event, data: Mapping[str, Any]) -> None:
        match event.type:
            case "agent_spawned":
                self._spawned(event, data)
            case "agent_state_changed" if data["to"] in _ENDS:
                self._put("end", event, "how it ended", {"state": data["to"]})
            case "agent_model_changed":
                effort = f" ({data['reasoning_effort']})" if data.get("reasoning_effort") else ""
                self._put("decision", event, f"model: {data['provider']}/{data['model']}{effort}")
            case "agent_mode_changed":
                self._put("decision", event, f"mode: {data['to']}")
            case "agent_labels_changed":
                self._put("decision", event, f"labels: {self._text(data['labels'])}")
            case "message_completed":
                self._put("message", event, self._text([data["role"], data["text"]]))
            case "file_changed":
                size = {"added": data.get("added"), "removed": data.get("removed")}
                self._put("file", event, f"{data['kind']} {data['path']}", size)

    def _take_request(self, event: Event, data: Mapping[str, Any]) -> None:
        match event.type:
            case "tool_call_started":
                what = f"{data['tool']} {self._text(data.get('arguments') or {})}"
                self._begin("call", event, "call", what, {"status": "open"})
            case "tool_call_finished":
                said = data.get("result") if data.get("error") is None else data["error"]
                self._finish(event, "call", {"status": data["status"], "result": self._text(said)})
            case "question_asked":
                options = f" {self._text(data['options'])}" if data.get("options") else ""
                what = f"question: {data['question']}{options}"
                self._begin("decision", event, "request", what, {"answer": None})
            case "question_answered":
                self._finish(event, "request", {"answer": data.get("answer"), "by": data.get("by")})
            case "permission_requested":
                asked = data.get("command") or self._text(data.get("paths") or [])
                what = f"permission: {data['tool']} {asked}"
                self._begin("decision", event, "request", what, {"verdict": None})
            case "permission_resolved":
                answer = {"verdict": data.get("verdict"), "by": data.get("by")}
                self._finish(event, "request", answer)

    def _spawned(self, event: Event, data: Mapping[str, Any]) -> None:
        self._names[event.agent or ""] = str(data["name"])
        told = {name: data.get(name) for name in ("role", "provider", "model", "mode")}
        told |= {name: data[name] for name in ("region", "labels") if data.get(name)}
        parent = self._names.get(data.get("parent") or "")
        value = {**told, "parent": parent, "prompt": self._text(data.get("prompt"))}
        self._put("agent", event, "spawned", value)

    def _put(self, kind: str, event: Event, key: str, value: Any = None) -> None:
        self._done.append(self._item(kind, event, key, value))

    def _item(self, kind: str, event: Event, key: str, value: Any) -> Item:
        agent, seq = self._names.get(event.agent or "", "-"), event.seq or 0
        return Item(kind=kind, agent=agent, key=key, value=value, began=seq, seq=seq)

    def _begin(self, kind: str, event: Event, id_: str, key: str, value: Any) -> None:
        place = (event.agent or "", str(event.data[id_]))
        if (left := self._open.pop(place, None)) is not None and left.key != key:
            self._done.append(left)  # a vendor uses its ids again
        self._open[place] = self._item(kind, event, key, value)

    def _finish(self, event: Event, id_: str, value: Any) -> None:
        item = self._open.pop((event.agent or "", str(event.data[id_])), None)
        if item is not None:
            self._done.append(replace(item, value=value, seq=event.seq or 0))

    def _text(self, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        return _TOKEN.sub(lambda found: self._names.get(found[0], found[0]), text)


MOST = 4_000_000  # comparisons of each place with each, which take a moment


def aligned(ours: Sequence[str], theirs: Sequence[str], *, most: int = MOST) -> Iterator[Pair]:
    """Yield the places of what is in both lists, in order; each is in one pair at most.

    What both begin with, and end with, is paired as it stands: a fork and its origin share it. The
    rest is looked through closely where that takes no more than `most` comparisons.
    """
    least = min(len(ours), len(theirs))
    head = next((n for n in range(least) if ours[n] != theirs[n]), least)
    rest = least - head
    tail = next((n for n in range(rest) if ours[-1 - n] != theirs[-1 - n]), rest)
    ends = len(ours) - tail, len(theirs) - tail
    yield from ((n, n) for n in range(head))
    middle = ours[head : ends[0]], theirs[head : ends[1]]
    pairs: Iterable[Pair]
    if len(middle[0]) * len(middle[1]) <= most:
        blocks = SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks()
        pairs = ((block.a + n, block.b + n) for block in blocks for n in range(block.size))
    else:
        pairs = _of_long(*middle)
    yield from ((head + i, head + j) for i, j in pairs)
    yield from ((ends[0] + n, ends[1] + n) for n in range(tail))


def _of_long(ours: Sequence[str], theirs: Sequence[str]) -> Iterable[Pair]:
    """Return the pairs of long lists, in time that hardly grows faster than they do.

    What stands in a list often is told apart by its number: the third time is the third time. So
    each thing is in each list once, and the longest rising row of places are the pairs.
    """
    places = {key: place for place, key in enumerate(_numbered(theirs))}
    ends: list[int] = []  # the place at which a row of so many can end first
    rows: list[tuple[Pair, object] | None] = []  # and that row, from its end
    for i, key in enumerate(_numbered(ours)):
        if (j := places.get(key)) is not None:
            length = bisect_left(ends, j)
            before = rows[length - 1] if length else None
            ends[length : length + 1] = [j]
            rows[length : length + 1] = [((i, j), before)]
    found: list[Pair] = []
    row: object = rows[-1] if rows else None
    while isinstance(row, tuple):
        pair, row = row
        found.append(pair)
    return reversed(found)


def _numbered(keys: Sequence[str]) -> Iterator[tuple[str, int]]:
    seen: Counter[str] = Counter()
    for key in keys:
        yield key, seen[key]
        seen[key] += 1


_SHOWN = 160  # characters of one side


async def print_diff(workspace: str, one: str, other: str, *, as_json: bool) -> None:
    """Print the differences of two sessions, the first of them first; see `prsm diff`."""
    async with open_ledger(workspace) as store:
        sessions = await store.sessions()
        infos = [choose_session(sessions, prefix) for prefix in (one, other)]
        logs = [[event async for event in store.events(info.session_id)] for info in infos]
        spent = [total(row.spent for row in await store.agents(info.session_id)) for info in infos]
    found = compare(*logs)
    told = {
        "a": infos[0].session_id,
        "b": infos[1].session_id,
        "first": asdict(found[0]) if found else None,
        "differences": [asdict(each) for each in found],
        "spent": {"a": spent[0].to_dict(), "b": spent[1].to_dict()},
    }
    if as_json:
        click.echo(json.dumps(told, indent=2))
    else:
        _print(infos, found, spent)


def _print(
    infos: Sequence[SessionInfo], found: Sequence[Difference], spent: Sequence[Spent]
) -> None:
    for side, info in zip("AB", infos, strict=True):
        say(f"{side}: session {info.session_id} {name_of(info.name, info.task)!r}")
    if not found:
        say("the same was done in both")
    for number, each in enumerate(found):
        head = "first difference" if number == 0 else "then"
        say(f"{head}: {escape_exact(each.agent)}, {each.kind}: {first_line(each.what, _SHOWN)}")
        for side, value, seq in (("A", each.a, each.seq_a), ("B", each.b, each.seq_b)):
            at = "" if seq is None else f" (event {seq})"
            say(f"  {side}{at}: {_side(value)}")
    for side, used in zip("AB", spent, strict=True):
        say(f"{side} used {used.text}")


def _side(value: Any) -> str:
    if value is None:
        return "not there"
    if value is True:
        return "there"
    texts = {
        name: each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
        for name, each in value.items()
    }
    return first_line(", ".join(f"{name}: {text}" for name, text in texts.items()), _SHOWN)

"""The end of a run, for a person: the agents, what they left unanswered, how to look further."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import Spent
from prsm_core.files import OPEN_STATES, UNMERGED, UNSURE
from prsm_core.kit import escape_exact, escape_prose, format_duration
from prsm_core.terminal import format_table, hanging, problem_lines, problems_of, subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core import Event
    from prsm_core.door import AgentNode, AgentTree

_HEADERS = ("AGENT", "PROVIDER/MODEL", "STATE", "EVIDENCE", "TIME", "TOKENS", "COST")
_SHOWN = 30  # agents; a larger tree has a command of its own
_UNANSWERED = frozenset({"timeout", "unattended", "headless", "turn_ended", "agent_ended"})


def agent_table(tree: AgentTree, run: str | None, *, width: int | None) -> Sequence[str]:
    """Return the agents of a run as a table: what each used itself, its children left aside.

    Agents that ended in earlier runs of the session are left out.
    """
    nodes = [node for node in tree.walk() if node.run == run]
    if not nodes:
        return ()
    rows = [_row(node) for node in nodes[:_SHOWN]]
    hidden = len(nodes) - len(rows)
    table = format_table(_HEADERS, rows, width=width, spare=("TIME",)).splitlines()
    return [*table, *([f"… {hidden} more agents: prsm tree"] if hidden else [])]


def _row(node: AgentNode) -> tuple[str | None, ...]:
    spent = node.usage_self.as_spent
    return (
        "  " * node.depth + node.name,
        f"{node.provider}/{node.model}",
        _state(node),
        node.evidence,
        None if node.elapsed_s is None else format_duration(node.elapsed_s),
        spent.tokens_text,
        spent.cost_text,
    )


def _state(node: AgentNode) -> str:
    is_held = node.waiting_on and not node.state.startswith("waiting")
    return "held" if is_held else node.state


def hints(session: str, folder: str, *, was_interrupted: bool) -> Sequence[str]:
    """Return how to look further, from where the person is now."""
    where = _where(folder)
    look = f"look further: prsm tree{where} {session}"
    more = f"  prsm history{where} AGENT, prsm events{where}"
    go_on = f"go on where it was interrupted: prsm resume{where} {session}"
    return (
        escape_exact(look),
        escape_exact(more),
        *([escape_exact(go_on)] if was_interrupted else ()),
    )


def _where(folder: str) -> str:
    return "" if _is_here(folder) else f" -C {shlex.quote(folder)}"


def _is_here(folder: str) -> bool:
    """Return whether a folder is the current one; a ledger names it, so it may be none here."""
    try:
        return Path(folder).samefile(".")
    except (OSError, ValueError):  # it is gone, or has a name that no folder here can have
        return False


class Unanswered:
    """Remembers what was asked of a person, and what of that nobody answered."""

    def __init__(self) -> None:
        self._open: dict[str, Event] = {}
        self._left: list[Event] = []

    def note(self, event: Event) -> None:
        """Take in an event."""
        if event.type in {"permission_requested", "question_asked"}:
            self._open[event.data["request"]] = event
        elif event.type in {"permission_resolved", "question_answered"}:
            asked = self._open.pop(event.data["request"], None)
            if asked is not None and event.data.get("by") in _UNANSWERED:
                self._left.append(asked)

    def lines(self, names: Mapping[str, str]) -> Sequence[str]:
        """Return what waited for the person and was not answered."""
        left = [(names.get(event.agent or "", "?"), event) for event in self._all()]
        return [f"waited for YOU, unanswered: {who}: {subject(event.data)}" for who, event in left]

    def _all(self) -> Sequence[Event]:
        return (*self._left, *self._open.values())


_APART = "not merged"  # a worktree
_HOW = {"partial": "merged in part"}


class Changed:
    """Counts what a run has changed in files, as far as nobody has decided about it."""

    def __init__(self) -> None:
        self.is_told = False  # each change was, with its agent
        self._pending: dict[str, Mapping[str, Any]] = {}
        self._unmerged: set[str] = set()  # of those, the ones that could not be taken back
        self._apart: dict[str | None, Mapping[str, Any]] = {}  # worktrees not merged, by agent

    def note(self, event: Event) -> None:
        """Take in an event."""
        if event.type == "worktree_merged":
            self._apart.pop(event.agent, None)
            if event.data["result"] not in {"merged", "nothing"}:
                self._apart[event.agent] = event.data
        elif event.type == "file_changed" and "change" in event.data:
            self.is_told = True
            self._pending[event.data["change"]] = event.data
        elif event.type == "changes_decided":
            for one in event.data["changes"]:
                self._unmerged.discard(one["change"])
                if one["state"] not in OPEN_STATES:
                    self._pending.pop(one["change"], None)
                elif one["state"] == UNMERGED:
                    self._unmerged.add(one["change"])

    def lines(self, session: str, folder: str) -> Sequence[str]:
        """Return what is pending, the command that takes it back, and what is not merged."""
        trees = [
            escape_exact(f"{_HOW.get(one['result'], _APART)}: {one['branch'] or one['worktree']}")
            for one in self._apart.values()
        ]
        found = [one for one in self._pending.values() if one["how"] != "outside"]
        outside = {one["path"] for one in self._pending.values() if one["how"] == "outside"}
        if not found and not outside:
            return trees
        lines = []
        where = f"{_where(folder)} --session {session}"
        if found:
            lines.append(f"changes that are pending: {', '.join(self._counts(found))}")
        if outside:
            lines.append(f"files changed from outside, decided one by one: {len(outside)}")
        lines.append(escape_exact(f"  look: prsm changes list{where}"))
        reject = f"prsm changes reject{where} --all"
        if any(one["how"] not in UNSURE for one in found):
            lines.append(escape_exact(f"  take them back: {reject}"))
        if any(one["how"] in UNSURE for one in found):
            lines.append(escape_exact(f"  with those that may be yours: {reject} --possible"))
        return (*lines, *trees)

    def _counts(self, found: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Return how much agents have changed, and what of it needs a second look."""
        added, removed = (sum(one[name] or 0 for one in found) for name in ("added", "removed"))
        parts = [f"files: {len({one['path'] for one in found})}", f"+{added} -{removed}"]
        for what, some in (
            ("conflicts", [one for one in found if one["beside"]]),
            ("maybe yours (?)", [one for one in found if one["how"] in UNSURE]),
            ("not taken back", [one for one in found if one["change"] in self._unmerged]),
        ):
            parts += [f"{what}: {len({one['path'] for one in some})}"] if some else []
        return parts


def names_of(tree: AgentTree) -> dict[str, str]:
    """Return the names of a tree's agents by id."""
    return {node.id: escape_exact(node.name) for node in tree.walk()}


def conclusion(event: Event, names: Mapping[str, str]) -> Sequence[str]:
    """Return what a run came to, by the event of its end; `names` has agents by id, escaped."""
    error, summary = event.data.get("error"), event.data.get("summary")
    told = [*hanging("error: ", escape_prose(error))] if error else []
    told += [f"  {line}" for line in escape_prose(summary).splitlines()] if summary else []
    used = Spent.from_dict({**(event.data.get("usage") or {}), **event.data}).text
    told += problem_lines(problems_of(event.data), names)
    return [f"the run has ended: {escape_exact(str(event.data.get('status')))}, {used}", *told]

"""What agents did under protocols, as a `git fast-import` stream.

It is made of the events of a session and of the kept pages alone, so that it is the same whenever
it is made. `agents/NAME/state.json` says where an agent is, `protocols/NAME.md` is the page as it
was when an agent first came to this version of it. A move that is asked for and has no answer in
the ledger is told by the last commit, as `pending`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from prsm_protocols.labels import SINCE, is_under_protocol, pin_of
from prsm_protocols.page import Record
from prsm_protocols.tool_names import TRANSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prsm_core import Event
    from prsm_protocols.labels import Pin

BRANCH = "refs/heads/protocols"
_ODD = re.compile(r"[^\w.\-]+")
_MARKS = re.compile(r"[<>\n\0]+")


class Commit(Record, frozen=True):
    """One commit: by whom, when, what it says, and the files that it writes."""

    name: str
    email: str
    at: int
    message: str
    files: dict[str, str]


class Export:
    """Makes commits of events; `pages` returns the pages of a version by name, of its id."""

    def __init__(self, pages: Callable[[str], Mapping[str, str]]) -> None:
        self._pages = pages
        self._names: dict[str, str] = {}  # of agents by their id
        self._labels: dict[str, Mapping[str, str]] = {}
        self._calls: dict[tuple[str, str], Mapping[str, Any]] = {}  # open calls, by agent and call
        self._versions: set[str] = set()
        self._last: float = 0

    def commits(self, events: Iterable[Event]) -> Iterator[Commit]:
        """Yield the commits of a session's events, in their order."""
        for event in events:
            self._last = event.ts
            if event.agent is None:
                continue
            if event.type in {"agent_spawned", "agent_labels_changed"}:
                yield from self._said(event)
            elif event.type == "tool_call_started" and event.data.get("tool") == TRANSITION:
                call = event.data.get("arguments") or {}
                self._calls[event.agent, str(event.data.get("call"))] = call
            elif event.type == "tool_call_finished":
                self._calls.pop((event.agent, str(event.data.get("call"))), None)
        yield from self._pending()

    def _said(self, event: Event) -> Iterator[Commit]:
        agent = str(event.agent)
        labels = event.data.get("labels") or {}
        if event.type == "agent_spawned":
            self._names[agent] = self._name(str(event.data.get("name") or agent))
        was, now = pin_of(self._labels.get(agent, {}), agent), pin_of(labels, agent)
        self._labels[agent] = labels
        if now is None and event.type == "agent_spawned" and is_under_protocol(labels):
            yield self._commit(agent, event.ts, "begins", {})
        if now is None or (
            was is not None and (was.protocol, was.state) == (now.protocol, now.state)
        ):
            return
        files = self._version(now)
        step = f"{was.state} -> {now.state}" if was is not None else f"is in {now.state}"
        yield self._commit(agent, event.ts, step, files, self._context(agent))

    def _name(self, name: str) -> str:
        """Return what an agent's folder is called: its name, or with a number if that is taken."""
        wanted, count = _ODD.sub("_", name), 1
        found = wanted
        while found in self._names.values():
            count += 1
            found = f"{wanted}-{count}"
        return found

    def _context(self, agent: str) -> Mapping[str, Any]:
        calls = [call for (by, _), call in self._calls.items() if by == agent]
        return calls[-1] if calls else {}

    def _version(self, pin: Pin) -> dict[str, str]:
        """Return the pages of a version that nobody has come to before."""
        if pin.protocol in self._versions:
            return {}
        self._versions.add(pin.protocol)
        return {f"protocols/{name}.md": text for name, text in self._pages(pin.protocol).items()}

    def _commit(
        self,
        agent: str,
        at: float,
        step: str,
        files: Mapping[str, str],
        call: Mapping[str, Any] | None = None,
        pending: str | None = None,
    ) -> Commit:
        name = self._names.setdefault(agent, _ODD.sub("_", agent))
        labels = self._labels.get(agent, {})
        pin = pin_of(labels, agent)
        state: dict[str, Any] = {"agent": agent, "protocol": labels.get("protocol", "")}
        if pin is not None:
            since = int(labels.get(SINCE, "0"))
            state |= {"protocol": pin.protocol, "state": pin.state, "since": since}
        if call is not None and call.get("context") is not None:
            state["context"] = call["context"]
        if pending is not None:
            state["pending"] = pending
        text = json.dumps(state, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        return Commit(
            name=name,
            email=f"{_MARKS.sub('', agent)}@prsm.invalid",
            at=int(at),
            message=f"{name}: {step}\n",
            files={**files, f"agents/{name}/state.json": text},
        )

    def _pending(self) -> Iterator[Commit]:
        for (agent, _), call in self._calls.items():
            to = call.get("to")
            if to is not None:
                step = f"asks for {to}, and has no answer"
                yield self._commit(agent, self._last, step, {}, call, pending=str(to))


def stream(commits: Iterable[Commit]) -> Iterator[bytes]:
    """Yield a stream for `git fast-import`; without a commit it is empty."""
    for number, commit in enumerate(commits, start=1):
        who = f"{commit.name} <{commit.email}> {commit.at} +0000\n"
        yield f"commit {BRANCH}\nmark :{number}\nauthor {who}committer {who}".encode()
        yield _data(commit.message)
        if number > 1:
            yield f"from :{number - 1}\n".encode()
        for path, text in sorted(commit.files.items()):
            yield f"M 100644 inline {path}\n".encode() + _data(text)
        yield b"\n"


def _data(text: str) -> bytes:
    data = text.encode()
    return b"data %d\n%b\n" % (len(data), data)

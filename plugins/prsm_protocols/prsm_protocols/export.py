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
from prsm_protocols.tool_names import TRANSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prsm_core import Event
    from prsm_protocols.labels import Pin

BRANCH = "refs/heads/protocols"
_ODD = re.compile(r"[^\w.\-]+")
_MARKS = re.compile(r"[<>\n\0]+")


class Export:
    """Makes commits of events; `pages` returns the pages of a version by name, of its id."""

    def __init__(self, pages: Callable[[str], Mapping[str, str]]) -> None:
        self._pages = pages
        self._names: dict[str, str] = {}  # of agents by their id
        self._labels: dict[str, Mapping[str, str]] = {}
        self._calls: dict[tuple[str, str], Mapping[str, Any]] = {}  # open calls, by agent and call
        self._versions: set[str] = set()
        self._commits = 0

    def stream(self, events: Iterable[Event]) -> Iterator[bytes]:
        """Yield a session's events as commits, in their order; without a commit it is empty."""
        last = 0.0
        for event in events:
            last = event.ts
            if event.agent is None:
                continue
            call = event.agent, str(event.data.get("call"))
            if event.type in {"agent_spawned", "agent_labels_changed"}:
                yield from self._moved(event, event.agent)
            elif event.type == "tool_call_started" and event.data.get("tool") == TRANSITION:
                self._calls[call] = event.data.get("arguments") or {}
            elif event.type == "tool_call_finished":
                self._calls.pop(call, None)
        for (agent, _), wanted in self._calls.items():
            if (to := wanted.get("to")) is not None:
                step = f"asks for {to}, and has no answer"
                yield self._commit(agent, last, step, call=wanted, pending=str(to))

    def _moved(self, event: Event, agent: str) -> Iterator[bytes]:
        labels = event.data.get("labels") or {}
        was, now = pin_of(self._labels.get(agent, {}), agent), pin_of(labels, agent)
        self._labels[agent] = labels
        if event.type == "agent_spawned":
            self._names[agent] = self._free_name(str(event.data.get("name") or agent))
            if now is None and is_under_protocol(labels):
                yield self._commit(agent, event.ts, "begins")
        if now is None or (was and (was.protocol, was.state) == (now.protocol, now.state)):
            return
        calls = [call for (by, _), call in self._calls.items() if by == agent]
        step = f"{was.state} -> {now.state}" if was is not None else f"is in {now.state}"
        yield self._commit(agent, event.ts, step, self._new_pages(now), calls[-1] if calls else {})

    def _free_name(self, name: str) -> str:
        """Return what an agent's folder is called: its name, or with a number if that is taken."""
        wanted, count = _ODD.sub("_", name), 1
        free = wanted
        while free in self._names.values():
            count += 1
            free = f"{wanted}-{count}"
        return free

    def _new_pages(self, pin: Pin) -> dict[str, str]:
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
        files: Mapping[str, str] | None = None,
        call: Mapping[str, Any] | None = None,
        pending: str | None = None,
    ) -> bytes:
        name = self._names.setdefault(agent, _ODD.sub("_", agent))
        labels = self._labels.get(agent, {})
        state: dict[str, Any] = {"agent": agent, "protocol": labels.get("protocol", "")}
        if (pin := pin_of(labels, agent)) is not None:
            since = int(labels.get(SINCE, "0"))
            state |= {"protocol": pin.protocol, "state": pin.state, "since": since}
        if call is not None and call.get("context") is not None:
            state["context"] = call["context"]
        if pending is not None:
            state["pending"] = pending
        text = json.dumps(state, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        self._commits += 1
        number, email = self._commits, _MARKS.sub("", agent)
        who = f"{name} <{email}@prsm.invalid> {int(at)} +0000\n"
        parts = [
            f"commit {BRANCH}\nmark :{number}\nauthor {who}committer {who}".encode(),
            _data(f"{name}: {step}\n"),
            f"from :{number - 1}\n".encode() if number > 1 else b"",
        ]
        for path, content in sorted({**(files or {}), f"agents/{name}/state.json": text}.items()):
            parts += [f"M 100644 inline {path}\n".encode(), _data(content)]
        return b"".join([*parts, b"\n"])


def _data(text: str) -> bytes:
    data = text.encode()
    return b"data %d\n%b\n" % (len(data), data)

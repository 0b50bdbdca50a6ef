"""A program on a terminal, for `tui`: the screen of PRSM, or a bare one of the same lines.

`python -m benchmarks.tui_screen CASE WHAT DESCRIPTOR` writes what it measured as a line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from prsm_tui.model.session import Session
    from prsm_tui.screen.app import Tui
    from prsm_tui.screen.transcript import Transcript
    from textual.app import App

    from prsm_core.domain.events import Event

AGENTS = 10
DELTAS = 500  # a second, of all agents
BURST_SECONDS = 0.02  # between two batches of them, as the engine tells them
MESSAGE = 200  # deltas of one message
FRAME_SECONDS = 1 / 15
WORDS = ("what ", "the ", "agent ", "says, ", "word by word, ", "and then ", "another line.\n")
WARM_SECONDS = 1.0


class Counted:
    """A terminal that counts what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.bytes = 0

    def write(self, text: str) -> int:
        """Write."""
        self.bytes += len(text.encode())
        return self._stream.write(text)

    def flush(self) -> None:
        """Let it be seen."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._stream.fileno()


class Talk:
    """The events of agents that all stream at once."""

    def __init__(self, agents: int = AGENTS) -> None:
        self.agents = [f"a{number}" for number in range(agents)]
        self._seq = 0
        self._said: dict[str, list[str]] = {agent: [] for agent in self.agents}
        self._at = dict.fromkeys(self.agents, 0)
        self._messages = dict.fromkeys(self.agents, 1)
        self._count = 0

    def begin(self, session: Session) -> None:
        """Let a run with its agents begin."""
        session.apply(self._event("run_started", None, task="stream", workspace="/"))
        for number, agent in enumerate(self.agents):
            told: dict[str, Any] = {"name": f"agent-{number}", "role": "worker", "prompt": "talk"}
            told |= {"provider": "echo", "model": "m", "depth": min(number, 1)}
            told["parent"] = self.agents[0] if number else None
            session.apply(self._event("agent_spawned", agent, **told))
            session.apply(self._event("agent_state_changed", agent, to="running"))
            session.apply(self._event("turn_started", agent, turn=f"t-{agent}", n=1))

    def deltas(self, count: int) -> Iterator[Event]:
        """Yield that many deltas of the agents in turn, and messages that end."""
        for _ in range(count):
            agent = self.agents[self._count % len(self.agents)]
            piece = WORDS[self._count // len(self.agents) % len(WORDS)]
            self._count += 1
            said, message = self._said[agent], self._messages[agent]
            told: dict[str, Any] = {"turn": f"t-{agent}", "message": message}
            yield self._event(
                "text_delta", agent, live=True, at=self._at[agent], text=piece, **told
            )
            said.append(piece)
            self._at[agent] += len(piece)
            if len(said) == MESSAGE:
                text = "".join(said)
                yield self._event("message_completed", agent, role="assistant", text=text, **told)
                said.clear()
                self._at[agent], self._messages[agent] = 0, message + 1

    def message(self, agent: str, text: str) -> Event:
        """Return a whole message."""
        message, self._messages[agent] = self._messages[agent], self._messages[agent] + 1
        told: dict[str, Any] = {"turn": f"t-{agent}", "message": message, "role": "assistant"}
        return self._event("message_completed", agent, text=text, **told)

    def _event(self, kind: str, agent: str | None, *, live: bool = False, **data: Any) -> Event:
        from prsm_core.domain.events import Event

        self._seq += not live
        seq = None if live else self._seq
        return Event(
            type=kind, session="s", run="r", ts=time.time(), agent=agent, data=data, seq=seq
        )


def screen() -> tuple[Tui, Session, Counted]:
    """Return a screen of a session without anything in it."""
    from prsm_tui.model.session import Session
    from prsm_tui.screen.app import Tui

    session, terminal = Session("s"), Counted(sys.stdout)
    session.mode = "default"
    return Tui(session, terminal=terminal, keyboard=0), session, terminal  # type: ignore[arg-type]


async def drive(app: App[Any], work: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
    """Run an application until the work beside it has ended; return what that measured."""
    found: dict[str, float] = {}

    async def beside() -> None:
        try:
            while not (app.is_running and app.screen_stack and app.screen.is_mounted):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
            found.update(await work())
        finally:
            app.exit()

    async with asyncio.TaskGroup() as group:
        _ = group.create_task(beside())
        await app.run_async()
    return found


async def measured(
    terminal: Counted, seconds: float, step: Callable[[int], int] | None
) -> dict[str, float]:
    """Let `step` take so many deltas again and again, for so long; return costs and amounts."""
    await _stream(WARM_SECONDS if seconds > WARM_SECONDS else seconds, step)
    gc.collect()
    before, cpu = terminal.bytes, time.process_time()
    begin = time.perf_counter()
    count = await _stream(seconds, step)
    took = time.perf_counter() - begin
    cpu = time.process_time() - cpu
    return {
        "cpu": cpu,
        "wall": took,
        "deltas": count,
        "bytes": terminal.bytes - before,
        "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def _stream(seconds: float, step: Callable[[int], int] | None) -> int:
    """Call `step` as often as DELTAS wants it, by the clock; return how many deltas it took."""
    if step is None:
        await asyncio.sleep(seconds)
        return 0
    begin, count = time.perf_counter(), 0
    while (now := time.perf_counter()) < begin + seconds:
        due = int((now - begin) * DELTAS) - count
        count += step(due) if due else 0
        await asyncio.sleep(BURST_SECONDS)
    return count


async def stream(what: str) -> dict[str, float]:
    """Stream ten agents to the screen of PRSM."""
    tui, session, terminal = screen()
    talk = Talk()
    talk.begin(session)

    def step(count: int) -> int:
        for event in talk.deltas(count):
            session.apply(event)
            tui.changed()
        return count

    return await drive(tui, lambda: measured(terminal, float(what), step))


async def bare(what: str) -> dict[str, float]:
    """Stream the same to a screen that has the lines of one agent, and nothing else."""
    from benchmarks.tui_bare import Bare

    terminal = Counted(sys.stdout)
    app = Bare(terminal, 0)
    talk = Talk()
    shown, others = talk.agents[0], dict.fromkeys(talk.agents, "")

    def step(count: int) -> int:
        for event in talk.deltas(count):
            if event.seq is not None:
                continue
            if event.agent == shown:
                app.lines.add(event.data["text"])
            else:
                others[str(event.agent)] += event.data["text"]
        return count

    return await drive(app, lambda: measured(terminal, float(what), step))


async def idle(what: str) -> dict[str, float]:
    """Show ten agents that are open and say nothing."""
    tui, session, terminal = screen()
    Talk().begin(session)
    return await drive(tui, lambda: measured(terminal, float(what), None))


async def first(_: str) -> dict[str, float]:
    """Draw one frame of an empty session."""
    tui, _session, terminal = screen()

    async def drawn() -> dict[str, float]:
        while not terminal.bytes:  # noqa: ASYNC110 - another thread writes
            await asyncio.sleep(0.001)  # whoever only looks takes no CPU from who draws
        return {"bytes": terminal.bytes}

    return await drive(tui, drawn)


def end_text(transcript: Transcript, blocks: int) -> str:
    """Return the text of the last so many blocks as they are laid out."""
    rows = (row for item in transcript._items[-blocks:] for row in item.rows)
    return "".join(segment.text for row in rows for segment in row)


async def opened(ledger: str) -> dict[str, float]:
    """Open the session of a ledger, and draw the end of what its agent has said."""
    from prsm_tui.model.session import Session

    from benchmarks.tui_ledger import last_page
    from prsm_core.door import TextEntry

    tui, _session, terminal = screen()
    cpu = time.process_time()
    view, page = await last_page(Path(ledger))
    session = Session.of_view(view, time.time())
    [agent] = session.agents
    session.take_page(agent, page)
    tui = type(tui)(session, terminal=terminal, keyboard=0)  # type: ignore[arg-type]
    said = [entry for entry in page if isinstance(entry, TextEntry)]
    last = f"message {said[-1].text.rsplit(' ', 1)[1]}"

    async def drawn() -> dict[str, float]:
        while last not in end_text(tui.panes.transcript, blocks=3):
            tui.changed()
            await asyncio.sleep(0.005)
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"cpu": 1000 * (time.process_time() - cpu), "rss": rss}

    return await drive(tui, drawn)


async def hour(what: str) -> dict[str, float]:
    """Stream so many deltas as fast as they are taken, with the frames of an hour."""
    tui, session, _terminal = screen()
    talk = Talk()
    talk.begin(session)

    async def work() -> dict[str, float]:
        await _rushed(tui, session, talk, min(int(what), 20 * MESSAGE * AGENTS))
        before = _resident()
        await _rushed(tui, session, talk, int(what))
        return {"mb": max(0.01, _resident() - before)}

    return await drive(tui, work)


async def _rushed(tui: Tui, session: Session, talk: Talk, count: int) -> None:
    for number, event in enumerate(talk.deltas(count)):
        session.apply(event)
        if number % 1000 == 0:
            tui.changed()
            await asyncio.sleep(0)


async def crowd(what: str) -> dict[str, float]:
    """Show a tree of so many agents, of which each tells something; count a frame for each."""
    from prsm_tui.screen.app import FrameDue

    tui, session, _terminal = screen()
    talk = Talk(int(what))
    talk.begin(session)

    async def work() -> dict[str, float]:
        events = [talk.message(agent, "one more") for agent in talk.agents[:200]]
        tui.on_frame_due(FrameDue())
        cpu = time.process_time()
        for event in events:
            session.apply(event)
            tui.on_frame_due(FrameDue())
        return {"ms": 1000 * (time.process_time() - cpu) / len(events)}

    return await drive(tui, work)


def _resident() -> float:
    """Return the megabytes that this process has in memory now."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


CASES = {work.__name__: work for work in (stream, bare, idle, first, opened, hour, crowd)}


def main() -> None:
    """Run one case."""
    case, what, descriptor = sys.argv[1:]
    found = asyncio.run(CASES[case](what))
    os.write(int(descriptor), json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()

"""A ledger on disk with many messages of one agent, and the end of what that has said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_testing.steps import Steps

from prsm_core.domain.events import Event
from prsm_core.door import AgentNode, AgentTree, BudgetReport, RunState, Usage, View
from prsm_core.engine.door.history import read_history
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_core.door import HistoryEntry

PAGE = 200  # entries, as the screen asks for


async def write(path: Path, amount: int) -> None:
    """Make a ledger in which an agent has said so many messages."""
    steps = Steps()
    async with await SqliteStore.open(path) as store:
        await store.commit(steps.run_started())
        await store.commit(steps.spawn("master"))
        for begin in range(0, amount, 1000):
            numbers = range(begin, min(amount, begin + 1000))
            await store.append([_said(steps, number) for number in numbers])


async def last_page(path: Path) -> tuple[View, Sequence[HistoryEntry]]:
    """Return the view of the ledger's session, and the last page of its agent."""
    steps = Steps()
    agent, session = steps.agent("master"), steps.session
    async with await SqliteStore.open(path, read_only=True) as store:
        [info] = await store.sessions()
        page = await read_history(store, session, agent, "full", before=None, limit=PAGE)
    node = AgentNode(
        id=agent,
        name="master",
        run=steps.run,
        parent=None,
        role="master",
        provider="echo",
        model="m",
        state="running",
        depth=0,
    )
    view = View(
        seq=info.last_seq,
        session=session,
        mode="default",
        run=RunState(id=steps.run, task="talk", status="running", started_at=0.0),
        tree=AgentTree(session=session, run=steps.run, is_live=True, spent=Usage(), agents=(node,)),
        requests=(),
        turns=(),
        budget=BudgetReport(run={}, spent=""),
    )
    return view, page


def _said(steps: Steps, number: int) -> Event:
    text = f"This is message {number}, and it has some words more than one line of a screen holds, "
    data = {"turn": "t1", "role": "assistant", "text": text * 3 + f"message {number}"}
    return Event(
        type="message_completed",
        session=steps.session,
        run=steps.run,
        ts=1000.0 + number,
        agent=steps.agent("master"),
        data=data,
    )

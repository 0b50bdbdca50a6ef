"""Commits steps until it is killed, and says on stdout which ones were acknowledged.

Run as `python crash_worker.py LEDGER NAME`; NAME is unique among all workers of a ledger.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_testing.store_contract import Steps

from prsm_core.domain.writes import AgentSpawned, MessagesConsumed
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from prsm_core.domain.steps import Step, Write

CHAINS = 4


class Worker:
    """One agent of the shared session `s1`."""

    def __init__(self, store: SqliteStore, name: str) -> None:
        self.store = store
        self.name = name
        self.steps = Steps("s1")

    async def commit(self, step: Step) -> None:
        await self.store.commit(step)
        os.write(1, f"{step.step_id}\n".encode())

    def marked(self, step_id: str, *writes: Write) -> Step:
        """Return a step with two events that carry its id, around what it writes."""
        mark = self.steps.told(step_id)
        return self.steps.step(self.name, mark, *writes, mark, step_id=step_id)

    async def send_and_consume(self, chain: int) -> None:
        """Send a message to itself in each step, and consume the one before."""
        consumed: tuple[str, ...] = ()
        for n in count():
            step_id = f"{self.name}:notice:{chain}:{n}"
            message = self.steps.message(self.name, self.name, message_id=f"m:{step_id}")
            read = MessagesConsumed(messages=consumed)
            await self.commit(self.marked(step_id, *self.steps.sent(message), read))
            consumed = (message.message_id,)

    async def take_turns(self) -> None:
        """Open and close one turn after the other."""
        for n in count(1):
            turn = self.steps.turn(
                self.name,
                n,
                turn_id=f"{self.name}:turn:{n}",
                parent_turn_id=f"{self.name}:turn:{n - 1}" if n > 1 else None,
            )
            await self.commit(self.marked(f"{self.name}:open:{n}", turn))
            await self.commit(self.marked(f"{self.name}:close:{n}", self.steps.close(turn)))


async def main(path: Path, name: str) -> None:
    async with await SqliteStore.open(path) as store, asyncio.TaskGroup() as group:
        worker = Worker(store, name)
        born = AgentSpawned(agent=worker.steps.descriptor(name))
        await worker.commit(worker.marked(f"{name}:spawn", born))
        group.create_task(worker.take_turns())
        for chain in range(CHAINS):
            group.create_task(worker.send_and_consume(chain))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

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

from prsm_core.store import SqliteStore
from prsm_core.testing.store_contract import Steps

if TYPE_CHECKING:
    from prsm_core.domain.steps import Step

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

    def marks(self, step_id: str) -> dict:
        """Return the id of a step and two events that carry it."""
        events = (self.steps.event(self.name, step_id), self.steps.event(self.name, step_id))
        return {"step_id": step_id, "events": events}

    async def send_and_consume(self, chain: int) -> None:
        """Send a message to itself in each step, and consume the one before."""
        consumed: tuple[str, ...] = ()
        for n in count():
            step_id = f"{self.name}:notice:{chain}:{n}"
            message = self.steps.message(self.name, self.name, message_id=f"m:{step_id}")
            await self.commit(
                self.steps.control(
                    self.name,
                    "notice",
                    messages=(message,),
                    consumed=consumed,
                    **self.marks(step_id),
                )
            )
            consumed = (message.message_id,)

    async def take_turns(self) -> None:
        """Open and close one turn after the other."""
        for n in count(1):
            turn = self.steps.open_turn(
                self.name,
                n,
                turn_id=f"{self.name}:turn:{n}",
                parent_turn_id=f"{self.name}:turn:{n - 1}" if n > 1 else None,
                **self.marks(f"{self.name}:open:{n}"),
            )
            await self.commit(turn)
            closing = self.marks(f"{self.name}:close:{n}")
            await self.commit(self.steps.close_turn(turn, self.name, **closing))


async def main(path: Path, name: str) -> None:
    async with await SqliteStore.open(path) as store, asyncio.TaskGroup() as group:
        worker = Worker(store, name)
        await worker.commit(worker.steps.spawn(name, **worker.marks(f"{name}:spawn")))
        group.create_task(worker.take_turns())
        for chain in range(CHAINS):
            group.create_task(worker.send_and_consume(chain))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

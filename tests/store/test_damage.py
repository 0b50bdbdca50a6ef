"""A ledger that is damaged says so, and what to do, whatever is asked of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from prsm_testing.steps import Steps

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 4096


async def write_session(path: Path) -> None:
    team = Steps()
    async with await SqliteStore.open(path) as store:
        await store.commit(team.run_started())
        for number in range(40):
            await store.commit(team.spawn(f"a{number}", prompt="word " * 400))


def overwrite(path: Path) -> None:
    """Spoil all pages but the first, as a bad disk would."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xa5" * (size - PAGE))


def tear(path: Path) -> None:
    """Lose the end of the file, as a copy that broke off would."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // PAGE // 2 * PAGE)


@pytest.mark.parametrize("spoil", [overwrite, tear])
async def test_a_damaged_ledger_tells_no_state_but_what_to_do(spoil, path: Path):
    await write_session(path)
    spoil(path)
    with pytest.raises(StoreError) as caught:
        async with await SqliteStore.open(path, read_only=True) as store:
            await store.state("s1")
    assert caught.value.code == "damaged"
    assert "prsm doctor" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "spoils",
    [
        "UPDATE agents SET state = 'asleep'",
        "UPDATE agent_specs SET tools = '[\"Re'",
        "UPDATE runs SET options = '{torn'",
    ],
)
async def test_a_row_that_nobody_wrote_is_told_as_damage(spoils, path: Path):
    await write_session(path)
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(spoils)
    async with await SqliteStore.open(path, read_only=True) as store:
        with pytest.raises(StoreError, match="a row holds what it cannot hold") as caught:
            await store.state("s1")
    assert caught.value.code == "damaged"
    assert "put back a copy" in (caught.value.hint or "")

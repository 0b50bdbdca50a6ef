"""A database that Codex was killed over is set aside; one that is fine, or being filled, is not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from prsm_codex.app_server import unstick
from prsm_testing.fake_clock import FakeClock


def on(clock) -> Any:
    """Return what `unstick` uses of ProviderServices."""
    return SimpleNamespace(clock=clock)


@pytest.fixture
def services():
    return on(FakeClock())


def make(file, status):
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE backfill_state (id INTEGER, status TEXT)")
        database.execute("INSERT INTO backfill_state VALUES (1, ?)", (status,))
        database.commit()


def write(file, status):
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE backfill_state SET status = ?", (status,))
        database.commit()


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "state_5.sqlite"
    make(made, "running")
    return made


async def test_a_database_that_stays_as_it_is_is_set_aside_and_told(file, tmp_path, services):
    notice = await unstick(tmp_path, services)
    assert services.clock.now() == pytest.approx(5.0, abs=0.5)
    assert not list(tmp_path.glob("state_*"))
    assert (tmp_path / "stuck-state_5.sqlite").exists()
    assert notice is not None
    assert notice.level == "warning"
    assert "stuck-state_5.sqlite" in notice.text
    assert await unstick(tmp_path, services) is None


async def test_the_parts_of_a_database_go_with_it(file, tmp_path, services):
    with closing(sqlite3.connect(file)) as killed:  # who holds it has not put its log into it
        killed.execute("UPDATE backfill_state SET id = 2")
        killed.commit()
        assert (tmp_path / "state_5.sqlite-wal").stat().st_size > 0
        await unstick(tmp_path, services)
        assert not list(tmp_path.glob("state_*"))


async def test_one_that_another_codex_is_about_to_fill_is_waited_for(file, tmp_path):
    clock = FakeClock(on_jump=lambda due: write(file, "complete") if due > 1 else None)
    assert await unstick(tmp_path, on(clock)) is None
    assert 1 < clock.now() < 2
    assert file.exists()


@pytest.mark.parametrize("status", ["complete", "pending", ""])
async def test_one_that_is_fine_is_left_alone(tmp_path, services, status):
    make(tmp_path / "state_5.sqlite", status)
    assert await unstick(tmp_path, services) is None
    assert services.clock.now() == 0
    assert (tmp_path / "state_5.sqlite").exists()


async def test_what_is_no_database_is_left_to_codex(tmp_path, services):
    (tmp_path / "state_5.sqlite").write_text("x" * 5000)
    assert await unstick(tmp_path, services) is None
    assert await unstick(tmp_path / "none", services) is None

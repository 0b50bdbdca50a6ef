"""The private home is made aside: it is there whole or not at all, whoever makes it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from prsm_codex.app_server import HOME
from prsm_codex.config import CodexConfig, Features
from prsm_codex.provider import make_home
from prsm_testing.doubles import open_services, until

from plugins.prsm_codex.tests.first_start import NOWHERE, engine
from prsm_core.errors import ProviderNotAvailableError

PROGRAM = """
import json, os, pathlib, sys
if "--version" in sys.argv:
    print("codex-cli 0.161.0")
    sys.exit()
home = pathlib.Path(os.environ["CODEX_HOME"])
home.joinpath("started").write_text(str(home))
home.joinpath("seen").write_text(" ".join(os.listdir(home.parent)))
request = json.loads(sys.stdin.readline())
{first}
print(json.dumps({{"id": request["id"], "result": {{}}}}), flush=True)
sys.stdin.read()
home.joinpath("ended").touch()
"""
SILENT = "sys.stdin.read()"  # until its engine has gone
UNABLE = "sys.exit('no such option')"


def command(first=""):
    """Return a program that does `first`, answers `initialize`, and ends with its input."""
    return [sys.executable, "-c", PROGRAM.format(first=first)]


async def make(services, first=""):
    config = CodexConfig.from_settings({"command": command(first), "base_url": NOWHERE})
    await make_home(config, services, Features.of(config, None))


def folders(state_dir):
    return {path.name for path in state_dir.iterdir()} - {"tmp"}


async def aside(state_dir):
    """Return the folder in which a program was started, once it was."""
    await until(lambda: state_dir.is_dir() and any(state_dir.glob("*/seen")))
    return next(state_dir.glob("*/seen")).parent


@pytest.fixture
def state_dir(tmp_path):
    return tmp_path / "state"


async def test_the_home_has_its_name_once_codex_has_started_and_ended_in_it(state_dir):
    async with open_services(state_dir) as services:
        await make(services)
        home = state_dir / HOME
        (process,) = services.processes
        assert process.has_exited
        assert folders(state_dir) == {HOME}
        assert home.stat().st_mode & 0o777 == 0o700
        was = Path((home / "started").read_text())
        assert was != home
        assert set((home / "seen").read_text().split()) == {"tmp", was.name}
        await make(services)
        assert services.processes == [process]


async def test_where_codex_cannot_start_there_is_no_home(state_dir):
    async with open_services(state_dir) as services:
        with pytest.raises(ProviderNotAvailableError, match="no such option"):
            await make(services, UNABLE)
        assert folders(state_dir) == set()
        await make(services)
    assert folders(state_dir) == {HOME}


async def test_who_is_stopped_over_it_leaves_nothing_behind(state_dir):
    async with open_services(state_dir) as services:
        making = asyncio.ensure_future(make(services, SILENT))
        await aside(state_dir)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert folders(state_dir) == set()


async def test_of_two_that_make_it_at_once_one_wins_and_the_other_takes_its_home(state_dir):
    """Each goes on only when both have begun."""
    both = "while len([n for n in os.listdir(home.parent) if n != 'tmp']) < 2: pass"
    async with open_services(state_dir) as one, open_services(state_dir) as two:
        await asyncio.gather(make(one, both), make(two, both))
        assert [p.has_exited for p in (*one.processes, *two.processes)] == [True, True]
    assert folders(state_dir) == {HOME}
    assert len((state_dir / HOME / "seen").read_text().split()) < 4  # tmp, and one or both of them


async def test_what_a_killed_engine_has_left_is_removed_and_what_a_living_one_makes_is_not(
    state_dir,
):
    async with engine(state_dir, *command(SILENT)) as other:
        left = await aside(state_dir)
        async with open_services(state_dir) as services:
            await make(services)
            assert folders(state_dir) == {HOME, left.name}
            other.kill()
            await other.wait()
            await make(services)  # there is a home by now; it is looked at all the same
    assert folders(state_dir) == {HOME}

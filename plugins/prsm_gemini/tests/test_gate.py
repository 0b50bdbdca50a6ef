"""The gate, asked by the real hook in a process of its own."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from contextlib import asynccontextmanager
from functools import partial

import pytest
from prsm_gemini.config import GeminiConfig
from prsm_gemini.gate import MAX_OPEN, Gate
from prsm_gemini.home import HOOK, Home, settings
from prsm_gemini.hook import SOCKET

from prsm_core.interfaces.local_socket import short_name
from prsm_core.testing.doubles import open_services
from prsm_core.testing.fake_clock import FakeClock

YES = {"decision": "allow"}


class Keeper:
    """Answers yes, and keeps what it is asked."""

    def __init__(self, answer=YES):
        self.events = []
        self._answer = answer

    async def on_hook(self, event):
        self.events.append(event)
        return self._answer


class Waiter(Keeper):
    """Never answers."""

    def __init__(self):
        super().__init__()
        self.asked = asyncio.Event()

    async def on_hook(self, event):
        self.asked.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def opened(folder, clock=None):
    async with open_services(folder / "state", clock=clock) as services:
        gate = Gate(folder, services)
        await gate.open(partial(folder.mkdir, parents=True, exist_ok=True))
        try:
            yield gate, services
        finally:
            await gate.close()


async def ask(services, folder, said):
    """Run the hook as it stands in the settings; return its answer."""
    text = said if isinstance(said, str) else json.dumps(said)
    argv = [sys.executable, "-I", "-S", str(HOOK), str(folder)]
    process = await services.start_process(argv, name="hook")
    await process.write(text.encode())
    process.close_stdin()
    lines = [line async for line in process.lines()]
    assert await process.wait() == 0
    return json.loads(b"".join(lines))


async def test_an_event_reaches_the_turn_and_its_answer_the_hook(tmp_path):
    folder = tmp_path / "gate"
    async with opened(folder) as (gate, services):
        keeper = Keeper()
        gate.turn_begins(keeper)
        event = {"hook_event_name": "BeforeTool", "tool_input": {"content": "x" * 200_000}}
        assert await ask(services, folder, event) == YES
    assert keeper.events == [event]


async def test_a_folder_may_have_a_path_longer_than_an_address(tmp_path):
    folder = tmp_path.joinpath(*["a-rather-long-name-of-a-folder"] * 6)
    async with opened(folder) as (gate, services):
        gate.turn_begins(Keeper())
        assert await ask(services, folder, {}) == YES


@pytest.mark.requirement("F5")
async def test_whatever_goes_wrong_is_a_refusal(tmp_path):
    folder = tmp_path / "gate"
    async with opened(folder) as (gate, services):
        assert "no turn" in (await ask(services, folder, {}))["reason"]
        gate.turn_begins(Keeper(answer=["odd"]))
        assert (await ask(services, folder, {}))["decision"] == "deny"
        gate.turn_begins(Keeper())
        assert (await ask(services, folder, "no JSON"))["decision"] == "deny"
        (folder / "token").write_text("é wrong")
        assert (await ask(services, folder, {})) == {"decision": "deny", "reason": "a wrong token"}
        (folder / "token").unlink()
        assert (await ask(services, folder, {}))["decision"] == "deny"
    async with open_services(tmp_path / "later") as services:
        assert (await ask(services, folder, {}))["decision"] == "deny"


async def test_who_says_nothing_is_let_go_of(tmp_path):
    folder = tmp_path / "gate"
    async with opened(folder, FakeClock()):
        with short_name(folder / SOCKET) as name:
            reader, writer = await asyncio.open_unix_connection(name)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


async def test_more_hooks_than_a_model_has_tools_for_are_refused(tmp_path):
    folder = tmp_path / "gate"
    async with opened(folder) as (gate, _):
        gate.turn_begins(Waiter())
        with short_name(folder / SOCKET) as name:
            streams = [await asyncio.open_unix_connection(name) for _ in range(MAX_OPEN + 1)]
        async with asyncio.timeout(60):
            closed = [asyncio.ensure_future(reader.read()) for reader, _ in streams]
            done, waiting = await asyncio.wait(closed, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(waiting)) == (1, MAX_OPEN)
        for task in waiting:
            task.cancel()
        for _, writer in streams:
            writer.close()


async def test_what_is_being_decided_when_the_turn_ends_is_refused(tmp_path):
    folder = tmp_path / "gate"
    async with opened(folder) as (gate, services), asyncio.TaskGroup() as group:
        waiter = Waiter()
        gate.turn_begins(waiter)
        asking = group.create_task(ask(services, folder, {}))
        await waiter.asked.wait()
        gate.turn_over()
        assert (await asking)["decision"] == "deny"


@pytest.mark.requirement("F5")
async def test_a_hook_that_cannot_be_run_is_a_refusal_with_words(tmp_path):
    """Gemini takes a hook that fails without a word for a yes."""
    missing = tmp_path / "no-such-hook.py"
    config = GeminiConfig(env={"GEMINI_API_KEY": "k"})
    told = settings(config, {}, Home(tmp_path), None, None, hooks=True, hook=missing)
    command = told["hooks"]["BeforeTool"][0]["hooks"][0]["command"]
    async with open_services(tmp_path / "state") as services:
        process = await services.start_process(["bash", "-c", command], name="hook")
        assert await process.wait() == 2
        assert "PRSM could not be asked" in process.stderr_tail
    assert str(missing) in shlex.split(command)

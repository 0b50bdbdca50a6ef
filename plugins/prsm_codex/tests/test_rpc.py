"""JSON-RPC with a process that lives on: a real child, its pipes, and what either side may do."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_codex.provider import build
from prsm_codex.rpc import REQUEST_SECONDS, Rpc, RpcClosedError, RpcError
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    only,
    open_services,
    run_turn,
    session_request,
    until,
)
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_scene import call

from plugins.prsm_codex.tests.rpc_script import GARBAGE
from plugins.prsm_codex.tests.test_contract import FAKE
from prsm_core.domain.turns import AssistantMessage

SCRIPT = Path(__file__).with_name("rpc_script.py")
MANY = 200
SOON_SECONDS = REQUEST_SECONDS / 2  # far above what it takes


class Client:
    """Notes what the server tells, and answers what it asks."""

    def __init__(self):
        self.told, self.closed = [], []
        self.gate = asyncio.Event()
        self.gate.set()

    async def on_notification(self, method, params):
        self.told.append((method, params))

    async def on_request(self, request):
        await self.gate.wait()
        if request.params.get("breaks"):
            raise OSError("the client broke")
        if not request.params.get("refuses"):
            await request.answer({"seen": request.params, "method": request.method})
        await request.refuse(-5, "not that")  # dropped where it is answered

    async def on_closed(self, error):
        self.closed.append(error)


@asynccontextmanager
async def connected(folder):
    """Yield a connection to the scripted server, its client, and its process."""
    argv = [sys.executable, "-I", "-S", str(SCRIPT)]
    async with open_services(folder) as services:
        process = await services.start_process(argv, name="rpc script")
        client = Client()
        rpc = Rpc(process, services, client)
        rpc.start()
        yield rpc, client, process


@pytest.mark.requirement("E70")
async def test_one_process_answers_each_of_many_requests_in_whatever_order(tmp_path):
    async with connected(tmp_path) as (rpc, client, process):
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(rpc.request("hold", {"n": n})) for n in range(MANY)]
            await until(lambda: ("held", {"count": MANY}) in client.told)
            assert not any(task.done() for task in asked)
            released = await rpc.request("release", {})
        assert [task.result()["n"] for task in asked] == list(range(MANY))
        pids = {released["pid"], *(task.result()["pid"] for task in asked)}
        assert len(pids) == 1
        assert not process.has_exited
        assert await rpc.request("echo", {"text": "ü\u2028\n"}) == {
            "text": "ü\u2028\n",
            "pid": pids.pop(),
        }


@pytest.mark.requirement("E70")
async def test_the_server_asks_while_it_is_asked_and_both_are_answered(tmp_path):
    async with connected(tmp_path) as (rpc, client, _):
        client.gate.clear()
        async with asyncio.TaskGroup() as group:
            one = group.create_task(rpc.request("ask_back", {"tool": "spawn"}))
            assert (await rpc.request("echo", {"a": 1}))["a"] == 1, (
                "a waiting call holds up no other"
            )
            assert not one.done()
            client.gate.set()
        assert one.result() == {"client": {"result": {"seen": {"tool": "spawn"}, "method": "what"}}}
        refused = await rpc.request("ask_back", {"refuses": True})
        assert refused["client"] == {"error": {"code": -5, "message": "not that"}}


async def test_a_client_that_breaks_answers_with_an_error_and_the_connection_goes_on(tmp_path):
    told = []

    async def scene():
        async with connected(tmp_path) as (rpc, _, _):
            told.append(await rpc.request("ask_back", {"breaks": True}))
            told.append(await rpc.request("echo", {"a": 1}))

    with pytest.raises(ExceptionGroup, match="background tasks") as caught:
        await scene()
    assert "the client broke" in str(caught.value.exceptions)
    assert "the client failed" in told[0]["client"]["error"]["message"]
    assert told[1]["a"] == 1


async def test_an_error_is_raised_for_the_one_who_asked_and_ends_nothing(tmp_path):
    async with connected(tmp_path) as (rpc, client, _):
        with pytest.raises(RpcError, match="no such thread"):
            await rpc.request("refuse", {})
        await rpc.request("tell", {"count": 50})
        assert [p["number"] for method, p in client.told if method == "told"] == list(range(50))
        assert client.closed == []


async def test_lines_of_a_wrong_shape_are_skipped_and_pieces_make_a_line(tmp_path):
    async with connected(tmp_path) as (rpc, _, _):
        assert await rpc.request("garble", {"text": "é" * 100}) == {"text": "é" * 100}
        assert rpc.bad_lines == len(GARBAGE) - 1, "an answer to nobody is no wrong line"


@pytest.mark.requirement("E70")
async def test_a_server_that_dies_fails_all_who_wait_with_its_reason(tmp_path):
    async with connected(tmp_path) as (rpc, client, process):
        held = [asyncio.ensure_future(rpc.request("hold", {"n": n})) for n in range(3)]
        await until(lambda: ("held", {"count": 3}) in client.told)
        async with asyncio.timeout(SOON_SECONDS):  # at once, and not when a request is given up
            with pytest.raises(RpcClosedError, match=r"exit code 7.*: fatal: the disk is full"):
                await rpc.request("die", {"code": 7})
            ends = await asyncio.gather(*held, return_exceptions=True)
        assert [type(end) for end in ends] == [RpcClosedError] * 3
        await until(lambda: bool(client.closed))
        assert process.has_exited
        with pytest.raises(RpcClosedError):
            await rpc.request("echo", {})


@pytest.mark.parametrize("vital", [True, False])
async def test_a_request_that_is_never_answered_ends_a_server_that_it_is_vital_for(tmp_path, vital):
    async with connected(tmp_path) as (rpc, _, process):
        with pytest.raises(RpcError, match=r"did not answer forget within 0\.2 s") as caught:
            await rpc.request("forget", {}, timeout_s=0.2, vital=vital)
        assert isinstance(caught.value, RpcClosedError) is vital
        if vital:
            await process.wait()
        else:
            assert not process.has_exited


@pytest.mark.requirement("E70")
async def test_one_app_server_serves_all_agents_and_turns_and_takes_what_is_said_meanwhile(
    tmp_path,
):
    """Messages to an agent, within a turn and after it, start no further process."""
    said = asyncio.Event()

    async def wait(**_):
        said.set()
        return await answers("noted")()

    wait_step = {"call": call("note", "n", text="one")}
    lanes = {
        "a": {"steps": [wait_step, {"say": "heard"}, {"say": "again"}]},
        "b": {"steps": [{"say": "me too"}]},
    }
    async with ModelServer({"lanes": lanes}) as server, open_services(tmp_path / "s") as services:
        provider = build({"command": FAKE, "base_url": server.base_url}, services)
        one, two = session_request(tmp_path), session_request(tmp_path, agent_id="b", name="w2")
        try:
            async with (
                provider.open_session(one, RecordingHost(note=wait)) as first,
                provider.open_session(two, RecordingHost()) as second,
            ):
                turn = asyncio.ensure_future(run_turn(first, "[[lane:a]] Begin."))
                await said.wait()
                assert await first.steer("and hurry")
                events = [await turn, await run_turn(first, "[[lane:a]] Go on.")]
                events.append(await run_turn(second, "[[lane:b]] You, too."))
                running = len(services.live)
        finally:
            await provider.aclose()
        texts = [[m.text for m in only(AssistantMessage, found)] for found in events]
        assert texts == [["heard"], ["again"], ["me too"]]
        assert "and hurry" in server.requests[1].conversation.user
        assert server.failures == []
        served = [p for p in services.processes if p.name == "codex"]
        assert (len(served), running) == (1, 1)

"""The bridge: who may come in, whose calls end when, and that nothing of it is left behind."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_mcp.bridge import HELLO_SECONDS, MAX_CONNECTIONS, MAX_STRANGERS, Bridge
from prsm_mcp.wire import BEAT, BEAT_SECONDS, LINE_LIMIT, SILENCE_SECONDS
from prsm_testing.doubles import RecordingHost, answers, completes, until
from prsm_testing.fake_clock import FakeClock

from plugins.prsm_mcp.tests.peers import DEADLINE, Frames, WaitingHost, connection, dial, hello
from prsm_core.domain.images import Image
from prsm_core.domain.tools import ToolOutcome
from prsm_core.errors import ConfigError, ControlError
from tests.foreign_user import needs_root, said_to_nobody


def mode_of(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


async def test_the_socket_is_for_this_user_alone(endpoint):
    path = endpoint.env["PRSM_SOCKET"]
    assert mode_of(path) == 0o600
    assert mode_of(Path(path).parent) == 0o700


@needs_root
async def test_another_user_is_told_and_closed_whatever_token_it_has(bridge, endpoint, host):
    path = Path(endpoint.env["PRSM_SOCKET"])
    line = json.dumps(hello(endpoint)).encode() + b"\n"
    assert json.loads(await said_to_nobody(path, line)) == {"error": "it belongs to another user"}
    assert (bridge.refused, host.calls) == (1, [])
    async with connection(endpoint) as (answer, _):
        assert answer == {"ok": True}


async def test_a_token_has_256_bits_and_no_two_endpoints_share_one(bridge, endpoint, host):
    assert len(bytes.fromhex(endpoint.env["PRSM_TOKEN"])) == 32
    async with bridge.endpoint(host, "a1") as other:
        assert other.env["PRSM_TOKEN"] != endpoint.env["PRSM_TOKEN"]
        assert endpoint.env["PRSM_TOKEN"] not in " ".join(other.argv)


async def test_whoever_has_the_token_gets_the_tools_of_its_agent(endpoint, host):
    async with connection(endpoint) as (answer, frames):
        assert answer == {"ok": True}
        await endpoint.until_connected()
        assert (await frames.shake_hands())["serverInfo"]["name"] == "prsm"
        tools = (await frames.ask("tools/list", {}))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["note", "wait"]
        assert await frames.call("note", text="x") == ("noted", False)
    assert [(call.name, call.arguments) for call in host.calls] == [("note", {"text": "x"})]


async def test_the_images_of_an_answer_are_shown_with_it(bridge, tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(b"the pixels")
    image = Image(mark="![a](x)", name="a", media_type="image/png", path=str(file))

    async def look(**_):
        return ToolOutcome(text="look", images=(image,))

    async with (
        bridge.endpoint(RecordingHost(look=look), "a1") as endpoint,
        connection(endpoint) as (_, frames),
    ):
        await frames.shake_hands()
        answer = await frames.ask("tools/call", {"name": "look", "arguments": {}})
    text, shown = answer["result"]["content"]
    assert (text["type"], text["text"]) == ("text", "look")
    assert (shown["type"], shown["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(shown["data"]) == b"the pixels"


@pytest.mark.parametrize(
    "changes", [{"token": "0" * 64}, {"token": ""}, {"agent": "a2"}, {"token": None}, {"pid": "x"}]
)
async def test_a_wrong_token_is_refused_counted_and_said_in_one_line(
    bridge, endpoint, host, caplog, changes
):
    async with connection(endpoint, **changes) as (answer, frames):
        assert answer.keys() == {"error"}
        assert await frames.receive() is None
    assert bridge.refused == 1
    [record] = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "refused" in record.message
    assert "\n" not in record.message
    assert endpoint.env["PRSM_TOKEN"] not in record.message
    assert not host.calls


async def test_one_agents_token_never_acts_as_anothers(bridge, endpoint, host):
    other = WaitingHost()
    async with bridge.endpoint(other, "a2") as second:
        stolen = {"agent": "a2", "token": endpoint.env["PRSM_TOKEN"]}
        async with connection(endpoint, **stolen) as (answer, _):
            assert "wrong token" in answer["error"]
        async with connection(endpoint) as (_, mine), connection(second) as (_, theirs):
            await mine.shake_hands()
            await theirs.shake_hands()
            await theirs.call("note", text="theirs")
    assert not host.calls
    assert len(other.calls) == 1


async def test_several_connections_may_carry_one_token_up_to_a_limit(endpoint):
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        done, inside = asyncio.Event(), asyncio.Barrier(MAX_CONNECTIONS + 1)

        async def come_in():
            async with connection(endpoint) as (answer, frames):
                assert answer == {"ok": True}
                await frames.shake_hands()
                await inside.wait()
                await done.wait()
                assert await frames.call("note") == ("noted", False)

        for _ in range(MAX_CONNECTIONS):
            _ = group.create_task(come_in())
        await inside.wait()
        async with connection(endpoint) as (answer, _):
            assert "already" in answer["error"]
        done.set()


async def test_a_connection_that_breaks_cancels_its_calls_and_no_others(endpoint, host):
    async with connection(endpoint) as (_, staying):
        await staying.shake_hands()
        number = staying.begin_call("wait", text="stays")
        assert await host.began.get() == "stays"
        async with connection(endpoint) as (_, leaving):
            await leaving.shake_hands()
            leaving.begin_call("wait", text="leaves")
            assert await host.began.get() == "leaves"
        assert await host.cancelled.get() == "leaves"
        host.release.set()
        answer = await staying.receive()
        assert answer["id"] == number
        assert answer["result"]["content"][0]["text"] == "waited for stays"
    assert host.cancelled.empty()


async def test_who_takes_a_lost_connections_place_comes_in_when_its_calls_have_let_go(bridge):
    """So that the same call, made again, finds the first one abandoned and not under way."""
    gate, letting_go = asyncio.Event(), asyncio.Event()

    async def slow_to_let_go():
        try:
            await asyncio.Event().wait()
        finally:
            letting_go.set()
            await gate.wait()  # it is cancelled once, however long this takes

    host = WaitingHost(slow=slow_to_let_go)
    async with bridge.endpoint(host, "a1") as endpoint, asyncio.TaskGroup() as group:
        async with connection(endpoint) as (_, lost):
            await lost.shake_hands()
            lost.begin_call("slow")
            await until(lambda: host.calls)
        await letting_go.wait()
        reader, writer = await dial(endpoint.env["PRSM_SOCKET"])
        writer.write(json.dumps(hello(endpoint)).encode() + b"\n")
        answer = group.create_task(reader.readline())
        async with connection(endpoint, agent="nobody") as (
            refusal,
            _,
        ):  # who came later is through
            assert "error" in refusal
        assert not answer.done()
        gate.set()
        assert json.loads(await answer) == {"ok": True}
        writer.close()


async def test_a_client_may_cancel_one_call_and_go_on(endpoint, host):
    async with connection(endpoint) as (_, frames):
        await frames.shake_hands()
        number = frames.begin_call("wait", text="not needed")
        await host.began.get()
        frames.send("notifications/cancelled", {"requestId": number})
        assert await host.cancelled.get() == "not needed"
        assert await frames.call("note") == ("noted", False)


async def test_a_quick_call_is_answered_while_five_wait(endpoint, host):
    async with connection(endpoint) as (_, frames):
        await frames.shake_hands()
        waiting = {frames.begin_call("wait", text=str(n)): str(n) for n in range(5)}
        for _ in range(5):
            await host.began.get()
        assert await frames.call("note") == ("noted", False)
        host.release.set()
        for _ in range(5):
            answer = await frames.receive()
            text = answer["result"]["content"][0]["text"]
            assert text == f"waited for {waiting.pop(answer['id'])}"


async def test_an_agents_end_ends_its_connections_and_its_token(bridge, host):
    async with bridge.endpoint(host, "a1") as ended:
        opened = connection(ended)
        _, frames = await opened.__aenter__()
        await frames.shake_hands()
        number = frames.begin_call("wait")
        await host.began.get()
    assert host.cancelled.qsize() == 1
    answer = await frames.receive()
    assert (answer is None) or (answer["id"] == number and "error" in answer)
    assert answer is None or await frames.receive() is None
    await opened.__aexit__(None, None, None)
    async with connection(ended) as (answer, _):
        assert "wrong token" in answer["error"]


async def test_waiting_for_a_proxy_ends_with_the_endpoint(bridge, host):
    async with asyncio.TaskGroup() as group, bridge.endpoint(host, "a1") as endpoint:
        waiting = group.create_task(expect_no_proxy(endpoint))
        await asyncio.sleep(0)
        assert not waiting.done()


async def expect_no_proxy(endpoint):
    with pytest.raises(ControlError, match="closed before a proxy connected"):
        await endpoint.until_connected()


async def test_who_does_not_say_who_it_is_is_turned_away_in_time(tmp_path, host):
    clock = FakeClock(autojump=False)
    async with Bridge(tmp_path / "s", clock) as bridge, bridge.endpoint(host, "a1") as endpoint:
        reader, writer = await dial(endpoint.env["PRSM_SOCKET"])
        writer.write(b'{"agent":')
        async with connection(endpoint) as (answer, _):  # the silent one is accepted by now
            assert answer == {"ok": True}
        await clock.advance(HELLO_SECONDS)
        assert b"did not say who it is" in await reader.read()
        writer.close()


@pytest.mark.requirement("E77")
async def test_an_engine_beats_while_a_call_waits_for_hours(tmp_path, host):
    """What reads may so have a limit, though no call has one."""
    clock = FakeClock(autojump=False)
    async with (
        Bridge(tmp_path / "s", clock) as bridge,
        bridge.endpoint(host, "a1") as endpoint,
        connection(endpoint, beats=True) as (answer, frames),
    ):
        assert answer == {"ok": True, "silence_s": SILENCE_SECONDS}
        await frames.shake_hands()
        number = frames.begin_call("wait", text="hours")
        await host.began.get()
        for _ in range(120):
            await clock.advance(BEAT_SECONDS)
            assert await frames.reader.readexactly(len(BEAT)) == BEAT
        host.release.set()
        assert (await frames.receive())["id"] == number
    assert SILENCE_SECONDS >= 3 * BEAT_SECONDS, "one that is late is no silence"


async def test_strangers_are_limited(bridge, endpoint):
    strangers = [await dial(endpoint.env["PRSM_SOCKET"]) for _ in range(MAX_STRANGERS)]
    async with connection(endpoint) as (answer, _):
        assert "too many" in answer["error"]
    strangers[0][1].write(json.dumps(hello(endpoint)).encode() + b"\n")
    assert json.loads(await strangers[0][0].readline()) == {"ok": True}
    async with connection(endpoint) as (answer, _):
        assert answer == {"ok": True}
    for _, writer in strangers:
        writer.close()


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b"this is no JSON", None),
        (b'{"jsonrpc":"2.0","id":7,"method":["tools/call"]}', 7),
        (b'{"id":"x","method":"tools/call"}', "x"),
        (b"[" * 100_000, None),
    ],
)
async def test_a_line_that_is_no_message_gets_an_error_and_the_connection_goes_on(
    endpoint, line, number
):
    async with connection(endpoint) as (_, frames):
        await frames.shake_hands()
        frames.writer.write(line + b"\n")
        answer = await frames.receive()
        assert (answer["id"], answer["error"]["code"]) == (number, -32600)
        assert await frames.call("note") == ("noted", False)


async def test_half_a_surrogate_pair_is_mended_on_both_ways(bridge):
    host = WaitingHost(odd=answers("half \ud83d a pair"))
    async with bridge.endpoint(host, "a1") as endpoint, connection(endpoint) as (_, frames):
        await frames.shake_hands()
        assert await frames.call("note", text="\ud83d") == ("noted", False)
        assert host.calls[0].arguments == {"text": "�"}
        assert await frames.call("odd") == ("half � a pair", False)


async def test_a_message_beyond_all_measure_ends_the_connection_with_a_word(endpoint):
    async with connection(endpoint) as (_, frames):
        await frames.shake_hands()
        frames.writer.write(b'{"x":"' + b"x" * (LINE_LIMIT + 1))
        answer = await frames.receive()
        assert "too long" in answer["error"]["message"]
        assert await frames.receive() is None


async def test_nothing_is_left_when_the_bridge_is_closed(tmp_path, host, caplog):
    path = tmp_path / "b" / "s"
    before, tasks = open_descriptors(), asyncio.all_tasks()
    async with Bridge(path, FakeClock(autojump=False)) as bridge:
        endpoints = [bridge.endpoint(host, f"a{n}") for n in range(3)]
        opened = [await endpoint.__aenter__() for endpoint in endpoints]
        streams = [await dial(e.env["PRSM_SOCKET"]) for e in opened]
        for endpoint, (reader, writer) in zip(opened[:2], streams, strict=False):
            writer.write(json.dumps(hello(endpoint)).encode() + b"\n")
            await reader.readline()
        await Frames(*streams[0]).shake_hands()
        Frames(*streams[0]).begin_call("wait")
        await host.began.get()  # one waits in a call, one is idle, one has said nothing
    assert host.cancelled.qsize() == 1
    for reader, writer in streams:
        await reader.read()
        writer.close()
        await writer.wait_closed()
    for ended in endpoints:
        await ended.__aexit__(None, None, None)
    await asyncio.sleep(0)
    assert not path.exists()
    assert asyncio.all_tasks() == tasks
    assert open_descriptors() == before
    assert not caplog.records


def open_descriptors():
    """Return what is open, but for the folder that is read here."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found[entry.name] = str(entry.readlink())
    return found


async def test_a_bridge_that_nobody_needs_listens_nowhere(tmp_path):
    async with Bridge(tmp_path / "b" / "s", FakeClock(autojump=False)):
        assert not (tmp_path / "b").exists()


async def test_the_socket_of_a_dead_engine_is_replaced(tmp_path, host):
    (tmp_path / "s").touch()
    async with (
        Bridge(tmp_path / "s", FakeClock(autojump=False)) as bridge,
        bridge.endpoint(host, "a1") as endpoint,
        connection(endpoint) as (answer, _),
    ):
        assert answer == {"ok": True}


async def test_a_place_where_nothing_can_listen_is_an_error_that_says_what_to_do(tmp_path, host):
    (tmp_path / "s").mkdir()
    async with Bridge(tmp_path / "s", FakeClock(autojump=False)) as bridge:
        with pytest.raises(ConfigError, match="cannot be listened on") as error:
            await bridge.endpoint(host, "a1").__aenter__()
    assert "PRSM_HOME" in str(error.value.hint)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_no_garbage_gets_in_or_breaks_the_bridge(tmp_path_factory, chunks):
    folder = tmp_path_factory.getbasetemp() / "garbage"

    async def throw():
        host = WaitingHost()
        clock = FakeClock(autojump=False)
        async with Bridge(folder / "s", clock) as bridge, bridge.endpoint(host, "a1") as endpoint:
            reader, writer = await dial(endpoint.env["PRSM_SOCKET"])
            for chunk in chunks:
                writer.write(chunk)
            writer.write_eof()
            assert b'"ok"' not in await reader.read()
            writer.close()
            assert bridge.refused == 1
            async with connection(endpoint) as (answer, frames):
                assert answer == {"ok": True}
                await frames.shake_hands()
            assert not host.calls

    asyncio.run(throw())


async def test_a_turn_is_ended_before_the_answer_that_ends_it_is_given(bridge):
    """A client that has the answer may ask its model once more at once."""
    order = []

    async def ends():
        order.append("ends")
        await asyncio.sleep(0)
        assert client.begun not in given
        order.append("ended")

    given: list[object] = []
    host = RecordingHost(task_complete=completes, note=answers("noted"))
    async with bridge.endpoint(host, "a1") as endpoint, connection(endpoint) as (_, client):
        endpoint.before_end(ends)
        await client.shake_hands()
        await client.ask("tools/call", {"name": "note", "arguments": {"text": "x"}})
        assert order == []
        client.begun = client.begin("tools/call", {"name": "task_complete", "arguments": {}})
        given.append((await client.receive())["id"])
    assert given == [client.begun]
    assert order == ["ends", "ended"]

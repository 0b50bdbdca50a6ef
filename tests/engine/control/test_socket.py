"""The control socket: who may speak to it, and what no peer can do to its owner."""

import asyncio
import json
import math
import os
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_testing import ScriptedApp
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.control.client import open_control
from prsm_core.engine.control.operations import Operation
from prsm_core.engine.control.server import IDLE_SECONDS, MAX_CONNECTIONS, ControlServer
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.control.wire import PROTOCOL, REQUEST_LIMIT, encode_request
from prsm_core.errors import ControlError, PrsmError
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.local_socket import short_name
from tests.engine.control_peers import (
    DEADLINE,
    PING,
    SESSION,
    ask,
    connected,
    idle_app,
    keyed,
    serving,
)
from tests.foreign_user import needs_root, said_to_nobody


async def test_ping_names_the_session_and_its_owner(tmp_path):
    async with serving(tmp_path), open_control(tmp_path, SESSION) as client:
        assert await client.ping() == {"session": SESSION, "pid": os.getpid(), "protocol": PROTOCOL}


async def test_the_socket_is_private_and_gone_with_its_owner(tmp_path):
    async with serving(tmp_path) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list((tmp_path / "runs").iterdir()) == []


async def test_a_path_longer_than_an_address_can_be_served(tmp_path):
    state = tmp_path / ("a" * 120) / ("b" * 120)
    async with serving(state, session="s" * 64), open_control(state, "s" * 64) as client:
        assert (await client.ping())["session"] == "s" * 64


async def test_what_a_dead_owner_left_at_the_sockets_name_is_replaced(tmp_path):
    (tmp_path / "runs").mkdir()
    with short_name(tmp_path / "runs" / f"{SESSION}.sock") as name:
        left = socket.socket(socket.AF_UNIX)
        left.bind(name)
        left.close()
    async with serving(tmp_path), open_control(tmp_path, SESSION) as client:
        await client.ping()


async def test_a_session_that_nobody_owns_cannot_be_reached(tmp_path):
    with pytest.raises(ControlError, match="nothing runs in session") as refused:
        async with open_control(tmp_path, SESSION):
            pass
    assert refused.value.code == "no_owner"


async def test_a_client_waits_for_an_owner_that_has_only_begun(tmp_path):
    async with AsyncExitStack() as owner:
        lock = owner.enter_context(SessionLock.take(tmp_path, SESSION, since=1.0))
        background = await owner.enter_async_context(Background(lambda *_: None))

        async def ping():
            async with open_control(tmp_path, SESSION) as client:
                pings.append(await client.ping())

        pings: list[object] = []
        pinging = background.start(ping(), name="ping")
        await asyncio.sleep(0)
        assert not pings
        listening = ControlServer(
            idle_app(), lock, start_soon=background.start, clock=SystemClock()
        )
        await owner.enter_async_context(listening)
        await asyncio.wait({pinging}, timeout=DEADLINE)
        assert pings


@needs_root
async def test_another_user_is_refused_even_where_the_folder_lets_it_in(tmp_path):
    async with serving(tmp_path) as path:
        refused = json.loads(await said_to_nobody(path))
    assert refused["error"]["code"] == "forbidden"


ARGUMENTS: dict[str, dict] = {
    "agents.kill": {"agent": "a"},
    "changes.comment": {"comments": []},
    "agents.prompt": {"agent": "a", "text": "t", "delivery": "queue"},
    "agents.restart": {"agent": "a", "prompt": "t"},
    "requests.resolve": {"request": "r", "verdict": "once"},
    "requests.answer": {"request": "r", "answer": {"choices": [], "text": None}},
    "requests.outcome": {"request": "r"},
    "runs.start": {"task": "t"},
    "runs.follow_up": {"task": "t"},
    "runs.result": {"run": "r"},
    "events": {"after": 0},
    "runs.set_mode": {"mode": "plan"},
    "agents.set_model": {"agent": "a", "model": "m"},
    "agents.history": {"agent": "a", "detail": "full", "before": None, "limit": 1},
    "complete": {"text": "t"},
    "sessions.fork": {"at": None},
    "changes.rationale": {"path": "a.py", "line": None},
    "changes.commit": {
        "changes": [],
        "agent": None,
        "by": "agent",
        "message": None,
        "dry_run": True,
    },
    "changes.accept": {"changes": [], "agent": None, "call": None},
    "changes.reject": {"changes": [], "agent": None, "call": None, "possible": False},
    "changes.undo": {
        "what": "turn",
        "wanted": None,
        "files": True,
        "conversation": True,
        "possible": False,
    },
    "snapshots.take": {"description": ""},
    "snapshots.restore": {"snapshot": "0", "dry_run": True},
    "changes.show": {"change": "0"},
}
LOOKS = {"ping", "agents.tree", "requests.open", "requests.outcome"}


async def known_operations(path):
    refused = await ask(path, b'{"op":"none"}\n')
    return refused["error"]["hint"].removeprefix("known: ").split(", ")


@pytest.mark.requirement("D9", "D10")
async def test_whatever_is_not_declared_a_look_is_refused_to_what_the_engine_started(tmp_path):
    """A child of this process, which owns the session; it shows the key."""
    script = """
import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
for line in sys.stdin:
    peer.sendall(line.encode())
    print(peer.makefile().readline(), end="")
"""

    async def asked(*_, **__):
        return {}

    async def listed():
        return []

    app = idle_app(
        **{"agents.tree": asked, "requests.outcome": asked, "requests.open": listed}
    )  # an act would fail otherwise
    async with serving(tmp_path) as path:
        names = await known_operations(path)
    async with serving(tmp_path, app) as path:
        lines = [keyed(path, name, **ARGUMENTS.get(name, {})) for name in names]
        argv = [sys.executable, "-c", script, str(path)]
        done = await asyncio.to_thread(
            subprocess.run,
            argv,
            input=b"".join(lines),
            capture_output=True,
            timeout=DEADLINE,
            check=True,
        )
    answers = dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))
    codes = {name: answer.get("error", {}).get("code") for name, answer in answers.items()}
    assert codes == {name: None if name in LOOKS else "not_a_person" for name in names}
    assert set(names) >= LOOKS | {"agents.kill", "agents.prompt", "requests.resolve", "runs.start"}


async def test_a_new_operation_is_for_people_unless_it_says_that_it_looks(tmp_path):
    async def publish(_app, _args):
        return "done"

    async with serving(tmp_path, publish=Operation(publish)) as path:
        refused = await ask(path, b'{"op":"publish"}\n')
        assert refused["error"]["code"] == "not_a_person"
        assert await ask(path, keyed(path, "publish")) == {"ok": "done"}


async def test_a_process_that_has_ended_is_no_person_whoever_has_its_connection(tmp_path):
    script = """
import os, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
line = sys.stdin.readline()
parent = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent:
    pass
peer.sendall(line.encode())
os.write(2, peer.makefile("rb").readline())
"""
    async with serving(tmp_path) as path:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", script, str(path)],
            input=keyed(path, "requests.attend"),
            capture_output=True,
            timeout=DEADLINE,
            check=True,
        )
    assert "ancestors cannot be seen" in json.loads(done.stderr)["error"]["message"]


async def test_a_connection_beyond_the_limit_is_refused_and_the_others_stay(tmp_path):
    async with AsyncExitStack() as peers:
        path = await peers.enter_async_context(serving(tmp_path))
        open_peers = [
            await peers.enter_async_context(connected(path)) for _ in range(MAX_CONNECTIONS)
        ]
        for peer in open_peers:
            peer.write(PING)
            assert "ok" in json.loads(await peer.read())
        async with connected(path) as one_more:
            assert json.loads(await one_more.read())["error"]["code"] == "busy"
        open_peers[0].write(PING)
        assert "ok" in json.loads(await open_peers[0].read())


async def test_an_idle_connection_is_closed_also_one_that_never_ends_its_line(tmp_path):
    clock = FakeClock(autojump=False)
    async with (
        serving(tmp_path, clock=clock) as path,
        connected(path) as silent,
        connected(path) as slow,
        connected(path) as busy,
    ):
        for peer in (silent, slow, busy):
            peer.write(PING)
            assert "ok" in json.loads(await peer.read())
        slow.write(b'{"op":')
        await clock.advance(IDLE_SECONDS / 2)
        busy.write(PING)
        assert "ok" in json.loads(await busy.read())
        await clock.advance(IDLE_SECONDS / 2 + 1)
        assert (await silent.read(), await slow.read()) == (b"", b"")
        busy.write(PING)
        assert "ok" in json.loads(await busy.read())


async def test_what_was_asked_before_the_end_is_answered(tmp_path):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def kill(agent):
        asked.set()
        await go_on.wait()
        return [agent]

    async with AsyncExitStack() as owner:
        path = await owner.enter_async_context(serving(tmp_path, idle_app(**{"agents.kill": kill})))
        peers = AsyncExitStack()
        asking = await peers.enter_async_context(connected(path))
        idle = await peers.enter_async_context(connected(path))
        idle.write(PING)
        await idle.read()
        asking.write(keyed(path, "agents.kill", agent="w1"))
        await asked.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
    assert json.loads(await asking.read()) == {"ok": ["w1"]}
    assert (await asking.read(), await idle.read()) == (b"", b"")
    await peers.aclose()


async def test_an_owner_that_goes_without_an_answer_is_an_error(tmp_path):
    async with serving(tmp_path), open_control(tmp_path, SESSION) as client:
        asked = asyncio.Event()

        async def never(agent):
            asked.set()
            raise asyncio.CancelledError

        await client.ping()
    async with (
        serving(tmp_path, idle_app(**{"agents.kill": never})),
        open_control(tmp_path, SESSION) as client,
    ):
        with pytest.raises(ControlError, match="ended before it answered") as gone:
            await client.agents.kill("w1")
        assert asked.is_set()
        assert gone.value.code == "no_answer"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"\n", "bad_request"),
        (b"[]\n", "bad_request"),
        (b"{}\n", "bad_request"),
        (b'{"op":1}\n', "bad_request"),
        (b'{"op":"ping","args":[]}\n', "bad_request"),
        (b'{"op":"ping","args":{"x":1}}\n', "bad_request"),
        (b'{"op":"boot"}\n', "unknown_op"),
        (b'{"op":"__init__"}\n', "unknown_op"),
        (b'{"op":"agents.kill"}\n', "bad_request"),
        (b'{"op":"agents.kill","args":{"agent":null}}\n', "bad_request"),
        (b'{"op":"agents.kill","args":{"agent":"\\ud800"}}\n', "bad_request"),
        (
            b'{"op":"requests.answer","args":{"request":"r","choices":"red","text":null}}\n',
            "bad_request",
        ),
        (
            b'{"op":"requests.answer","args":{"request":"r","choices":[1],"text":null}}\n',
            "bad_request",
        ),
        (b"[" * 100_000 + b"\n", "bad_request"),
        (b"1" * 100_000 + b"\n", "bad_request"),
        (b"\xff\xfe\n", "bad_request"),
    ],
    ids=range(16),
)
async def test_what_is_no_request_gets_a_typed_error_and_the_connection_stays(tmp_path, line, code):
    async with serving(tmp_path) as path, connected(path) as peer:
        peer.write(line + PING)
        assert json.loads(await peer.read())["error"]["code"] == code
        assert json.loads(await peer.read())["ok"]["session"] == SESSION


@pytest.mark.parametrize(
    "server",
    [
        {},
        5,
        {"command": 5},
        {"command": " "},
        {"command": "x", "args": 5},
        {"command": "x", "args": [None]},
        {"command": "x", "env": ["A"]},
        {"command": "x", "env": {"A": 1}},
        {"command": "x", "url": "y"},
        {"url": "x", "headers": [1]},
        {"command": "x", "tags": []},
        {"command": "x", "start_seconds": math.inf},
        {"command": "x", "start_seconds": math.nan},
    ],
)
async def test_a_server_that_could_not_be_started_is_refused_before_the_run(tmp_path, server):
    app = ScriptedApp()
    async with serving(tmp_path, app) as path:
        for name in ("a", ""):
            told = server if name else {"command": "x"}
            line = keyed(path, "runs.start", task="x", mcp_servers={name: told})
            error = (await ask(path, line))["error"]
            assert (error["code"], "mcp_servers" in error["message"]) == ("bad_request", True)
    assert app.overrides == {}


@pytest.mark.parametrize("limit", [b"NaN", b"Infinity", b"1e999", b'"60"', b"true"])
async def test_a_limit_that_is_no_number_of_seconds_is_refused_by_name(tmp_path, limit):
    app = ScriptedApp()
    async with serving(tmp_path, app) as path:
        line = keyed(path, "runs.start", task="x", timeout_s=7).replace(b"7}", limit + b"}")
        error = (await ask(path, line))["error"]
    assert error["code"] == "bad_request"
    assert error["message"].startswith("runs.start: timeout_s: expected number")
    assert app.overrides == {}


async def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    async with serving(tmp_path) as path:
        async with connected(path) as peer:
            peer.write(b"x" * (REQUEST_LIMIT + 1))
            assert json.loads(await peer.read())["error"]["code"] == "line_too_long"
            assert await peer.read() == b""
        assert "ok" in await ask(path, PING)


async def test_a_request_that_fails_by_surprise_is_told_and_harms_nothing(tmp_path, caplog):
    async def kill(agent):
        raise ZeroDivisionError(agent)

    async with (
        serving(tmp_path, idle_app(**{"agents.kill": kill})),
        open_control(tmp_path, SESSION) as client,
    ):
        with pytest.raises(PrsmError, match="ZeroDivisionError: w1") as failure:
            await client.agents.kill("w1")
        assert failure.value.code == "internal"
        await client.ping()
    assert "a control request failed" in caplog.text


async def test_a_request_of_the_greatest_length_is_read(tmp_path):
    told = []

    async def prompt_agent(agent, text, delivery, images):
        told.append(len(text))
        return delivery

    app = idle_app(**{"agents.prompt": prompt_agent})
    room = REQUEST_LIMIT - len(
        encode_request("agents.prompt", {"agent": "w1", "text": ""}, "0" * 64)
    )
    async with serving(tmp_path, app), open_control(tmp_path, SESSION) as client:
        assert await client.agents.prompt("w1", "x" * room) == "queue"
        with pytest.raises(ControlError, match="at most 1048576 bytes"):
            await client.agents.prompt("w1", "x" * (room + 1))
    assert told == [room]


PIECES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([PING, b"\n", b'{"op":', b'{"op":"agents.kill","args":{"agent":"w1"}}\n']),
)


@settings(max_examples=25)
@given(peers=st.lists(st.lists(PIECES, max_size=6), min_size=1, max_size=4))
def test_no_bytes_break_the_server(peers):
    async def send(path, pieces):
        async with connected(path) as peer:
            for piece in pieces:
                peer.write(piece)
            peer.end()
            while line := await peer.read():
                assert json.loads(line).keys() <= {"ok", "error"}

    async def attack(state):
        async def kill(agent):
            raise ControlError("no")

        async with serving(state, idle_app(**{"agents.kill": kill})) as path:
            await asyncio.gather(*(send(path, pieces) for pieces in peers))
            assert (await ask(path, PING))["ok"]["session"] == SESSION

    with tempfile.TemporaryDirectory() as state:
        asyncio.run(attack(Path(state)))


async def test_the_owner_reads_no_path_that_a_peer_names(tmp_path):
    told = []

    async def prompt_agent(agent, text, delivery, images=()):
        told.append((text, images))
        return delivery

    image = tmp_path / "screen.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9))
    said = {"agent": "w1", "text": "look", "delivery": "queue"}
    app = idle_app(**{"agents.prompt": prompt_agent})
    async with serving(tmp_path, app), open_control(tmp_path, SESSION) as client:
        with pytest.raises(ControlError, match="no path of yours is read here"):
            await client.ask("agents.prompt", **said, images=[str(image)])
        with pytest.raises(ControlError, match="no path of yours is read here"):
            await client.ask("runs.start", task="look", images=["/etc/hostname"])
        assert told == []
        assert await client.agents.prompt("w1", "look", images=[str(image)]) == "queue"
    [(text, [mark])] = told
    assert (text, mark.partition("]")[0]) == ("look", "![screen.png")
    assert len(list((tmp_path / "images").iterdir())) == 1

"""The bridge by Redis, on real servers: asked by aism, isolated, no move lost or doubled."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from prsm_protocols.bridge.desk import Desk
from prsm_testing import FakeClock, open_services, until

from plugins.prsm_protocols.tests.acting import (
    AGENT,
    SAFE,
    SERVERS,
    ListeningEar,
    ProtocolHost,
    aism,
    open_server,
)
from prsm_core import ProviderNotAvailableError

redis = pytest.importorskip("redis", reason="redis is missing: pip install 'redis>=8'")

from prsm_protocols.bridge.redis import Place, RedisBridge  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from plugins.prsm_protocols.tests.acting import Server

both = pytest.mark.parametrize("kind", SERVERS)
# What has shown no difference between the servers is tried with one of them by default.
either = pytest.mark.parametrize("kind", [pytest.param("redis", marks=pytest.mark.long), "valkey"])


class PlaceEar(ListeningEar):
    """Tells Redis of moves, as the session of a program does."""

    place: Place

    async def moved(self, here: Any) -> None:
        await super().moved(here)
        self.place.move(here)


class Scene:
    """An agent at a server."""

    def __init__(self, server: Server, bridge: RedisBridge, place: Place, host: ProtocolHost):
        self.server = server
        self.bridge = bridge
        self.place = place
        self.host = host
        self.ear = PlaceEar()
        self.ear.place = place
        self.token = place.desk.admit(self.ear)
        self.admin = redis.asyncio.Redis.from_url(server.url)

    @property
    def environment(self) -> dict[str, str]:
        url = self.bridge.url_of(self.place)
        return {"AGENT_ID": AGENT, "PRSM_TOKEN": self.token, "PRSM_REDIS": url}

    def line(self, request_id: str, do: str, **args: Any) -> str:
        asked = {"agent": AGENT, "token": self.token, "id": request_id, "do": do, "args": args}
        return json.dumps(asked)

    async def ask(self, request_id: str, do: str, **args: Any) -> dict[str, Any]:
        keys = self.place.keys
        await self.admin.xadd(keys.requests, {"r": self.line(request_id, do, **args)})
        found = await self.admin.blpop(keys.reply(request_id), timeout=4)
        assert found is not None, "no answer"
        answer: dict[str, Any] = json.loads(found[1])
        return answer

    async def state(self) -> dict[str, Any]:
        told = await self.admin.hgetall(self.place.keys.state)
        return json.loads(told[b"state"]) if told else {}


@asynccontextmanager
async def at(
    server: Server, tmp_path: Path, *, url: str | None = None, host: ProtocolHost | None = None
) -> AsyncIterator[Scene]:
    host, numbers = host or ProtocolHost(), itertools.count(1)
    async with open_services(tmp_path / "state") as services:
        bridge = RedisBridge(url or server.url, services)
        desk = Desk(AGENT, host, services)
        async with bridge.open_place(desk, lambda: next(numbers)) as place:
            scene = Scene(server, bridge, place, host)
            place.move(host.here)
            await bridge.tell(place)
            try:
                yield scene
            finally:
                await scene.admin.aclose()
        await bridge.aclose()


@asynccontextmanager
async def opened(kind: str, tmp_path: Path, **given: Any) -> AsyncIterator[Scene]:
    async with open_server(kind, tmp_path / "server") as server, at(server, tmp_path, **given) as s:
        yield s


@both
@pytest.mark.requirement("A9", "A10")
async def test_a_program_moves_and_ends_by_aism_and_the_state_is_published(tmp_path, kind):
    async with opened(kind, tmp_path) as scene:
        heard = scene.admin.pubsub()
        await heard.subscribe(scene.place.keys.channel)
        assert (await heard.get_message(timeout=5))["type"] == "subscribe"
        scene.host.message("look at the parser")
        run = [
            ("state",),
            ("state", "transition", "inbox", "--context", '{"bootstrap": "complete"}'),
            ("state", "transition", "distill"),
            ("message", "next"),
            ("message", "send", "bob", "hello"),
            ("complete", "all read"),
        ]
        told = [await aism(scene.environment, *words) for words in run]
        published = await heard.get_message(ignore_subscribe_messages=True, timeout=5)
        state = await scene.state()
        left = await scene.admin.xlen(scene.place.keys.requests)
        await heard.aclose()
    assert [code for code, _, _ in told] == [0, 0, 1, 0, 0, 0]
    assert told[1][1].startswith("state: inbox (protocol inbox)")
    assert "one can go to: deep_work, idle" in told[2][2]
    assert told[3][1] == "bob: look at the parser"
    assert scene.host.moves == [("bootstrap", "inbox")]
    assert scene.ear.completions == ["all read"]
    assert json.loads(published["data"])["state"] == state["state"] == "inbox"
    assert left == 0


@either
async def test_redis_may_be_reached_by_a_unix_socket(tmp_path, kind):
    async with (
        open_server(kind, tmp_path / "server") as server,
        at(server, tmp_path, url=server.unix_url) as scene,
    ):
        code, out, _ = await aism(scene.environment, "state")
    assert (code, out.splitlines()[0]) == (0, "state: bootstrap (protocol bootstrap)")


@either
async def test_one_id_has_one_effect_and_one_answer(tmp_path, kind):
    async with opened(kind, tmp_path) as scene:
        scene.host.holds = asyncio.Event()
        keys = scene.place.keys
        for _ in range(3):
            await scene.admin.xadd(keys.requests, {"r": scene.line("once", "state", to="inbox")})
        await until(lambda: len(scene.host.calls) == 1)
        scene.host.holds.set()
        first = await scene.admin.blpop(keys.reply("once"), timeout=4)
        later = await scene.ask("once", "state", to="inbox")
    assert json.loads(first[1]) == later
    assert later["ok"]
    assert scene.host.moves == [("bootstrap", "inbox")]


@either
async def test_an_agent_reaches_nothing_of_another_and_no_command_but_its_own(tmp_path, kind):
    async with opened(kind, tmp_path) as scene:
        client = redis.asyncio.Redis.from_url(scene.bridge.url_of(scene.place))
        for command in (
            ("XADD", "prsm:{" + "b" * 32 + "}:requests", "*", "r", "x"),
            ("XADD", scene.place.keys.state, "*", "r", "x"),
            ("BLPOP", scene.place.keys.answer("x"), "1"),
            ("SUBSCRIBE", "prsm:{" + "b" * 32 + "}:events"),
            ("FLUSHALL",),
            ("ACL", "LIST"),
            ("XRANGE", scene.place.keys.requests, "-", "+"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                await client.execute_command(*command)
        await client.aclose()
        forged = json.loads(scene.line("f", "state", to="inbox"))
        keys = scene.place.keys
        for wrong in ({"token": "0" * 32}, {"agent": "b" * 32}):
            await scene.admin.xadd(keys.requests, {"r": json.dumps({**forged, **wrong})})
            answer = json.loads((await scene.admin.blpop(keys.reply("f"), timeout=4))[1])
            assert answer["error"]["code"] == "bad_token"
        await scene.admin.xadd(keys.requests, {"r": "no request"})
        await scene.admin.xadd(keys.requests, {"x": "no field"})
        assert (await scene.ask("after", "heartbeat"))["ok"]
        while await scene.admin.xlen(keys.requests):
            pass  # those that are no requests are taken out, too
    assert scene.host.moves == []


@either
@pytest.mark.parametrize("empty", [False, True], ids=["with its data", "empty"])
async def test_a_server_that_is_killed_under_a_move_loses_and_doubles_none(tmp_path, kind, empty):
    async with opened(kind, tmp_path) as scene:
        scene.host.holds = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(aism(scene.environment, "state", "transition", "inbox"))
            await until(lambda: len(scene.host.calls) == 1)
            await scene.server.kill(empty=empty)
            scene.host.holds.set()
            await until(lambda: scene.ear.moves == ["inbox"])
            await scene.server.start()
        code, out, err = asked.result()
        assert (code, err) == (0, "")
        assert out.startswith("state: inbox")
        assert (await scene.state())["state"] == "inbox"
        assert (await aism(scene.environment, "state", "transition", "deep_work"))[0] == 0
    assert scene.host.moves == [("bootstrap", "inbox"), ("inbox", "deep_work")]


@either
async def test_a_server_that_forgets_everything_is_furnished_again(tmp_path, kind):
    async with opened(kind, tmp_path) as scene:
        await scene.admin.flushall()
        code, out, _ = await aism(scene.environment, "state", "transition", "inbox")
        assert (code, out.splitlines()[0]) == (0, "state: inbox (protocol inbox)")
        assert (await scene.state())["state"] == "inbox"
    assert scene.host.moves == [("bootstrap", "inbox")]


@either
async def test_a_clock_that_jumps_hides_no_request(tmp_path, kind):
    async with opened(kind, tmp_path) as scene:
        keys, future = scene.place.keys, "99999999999999-0"  # ids are times
        line = scene.line("future", "state", to="inbox")
        await scene.admin.xadd(keys.requests, {"r": line}, id=future)
        assert json.loads((await scene.admin.blpop(keys.reply("future"), timeout=4))[1])["ok"]
        assert (await scene.ask("now", "state", to="deep_work"))["ok"]
    assert scene.host.moves == [("bootstrap", "inbox"), ("inbox", "deep_work")]


@either
async def test_a_state_is_told_only_if_it_is_newer(tmp_path, kind):
    async with opened(kind, tmp_path) as scene:
        await scene.ask("move", "state", to="inbox")
        place = scene.place
        newest = (place.version, place.state)
        place.version, place.state = 1, json.dumps({"state": "bootstrap"})
        await scene.bridge.tell(place)
        assert (await scene.state())["state"] == "inbox"
        place.version, place.state = newest


class Partition:
    """A way to the server that can be cut: what is sent then is lost, and no connection ends."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.is_cut = False
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.extend((writer, there[1]))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass(reader, there[1]))
            group.create_task(self._pass(there[0], writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if not self.is_cut:
                writer.write(data)
        writer.close()

    def heal(self) -> None:
        """End all connections, as a partition does at last, and let new ones through."""
        self.is_cut = False
        for writer in self._writers:
            writer.transport.abort()


@either
async def test_a_partition_between_engine_and_server_loses_and_doubles_no_move(tmp_path, kind):
    async with open_server(kind, tmp_path / "server") as server:
        partition = Partition(server.port)
        way = await asyncio.start_server(partition.serve, "127.0.0.1", 0)
        port = way.sockets[0].getsockname()[1]
        async with at(server, tmp_path, url=f"redis://127.0.0.1:{port}") as scene:
            direct = scene.environment["PRSM_REDIS"].replace(str(port), str(server.port))
            environment = {**scene.environment, "PRSM_REDIS": direct}
            scene.host.holds = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(aism(environment, "state", "transition", "inbox"))
                await until(lambda: len(scene.host.calls) == 1)
                partition.is_cut = True
                scene.host.holds.set()
                await until(lambda: scene.ear.moves == ["inbox"])
                partition.heal()
            assert asked.result()[0] == 0
        partition.heal()
        way.close()
    assert scene.host.moves == [("bootstrap", "inbox")]


@either
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--appendonly", "no", *SAFE[4:]), "appendonly yes"),
        ((*SAFE[:4], "--maxmemory-policy", "allkeys-lru"), "maxmemory-policy noeviction"),
    ],
)
async def test_a_server_that_would_lose_things_is_refused_with_the_cure(
    tmp_path, kind, options, told
):
    async with open_server(kind, tmp_path / "server", *options) as server:
        with pytest.raises(ProviderNotAvailableError) as refused:
            async with at(server, tmp_path):
                pytest.fail("it was opened")
    assert told in (refused.value.hint or "")


@pytest.mark.requirement("A15")
@either
async def test_a_server_that_loads_what_it_keeps_is_waited_for(tmp_path, kind):
    """It tells of itself then that it keeps no append-only file; an engine may begin just there."""
    slowly = (*SAFE, "--key-load-delay", "100")
    async with open_server(kind, tmp_path / "server", *slowly) as server:
        admin = redis.asyncio.Redis.from_url(server.url)
        async with admin, admin.pipeline(transaction=False) as many:
            for number in range(10_000):
                many.set(f"key-{number}", "kept")
            await many.execute()
        await server.kill()
        await server.begin()
        told = await first_info(server)
        assert (told["loading"], told["aof_enabled"]) == (1, 0)
        async with at(server, tmp_path) as scene:
            assert (await scene.ask("m", "state", to="inbox"))["ok"]
            assert await scene.admin.exists("key-9999")


async def first_info(server: Server) -> dict[str, Any]:
    """Return the first that a server which has just begun says of itself."""
    while True:
        with suppress(redis.exceptions.ConnectionError):
            async with redis.asyncio.Redis.from_url(server.url) as admin:
                told: dict[str, Any] = await admin.info()
                return told


async def test_where_the_client_of_redis_is_missing_the_cure_is_told(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "redis"]:
        monkeypatch.setitem(sys.modules, name, None)
    async with open_services(tmp_path / "state") as services:
        bridge = RedisBridge("redis://127.0.0.1:1", services)
        with pytest.raises(ProviderNotAvailableError) as refused:
            async with bridge.open_place(Desk(AGENT, ProtocolHost(), services), lambda: 1):
                pytest.fail("it was opened")
        await bridge.aclose()
    assert "pip install 'prsm-protocols[redis]'" in (refused.value.hint or "")


async def test_a_server_that_is_not_there_is_told_so(tmp_path):
    async with open_services(tmp_path / "state", clock=FakeClock()) as services:
        bridge = RedisBridge("redis://127.0.0.1:1", services)
        with pytest.raises(ProviderNotAvailableError, match="cannot be reached"):
            async with bridge.open_place(Desk(AGENT, ProtocolHost(), services), lambda: 1):
                pytest.fail("it was opened")
        await bridge.aclose()


async def test_many_agents_are_read_over_one_connection(tmp_path):
    async with (
        open_server("redis", tmp_path / "server") as server,
        open_services(tmp_path / "state") as services,
    ):
        bridge = RedisBridge(server.url, services)
        admin = redis.asyncio.Redis.from_url(server.url)
        hosts = {f"{n:032x}": ProtocolHost() for n in range(20)}
        from contextlib import AsyncExitStack

        async with AsyncExitStack() as stack:
            numbers = itertools.count(1)
            for name, host in hosts.items():
                desk = Desk(name, host, services)
                opening = bridge.open_place(desk, lambda: next(numbers))
                place = await stack.enter_async_context(opening)
                token = desk.admit(ListeningEar())
                asked = {"agent": name, "token": token, "id": "m", "do": "state"}
                line = json.dumps({**asked, "args": {"to": "inbox"}})
                await admin.xadd(place.keys.requests, {"r": line})
            await until(lambda: all(host.moves for host in hosts.values()))
            blocked = [c for c in await admin.client_list() if c["cmd"] == "xreadgroup"]
        await admin.aclose()
        await bridge.aclose()
    assert len(blocked) == 1
    assert all(len(host.moves) == 1 for host in hosts.values())

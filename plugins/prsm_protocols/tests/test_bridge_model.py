"""Engine, Redis' Lua and a dict are asked the same, in any order, and always agree."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_protocols.bridge.desk import Desk
from prsm_testing import FakeClock, open_services

from plugins.prsm_protocols.tests.acting import (
    AGENT,
    MOVES,
    SERVERS,
    ListeningEar,
    ProtocolHost,
    open_server,
)

redis = pytest.importorskip("redis", reason="redis is missing: pip install 'redis>=8'")

from prsm_protocols.bridge.redis import TELL, Place, RedisBridge  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_testing.doubles import LocalServices

    from prsm_core import ToolOutcome

OPS = st.lists(
    st.one_of(
        st.tuples(st.just("move"), st.sampled_from(sorted(MOVES))),
        st.tuples(st.just("repeat"), st.integers(0, 30)),
        st.tuples(st.just("late"), st.integers(0, 30)),
        st.tuples(st.sampled_from(["wipe", "restart"]), st.just(0)),
    ),
    max_size=25,
)


class LedgerHost(ProtocolHost):
    """A host that has the answer of each call that was made, over restarts, as the ledger has."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger: dict[str | None, ToolOutcome] = {}

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None, **_: Any
    ) -> ToolOutcome:
        if call_id not in self.ledger:
            self.ledger[call_id] = await super().call_tool(name, arguments, call_id=call_id)
        return self.ledger[call_id]


class Model:
    """What must hold, as a dict each: answers by id, and the states there were."""

    def __init__(self) -> None:
        self.answers: dict[str, bool] = {}
        self.states = ["bootstrap"]

    def move(self, request_id: str, to: str) -> None:
        if request_id not in self.answers:
            self.answers[request_id] = to in MOVES[self.states[-1]]
            if self.answers[request_id]:
                self.states.append(to)


class Ear(ListeningEar):
    place: Place

    async def moved(self, here: Mapping[str, Any]) -> None:
        self.place.move(here)


class System:
    """Host, desk and bridge over one server; each request is answered by the bridge's own code."""

    def __init__(self, url: str, services: LocalServices, clock: FakeClock) -> None:
        self.bridge = RedisBridge(url, services)
        self.bridge._redis = self.redis = redis.asyncio.Redis.from_url(url)
        self.services = services
        self.clock = clock
        self.host = LedgerHost()
        self.numbers = itertools.count(1)
        self.asked: list[tuple[str, str]] = []

    async def open(self) -> None:
        """Begin as an engine does that goes on: nothing in memory, the state told anew."""
        desk = Desk(AGENT, self.host, self.services)
        self.place = Place(desk, lambda: next(self.numbers))
        ear = Ear()
        ear.place = self.place
        self.token = desk.admit(ear)
        self.place.move(self.host.here)
        await self.bridge._furnish(self.place)

    async def ask(self, request_id: str, to: str) -> dict[str, Any]:
        await self.clock.advance(1.0)
        asked = {"agent": AGENT, "token": self.token, "id": request_id, "do": "state"}
        line = json.dumps({**asked, "args": {"to": to}}).encode()
        keys = self.place.keys
        entry = await self.redis.xadd(keys.requests, {"r": line})
        await self.bridge._answer(self.place, entry, line)
        (told,) = await self.redis.lrange(keys.reply(request_id), 0, -1)
        answer: dict[str, Any] = json.loads(told)
        return answer

    async def late(self, number: int) -> None:
        """Have an earlier state told again, as from a connection that was cut off."""
        told = (str(number), json.dumps({"state": "of old"}), self.place.keys.channel)
        await self.redis.eval(TELL, 1, self.place.keys.state, *told)


async def follow(system: System, ops: list[tuple[str, Any]]) -> None:
    model = Model()
    await system.open()
    for number, (do, what) in enumerate(ops):
        if do == "wipe":
            await system.redis.flushall()
            await system.bridge._furnish(system.place)
        elif do == "restart":
            await system.open()
        elif do == "late":
            await system.late(min(what, system.place.version))
        elif do == "move" or system.asked:
            asked = (f"r{number}", what) if do == "move" else system.asked[what % len(system.asked)]
            system.asked.append(asked)
            model.move(*asked)
            assert (await system.ask(*asked))["ok"] is model.answers[asked[0]]
        told = json.loads(await system.redis.hget(system.place.keys.state, "state"))
        assert told["state"] == system.host.state == model.states[-1]
        assert [to for _, to in system.host.moves] == model.states[1:]
        assert await system.redis.xlen(system.place.keys.requests) == 0


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.requirement("A10")
async def test_engine_lua_and_a_dict_agree_whatever_is_asked_in_whatever_order(tmp_path, kind):
    loop = asyncio.get_running_loop()

    async def body(url: str, ops: list[tuple[str, Any]]) -> None:
        clock = FakeClock(autojump=False)
        async with open_services(tmp_path / "state", clock=clock) as services:
            system = System(url, services, clock)
            await system.redis.flushall()
            try:
                await follow(system, ops)
            finally:
                await system.redis.aclose()

    async with open_server(kind, tmp_path / "server") as server:

        @settings(max_examples=40, deadline=None, derandomize=True, database=None)
        @given(OPS)
        def agree(ops: list[tuple[str, Any]]) -> None:
            asyncio.run_coroutine_threadsafe(body(server.url, ops), loop).result()

        await asyncio.to_thread(agree)

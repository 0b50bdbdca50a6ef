"""The desk and the socket: who may ask, how much, and that each id has one effect."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from prsm_protocols.bridge.desk import Desk
from prsm_protocols.bridge.line import MAX_CLIENTS, open_line
from prsm_protocols.bridge.wire import MAX_LINE
from prsm_testing import FakeClock, open_services, until

from plugins.prsm_protocols.tests.acting import AGENT, ListeningEar, ProtocolHost, aism

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Scene:
    """A desk with its socket, whoever asks there, and what came of it."""

    def __init__(self, desk: Desk, host: ProtocolHost, path: Path, clock: FakeClock) -> None:
        self.desk = desk
        self.host = host
        self.path = path
        self.clock = clock
        self.ear = ListeningEar()
        self.token = desk.admit(self.ear)

    @property
    def environment(self) -> dict[str, str]:
        return {"AGENT_ID": AGENT, "PRSM_TOKEN": self.token, "PRSM_SOCKET": str(self.path)}

    def line(self, request_id: str, do: str, **args: Any) -> bytes:
        asked = {"agent": AGENT, "token": self.token, "id": request_id, "do": do, "args": args}
        return json.dumps(asked).encode() + b"\n"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.path))

    async def say(self, *lines: bytes) -> list[dict[str, Any]]:
        """Say lines on one connection, close it for writing; return the answers."""
        reader, writer = await self.connect()
        writer.write(b"".join(lines))
        writer.write_eof()
        told = await reader.read()
        writer.close()
        return [json.loads(line) for line in told.splitlines()]

    async def ask(self, request_id: str, do: str, **args: Any) -> dict[str, Any]:
        (answer,) = await self.say(self.line(request_id, do, **args))
        return answer


@asynccontextmanager
async def opened(tmp_path: Path, host: ProtocolHost | None = None) -> AsyncIterator[Scene]:
    clock, host = FakeClock(autojump=False), host or ProtocolHost()
    path = tmp_path / "s.sock"
    async with open_services(tmp_path / "state", clock=clock) as services:
        desk = Desk(AGENT, host, services)
        async with open_line(path, desk, services):
            yield Scene(desk, host, path, clock)


@pytest.mark.requirement("A4", "A9")
async def test_a_program_moves_sends_takes_measures_and_ends_by_aism(tmp_path):
    async with opened(tmp_path) as scene:
        scene.host.message("look at the parser")
        run = [
            ("state",),
            ("state", "transition", "inbox", "--context", '{"bootstrap": "complete"}'),
            ("message", "send", "bob", "hello"),
            ("message", "next"),
            ("message", "next", "--json"),
            ("measure", "lines", "12", "--data", '{"of": "parser"}'),
            ("heartbeat",),
            ("complete", "all read"),
        ]
        told = [await aism(scene.environment, *words) for words in run]
    assert [code for code, _, _ in told] == [0, 0, 0, 0, 3, 0, 0, 0]
    assert [out for _, out, _ in told] == [
        "state: bootstrap (protocol bootstrap)\nopen: inbox: When it is time to inbox",
        "state: inbox (protocol inbox)\n"
        "open: deep_work: When it is time to deep_work\nopen: idle: When it is time to idle",
        "sent",
        "bob: look at the parser",
        '{"message": null}',
        "ok",
        "ok",
        "done: end now",
    ]
    moved = next(call for call in scene.host.calls if call.arguments.get("to") == "inbox")
    assert moved.arguments == {"to": "inbox", "context": {"bootstrap": "complete"}}
    assert scene.host.measured == [{"name": "lines", "value": 12, "data": {"of": "parser"}}]
    assert (scene.ear.moves, scene.ear.completions) == (["inbox"], ["all read"])


async def test_a_move_that_is_not_open_is_refused_with_those_that_are(tmp_path):
    async with opened(tmp_path) as scene:
        code, out, err = await aism(scene.environment, "state", "transition", "distill")
    assert (code, out) == (1, "")
    assert (
        "no move leads from 'bootstrap' to 'distill' (from bootstrap one can go to: inbox)" in err
    )
    assert scene.ear.moves == []


async def test_one_id_has_one_effect_whether_asked_at_once_or_later(tmp_path):
    async with opened(tmp_path) as scene:
        scene.host.holds = asyncio.Event()
        line = scene.line("once", "state", to="inbox")
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(scene.say(line)) for _ in range(3)]
            await until(lambda: len(scene.host.calls) == 1)
            scene.host.holds.set()
        later = await scene.say(line)
    answers = [task.result()[0] for task in asked] + later
    assert [answer["ok"] for answer in answers] == [True] * 4
    assert scene.host.moves == [("bootstrap", "inbox")]
    assert [call.call_id for call in scene.host.calls] == ["once"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"token": "0" * 32}, "bad_token"),
        ({"agent": "b" * 32}, "bad_token"),
        ({"id": ""}, "malformed"),
        ({"id": "x" * 65}, "malformed"),
        ({"do": 3}, "malformed"),
        ({"do": "reboot"}, "invalid_arguments"),
        ({"args": {"to": "inbox", "seconds": "x"}, "do": "next"}, "invalid_arguments"),
    ],
)
async def test_a_request_that_is_not_this_agents_or_no_request_is_refused_with_a_cure(
    tmp_path, changes, code
):
    async with opened(tmp_path) as scene:
        asked = json.loads(scene.line("r", "state", to="inbox"))
        (answer,) = await scene.say(json.dumps({**asked, **changes}).encode() + b"\n")
    assert not answer["ok"]
    assert answer["error"]["code"] == code
    assert answer["error"]["hint"]
    assert scene.host.moves == []


async def test_an_earlier_start_of_the_program_moves_nothing_any_more(tmp_path):
    async with opened(tmp_path) as scene:
        old = scene.line("old", "state", to="inbox")
        scene.desk.admit(scene.ear)
        (answer,) = await scene.say(old)
    assert answer["error"]["code"] == "bad_token"
    assert scene.host.moves == []


async def test_twenty_requests_a_second_are_answered_and_the_rest_is_told_when(tmp_path):
    async with opened(tmp_path) as scene:
        first = await scene.say(*(scene.line(f"r{n}", "heartbeat") for n in range(25)))
        await scene.clock.advance(0.5)
        second = await scene.say(*(scene.line(f"s{n}", "heartbeat") for n in range(15)))
        code, _, err = await aism(scene.environment, "heartbeat")
    assert [sum(answer["ok"] for answer in told) for told in (first, second)] == [20, 10]
    refused = next(answer for answer in first if not answer["ok"])
    assert refused["error"]["code"] == "rate_limited"
    assert "wait 0.05 s" in refused["error"]["hint"]
    assert (code, "20 a second" in err) == (4, True)


async def test_a_line_that_is_too_long_is_refused_and_half_a_line_is_none(tmp_path):
    async with opened(tmp_path) as scene:
        line = scene.line("r", "state", to="inbox")
        long = await scene.say(b"x" * (MAX_LINE + 100_000))
        half = await scene.say(line[:-20])
        whole_and_half = await scene.say(line + line[:10])
    assert [answer["error"]["code"] for answer in long] == ["too_long"]
    assert half == []
    assert [answer["ok"] for answer in whole_and_half] == [True]


async def test_what_is_no_json_is_told_so(tmp_path):
    async with opened(tmp_path) as scene:
        answers = await scene.say(b"\xff\xfe\n", b"[1]\n", b"[" * 5000 + b"\n", b"\n")
    assert [answer["error"]["code"] for answer in answers] == ["malformed"] * 3


async def test_a_move_is_made_also_where_the_client_has_gone(tmp_path):
    async with opened(tmp_path) as scene:
        scene.host.holds = asyncio.Event()
        _, writer = await scene.connect()
        writer.write(scene.line("gone", "state", to="inbox"))
        await until(lambda: len(scene.host.calls) == 1)
        writer.transport.abort()
        scene.host.holds.set()
        await until(lambda: scene.ear.moves == ["inbox"])
        again = await scene.ask("gone", "state", to="inbox")
    assert again["ok"]
    assert scene.host.moves == [("bootstrap", "inbox")]


async def test_a_message_whose_receiver_has_gone_is_the_next_ones(tmp_path):
    async with opened(tmp_path) as scene:
        _, writer = await scene.connect()
        writer.write(scene.line("n1", "next", seconds=600))
        await scene.ear.steps.get()  # the engine was told that the agent waits
        assert scene.desk.waiting == 1
        writer.transport.abort()
        scene.host.message("do not get lost")
        await until(lambda: scene.desk.waiting == 0)
        answer = await scene.ask("n2", "next")
    assert answer["result"]["message"]["text"] == "do not get lost"
    assert answer["result"]["message"]["again"]


async def test_messages_of_a_state_come_again_to_the_start_after_a_crash_until_it_moves(tmp_path):
    async with opened(tmp_path) as scene:
        for text in ("one", "two"):
            scene.host.message(text)
        first = [await scene.ask(f"a{n}", "next") for n in range(2)]
        scene.token = scene.desk.admit(scene.ear)
        again = [await scene.ask(f"b{n}", "next") for n in range(3)]
        await scene.ask("move", "state", to="inbox")
        scene.token = scene.desk.admit(scene.ear)
        after = await scene.ask("c", "next")
    texts = [(told["result"]["message"] or {}).get("text") for told in (*first, *again)]
    assert texts == ["one", "two", "one", "two", None]
    assert after["result"]["message"] is None


async def test_more_connections_than_one_agent_needs_are_turned_away(tmp_path):
    async with opened(tmp_path) as scene:
        held = [await scene.connect() for _ in range(MAX_CLIENTS)]
        reader, writer = await scene.connect()
        answer = json.loads(await reader.read())
        for _, other in (*held, (reader, writer)):
            other.close()
    assert answer["error"]["code"] == "rate_limited"


async def test_without_a_protocol_a_move_says_how_to_have_one(tmp_path):
    async with opened(tmp_path, ProtocolHost(has_protocol=False)) as scene:
        code, _, err = await aism(scene.environment, "state")
        helped = await aism(scene.environment, "help")
    assert code == 1
    assert "no protocol holds for this agent (start it with a protocol" in err
    assert helped[0] == 0

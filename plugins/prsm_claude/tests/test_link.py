"""A link to a CLI: who hears its conversation, and what a hearer's own fault does."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest
from prsm_claude.command import greeting_argv
from prsm_claude.control import Callbacks
from prsm_claude.link import Link
from prsm_testing.doubles import open_services
from prsm_testing.model_server import ModelServer

from prsm_core import ProviderNotAvailableError

FAKE = Path(__file__).with_name("fake_claude.py")
SCENARIO = {"lanes": {"any": {"marker": "", "steps": [{"say": "hello"}]}}}


ANSWERED = (
    '{"type": "control_response", "response": {"request_id": "prsm-1", "subtype": "success"}}'
)
SAID = '{"type": "assistant", "message": {"content": [], "id": "%s"}}'


class Hearer:
    """A listener that keeps what it is told."""

    def __init__(self):
        self.ended = asyncio.Event()
        self.messages = []

    async def on_message(self, link, message):
        self.messages.append(message["message"]["id"])

    async def on_ended(self, error):
        self.ended.set()


class Forgetful:
    """A listener that cannot take what it is told."""

    def __init__(self):
        self.ended = asyncio.Event()
        self.why = None

    async def on_message(self, link, message):
        raise RuntimeError("I have no idea")

    async def on_ended(self, error):
        self.why = error.why
        self.ended.set()


async def talk(folder, listener):
    """Let a CLI play a turn, until the listener knows of its end."""
    program = (sys.executable, "-I", "-S", str(FAKE))
    async with ModelServer(SCENARIO) as server, open_services(folder / "state") as services:
        env = {"ANTHROPIC_BASE_URL": server.root_url, "CLAUDE_CONFIG_DIR": str(folder)}
        argv = (*greeting_argv(program), "--session-id=s")
        process = await services.start_process(argv, name="claude", cwd=str(folder), env=env)
        link = await Link.open(services, Callbacks(), process, listener)
        await link.send("Hello.", "00000000-0000-0000-0000-000000000001")
        async with asyncio.timeout(20):
            await listener.ended.wait()
            await services.processes[0].wait()
        assert link.is_over
        await link.close()


async def test_a_fault_of_the_listener_ends_the_cli_and_is_told_to_it_and_reported(tmp_path):
    listener = Forgetful()
    with pytest.raises(ExceptionGroup, match="background") as caught:
        await talk(tmp_path, listener)
    assert listener.why == "RuntimeError: I have no idea"
    (reported,) = caught.value.exceptions
    assert str(reported) == "I have no idea"


async def test_what_is_said_before_the_greeting_is_answered_belongs_to_no_turn(tmp_path):
    listener, said = Hearer(), (SAID % "early", ANSWERED, SAID % "late")
    script = f"read asked; printf '%s\\n' {' '.join(map(shlex.quote, said))}"
    async with open_services(tmp_path / "state") as services:
        argv = ["sh", "-c", script]
        process = await services.start_process(argv, name="claude", cwd=str(tmp_path), env={})
        link = await Link.open(services, Callbacks(), process, listener)
        async with asyncio.timeout(20):
            await listener.ended.wait()
        await link.close()
    assert listener.messages == ["late"]


async def test_a_cli_that_ends_before_it_greets_is_told_of_with_its_last_words(tmp_path):
    async with open_services(tmp_path / "state") as services:
        argv = ["sh", "-c", "echo it is broken >&2; exit 3"]
        process = await services.start_process(argv, name="claude", cwd=str(tmp_path), env={})
        with pytest.raises(ProviderNotAvailableError, match=r"claude did not start.*broken"):
            await Link.open(services, Callbacks(), process)


class Recorder:
    """A listener that keeps all of each message, and how the CLI ended."""

    def __init__(self):
        self.ended = asyncio.Event()
        self.messages = []
        self.error = None

    async def on_message(self, link, message):
        self.messages.append(message)

    async def on_ended(self, error):
        self.error = error
        self.ended.set()


async def hear(folder, *messages):
    """Return what is heard of a CLI that says this once it has answered the greeting."""
    said = folder / "said"
    said.write_text("".join(json.dumps(message) + "\n" for message in messages))
    recorder = Recorder()
    script = f"read asked; echo {shlex.quote(ANSWERED)}; cat {shlex.quote(str(said))}"
    async with open_services(folder / "state") as services:
        process = await services.start_process(
            ["sh", "-c", script], name="claude", cwd=str(folder), env={}
        )
        link = await Link.open(services, Callbacks(), process, recorder)
        async with asyncio.timeout(20):
            await recorder.ended.wait()
        assert link.is_over
        await link.close()
    return recorder


async def test_messages_of_a_wrong_shape_are_counted(tmp_path):
    wrong = [
        5,
        {"type": "assistant", "message": "text"},
        {"type": "user", "message": {"content": 5}},
        {"type": "stream_event", "event": []},
        {"type": "result", "subtype": "success"},
        {"type": "control_request", "request_id": 1},
        {"type": "control_response", "response": {}},
    ]
    heard = await hear(tmp_path, *wrong)
    assert heard.messages == []
    assert f"{len(wrong)} of its lines were not understood" in heard.error.message


async def test_a_message_whose_type_is_no_text_ends_nothing(tmp_path):
    odd = [{"type": [], "message": {}}, {"type": {"a": 1}}, {"type": ["control_request"]}]
    said = json.loads(SAID % "last")
    heard = await hear(tmp_path, *odd, said)
    assert heard.messages == [*odd, said]

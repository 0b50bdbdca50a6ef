"""A person is told of a run by the ways that they have set, and of nothing that an agent wrote."""

import json
import os
import pty
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from prsm_core.builtin.notify_sink import CannotNotifyError, notify_sinks
from prsm_core.config.schema import NotifySettings
from prsm_core.domain.agents import AgentRole, AgentState
from prsm_core.domain.events import Event
from prsm_core.interfaces.sink import RunInfo
from prsm_core.interfaces.tool import PeerNow

MASTER = PeerNow(
    agent_id="M", name="master", role=AgentRole.MASTER, state=AgentState.RUNNING, labels={}
)
WRITE = """
import json, os, sys
told = {name: text for name, text in os.environ.items() if name.startswith("PRSM_NOTIFY")}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({"told": told, "words": sys.argv[2:]}) + "\\n")
"""
SINK = """
import asyncio
from prsm_core.builtin.notify_sink import notify_sinks
from prsm_core.config.schema import NotifySettings
from prsm_core.domain.events import Event
from prsm_core.interfaces.sink import RunInfo
run = RunInfo(run_id="R", session="S", task="t", workspace="/w")
[spec] = notify_sinks(NotifySettings(desktop=True))
asyncio.run(spec.factory(run, {}).write([Event(type="run_finished", session="S", run="R", ts=0.0)]))
"""


def sink(**settings):
    run = RunInfo(run_id="R", session="S", task="a secret task", workspace="/w", agents=(MASTER,))
    [spec] = notify_sinks(NotifySettings.of(settings))
    assert not isinstance(spec.factory, str)
    return spec.factory(run, {})


def event(kind, agent=None, **data):
    return Event(type=kind, session="S", run="R", ts=0.0, agent=agent, data=data)


def asked(request="1", agent="M"):
    return event("question_asked", agent, request=request, question="a secret question")


@pytest.fixture
def command(tmp_path):
    """A command that writes down what it is told, and how to read that."""
    path = tmp_path / "told.jsonl"

    def read():
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    return [sys.executable, "-c", WRITE, str(path)], read


def told(read):
    names = ("KIND", "SESSION", "AGENT")
    return [tuple(line["told"][f"PRSM_NOTIFY_{name}"] for name in names) for line in read()]


@pytest.mark.requirement("U34")
async def test_a_command_is_told_the_kind_the_session_and_the_agent_and_no_text(command):
    argv, read = command
    await sink(command=argv).write(
        [asked(), event("run_finished", status="completed", summary="a secret summary")]
    )
    assert sorted(told(read)) == [("ended", "S", ""), ("needs_you", "S", "master")]
    assert "secret" not in json.dumps(read())
    assert {line["words"] == [] for line in read()} == {True}


@contextmanager
def server(status=204):
    """Yield the address of a server on loopback, and the bodies that are posted to it."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/hooks/token", bodies
        finally:
            listening.shutdown()
            thread.join()


@pytest.mark.requirement("U34")
async def test_a_webhook_is_posted_the_notification_as_json():
    with server() as (url, bodies):
        await sink(webhook=url).write([asked()])
    assert [json.loads(body) for body in bodies] == [
        {"kind": "needs_you", "session": "S", "agent": "master"}
    ]


async def test_a_way_that_fails_is_told_without_its_address_and_stops_no_other(command):
    argv, read = command
    with server(500) as (url, _), pytest.raises(CannotNotifyError) as raised:
        await sink(webhook=url, command=argv).write([asked()])
    assert raised.value.message == "notify.webhook ended with 1: the server answered 500"
    assert told(read) == [("needs_you", "S", "master")]
    with pytest.raises(CannotNotifyError, match=r"notify\.command") as raised:
        await sink(command=[sys.executable, "-c", "raise SystemExit('no such bell')"]).write(
            [asked()]
        )
    assert "no such bell" in raised.value.message
    with pytest.raises(CannotNotifyError, match="no-such-program"):
        await sink(command=["no-such-program"]).write([asked()])


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([asked(), event("question_answered", "M", request="1")], []),
        ([event("permission_requested", "M", request="1"), asked("2")], ["needs_you"]),
        (
            [
                each
                for n in range(20)
                for each in (event("agent_spawned", str(n), name=f"a{n}"), asked(str(n), str(n)))
            ],
            ["needs_you"] * 5,
        ),
    ],
    ids=["answered", "once-an-agent", "at-most-five"],
)
async def test_what_is_told_of_a_batch(command, batch, expected):
    argv, read = command
    await sink(command=argv).write(batch)
    assert [kind for kind, _, _ in told(read)] == expected


async def test_that_an_agent_is_held_is_told_and_that_it_goes_on_is_not(command):
    argv, read = command
    held = {"waiting_on": "a login", "reason": "a secret reason", "until": None}
    await sink(command=argv).write([event("agent_held", "M", **held)])
    await sink(command=argv).write([event("agent_held", "M", **dict.fromkeys(held))])
    assert told(read) == [("held", "S", "master")]
    assert "secret" not in json.dumps(read())


async def test_only_what_a_person_wants_to_hear_is_told(command):
    argv, read = command
    await sink(command=argv, about=["ended"]).write([asked(), event("run_finished")])
    assert told(read) == [("ended", "S", "")]


async def test_an_agent_is_told_by_a_name_that_is_a_word_and_never_by_a_sentence(command):
    argv, read = command
    spawned = [
        event("agent_spawned", "A", name="tests"),
        event("agent_spawned", "B", name="a b\x07"),
    ]
    await sink(command=argv).write([*spawned, asked("1", "A"), asked("2", "B"), asked("3", "C")])
    assert sorted(agent for _, _, agent in told(read)) == ["an agent", "tests"]


async def test_a_desktop_is_told_by_notify_send(tmp_path, monkeypatch, command):
    argv, read = command
    program = tmp_path / "bin" / "notify-send"
    program.parent.mkdir()
    words = " ".join(f"'{word}'" for word in argv)
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":9")
    await sink(desktop=True).write([asked()])
    [line] = read()
    assert line["words"] == ["--app-name=PRSM", "PRSM", "PRSM: master needs you (session S)"]


def test_a_terminal_is_told_where_there_is_no_desktop(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    pid, person = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", SINK])  # noqa: S606
    written = b""
    try:
        while piece := os.read(person, 4096):
            written += piece
    except OSError:
        # The terminal was closed by the end of the program.
        pass
    finally:
        os.close(person)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, written
    assert written == b"\x1b]9;PRSM: the run has ended (session S)\x07"


def test_without_a_way_there_is_no_sink():
    assert notify_sinks(NotifySettings()) == ()

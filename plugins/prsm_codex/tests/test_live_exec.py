"""`codex exec`, where it is special."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_testing.doubles import RecordingHost, answers, only, run_turn, until

from plugins.prsm_codex.tests.bridged import build_bridged, namespaced
from plugins.prsm_codex.tests.real_codex import KEY, KILLS_ITS_SHELL, TRICKY, call, gated, open_live
from prsm_core.domain.permissions import Deny
from prsm_core.domain.tools import McpServer
from prsm_core.domain.turns import (
    ErrorKind,
    Notice,
    StopReason,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from prsm_core.errors import ProviderNotAvailableError

pytestmark = pytest.mark.live

MCP = Path(__file__).with_name("small_mcp.py")
MAKE = {"call": call("exec_command", "make", cmd="echo hi > made.txt")}
DONE = {"say": "done"}
PATCH = """\
*** Begin Patch
*** Add File: new.txt
+hello
*** End Patch
"""


@pytest.fixture
def codex(binary, state_dir, monkeypatch, tmp_path):
    """Opens a model server that plays steps, and a provider with the backend `exec`."""
    monkeypatch.setenv("LOOPBACK_KEY", KEY)

    @asynccontextmanager
    async def opened(*steps, make=build_bridged):
        scenario = namespaced({"lanes": {"w1": {"marker": "", "steps": list(steps)}}})
        async with open_live(binary, scenario, state_dir, tmp_path, make, backend="exec") as live:
            yield live

    return opened


@pytest.mark.requirement("E70", "E74")
async def test_a_turn_uses_its_tools_and_leaves_nothing_behind(codex, state_dir):
    host = RecordingHost(note=answers("noted"))
    usage = [{"input_tokens": 100, "output_tokens": n} for n in (1, 2)]
    note = {"call": call("note", "n", text="x"), "usage": usage[0]}
    async with codex(note, {"say": "done", "usage": usage[1]}) as live:
        async with live.session(host) as session:
            events = await run_turn(session, "hi")
            assert session.resume_token is None
        assert live.services.live == []
    assert live.outputs("n")[0].endswith("noted")
    (report,) = only(UsageReported, events)
    assert (report.usage.input_tokens, report.usage.output_tokens) == (200, 3)
    home = state_dir / "codex-home"
    assert not [path for path in home.rglob("rollout-*") if path.is_file()]
    assert "projects" not in (home / "config.toml").read_text()


async def test_a_refused_command_does_not_run_and_the_model_is_told_why(codex, tmp_path):
    host = RecordingHost(verdict=lambda _: Deny("not in this house"))
    async with codex(MAKE, DONE) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
        (told,) = live.outputs("make")
    assert not (tmp_path / "made.txt").exists()
    assert "not in this house" in told
    assert [f.status for f in only(ToolCallFinished, events)] == ["denied"]


async def test_the_mcp_servers_of_the_agent_are_there_and_asked_for(codex):
    server = McpServer(command=sys.executable, args=("-I", "-S", str(MCP)), env={"WORD": "xyz"})
    host = RecordingHost(note=answers("noted"))
    tell = {"call": {**call("tell_word", "tell", text="a"), "namespace": "mcp__words"}}
    note = {"call": call("note", "n", text="x")}
    async with (
        codex(note, tell, DONE) as live,
        live.session(host, mcp_servers={"words": server}) as session,
    ):
        await run_turn(session, "hi")
        (told,) = live.outputs("tell")
    assert told.endswith("the word is xyz")
    assert live.outputs("n")[0].endswith("noted")
    assert [request.tool for request in host.requests] == ["mcp__words__tell_word"]


@pytest.mark.parametrize("command", TRICKY)
async def test_a_command_is_known_by_its_text_whatever_that_is(codex, command):
    host = RecordingHost()
    async with (
        codex({"call": call("exec_command", cmd=command)}, DONE) as live,
        live.session(host) as session,
    ):
        events = await run_turn(session, "hi")
    assert events[-1].stop_reason is StopReason.END_TURN
    assert [request.command for request in host.requests] == [command]
    (started,) = only(ToolCallStarted, events)
    assert started.arguments["command"] == command


async def test_a_patch_is_an_edit_of_its_paths(codex, tmp_path):
    host = RecordingHost()
    async with codex({"patch": PATCH}, DONE) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
    assert [request.paths for request in host.requests] == [(str(tmp_path / "new.txt"),)]
    assert (tmp_path / "new.txt").exists()
    assert [started.tool for started in only(ToolCallStarted, events)] == ["Edit"]
    assert events[-1].stop_reason is StopReason.END_TURN


async def test_a_command_sees_neither_the_key_nor_a_token(codex):
    host = RecordingHost(note=answers("noted"))
    async with codex({"shell": "env"}, DONE) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
    (finished,) = only(ToolCallFinished, events)
    assert "PATH=" in str(finished.result)
    assert KEY not in str(finished.result)
    assert "PRSM" not in str(finished.result)


async def test_a_hook_that_crashes_refuses(codex, tmp_path):
    client = tmp_path / "client.py"
    client.write_text("raise SystemExit(1)")
    async with codex(MAKE, DONE, make=gated(client=client)) as live, live.session() as session:
        await run_turn(session, "hi")
        (told,) = live.outputs("make")
    assert not (tmp_path / "made.txt").exists()
    assert "could not be checked" in told


async def test_a_codex_whose_hook_fails_open_is_ended(codex, tmp_path):
    client = tmp_path / "client.py"
    client.write_text(KILLS_ITS_SHELL)
    shell = {"call": call("exec_command", cmd="sleep 30")}
    async with (
        codex(shell, DONE, make=gated(client=client)) as live,
        live.session() as session,
    ):
        events = await run_turn(session, "hi")
        await until(lambda: live.services.live == [])
    assert events[-1].stop_reason is StopReason.ERROR
    assert "nobody had been asked about" in events[-1].error.message


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"status": 500}, ErrorKind.MODEL_ERROR, True),
        ({"status": 401}, ErrorKind.AUTH_FAILURE, False),
        ({"status": 400, "code": "context_length_exceeded"}, ErrorKind.CONTEXT_OVERFLOW, False),
        ({"status": 400}, ErrorKind.MODEL_ERROR, False),
    ],
)
async def test_an_error_of_the_model_has_its_kind(codex, error, kind, retryable):
    async with codex({"error": {**error, "message": "m"}}) as live, live.session() as session:
        events = await run_turn(session, "hi")
    assert (events[-1].error.kind, events[-1].error.retryable) == (kind, retryable)


@pytest.fixture
def lame(binary, tmp_path):
    """The real Codex, whose app-server does not start."""
    path = tmp_path / "lame-codex"
    text = f'case " $* " in *" app-server "*) exit 9;; esac; exec {binary} "$@"'
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.requirement("F5")
async def test_it_is_a_way_out_where_the_app_server_does_not_start(
    lame, state_dir, monkeypatch, tmp_path
):
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    host = RecordingHost(note=answers("noted"))
    note = {"call": call("note", "n", text="x")}
    scenario = namespaced({"lanes": {"w1": {"marker": "", "steps": [MAKE, note, DONE]}}})
    async with open_live(
        lame, scenario, state_dir, tmp_path, build_bridged, backend="exec"
    ) as live:
        async with live.session(host) as session:
            events = await run_turn(session, "hi")
        with pytest.raises(ProviderNotAvailableError, match="hook cannot be trusted"):
            async with live.session(host, must_ask=True):
                raise AssertionError("it was opened")
    assert (tmp_path / "made.txt").read_text() == "hi\n"
    assert [recorded.name for recorded in host.calls] == ["note"]
    assert host.requests == []  # which is what the notice says
    told = [notice.text for notice in only(Notice, events)]
    assert any("only Codex's sandbox limits them" in text for text in told)

"""`prsm mcp` as a process: a client on its stdin and stdout leads a tree of scripted agents."""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager
from functools import partial

import pytest

from plugins.prsm_mcp.tests.leader import CLIENT, leading, serving
from prsm_core.engine.tools.table import TOOLS
from prsm_core.errors import ControlError
from tests.place import Place

COUNT = [{"say": "three lines"}]
SLEEP = [{"shell": "sleep 1000"}, {"say": "slept"}]
ASK = [
    {"call": {"id": "rule", "tool": "ask_parent", "arguments": {"question": "Which?"}}},
    {"say": "took ${rule.answer}"},
]
MAKE = [{"shell": {"id": "made", "cmd": "make it"}}, {"say": "${made.status}: ${made.reason}"}]
ENDS = {"completed", "failed", "killed"}
OF_NO_USE_TO_A_CLIENT = {"ask_parent", "report_progress", "task_complete"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
async def place(tmp_path):
    """A workspace with two scripts; whatever still runs when the test has ended is its failure."""
    place = Place(tmp_path)
    place.script(w1=COUNT, w2=ASK, sleeper=SLEEP, maker=MAKE)
    yield place
    left = place.processes()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.fixture
async def asleep(place):
    """Lead, with a child that sleeps for as long as it is let, in a command of its own."""
    ring, rung = place.bell()
    place.script(sleeper=[{"shell": f"{ring}; sleep 1000"}, {"say": "slept"}])

    @asynccontextmanager
    async def lead():
        async with leading(place, "--on-ask", "allow") as leader:
            await leader.spawn("sleeper")
            await rung()
            yield leader

    return lead


@pytest.mark.requirement("E65")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_client_gets_a_masters_tools_but_those_of_an_agent(place, mode):
    async with leading(place, mode=mode) as leader:
        listed = {tool.name for tool in (await leader.client.list_tools()).tools}
        masters = {tool.spec.name for tool in TOOLS if "master" in tool.spec.roles}
        assert listed == masters - OF_NO_USE_TO_A_CLIENT
        instructions = leader.client.instructions or ""
        assert "wait_for_message" in instructions
        assert "For spawn_child's model, usable now:\n- " in instructions
        failed, refusal = await leader.outcome("task_complete", summary="done")
        assert (failed, refusal["error"]["code"]) == (True, "unknown_tool")
    assert leader.process.returncode == 0


@pytest.mark.requirement("E65", "D7")
async def test_a_client_spawns_answers_and_collects_and_reads_histories(place):
    async with leading(place) as leader:
        await leader.spawn("w1")
        assert (await leader.call("wait_for_message"))["summary"] == "three lines"
        await leader.spawn("w2")
        question = await leader.call("wait_for_message")
        assert (question["type"], question["text"]) == ("question", "Which?")
        await leader.call(
            "respond_to_child",
            child_id="w2",
            correlation_id=question["correlation_id"],
            response="blue",
        )
        assert (await leader.call("wait_for_message"))["summary"] == "took blue"
        history = await leader.call("get_child_history", child_id="w2", detail_level="full")
        assert [entry["kind"] for entry in history["entries"]][-1] == "text"
        assert (await leader.call("wait_for_message"))["type"] == "nothing_left"
    assert (leader.process.returncode, await leader.process.stderr.read()) == (0, b"")
    assert await place.states() == dict.fromkeys(("master", "w1", "w2"), "completed")
    [finished] = await place.events("run_finished")
    assert finished["status"] == "completed"
    [first, *_] = await place.events("agent_spawned")
    assert (first["role"], first["provider"]) == ("master", "mcp-client")


@pytest.mark.requirement("D7")
async def test_what_a_child_asks_waits_for_a_person_and_the_client_is_told(place):
    async with leading(place, "--patience", "0.2", through=CLIENT) as leader:
        await leader.spawn("maker")
        answer = await leader.call("wait_for_message")
        while "notice" not in answer:
            assert answer["type"] == "pending"
            answer = await leader.call("wait_for_message", token=answer["token"])
        assert "maker asks permission for Bash: make it" in answer["notice"]
        assert "`prsm attach`" in answer["notice"]
        _, listed, _ = await place.run("answer", "--json")
        [request] = json.loads(listed)
        assert (await place.run_in_terminal("answer", request["request"], "deny"))[0] == 0
        while answer["type"] == "pending":
            answer = await leader.call("wait_for_message", token=answer["token"])
        assert answer["summary"] == "denied: the user refused it"
        assert "notice" not in answer


@pytest.mark.requirement("D7")
async def test_the_client_that_leads_and_what_it_starts_answer_for_nobody(place):
    async with leading(place, "--on-ask", "allow") as leader:
        await leader.spawn("sleeper")
        [session] = place.sessions()
        refused = []
        async with place.control(session) as owner:
            assert (await owner.agents.tree()).agents, "it may look"
            for act in (
                owner.agents.kill("sleeper"),
                owner.requests.attend(),
                owner.agents.prompt("sleeper", "x"),
            ):
                with pytest.raises(ControlError) as refusal:
                    await act
                refused.append(refusal.value.code)
        assert refused == ["not_a_person"] * 3
        for run in (place.run, place.run_in_terminal, place.run_as_daemon):
            code, _, err = await run("kill", "sleeper")
            assert (code, "not taken for one" in err) == (1, True)
        assert (await place.states())["sleeper"] not in ENDS


@pytest.mark.requirement("D7")
async def test_where_a_client_leads_people_act_in_terminals(place):
    """Nobody adopts what a client leaves behind: without a terminal it may be anybody."""
    async with leading(place, "--on-ask", "allow", through=CLIENT) as leader:
        await leader.spawn("sleeper")
        code, _, err = await place.run("kill", "sleeper")
        assert (code, "no process of a terminal" in err) == (1, True)
        assert (await place.run_in_terminal("kill", "sleeper"))[0] == 0


async def test_what_nobody_is_there_to_answer_is_refused_with_the_way_to_be_there(place):
    async with leading(place, "--unattended", "0.05") as leader:
        await leader.spawn("maker")
        answer = await leader.call("wait_for_message")
        assert answer["summary"].startswith("denied: it needs a person's permission and nobody")
        assert "`prsm attach`" in answer["summary"]


async def test_requests_can_be_answered_by_rule(place):
    async with leading(place, "--on-ask", "deny") as leader:
        await leader.spawn("maker")
        answer = await leader.call("wait_for_message")
        assert "no person is attached" in answer["summary"]
        assert "notice" not in answer


async def test_a_child_that_a_person_kills_is_told_as_failed(place):
    async with leading(place, "--on-ask", "allow", through=CLIENT) as leader:
        await leader.spawn("sleeper")
        assert (await place.run_in_terminal("kill", "sleeper"))[:2] == (0, "killed sleeper\n")
        result = await leader.call("wait_for_message")
        assert (result["success"], result["error"]) == (False, "killed by the user")


async def test_killing_the_master_ends_the_command(place):
    async with leading(place, "--on-ask", "allow", through=CLIENT) as leader:
        await leader.spawn("sleeper")
        assert (await place.run_in_terminal("kill", "master"))[0] == 0
        assert await leader.process.wait() == 1
    assert await place.states() == {"master": "killed", "sleeper": "killed"}


async def test_when_the_client_leaves_its_children_are_killed_and_the_run_ends_once(place, asleep):
    async with asleep() as leader:
        assert len(place.processes()) >= 3, "prsm itself, the shim, the command"
    assert leader.process.returncode == 0
    assert place.processes() == []
    assert await place.states() == {"master": "completed", "sleeper": "killed"}
    events = [event["type"] for event in await place.events()]
    assert (events.count("run_finished"), events[-1]) == (1, "run_finished")


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGINT, signal.SIGTERM)])
async def test_a_signal_is_a_leave_and_a_second_one_breaks_nothing_off(place, asleep, numbers):
    async with asleep() as leader:
        for number in numbers:
            leader.process.send_signal(number)
        assert await leader.process.wait() == 0
        assert place.processes() == []
    assert await place.states() == {"master": "completed", "sleeper": "killed"}
    ended = [e["agent"] for e in await place.events("agent_state_changed") if e["to"] in ENDS]
    names = {e["agent"]: e["name"] for e in await place.events("agent_spawned")}
    assert [names[agent] for agent in ended] == ["sleeper", "master"]
    assert [e["status"] for e in await place.events("run_finished")] == ["completed"]


async def test_sigkill_leaves_no_process(place, asleep):
    async with asleep() as leader:
        leader.process.kill()
        await leader.process.wait()
        await place.until_gone()


@pytest.mark.long
async def test_two_clients_in_one_workspace_have_a_session_each(place):
    # A client that no person's terminal has begun may widen nothing while another one leads.
    del place.env["PRSM_PLUGINS"]
    script = {"script": {"scenario": str(place.scenario)}}
    place.home.mkdir(mode=0o700)
    (place.home / "config.yaml").write_text(json.dumps({"providers": script}))

    def plainly(place, *args, **pipes):
        return place.running("mcp", "--provider", "script", *args, **pipes)

    lead = partial(leading, place, start=plainly)
    async with lead() as one, lead() as other:
        await one.spawn("w1")
        await other.spawn("w1")
        sessions = place.sessions()
        assert len(sessions) == 2
        async with plainly(place, "--session", sessions[0]) as refused:
            out, err = await refused.communicate()
        assert (refused.returncode, out) == (1, b"")
        assert b"prsm mcp is for a person" in err


async def test_a_later_client_goes_on_in_an_earlier_session(place):
    async with leading(place) as leader:
        [session] = place.sessions()
        await leader.spawn("w1")
        await leader.call("wait_for_message")
    async with leading(place, "--session", session) as leader:
        failed, refusal = await leader.outcome("spawn_child", prompt="x", name="w1")
        assert failed
        assert "exists already" in refusal["error"]["message"]
        await leader.spawn("w3", "[[lane:w1]]")
        assert (await leader.call("wait_for_message"))["summary"] == "three lines"
    assert len(await place.events("run_finished")) == 2


async def test_what_is_no_message_is_refused_and_the_next_one_answered(place):
    garbage = [b"{", b"[]", b"\xff\xfe\x00", b'"text"', b"", b'{"jsonrpc": "2.0", "id": 9}']
    async with serving(place) as process:
        for line in (*garbage, json.dumps(INITIALIZE).encode()):
            process.stdin.write(line + b"\n")
        answers = [json.loads(await process.stdout.readline()) for _ in range(6)]
        assert answers[-1]["result"]["serverInfo"]["name"] == "prsm"
        assert {answer["error"]["code"] for answer in answers[:-1]} == {-32600}
        process.stdin.close()
        assert await process.stdout.read() == b""
        assert await process.wait() == 0


@pytest.mark.long
async def test_a_message_cut_off_by_the_end_is_dropped(place):
    async with serving(place) as process:
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "met')
        process.stdin.close()
        assert await process.stdout.read() == b""
        assert await process.wait() == 0


@pytest.mark.long
async def test_a_client_that_reads_no_more_ends_the_run_when_it_writes_no_more(place):
    read, write = os.pipe()
    async with serving(place, stdout=write) as process:
        os.close(write)
        os.close(read)
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.close()
        assert await process.wait() == 0
    assert [e["status"] for e in await place.events("run_finished")] == ["completed"]


async def test_frames_may_come_from_a_file(place, tmp_path):
    frames = tmp_path / "frames"
    frames.write_text(json.dumps(INITIALIZE) + "\n")
    with frames.open("rb") as stdin:
        async with serving(place, stdin=stdin) as process:
            out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["result"]["serverInfo"]["name"] == "prsm"


async def test_a_person_who_types_the_command_is_told_who_starts_it(place):
    person, program = os.openpty()
    try:
        async with serving(place, stdin=program) as process:
            out, err = await process.communicate()
    finally:
        os.close(person)
        os.close(program)
    assert (process.returncode, out) == (2, b"")
    assert b"claude mcp add --scope user prsm -- prsm mcp" in err


async def test_only_frames_go_to_stdout(place, tmp_path):
    """A plugin that prints, as it is loaded, prints to stderr."""
    site = tmp_path / "site"
    info = site / "prsm_loud-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "prsm_loud.py").write_text("print('loud')\nimport os\nos.write(1, b'louder')\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-loud\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nloud = prsm_loud\n")
    place.env |= {"PYTHONPATH": str(site), "PRSM_PLUGINS": "loud"}
    async with leading(place) as leader:
        await leader.spawn("w1")
    assert leader.process.returncode == 0
    told = await leader.process.stderr.read()
    assert b"prsm: warning: plugin loud printed while it was loaded: loud louder\n" in told


async def test_without_a_provider_the_command_ends_with_3_and_says_why(place):
    async with place.running("mcp") as process:
        out, err = await process.communicate()
    assert (process.returncode, out) == (3, b"")
    assert err.startswith(b"prsm: no provider is installed\nhint: ")


@pytest.mark.long
async def test_a_client_that_cuts_calls_sets_the_patience(place, asleep):
    place.env["MCP_TOOL_TIMEOUT"] = "100"
    async with asleep() as leader:
        assert (await leader.call("wait_for_message"))["type"] == "pending"
    place.env["MCP_TOOL_TIMEOUT"] = "soon"
    async with place.running("mcp") as process:
        out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert b"MCP_TOOL_TIMEOUT is 'soon'" in err

"""A script goes on after its engine's death: commands, shared lanes, lost threads, lower levels."""

from __future__ import annotations

import json
from contextlib import aclosing, asynccontextmanager

import pytest
from prsm_demo.provider import build
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    only,
    open_services,
    run_turn,
    session_request,
    turn_context,
)
from prsm_testing.provider_scene import call
from prsm_testing.resume_contract import Crashes, Kill

from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import AssistantMessage
from prsm_core.engine.agents.opening import rebuilt_history
from prsm_core.errors import ConfigError, ProviderNotAvailableError
from prsm_core.interfaces.provider import Carried

NOTE = {"call": call("note", "n", text="x")}


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def engine(tmp_path, work):
    """A context manager: an engine whose script has these lanes, and what opens its sessions."""

    @asynccontextmanager
    async def start(lanes, **section):
        scenario = {"lanes": {name: {"steps": steps} for name, steps in lanes.items()}}
        async with open_services(tmp_path / "state") as services:
            provider = build({"scenario": scenario, **section}, services)

            def opened(name="w1", host=None, **fields):
                request = session_request(work, name=name, **fields)
                return provider.open_session(request, host or RecordingHost(note=answers("noted")))

            yield opened
            await provider.aclose()

    return start


def said(events):
    return [message.text for message in only(AssistantMessage, events)]


@pytest.mark.parametrize(
    ("point", "lines", "status"),
    [
        ("before ToolCallStarted", 1, "completed"),
        ("after ToolCallStarted", 0, "failed"),
        ("before ToolCallFinished", 1, "completed"),
        ("after ToolCallFinished", 1, "completed"),
    ],
)
async def test_a_command_is_run_once_at_most_and_its_end_is_not_forgotten(
    tmp_path, work, point, lines, status
):
    """One that was seen to begin may have run; its file says whether it has ended."""
    steps = [{"shell": "echo hi >> made.txt"}, {"say": "it is ${shell.status}"}]
    scenario = {"lanes": {"w1": {"steps": steps}}}
    crashes = Crashes(
        build=lambda services: build({"scenario": scenario}, services),
        state=tmp_path / "state",
        cwd=work,
        at=Kill(point, 0, 1),
        settle=lambda _: ToolOutcome(text="never asked"),
    )
    ledger, taken = await crashes.play("Work.")
    assert len(taken) == 1
    made = work / "made.txt"
    assert (made.read_text().splitlines() if made.exists() else []) == ["hi"] * lines
    assert ledger.texts == [f"it is {status}"]


async def test_agents_that_share_a_lane_go_on_behind_the_last_of_them(engine):
    lanes = {"team": [{"say": "one"}, {"say": "two"}, {"say": "three"}]}
    async with engine(lanes) as opened, opened("a") as first, opened("b") as second:
        assert said(await run_turn(first, "[[lane:team]] Go.")) == ["one"]
        assert said(await run_turn(second, "[[lane:team]] Go.")) == ["two"]
        token = first.resume_token
    async with engine(lanes) as opened, opened("a", resume_token=token) as again:
        assert said(await run_turn(again, "Go on.")) == ["three"]


async def test_a_prompt_that_was_heard_and_not_answered_is_answered(engine, tmp_path):
    """Its engine died between the two, and the newest response is that of the turn before."""
    lanes = {"w1": [{"say": "one"}, {"say": "two"}]}
    async with engine(lanes) as opened, opened() as session:
        await run_turn(session, "Go.")
        token = session.resume_token
    (file,) = (tmp_path / "state" / "threads").rglob("*.json")
    thread = json.loads(file.read_text())
    for name, heard in {"prompts": "Next.", "texts": "Next.", "prompt_ids": "p2"}.items():
        thread[name].append(heard)
    file.write_text(json.dumps({**thread, "unanswered": ["p2"]}))
    carried = Carried(turn_id="t2", prompts={"p2": "Next."})
    async with engine(lanes) as opened, opened(resume_token=token, carried=carried) as again:
        assert again.taken == {"p2"}
        assert said(await run_turn(again, None)) == ["two"]


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_response_to_a_prompt_that_was_heard_is_not_said_again(engine, is_heard):
    """The ledger has heard it, though the prompt is carried: other vendors may lose one."""
    lanes = {"w1": [{"say": "one"}, {"say": "two"}]}
    context = turn_context("Go.")
    assert context.current_message is not None
    prompt = context.current_message.id
    async with engine(lanes) as opened, opened() as session:
        async with aclosing(session.run_turn(context)) as events:
            assert said([event async for event in events]) == ["one"]
        token = session.resume_token
    heard = frozenset({prompt} if is_heard else ())
    carried = Carried(turn_id="t", prompts={prompt: "Go."}, heard=heard)
    async with engine(lanes) as opened, opened(resume_token=token, carried=carried) as again:
        assert again.taken == {prompt}
        assert said(await run_turn(again, None)) == ([] if is_heard else ["one"])


async def test_ids_of_calls_are_not_given_twice(engine):
    host = RecordingHost(note=answers("noted"))
    lanes = {"w1": [NOTE, {"say": "one"}, NOTE, {"say": "two"}]}
    async with engine(lanes) as opened, opened(host=host) as session:
        await run_turn(session, "Note it.")
        token = session.resume_token
    async with engine(lanes) as opened, opened(host=host, resume_token=token) as session:
        assert said(await run_turn(session, "Once more.")) == ["two"]
    assert len({asked.call_id for asked in host.calls}) == 2


@pytest.mark.parametrize("text", ["", '{"calls": 1, "tex', "[]", '{"calls": "many"}', "\xff"])
async def test_a_torn_file_is_a_lost_thread(engine, tmp_path, text):
    async with engine({"w1": [{"say": "one"}]}) as opened, opened() as session:
        await run_turn(session, "Go.")
        token = session.resume_token
    (file,) = (tmp_path / "state" / "threads").rglob("*.json")
    file.write_text(text, encoding="latin-1")
    async with engine({"w1": [{"say": "one"}]}) as opened:
        with pytest.raises(ProviderNotAvailableError) as caught:
            async with opened(resume_token=token):
                pass
    assert caught.value.code == "resume_failed"


@pytest.mark.parametrize("token", ["../../secret", "a/../../b", "", "/etc/passwd", "a/b/c"])
async def test_a_token_of_another_provider_leads_to_no_file(engine, tmp_path, token):
    (tmp_path / "secret.json").write_text("{}")
    async with engine({"w1": []}) as opened:
        with pytest.raises(ProviderNotAvailableError) as caught:
            async with opened(resume_token=token):
                pass
    assert caught.value.code == "resume_failed"


async def test_a_folder_that_cannot_be_written_is_named(engine, tmp_path):
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "threads").write_text("a file")
    async with engine({"w1": [{"say": "one"}]}) as opened:
        with pytest.raises(ProviderNotAvailableError, match="threads") as caught:
            async with opened():
                pass
    assert caught.value.hint


async def test_a_file_holds_json_whatever_was_said(engine, tmp_path):
    """Half a surrogate pair too, which no encoding takes."""
    async with engine({"w1": [{"say": "one"}]}) as opened, opened() as session:
        await run_turn(session, "half \ud83d of a pair")
    (file,) = (tmp_path / "state" / "threads").rglob("*.json")
    assert json.loads(file.read_text())["prompts"] == ["half \ud83d of a pair"]


def history_of(*entries):
    numbered = [{"at": float(n), **entry} for n, entry in enumerate(entries)]
    return [(message.role, message.content) for message in rebuilt_history(numbered, lambda: "id")]


PROMPTED = {"kind": "user_message", "text": "Work."}
SPAWNED = (
    {"kind": "tool_call", "call": "c1", "tool": "note", "arguments": {"text": 'a; b:\n"]'}},
    {"kind": "tool_result", "call": "c1", "status": "completed", "text": '{"id": "w7]\\n"}'},
)
SPOKEN = {"kind": "text", "text": "Is it w7]? Yes."}
STEPS = [
    NOTE,
    {"say": "Is it ${n.id}? Yes."},
    {"call": call("note", "m", text="${n.id}")},
    {"say": "done"},
]


@pytest.mark.parametrize(
    ("entries", "asked"),
    [
        ((PROMPTED,), ["x", "noted"]),
        ((PROMPTED, SPAWNED[0]), ["x", "noted"]),
        ((PROMPTED, *SPAWNED, SPOKEN), ["w7]\n"]),
    ],
)
async def test_a_script_without_a_thread_passes_over_what_its_history_shows_as_done(
    engine, entries, asked
):
    """What was not answered it does again; what was, it copies from."""
    host = RecordingHost(note=answers('{"id": "noted"}'))
    async with (
        engine({"w1": STEPS}, resume="rebuild") as opened,
        opened(host=host) as session,
    ):
        assert session.resume_token is None
        await run_turn(session, "Go on.", *history_of(*entries))
        if len(entries) < 4:  # its first turn ended with the words between
            await run_turn(session, "Go on.")
    assert [made.arguments["text"] for made in host.calls] == asked


async def test_a_script_without_a_thread_writes_no_file(engine, tmp_path):
    async with engine({"w1": [{"say": "one"}]}, resume="rebuild") as opened, opened() as session:
        await run_turn(session, "Go.")
    assert list((tmp_path / "state").rglob("*.json")) == []


async def test_a_level_that_is_none_is_refused(engine):
    with pytest.raises(ConfigError, match=r"providers\.script\.resume: 'always' is no level"):
        async with engine({"w1": []}, resume="always"):
            pass

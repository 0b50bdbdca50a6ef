"""The console frontend, driven in-process through a scripted application."""

import asyncio
import io
import os
import pty

import pytest
from prsm_console.console import ConsoleFrontend
from prsm_console.worktree import Changed, WorkTree
from prsm_testing.memory_store import MemoryStore

from plugins.prsm_console.tests.conftest import look_away
from plugins.prsm_console.tests.vt import Vt
from prsm_core.domain.permissions import Answer
from prsm_core.domain.usage import Spent, TokenUsage, total
from prsm_core.errors import ConfigError, StoreError
from prsm_core.interfaces.frontend import RunOptions, RunResult


def seen(err):
    """Return the rows that a terminal shows after what was written to it."""
    vt = Vt()
    vt.feed(err.getvalue())
    return vt.rows


async def start(app, settled):
    await settled()
    app.spawn()


async def test_a_run_prints_progress_to_stderr_and_its_summary_to_stdout(app, settled, running):
    async with running() as (task, out, err):
        await start(app, settled)
        app.spawn("w", "w1", parent="m", prompt="count the lines\nof all files")
        app.say("notice", live=True, level="info", text="3 live updates were not shown")
        app.say("tool_call_started", "w", call="c", tool="Bash", arguments={"command": "wc -l *"})
        app.say("tool_call_finished", "w", call="c", status="completed", result="3")
        app.say("message_completed", "w", turn="t", role="assistant", text="three\nlines")
        app.say("agent_state_changed", "w", **{"from": "running", "to": "completed"}, reason="")
        app.finish()
    assert task.result() == 0
    assert out.getvalue() == "All done.\n"
    assert err.getvalue().splitlines() == [
        "master (master, echo/default) starts: do it",
        "w1 (worker, echo/default) starts for master: count the lines…",
        "info: 3 live updates were not shown",
        "w1 > Bash: wc -l *",
        "w1: three",
        "  lines",
        "w1 completed",
        "AGENT   PROVIDER/MODEL  STATE      EVIDENCE  TIME  TOKENS   COST",
        "master  echo/default    pending    -         -     unknown  unknown",
        "  w1    echo/default    completed  -         -     unknown  unknown",
        "look further: prsm tree session-1",
        "  prsm history AGENT, prsm events",
        "completed in 1m 14s, tokens: 1,200 + unknown (1 turn), cost: unknown (1 turn)",
    ]


@pytest.mark.requirement("E84", "N10")
async def test_the_end_tells_duration_cost_and_what_of_them_is_unknown(app, settled, running):
    spent = total(
        [Spent.of_turn(TokenUsage(), 0.25), Spent.of_turn(TokenUsage(total_tokens=7), None)]
    )
    result = RunResult(status="failed", summary="", exit_code=1, error="no result", spent=spent)
    async with running() as (task, out, err):
        await start(app, settled)
        app.finish(result)
    assert task.result() == 1
    assert out.getvalue() == ""
    assert err.getvalue().splitlines()[-2:] == [
        "error: no result",
        "failed in 1m 14s, tokens: 7 + unknown (1 turn), cost: $0.25 + unknown (1 turn)",
    ]


async def test_text_of_agents_has_no_effect_on_the_terminal(app, settled, running):
    evil = "\x1b[2Jhid\u202eden\x07\r\x9b1m"
    result = RunResult(status="completed", summary=evil, exit_code=0, usage=TokenUsage())
    async with running() as (_, out, err):
        await start(app, settled)
        app.spawn("w", evil, parent="m", prompt=evil)
        app.say("message_completed", "w", turn="t", role="assistant", text=evil)
        app.say("notice", "w", level="warning", text=evil)
        app.finish(result)
    shown_text = out.getvalue() + err.getvalue()
    assert "\\x1b[2Jhid\\u202eden\\x07" in shown_text
    assert not set(shown_text) & set("\x1b\u202e\x07\r\x9b")


@pytest.mark.requirement("D9")
@pytest.mark.parametrize(
    ("keys", "verdict"),
    [("o", "once"), ("always", "always"), ("D", "deny"), ("y", "once"), ("no", "deny")],
)
async def test_a_permission_is_answered_from_stdin(app, settled, typed, keys, verdict, running):
    reader, keyboard = typed
    async with running(stdin=reader) as (task, _, err):
        await start(app, settled)
        app.say(
            "permission_requested",
            "m",
            request="r1",
            tool="Bash",
            command="rm -rf 'a\x1b[1A b'",
            paths=[],
            reason="not known to be safe",
            options=["once", "always", "deny"],
        )
        await err.shows("[o]nce [a]lways [d]eny: ")
        keyboard.write(f"what?\n{keys}\n".encode())
        await err.shows(f"Bash of master: {verdict} (by user)")
        app.finish()
    assert app.answers == [("r1", verdict)]
    assert "  command: rm -rf 'a\\x1b[1A b'\n  reason: not known to be safe" in err.getvalue()
    assert err.getvalue().count("[o]nce") == 2, "an unclear answer is asked again"
    assert task.result() == 0


@pytest.mark.requirement("D10")
async def test_a_question_is_answered_by_number(app, settled, typed, running):
    reader, keyboard = typed
    async with running(stdin=reader) as (_, _, err):
        await start(app, settled)
        app.say("question_asked", "m", request="q", question="Which?", options=["red", "blue"])
        await err.shows("number or text: ")
        keyboard.write(b"2\n")
        await err.shows("is answered with blue (by user)")
        app.finish()
    assert app.answers == [("q", Answer(choices=("blue",)))]
    assert "master asks you: Which?\n  1. red\n  2. blue\n" in err.getvalue()


async def test_several_requests_are_asked_one_after_the_other(app, settled, typed, running):
    reader, keyboard = typed
    keyboard.write(b"o\nd\n")
    async with running(stdin=reader) as (_, _, err):
        await start(app, settled)
        for request in ("r1", "r2"):
            app.say(
                "permission_requested", "m", request=request, tool="Edit", options=["once", "deny"]
            )
        await err.shows("deny (by user)")
        app.finish()
    assert app.answers == [("r1", "once"), ("r2", "deny")]


async def test_the_end_of_stdin_is_a_refusal(app, settled, typed, running):
    reader, keyboard = typed
    keyboard.close()
    async with running(stdin=reader) as (_, _, err):
        await start(app, settled)
        app.say("permission_requested", "m", request="r", tool="Edit", options=["once", "deny"])
        app.say("question_asked", "m", request="q", question="Which?", options=[])
        await err.shows("is answered with an empty text (by user)")
        app.finish()
    assert app.answers == [("r", "deny"), ("q", Answer())]


async def test_a_file_as_stdin_is_read_to_its_end(app, settled, tmp_path, running):
    answers = tmp_path / "answers"
    answers.write_text("a")
    with answers.open("rb") as file:
        async with running(stdin=file.fileno()) as (_, _, err):
            await start(app, settled)
            app.say("permission_requested", "m", request="r", tool="E", options=["always", "deny"])
            await err.shows("(by user)")
            app.finish()
    assert app.answers == [("r", "always")]


async def test_a_request_that_ends_elsewhere_is_withdrawn(app, settled, typed, running):
    reader, keyboard = typed
    async with running(stdin=reader) as (_, _, err):
        await start(app, settled)
        app.say("permission_requested", "m", request="r1", tool="Edit", options=["once", "deny"])
        await err.shows("[d]eny: ")
        app.say("permission_resolved", "m", request="r1", verdict="deny", by="timeout")
        await err.shows("deny (by timeout)")
        app.say("permission_requested", "m", request="r2", tool="Write", options=["once", "deny"])
        await err.shows("permission for Write")
        keyboard.write(b"o\n")
        await err.shows("once (by user)")
        app.finish()
    assert app.answers == [("r2", "once")]


async def test_lines_that_come_while_a_prompt_is_open_show_the_prompt_again(
    app, settled, typed, running
):
    reader, keyboard = typed
    async with running(stdin=reader) as (_, _, err):
        await start(app, settled)
        app.say("permission_requested", "m", request="r", tool="Edit", options=["once", "deny"])
        await err.shows("[d]eny: ")
        app.say("notice", level="info", text="meanwhile")
        await err.shows("meanwhile")
        assert err.getvalue().endswith("\ninfo: meanwhile\n[o]nce [d]eny: ")
        keyboard.write(b"d\n")
        await err.shows("(by user)")
        app.finish()


async def test_without_a_person_requests_are_only_shown(app, settled, running):
    async with running(settings={"interactive": False}) as (_, _, err):
        await start(app, settled)
        app.say("permission_requested", "m", request="r", tool="Edit", options=["once", "deny"])
        app.say("permission_resolved", "m", request="r", verdict="deny", by="headless")
        app.finish()
    assert app.answers == []
    assert "Edit of master: deny (by headless)" in err.getvalue()
    assert "[o]nce" not in err.getvalue()


@pytest.mark.requirement("D9")
async def test_a_permission_is_answered_on_a_terminal_and_earlier_typing_is_no_answer(
    app, settled, running
):
    controller, terminal = pty.openpty()
    try:
        async with running(stdin=terminal) as (_, _, err):
            os.write(controller, b"o\n")
            await start(app, settled)
            app.say("permission_requested", "m", request="r", tool="Edit", options=["once", "deny"])
            await err.shows("[d]eny: ")
            await err.shows("you: o (it has it now)")
            assert app.answers == []
            os.write(controller, b"d\n")
            await err.shows("(by user)")
            app.finish()
    finally:
        os.close(controller)
        os.close(terminal)
    assert app.answers == [("r", "deny")]
    assert app.prompts == [("m", "o", "inject")]


async def test_a_terminal_says_whose_work_is_under_way(app, settled, clock, terminal, running):
    nobody = {"interactive": False}
    async with running(err=terminal, clock=clock, settings=nobody) as (_, _, err):

        async def status_after(seconds):
            await settled()
            await clock.advance(seconds)
            return seen(err)[-1]

        await start(app, settled)
        app.say("thinking_delta", "m", live=True, text="hm")
        app.spawn("w", "w1", parent="m")
        piece = {"turn": "t", "message": 1, "at": 1200, "text": "so be"}
        app.say("text_delta", "w", live=True, **piece)
        assert await status_after(5) == "w1: streaming 1,205 characters (5s)"
        app.say("message_completed", "m", turn="t", role="assistant", text="I wait")
        assert await status_after(1) == "w1: streaming 1,205 characters (6s)", (
            "another's message ends nothing"
        )
        app.say("message_completed", "w", turn="t", role="assistant", text="so be it")
        call = {"call": "c", "tool": "Bash", "arguments": {"command": "make"}}
        app.say("tool_call_started", "w", **call, orchestration=False)
        asked = {"request": "r", "tool": "Bash", "command": "make", "options": []}
        app.say("permission_requested", "w", **asked)
        assert await status_after(60) == "Thinking... (1m 00s, silent for 1m 00s)"
        app.say("permission_resolved", "w", request="r", verdict="once", by="user", via="")
        assert await status_after(31) == "w1 > Bash (31s)", "it runs since it was allowed"
        assert "nothing was heard from the agents for 30s; w1 > Bash (30s)" in err.getvalue()
        app.say("text_delta", "m", live=True, text="and")
        assert await status_after(2) == "w1 > Bash (33s), 1 more"
        app.say("tool_call_finished", "w", call="c", status="completed")
        app.say("message_completed", "m", turn="t", role="assistant", text="and so")
        retry = {"attempt": 1, "delay_s": 20.0, "error": {"kind": "network", "message": "no"}}
        app.say("retry_scheduled", "m", **retry)
        assert await status_after(5) == "master tries again in 15s"
        app.say("turn_started", "m", turn="t2", n=2)
        assert await status_after(3) == "Thinking... (8s)"
        app.finish()


async def test_a_terminal_shows_for_how_long_the_model_thinks(
    app, settled, clock, terminal, running
):
    async with running(err=terminal, clock=clock) as (_, _, err):
        await start(app, settled)
        await settled()
        app.say("thinking_delta", "m", live=True, text="hm")
        await clock.advance(29)
        assert seen(err)[-1] == "Thinking... (29s)"
        app.say("text_delta", "m", live=True, text="so")
        await settled()
        await clock.advance(74)
        assert seen(err)[-1] == "streaming 2 characters (1m 14s)"
        app.say("message_completed", "m", turn="t", role="assistant", text="so be it")
        await settled()
        await clock.advance(1)
        assert seen(err)[-2:] == ["master: so be it", "Thinking... (1s)"]
        assert "\x1b[1mmaster\x1b[0m: so be it\n" in err.getvalue()
        app.finish()
    assert "Thinking" not in "".join(seen(err)), "the status is gone in the end"


async def test_of_what_is_replayed_no_silence_is_told(app, settled, clock, terminal, running):
    """Its time is its own: nobody is silent where an event comes when it is its turn."""
    settings = {"interactive": False, "replays": True}
    async with running(err=terminal, clock=clock, settings=settings) as (_, _, err):
        await start(app, settled)
        await settled()
        await clock.advance(45)
        assert "silent" not in err.getvalue()
        assert "nothing was heard" not in err.getvalue()
        assert "waits for" not in err.getvalue()
        app.finish()


async def test_thirty_silent_seconds_are_told_once_and_in_the_status(
    app, settled, clock, terminal, running
):
    async with running(err=terminal, clock=clock) as (_, _, err):
        await start(app, settled)
        await settled()
        await clock.advance(45)
        assert "\n".join(seen(err)).count("nothing was heard from the agents for 30s") == 1
        assert seen(err)[-1] == "waits for echo/default to begin (45s, silent for 45s)"
        app.finish()


async def test_no_colour_and_no_status_where_they_are_not_wanted(
    app, settled, clock, terminal, monkeypatch, running
):
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(err=terminal, clock=clock) as (_, _, err):
        await start(app, settled)
        app.finish()
    assert "\x1b[1m" not in err.getvalue()
    assert "\x1b[2m" not in err.getvalue()


async def test_earlier_runs_of_the_session_lend_names_only(app, settled, running):
    async with running() as (_, _, err):
        await settled()
        elder = {"name": "elder", "parent": None, "depth": 0, "provider": "echo", "model": "x"}
        app.say("agent_spawned", "old", run="run-0", prompt="x", role="worker", **elder)
        app.say("run_finished", run="run-0", status="completed", summary="earlier")
        app.say("message_completed", "old", turn="t", role="assistant", text="hello")
        app.finish()
    assert err.getvalue().splitlines()[0] == "elder: hello"


class Folder:
    """What a test says of the files of a run."""

    def __init__(self):
        self.tree = WorkTree(commit="0123456789abcdef", files={})

    async def look(self, folder, *, commit=""):
        return self.tree


async def test_the_end_tells_what_changed_what_nobody_answered_and_how_to_look_further(
    app, settled, running
):
    folder = Folder()
    async with running(settings={"interactive": False}, look=folder.look) as (_, _, err):
        await start(app, settled)
        app.say("permission_requested", "m", request="r", tool="Bash", command="make\n it")
        app.say("permission_resolved", "m", request="r", verdict="deny", by="timeout")
        app.say("question_asked", "m", request="q", question="Which\none?")
        app.say("question_answered", "m", request="q", by="user")
        changed = Changed(3, 1, is_new=False, stamp=(1, 2))
        folder.tree = WorkTree(commit="0123456789abcdef", files={"a\x1b[2J.py": changed})
        app.finish()
    assert err.getvalue().splitlines()[-8:-1] == [
        "master  echo/default    pending  -         -     unknown  unknown",
        "waited for YOU, unanswered: master: Bash: make\\x0a it",
        "changed: 1 file, +3 -1",
        "  a\\x1b[2J.py +3 -1",
        "  see it all: git diff 0123456789ab",
        "look further: prsm tree session-1",
        "  prsm history AGENT, prsm events",
    ]


async def test_changes_that_were_told_with_their_agents_are_not_counted_once_more(
    app, settled, running
):
    folder = Folder()
    async with running(settings={"interactive": False}, look=folder.look) as (_, _, err):
        await start(app, settled)
        found = {"path": "a.py", "kind": "modified", "added": 2, "removed": 2, "how": "sole"}
        app.say("file_changed", "m", change="c-1", call="x", beside=[], **found)
        changed = Changed(1, 1, is_new=False, stamp=(1, 2))
        folder.tree = WorkTree(commit="0123456789abcdef", files={"a.py": changed})
        app.finish()
    assert "changes that are pending: files: 1, +2 -2\n" in err.getvalue()
    assert "git diff" not in err.getvalue()


async def test_an_interrupted_run_tells_what_is_kept_and_how_to_go_on(app, settled, stream):
    settings = {"interactive": False}
    console = ConsoleFrontend(settings, out=io.StringIO(), err=stream, look=look_away)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        running = group.create_task(console.run(app))
        await start(app, settled)
        app.say("question_asked", "m", request="q", question="Which one?", options=[])
        await stream.shows("master asks you: Which one?")
        running.cancel()
    await console.print_rest(MemoryStore())
    assert stream.getvalue().splitlines()[-5:] == [
        "interrupted; kept are the ledger of the session and the files as they are:",
        "waited for YOU, unanswered: ?: Which one?",
        "look further: prsm tree session-1",
        "  prsm history AGENT, prsm events",
        "go on where it was interrupted: prsm resume session-1",
    ]


async def test_a_run_that_was_interrupted_before_it_began_keeps_nothing(stream):
    await ConsoleFrontend({}, err=stream).print_rest(MemoryStore())
    assert stream.getvalue() == "nothing was begun, so there is nothing to keep\n"


async def test_without_a_task_there_is_nothing_to_run(app):
    app.options = RunOptions()
    with pytest.raises(ConfigError):
        await ConsoleFrontend({}, out=io.StringIO(), err=io.StringIO()).run(app)


async def test_events_that_end_early_are_an_error_that_names_the_session(app, settled, running):
    async def nothing(after=0):
        return
        yield

    app.events = nothing

    async def run_to_its_end():
        async with running():
            await settled()
            app.run.ended.set_result(RunResult(status="completed", summary="", exit_code=0))

    with pytest.raises(ExceptionGroup) as caught:
        await run_to_its_end()
    assert caught.group_contains(StoreError, match="last events")


async def test_a_cancelled_console_leaves_stdin_alone(app, settled, typed, running):
    reader, _ = typed
    async with running(stdin=reader) as (task, _, err):
        await start(app, settled)
        app.say("permission_requested", "m", request="r", tool="Edit", options=["once", "deny"])
        await err.shows("[d]eny: ")
        task.cancel()
    assert err.getvalue().endswith("[d]eny: \nstopping the agents; a second Ctrl-C ends at once\n")
    assert not asyncio.get_running_loop().remove_reader(reader)

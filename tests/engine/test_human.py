"""A person is asked: permissions and questions, answers, deadlines, nobody there."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Allow, Answer, Ask, Deny, PermissionRequest, Question
from prsm_core.errors import ConfigError
from tests.engine.harness import RuleBroker, failed


def bash(agent, command="make it"):
    return PermissionRequest(agent_id=agent.id, tool="Bash", command=command, cwd=".")


@pytest.mark.requirement("D9")
async def test_a_permission_is_asked_and_answered_once(opened):
    verdicts = []

    async def master(agent):
        verdicts.append(await agent.host.authorize(bash(agent, "make it")))
        verdicts.append(await agent.host.authorize(bash(agent, "echo x")))
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("permission_requested")
        request = asked.data["request"]
        assert UUID(request).version == 4
        assert asked.data == {
            "request": request,
            "tool": "Bash",
            "command": "make it",
            "paths": [],
            "reason": "make is not known",
            "options": ["once", "always", "deny"],
            "parts": [],
            "rules": {},
            "call": None,
            "arguments": {},
            "cwd": ".",
            "expires_at": asked.ts + 3600.0,
        }
        requests = team.engine.requests
        assert [row.request_id for row in requests.waiting()] == [request]
        assert not requests.resolve("nonsense", "permission", {"verdict": "once"})
        assert not requests.resolve(request, "question", {"choices": [], "text": "x"})
        with pytest.raises(ConfigError, match="'maybe' is no answer"):
            requests.resolve(request, "permission", {"verdict": "maybe"})
        assert requests.resolve(request, "permission", {"verdict": "once"})
        assert not requests.resolve(request, "permission", {"verdict": "deny"})
        assert (await running).exit_code == 0
        assert requests.waiting() == ()
    assert [type(verdict) for verdict in verdicts] == [Allow, Allow]
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("once", "user")
    assert team.ledger.one("SELECT permissions_used FROM turns") == '["Bash"]'


@pytest.mark.requirement("D9")
async def test_a_refusal_is_told_to_the_agent_with_its_reason(opened):
    async def master(agent):
        verdict = await agent.host.authorize(bash(agent))
        assert verdict == Deny("the user refused it")
        assert await agent.host.authorize(bash(agent, "rm x")) == Deny("never")
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("permission_requested")
        assert team.engine.requests.resolve(
            asked.data["request"], "permission", {"verdict": "deny"}
        )
        assert (await running).exit_code == 0  # a denial is no failure
    assert team.ledger.one("SELECT permissions_used FROM turns") == "[]"


async def test_always_holds_for_the_agent_and_its_subtree_only(opened):
    async def a(agent):
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        await agent.call("spawn_child", prompt="x", name="b", wait=True)
        await agent.complete()

    async def b(agent):
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        await agent.complete()

    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", wait=True)
        await agent.call("spawn_child", prompt="y", name="c", wait=True)
        await agent.complete()

    async def c(agent):
        assert isinstance(await agent.host.authorize(bash(agent)), Deny)
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master, a=a, b=b, c=c)
        for name, verdict in (("a", "always"), ("c", "deny")):
            asked = await team.seen("permission_requested", name)
            assert team.engine.requests.resolve(
                asked.data["request"], "permission", {"verdict": verdict}
            )
        assert (await running).status == "completed"
    assert len(team.ledger.events("permission_requested")) == 2
    [(granted_to,)] = team.ledger.rows("SELECT agent_id FROM grants")
    assert granted_to == team["a"].agent_id


async def test_always_is_not_offered_where_the_broker_does_not(opened):
    async def master(agent):
        await agent.host.authorize(bash(agent))
        await agent.complete()

    async with opened(interactive=True) as team:
        team.broker.options = ("once", "deny")
        running = team.start("do it", master=master)
        asked = await team.seen("permission_requested")
        assert asked.data["options"] == ["once", "deny"]
        with pytest.raises(ConfigError, match="'always'"):
            team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "always"})
        team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "once"})
        await running


@pytest.mark.requirement("U8")
async def test_a_permission_nobody_answers_is_denied_at_the_deadline(opened):
    async def master(agent):
        verdict = await agent.host.authorize(bash(agent))
        assert verdict == Deny("it needs a person's permission and nobody answered in time")
        assert team.clock.now() == pytest.approx(3600, abs=1)
        await agent.complete()

    async with opened(interactive=True, clock=FakeClock()) as team:
        result = await team.run("do it", master=master)
        assert result.exit_code == 0  # nor did the idle clock run while a person was asked
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "timeout")


@pytest.mark.requirement("U8", "E78")
async def test_a_question_nobody_answers_has_no_answer_at_the_deadline(opened):
    async def master(agent):
        outcome = await agent.outcome("ask_user", {"question": "which?"})
        assert outcome.data["error"]["code"] == "no_answer"
        assert "nobody answered in time" in outcome.text
        answer = await agent.host.ask_user(Question(text="and now?"))
        assert answer.text == "nobody answered in time"
        await agent.complete()

    async with opened(interactive=True, clock=FakeClock()) as team:
        result = await team.run("do it", master=master)
        assert result.exit_code == 0
    ends = team.ledger.events("question_answered")
    assert [(end["answer"], end["by"]) for end in ends] == [(None, "timeout")] * 2


@pytest.mark.requirement("E57")
async def test_a_question_to_the_user_is_answered_by_choice_or_text(opened):
    async def master(agent):
        said = await agent.call("ask_user", question="which?", options=["red", "blue"])
        assert said == {"choices": ["red"], "text": None}
        said = await agent.call("ask_user", question="why?")
        assert said == {"choices": [], "text": "because"}
        assert await agent.refused("ask_user", question="") == "invalid_arguments"
        assert await agent.refused("ask_user", question="x", options=[1]) == "invalid_arguments"
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("question_asked", question="which?")
        assert asked.data["options"] == ["red", "blue"]
        red = {"choices": ["red"], "text": None}
        assert team.engine.requests.resolve(asked.data["request"], "question", red)
        asked = await team.seen("question_asked", question="why?")
        because = {"choices": [], "text": "because"}
        assert team.engine.requests.resolve(asked.data["request"], "question", because)
        assert (await running).status == "completed"
    first, _ = team.ledger.events("question_answered")
    assert (first["answer"], first["by"]) == ({"choices": ["red"], "text": None}, "user")
    assert "waiting_for" not in " ".join(team.ledger.states("master"))  # a person is no wait


@pytest.mark.requirement("U8")
async def test_the_death_of_an_agent_ends_what_it_had_asked(opened):
    verdicts = []

    async def master(agent):
        await agent.spawn(name="a")
        await agent.spawn(name="b")
        await agent.collect(2)
        await agent.complete()

    async def a(agent):
        verdicts.append(await agent.host.authorize(bash(agent)))

    async def b(agent):
        await agent.outcome("ask_user", {"question": "well?"})

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master, a=a, b=b)
        asked = await team.seen("permission_requested", "a")
        await team.seen("question_asked", "b")
        for name in "ab":
            await team.manager.kill_agent(team[name].agent_id)
        assert not team.engine.requests.resolve(
            asked.data["request"], "permission", {"verdict": "once"}
        )
        assert (await running).status == "completed"
    assert len(team.ledger.events("permission_resolved", "a")) == 1
    assert len(team.ledger.events("question_answered", "b")) == 1
    states = team.ledger.rows("SELECT resolved_by FROM requests")
    assert {by for (by,) in states} <= {"agent_ended", "turn_ended"}


async def test_the_end_of_a_turn_ends_what_was_asked_in_it(opened):
    """A provider may ask in a task of its own that does not notice the end."""
    verdicts: asyncio.Queue[Deny] = asyncio.Queue()

    async def master(agent):
        async def ask():
            verdicts.put_nowait(await agent.host.authorize(bash(agent)))

        agent.session.provider.services.start_soon(ask, name="a permission")
        await team.seen("permission_requested")
        await agent.say("I do not wait for it")

    async with opened(interactive=True) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
        async with asyncio.timeout(5):
            assert await verdicts.get() == Deny("the turn it was asked in is over")
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "turn_ended")


async def test_an_answer_given_as_the_agent_dies_is_recorded_as_it_was_given(opened):
    async def master(agent):
        await agent.host.authorize(bash(agent))
        await agent.hang()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("permission_requested")
        team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "once"})
        await team.manager.kill_agent(team["master"].agent_id)
        await running
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("once", "user")


async def test_what_waits_when_the_engine_is_shut_down_is_left_to_the_resume(opened):
    async def master(agent):
        await agent.host.authorize(bash(agent))

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        await team.seen("permission_requested")
        await team.engine.shutdown()
        assert (await running).status == "interrupted"
    assert team.ledger.events("permission_resolved") == []
    assert team.ledger.events()[-1]["type"] == "run_finished"


async def test_without_a_person_permissions_are_denied_and_a_failed_run_says_so(team):
    async def master(agent):
        verdict = await agent.host.authorize(bash(agent))
        assert isinstance(verdict, Deny)
        assert "no person is attached" in verdict.reason
        raise failed("I needed that")

    result = await team.run("do it", master=master)
    assert (result.status, result.exit_code) == ("failed", 4)
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "headless")


async def test_without_a_person_a_run_that_completes_all_the_same_is_fine(team):
    async def master(agent):
        assert await agent.refused("ask_user", question="which?") == "no_answer"
        answer = await agent.host.ask_user(Question(text="which?"))
        assert "no person is attached" in answer.text
        await agent.complete()

    result = await team.run("do it", master=master)
    assert (result.status, result.exit_code) == ("completed", 0)
    answered = team.ledger.events("question_answered")
    assert [(a["answer"], a["by"]) for a in answered] == [(None, "headless")] * 2


async def test_a_later_run_does_not_answer_for_what_an_earlier_one_was_refused(team):
    async def master(agent):
        await agent.host.authorize(bash(agent))
        raise failed("no")

    async def m1(agent):
        raise failed("of its own accord")

    assert (await team.run("one", master=master)).exit_code == 4
    assert (await team.run("two", m1=m1)).exit_code == 1


@pytest.mark.requirement("D10")
async def test_on_ask_allow_answers_questions_with_the_first_option_or_an_empty_text(opened):
    async def master(agent):
        offered = await agent.call("ask_user", question="which?", options=["a", "b"], multiple=True)
        assert (offered["choices"], offered["text"]) == (["a"], None)
        free = await agent.call("ask_user", question="why?")
        assert (free["choices"], free["text"]) == ([], "")
        assert "no person is attached" in free["notice"] == offered["notice"]
        vendors = Question(text="which?", options=("a", "b"))
        assert await agent.host.ask_user(vendors) == Answer(choices=("a",))
        assert await agent.host.ask_user(Question(text="why?")) == Answer(text="")
        raise failed("of its own accord")

    async with opened(on_ask="allow") as team:
        result = await team.run("do it", master=master)
    assert (result.status, result.exit_code) == ("failed", 1)  # nothing was refused
    answered = [(e["answer"], e["by"]) for e in team.ledger.events("question_answered")]
    first, empty = {"choices": ["a"], "text": None}, {"choices": [], "text": ""}
    assert answered == [(first, "on_ask"), (empty, "on_ask")] * 2


async def test_an_answer_that_nobody_gave_is_no_word_from_a_person(opened, monkeypatch):
    """A person may have changed files by hand, so that commands may be run again."""
    changed: list[Any] = []

    async def master(agent):
        monkeypatch.setattr(team.broker, "changed_by_hand", lambda *place: changed.append(place))
        await agent.call("ask_user", question="go on?", options=["yes"])
        await agent.host.ask_user(Question(text="go on?"))
        await agent.complete()

    async with opened(on_ask="allow") as team:
        assert (await team.run("do it", master=master)).status == "completed"
    assert changed == []


async def test_on_ask_allow_stands_in_for_a_person(opened):
    async def master(agent):
        assert await agent.host.authorize(bash(agent)) == Allow("allowed once by on_ask")
        team.broker.options = ("always", "deny")
        assert isinstance(await agent.host.authorize(bash(agent)), Deny)
        await agent.complete()

    async with opened(on_ask="allow") as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
    resolved = team.ledger.events("permission_resolved")
    assert [(r["verdict"], r["by"]) for r in resolved] == [("once", "on_ask"), ("deny", "headless")]


async def test_an_answer_in_choices_and_text_reaches_a_vendors_question_tool(opened):
    async def master(agent):
        answer = await agent.host.ask_user(Question(text="which?", options=("a", "b")))
        assert answer == Answer(choices=("b",), text="because")
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("question_asked")
        answer = {"choices": ["b"], "text": "because"}
        assert team.engine.requests.resolve(asked.data["request"], "question", answer)
        assert (await running).status == "completed"


@pytest.mark.requirement("E62")
async def test_run_bash_runs_permitted_commands_in_the_agents_folder(opened):
    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", cwd="sub", wait=True)
        await agent.complete()

    async def a(agent):
        shown = await agent.call("run_bash", command="echo hi; pwd; echo oops >&2; exit 3")
        assert shown == {
            "exit_code": 3,
            "stdout": f"hi\n{team.workspace / 'sub'}\n",
            "stderr": "oops\n",
            "truncated": False,
        }
        below = await agent.call("run_bash", command="echo $PWD", cwd="deep")
        assert below["stdout"] == f"{team.workspace / 'sub' / 'deep'}\n"
        for cwd in ("..", "/", "nowhere"):
            assert await agent.refused("run_bash", command="echo x", cwd=cwd) == "bad_cwd"
        assert await agent.refused("run_bash", command="rm x") == "permission_denied"
        assert await agent.refused("run_bash", command="make") == "permission_denied"
        slow = {"command": "echo x; sleep 30", "timeout": 0.1}
        assert await agent.refused("run_bash", **slow) == "tool_timeout"
        assert await agent.refused("run_bash", command="") == "invalid_arguments"
        await agent.complete()

    async with opened() as team:
        (team.workspace / "sub" / "deep").mkdir(parents=True)
        result = await team.run("do it", master=master, a=a)
        assert result.status == "completed"
    assert team.ledger.one("SELECT permissions_used FROM turns WHERE role = 'worker'") == '["Bash"]'


async def test_a_choice_is_one_of_those_that_a_person_is_shown(opened):
    """An option that holds a secret is shown without it, and chosen as it is shown."""
    secret = "ghp_" + "a1B2" * 9

    async def master(agent):
        said = await agent.call("ask_user", question="Which?", options=[f"use {secret}", "none"])
        assert secret not in said["choices"][0]
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("question_asked")
        request, shown = asked.data["request"], asked.data["options"]
        assert secret not in shown[0]
        with pytest.raises(ConfigError, match="none of what this question offers"):
            team.engine.requests.resolve(request, "question", {"choices": [secret], "text": None})
        said = {"choices": shown[:1], "text": None}
        assert await team.engine.requests.give(request, "question", said)
        assert (await running).status == "completed"


async def test_an_answer_is_taken_once_it_is_in_the_ledger(opened):
    """Whoever was told so need not give it again, though the engine dies the next moment."""

    async def master(agent):
        await agent.call("ask_user", question="Which?")
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("question_asked")
        request, said = asked.data["request"], {"choices": [], "text": "blue"}
        assert await team.engine.requests.give(request, "question", said)
        assert len(team.ledger.events("question_answered")) == 1
        assert not await team.engine.requests.give(request, "question", said)
        await running


class Hinting(RuleBroker):
    """A broker whose questions tell what would end such questions."""

    async def decide(self, request, context):
        verdict = await super().decide(request, context)
        return replace(verdict, hint="trust it") if isinstance(verdict, Ask) else verdict

    reconsider = decide


@pytest.mark.requirement("U9")
async def test_only_the_first_question_of_a_kind_tells_what_would_end_them(opened):
    async def master(agent):
        for command in ("make it", "make more"):
            await agent.host.authorize(bash(agent, command))
        await agent.complete()

    async with opened(interactive=True, broker=Hinting()) as team:
        running = team.start("do it", master=master)
        for command in ("make it", "make more"):
            asked = await team.seen("permission_requested", command=command)
            request = asked.data["request"]
            assert team.engine.requests.resolve(request, "permission", {"verdict": "deny"})
        await running
    first, second = team.ledger.events("permission_requested")
    assert "trust it" in first["reason"]
    assert second["reason"] == "make is not known"

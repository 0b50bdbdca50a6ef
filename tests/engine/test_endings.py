"""How agents end: by task_complete, by their last turn, by failure, by a kill."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from prsm_core.domain.turns import AssistantMessage, ErrorKind, StopReason
from prsm_core.errors import MessageRoutingError, ProviderNotAvailableError
from prsm_core.interfaces.provider import Provider, ProviderSession, ProviderSpec
from tests.engine.harness import Actor, TurnFailedError, failed


@pytest.mark.requirement("E56")
async def test_task_complete_ends_the_agent_with_its_summary_and_artifacts(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        for blank in ("", "  \n"):
            assert await agent.refused("task_complete", summary=blank) == "blank_summary"
        assert await agent.refused("task_complete") == "invalid_arguments"
        arguments = {"summary": " made it ", "artifacts": ["x.py"]}
        outcome = await agent.outcome("task_complete", arguments)
        assert (outcome.data["accepted"], outcome.ends_turn) == (True, True)
        assert await agent.refused("task_complete", summary="again") == "turn_over"
        assert await agent.refused("ask_parent", question="still there?") == "turn_over"
        assert await agent.refused("spawn_child", prompt="x") == "turn_over"

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    done = team["a"].result
    assert (done.success, done.summary, done.artifacts) == (True, "made it", ("x.py",))
    assert done.evidence == "claimed"
    assert team.ledger.one("SELECT count(*) FROM inbox WHERE type = 'task_result'") == 1
    refused = "SELECT count(*) FROM tool_calls WHERE status = 'failed'"
    assert team.ledger.one(refused) == 3


@pytest.mark.parametrize("reason", [StopReason.ABORTED, StopReason.MAX_TOKENS, StopReason.ERROR])
async def test_how_a_provider_ends_the_turn_after_task_complete_does_not_matter(team, reason):
    async def master(agent):
        await agent.complete("done")
        await agent.use(total_tokens=3)  # usage comes last
        return reason

    result = await team.run("do it", master=master)
    assert (result.status, result.usage.total_tokens) == ("completed", 3)
    [turn] = team.ledger.events("turn_finished")
    assert (turn["stop_reason"], turn["error"]) == ("end_turn", None)
    assert team.ledger.rows("SELECT status, stop_reason FROM turns") == [("completed", "end_turn")]


async def test_a_turn_that_never_ends_after_task_complete_is_cut_off(fast_team):
    async def master(agent):
        await agent.complete("done")
        await agent.hang()

    result = await fast_team.run("do it", master=master)
    assert result.status == "completed"
    assert fast_team.clock.now() == pytest.approx(2, abs=0.5)


async def test_a_turn_that_ends_without_task_complete_completes_with_its_last_message(team):
    async def master(agent):
        await agent.say("first")
        await agent.say("the end")

    result = await team.run("do it", master=master)
    assert (result.status, result.summary, result.exit_code) == ("completed", "the end", 0)


@pytest.mark.parametrize("said", [None, "  "])
async def test_an_agent_that_ends_without_a_word_has_failed(team, said):
    async def master(agent):
        if said is not None:
            await agent.say(said)

    result = await team.run("do it", master=master)
    assert (result.status, result.exit_code) == ("failed", 1)
    assert "no result" in result.error
    assert team["master"].result.error_kind == "no_result"


def asked_again(team):
    """Return how often agents were asked again, as it was told."""
    notices = [one["text"] for one in team.ledger.events("notice")]
    return [text[-8:] for text in notices if "asked again" in text]


TWICE = ["(1 of 2)", "(2 of 2)"]


@pytest.mark.parametrize("answers", range(4))
@pytest.mark.parametrize("thinking", [None, "what now?"])
async def test_an_empty_answer_is_asked_again_twice_before_it_is_no_result(team, answers, thinking):
    async def master(agent):
        if agent.turn > 1:
            assert agent.text.startswith("Your last answer was empty.")
        if agent.turn <= answers:
            await agent.say("", thinking)
        else:
            await agent.say("here it is")

    result = await team.run("do it", master=master)
    assert result.status == ("completed" if answers < 3 else "failed")
    assert asked_again(team) == TWICE[:answers]
    assert len(team.ledger.events("turn_finished")) == min(answers + 1, 3)


async def test_what_was_said_before_a_call_is_no_answer_to_what_the_call_gave(team):
    """Once the model was asked twice it stands for one, all the same."""

    async def master(agent):
        await agent.say("I shall look at it.")
        await agent.call("get_budget")

    result = await team.run("do it", master=master)
    assert (result.status, result.summary) == ("completed", "I shall look at it.")
    assert asked_again(team) == TWICE


@pytest.mark.parametrize("error", [None, "Incomplete response returned"])
@pytest.mark.parametrize("cuts", range(4))
async def test_an_answer_that_was_cut_at_the_output_limit_is_asked_again_twice(team, cuts, error):
    async def master(agent):
        if agent.turn > 1:
            assert agent.text.startswith("Your last answer was cut")
        await agent.say(f"part {agent.turn}")
        if agent.turn <= cuts and error is not None:
            raise TurnFailedError(failed(error).end.error, StopReason.MAX_TOKENS)
        return StopReason.MAX_TOKENS if agent.turn <= cuts else None

    result = await team.run("do it", master=master)
    assert result.status == ("completed" if cuts < 3 else "failed")
    assert result.summary == f"part {min(cuts + 1, 3)}"
    assert asked_again(team) == TWICE[:cuts]


async def test_a_resume_asks_again_no_more_often_than_an_engine(opened):
    begun = asyncio.Event()

    async def silent(agent):
        if agent.turn == 2:
            begun.set()
            await agent.hang()

    async with opened(check=False) as team:
        running = team.start("do it", master=silent)
        await begun.wait()
        await team.engine.shutdown()
        await running
    async with opened(check=False) as team:
        team.provider.behaviours.update(master=lambda agent: agent.say(""))
        result = await team.engine.resume()
    assert "no result" in result.error
    assert asked_again(team) == TWICE


@pytest.mark.parametrize("reason", [r for r in StopReason if r is not StopReason.END_TURN])
async def test_a_turn_that_was_stopped_never_completes_an_agent(team, reason):
    async def master(agent):
        await agent.say("so far")
        return reason

    result = await team.run("do it", master=master)
    assert (result.status, result.summary) == ("failed", "so far")
    assert reason.value in result.error


class OddSession(ProviderSession):
    """Says one thing, then breaks the rules."""

    def __init__(self, error):
        self.error = error

    async def run_turn(self, context):
        yield AssistantMessage("so far")
        if self.error is not None:
            raise self.error


class OddProvider(Provider):
    def __init__(self, error):
        self.error = error

    @asynccontextmanager
    async def open_session(self, request, host):
        yield OddSession(self.error)


@pytest.mark.parametrize(
    ("error", "words", "kind"),
    [
        (None, "the provider's stream ended without a turn end", "unknown"),
        (
            OSError("the wire is cut"),
            "odd failed in run_turn: OSError: the wire is cut",
            "plugin_fault",
        ),
        (ProviderNotAvailableError("it is gone"), "it is gone", "provider_not_available"),
    ],
)
async def test_a_provider_that_breaks_the_rules_fails_the_agent_and_its_turn_is_closed(
    opened, error, words, kind
):
    odd = ProviderSpec(name="odd", summary="", factory=lambda *_: OddProvider(error))
    async with opened(others=[odd]) as team:
        result = await team.run("do it", {"provider": "odd"})
        assert (result.status, result.summary, result.exit_code) == ("failed", "so far", 1)
        assert words in result.error
        assert team["master"].result.error_kind == kind
    assert team.ledger.rows("SELECT status, stop_reason FROM turns") == [("failed", "error")]
    [turn] = team.ledger.events("turn_finished")
    assert words in turn["error"]["message"]


@pytest.mark.requirement("D8")
async def test_a_turn_that_ends_with_live_children_waits_and_goes_on_with_their_messages(team):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            await agent.say("waiting for a")
            return
        if agent.turn == 2:
            assert "a asks (correlation_id" in agent.text
            correlation_id = agent.text.split("correlation_id ")[1].split(")")[0]
            await agent.call(
                "respond_to_child", child_id="a", correlation_id=correlation_id, response="blue"
            )
            await agent.say("told a")
            return
        assert agent.text == "a has completed its task. It reports:\n> it is blue"
        await agent.say("all done")

    async def a(agent):
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        said = await agent.call("ask_parent", question="which colour?")
        await agent.complete(f"it is {said['answer']}")

    result = await team.run("do it", master=master, a=a)
    assert (result.status, result.summary) == ("completed", "all done")
    assert team.ledger.states("master")[2:5] == ["running", "waiting_for_child", "running"]


async def test_an_unanswered_question_is_repeated_once_and_then_has_no_answer(team):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            assert (await agent.call("wait_for_message"))["type"] == "question"
        if agent.turn == 2:
            assert agent.text.startswith("You have not answered this question yet.\na asks")
        if agent.turn == 3:
            assert agent.text == "a has completed its task. It reports:\n> decided alone"
        await agent.say(f"turn {agent.turn}")

    async def a(agent):
        assert await agent.refused("ask_parent", question="which?") == "parent_did_not_answer"
        await agent.complete("decided alone")

    result = await team.run("do it", master=master, a=a)
    assert (result.status, result.summary) == ("completed", "turn 3")


async def test_a_question_that_came_too_late_to_be_seen_is_not_refused(team):
    """An unread question is a prompt of the next turn, not one that was left unanswered."""

    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            await team.seen("message_routed", "a", kind="question")
            await agent.say("ended before I looked")
            return
        if agent.turn == 2:
            assert "a asks" in agent.text
            correlation_id = agent.text.split("correlation_id ")[1].split(")")[0]
            await agent.call(
                "respond_to_child", child_id="a", correlation_id=correlation_id, response="yes"
            )
            await agent.collect()
        await agent.complete()

    async def a(agent):
        said = await agent.call("ask_parent", question="seen?")
        await agent.complete(said["answer"])

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    assert team["a"].result.summary == "yes"


async def test_task_complete_with_live_children_ends_with_the_last_of_them(team):
    release = asyncio.Event()

    async def master(agent):
        await agent.spawn(name="a")
        await agent.spawn(name="b")
        await team.seen("agent_state_changed", "a", to="waiting_for_parent")
        outcome = await agent.outcome("task_complete", {"summary": "my part is done"})
        assert (outcome.data, outcome.ends_turn) == ({"accepted": True}, True)
        assert await agent.refused("get_children_status") == "turn_over"
        with pytest.raises(MessageRoutingError, match="has ended"):
            await team.engine.prompting.prompt(agent.id, "too late", "queue")
        release.set()

    async def a(agent):
        codes.append(await agent.refused("ask_parent", question="before?"))
        await release.wait()
        codes.append(await agent.refused("ask_parent", question="after?"))
        await agent.complete()

    async def b(agent):
        await release.wait()
        await agent.complete()

    codes: list[str] = []
    result = await team.run("do it", master=master, a=a, b=b)
    assert (result.status, result.summary) == ("completed", "my part is done")
    assert codes == ["parent_ended", "parent_ended"]
    states = team.ledger.events("agent_state_changed")
    ends = [move["agent"] for move in states if move["to"] == "completed"]
    assert ends[-1] == "master"
    assert set(ends) == {"a", "b", "master"}
    assert team["master"].waiting_on is None


async def test_a_finishing_agent_can_still_be_killed(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.complete("mine is done")

    async def a(agent):
        await agent.hang()

    running = team.start("do it", master=master, a=a)
    await team.seen("agent_state_changed", "master", to="waiting_for_child")
    await team.manager.kill_agent(team["master"].agent_id, "enough")
    assert (await running).status == "killed"


async def test_an_agent_cannot_finish_over_an_unread_prompt(team):
    async def master(agent):
        await team.engine.prompting.prompt(agent.id, "and test it", "queue")
        outcome = await agent.outcome("task_complete", {"summary": "done"})
        error = outcome.data["error"]
        assert (error["code"], outcome.ends_turn) == ("unread_prompt", False)
        assert "and test it" in error["message"]
        assert "wait_for_message" in error["hint"]
        assert (await agent.call("wait_for_message"))["text"] == "and test it"
        await agent.complete("done and tested")

    result = await team.run("do it", master=master)
    assert result.summary == "done and tested"


async def test_a_reviewer_is_given_the_prompt_with_the_refusal(as_master):
    """It has no wait_for_message to take it with."""

    async def script(agent, team):
        await agent.spawn(name="a", role="reviewer")
        await agent.call("send_child_prompt", child_id="a", prompt="look at y too")
        sent.set()
        [result] = await agent.collect()
        assert result["summary"] == "both are fine"

    async def a(agent):
        await sent.wait()
        outcome = await agent.outcome("task_complete", {"summary": "x is fine"})
        assert outcome.data["error"]["code"] == "unread_prompt"
        assert "look at y too" in outcome.text
        assert "wait_for_message" not in outcome.text
        await agent.complete("both are fine")

    sent = asyncio.Event()
    team = await as_master(script, team={"a": a})
    assert team.ledger.rows("SELECT type FROM inbox WHERE consumed_by IS NULL") == []


async def hang_with_child(agent):
    await agent.say(f"{agent.name} began")
    if agent.name != "c":
        await agent.spawn(name=chr(ord(agent.name) + 1))
    await agent.begin_to_say("and half a sent")
    await agent.hang()


@pytest.mark.requirement("E9", "E33")
async def test_a_kill_ends_the_whole_subtree_children_first_and_keeps_what_was_said(as_master):
    async def script(agent, team):
        await agent.spawn(name="a")
        await team.seen("message_completed", "c", role="assistant")
        await team.settled()
        result = await team.manager.kill_agent(team["a"].agent_id, "not needed")
        assert (result.success, result.error_kind) == (False, "killed")
        assert result.summary == "a began\nand half a sent"
        assert all(team.task(name).done() for name in "abc")
        [told] = await agent.collect()
        assert (told["success"], told["error"], told["summary"]) == (
            False,
            "not needed",
            "a began\nand half a sent",
        )
        with pytest.raises(MessageRoutingError, match="has ended already"):
            await team.manager.kill_agent(team["a"].agent_id, "again")
        assert (await agent.call("wait_for_message"))["type"] == "nothing_left"

    team = await as_master(script, team=dict.fromkeys("abc", hang_with_child))
    moves = team.ledger.events("agent_state_changed")
    assert [move["agent"] for move in moves if move["to"] == "killed"] == ["c", "b", "a"]
    assert team.ledger.one("SELECT count(*) FROM inbox WHERE type = 'task_result'") == 3
    assert team.ledger.rows("SELECT DISTINCT status FROM turns WHERE role = 'worker'") == [
        ("aborted",)
    ]


async def test_two_kills_at_once_settle_one_result(as_master):
    async def script(agent, team):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "a", to="running")
        record = team["a"]
        first, second = await asyncio.gather(
            team.engine.ends.kill_tree(record, "one"), team.engine.ends.kill_tree(record, "two")
        )
        assert first == second
        await agent.collect()

    team = await as_master(script, team={"a": lambda agent: agent.hang()})
    assert team.ledger.one("SELECT count(*) FROM inbox") == 1


async def test_a_child_that_is_being_born_when_its_parent_is_killed_dies_too(as_master):
    async def script(agent, team):
        await agent.spawn(name="b")
        await started.wait()
        await team.manager.kill_agent(team["b"].agent_id)
        await agent.collect()
        others = [r for r in team.manager.roster.records() if r.agent_id != agent.id]
        assert all(record.has_ended for record in others)
        assert not {team.manager.lives.task_of(r.agent_id) for r in others}.intersection(
            team.manager.lives.running()
        )

    started = asyncio.Event()

    async def b(agent):
        started.set()
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(agent.outcome("spawn_child", {"prompt": "x"}))

    born = {f"w{number}": Actor.hang for number in range(1, 21)}
    await as_master(script, team={"b": b, **born})


async def test_an_agent_that_waits_for_a_slot_can_be_killed(opened):
    async def master(agent):
        await agent.spawn(name="a")
        result = await team.manager.kill_agent(team["a"].agent_id)
        assert (result.summary, result.error_kind) == ("", "killed")
        await agent.collect()
        await agent.complete()

    async with opened(engine={"max_concurrent_agents": 1}) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
    assert team.ledger.states("a") == ["pending", "killed"]
    assert team.provider.requests["a"] == []


async def test_a_failing_agents_children_are_killed_before_it_fails(as_master):
    async def script(agent, team):
        await agent.spawn(name="a")
        [result] = await agent.collect()
        assert (result["name"], result["error"]) == ("a", "broken")

    async def a(agent):
        await agent.spawn(name="b")
        await b_runs.wait()
        raise failed("broken", kind=ErrorKind.MODEL_ERROR)

    async def b(agent):
        b_runs.set()
        await agent.hang()

    b_runs = asyncio.Event()
    team = await as_master(script, team={"a": a, "b": b})
    assert team["a"].result.error_kind == "model_error"
    moves = team.ledger.events("agent_state_changed")
    ends = [(m["agent"], m["to"]) for m in moves if m["to"] in {"killed", "failed"}]
    assert ends == [("b", "killed"), ("a", "failed")]


async def test_a_claim_and_its_answer_are_one_act(team):
    """A crash between the two would leave a result beside a call that nobody answered."""

    async def master(agent):
        child = await agent.spawn(name="a")
        await agent.complete("done before its child")
        assert child

    async def a(agent):
        await team.seen("tool_call_finished", "master", result='{"accepted":true}')
        await agent.complete()

    assert (await team.run(master=master, a=a)).status == "completed"
    assert team.ledger.one("SELECT count(*) FROM steps WHERE event_count = 0") == 0

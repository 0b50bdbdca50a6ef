"""prsm diff, on ledgers of real runs of the scripted provider."""

import json

import pytest

from prsm_core.cli.sessions.diffing import compare
from prsm_core.domain.events import Event
from tests.cli.sessions_scene import play

SPAWN = {"tool": "spawn_child", "arguments": {"prompt": "look", "name": "w1", "wait": True}}
ASKS = {
    "lanes": {
        "master": {"steps": [{"call": SPAWN}, {"say": "We end."}]},
        "w1": {"steps": [{"say": "I look.", "shell": "python3 -c 'print(1)'"}, {"say": "I end."}]},
    }
}


def diff(prsm, one, other):
    done = prsm("diff", one, other, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_two_runs_of_the_same_script_do_the_same(prsm, prsm_process, tmp_path):
    one, _ = play(prsm_process, tmp_path)
    other, _ = play(prsm_process, tmp_path)
    assert diff(prsm, one, other)["differences"] == []
    done = prsm("diff", one, other)
    assert done.out.splitlines()[2] == "the same was done in both"


def test_a_request_that_was_answered_otherwise_is_the_first_difference(
    prsm, prsm_process, tmp_path
):
    denied, _ = play(prsm_process, tmp_path, ASKS, **{"on-ask": "deny"})
    allowed, _ = play(prsm_process, tmp_path, ASKS)
    told = diff(prsm, allowed, denied)
    first, *rest = told["differences"]
    assert told["first"] == first
    assert (first["kind"], first["agent"]) == ("decision", "w1")
    assert first["what"] == "permission: Bash python3 -c 'print(1)'"
    assert (first["a"]["verdict"], first["b"]["verdict"]) == ("once", "deny")
    assert "call" in {each["kind"] for each in rest}
    text = prsm("diff", allowed, denied).out
    assert "first difference: w1, decision: permission: Bash python3" in text


class Log:
    """Events as two sessions might have them, with ids of their own."""

    def __init__(self, name):
        self._name, self._events = name, []

    def add(self, kind, agent=None, /, **data):
        number = len(self._events) + 1
        self._events.append(
            Event(
                type=kind,
                session=self._name,
                run=f"{self._name}-run",
                ts=float(number),
                agent=agent and f"{self._name}-agent-{agent}",
                seq=number,
                data=data,
            )
        )
        return self

    def spawn(self, name, parent=None, **more):
        told = {"role": "worker", "provider": "p", "model": "m", "depth": 0, "prompt": "do it"}
        parent = parent and f"{self._name}-agent-{parent}"
        return self.add("agent_spawned", name, name=name, parent=parent, **told, **more)

    def ask(self, agent, answer):
        request = f"{self._name}-request-{len(self._events)}"
        self.add(
            "question_asked", agent, request=request, question="which one?", options=["a", "b"]
        )
        return self.add("question_answered", agent, request=request, answer=answer, by="user")

    def call(self, agent, tool, result, **arguments):
        call = f"{self._name}-call-{len(self._events)}"
        self.add("tool_call_started", agent, call=call, tool=tool, arguments=arguments)
        return self.add(
            "tool_call_finished", agent, call=call, status="completed", result=result, error=None
        )

    def say(self, agent, text):
        return self.add(
            "message_completed", agent, turn=f"{self._name}-turn", role="assistant", text=text
        )

    @property
    def events(self):
        return self._events


def team(name):
    return Log(name).spawn("master").spawn("w1", "master").say("w1", "I begin.")


def test_a_fork_that_was_answered_otherwise_names_that_answer_first():
    one = team("one").ask("w1", "a").say("w1", "so a").call("w1", "Edit", "done", path="a.txt")
    other = team("other").add("notice", None, level="info", text="forked").ask("w1", "b")
    other = other.say("w1", "so b").call("w1", "Edit", "done", path="b.txt")
    first, *rest = compare(one.events, other.events)
    assert (first.kind, first.agent) == ("decision", "w1")
    assert first.what.startswith("question: which one?")
    assert (first.a["answer"], first.b["answer"]) == ("a", "b")
    assert {each.kind for each in rest} == {"call", "message"}
    assert compare(one.events, one.events) == []


def test_ids_and_who_was_faster_count_for_nothing():
    one = Log("one").spawn("master").spawn("w1", "master").spawn("w2", "master")
    one.say("w1", "first").say("w2", "second").call("w1", "see", "one-agent-w2", who="one-agent-w2")
    other = Log("two").spawn("master").spawn("w1", "master").spawn("w2", "master")
    other.say("w2", "second").say("w1", "first")
    other.call("w1", "see", "two-agent-w2", who="two-agent-w2")
    assert compare(one.events, other.events) == []


@pytest.mark.parametrize(
    ("change", "kind", "what"),
    [
        (lambda log: log.spawn("w2", "master"), "agent", "spawned"),
        (lambda log: log.say("w1", "more"), "message", '["assistant", "more"]'),
        (lambda log: log.call("w1", "Bash", "", command="ls"), "call", 'Bash {"command": "ls"}'),
        (
            lambda log: log.add("file_changed", "w1", path="a", kind="added", added=3, removed=0),
            "file",
            "added a",
        ),
        (
            lambda log: log.add(
                "agent_state_changed", "w1", **{"from": "running", "to": "failed", "reason": ""}
            ),
            "end",
            "how it ended",
        ),
        (
            lambda log: log.add(
                "agent_model_changed", "w1", provider="p", model="n", reasoning_effort="high"
            ),
            "decision",
            "model: p/n (high)",
        ),
        (
            lambda log: log.add(
                "agent_mode_changed", "w1", mode="plan", **{"from": "default", "to": "plan"}
            ),
            "decision",
            "mode: plan",
        ),
        (
            lambda log: log.add("agent_labels_changed", "w1", labels={"regions/state": "done"}),
            "decision",
            'labels: {"regions/state": "done"}',
        ),
    ],
)
def test_what_one_alone_has_is_told_on_its_side(change, kind, what):
    log = change(team("one")).events
    [found] = compare(log, team("other").events)
    assert (found.kind, found.what) == (kind, what)
    assert (found.a is not None, found.b) == (True, None)
    assert (found.seq_a, found.seq_b) == (len(log), None)
    [found] = compare(team("one").events, change(team("other")).events)
    assert (found.a, found.b is not None) == (None, True)


@pytest.mark.parametrize("told", [{"labels": {"kind": "task"}}, {"region": {"paths": ["src"]}}])
def test_agents_of_other_labels_or_regions_were_spawned_otherwise(told):
    one, other = Log("one").spawn("master"), Log("two").spawn("master", **told)
    [found] = compare(one.events, other.events)
    [(name, value)] = told.items()
    assert (found.kind, found.what, found.b[name]) == ("agent", "spawned", value)

"""Moves by tools against a plain model: whatever comes between reading and answering."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.harness import open_team
from tests.engine.test_plugin_tools import table, tool

STATES = ("a", "b", "c")
# One call: where it moves to, after which of the others it is answered, and whether it fails.
CALLS = st.lists(
    st.tuples(st.sampled_from(STATES), st.integers(0, 5), st.booleans()), min_size=1, max_size=6
)


@given(CALLS)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_calls_at_once_move_as_if_one_came_after_the_other(tmp_path_factory, calls):
    """Each that is accepted was decided on the state that the one before it had left."""
    gates = [asyncio.Event() for _ in calls]
    reached = [asyncio.Event() for _ in calls]

    async def handler(call):
        number = int(call.args["text"])
        seen = call.labels.get("p/state", "start")
        call.relabel({"p/state": call.args["to"]})
        reached[number].set()
        await gates[number].wait()
        if calls[number][2]:
            raise KeyError("it fails")
        return {"from": seen, "to": call.args["to"]}

    answers = []

    async def master(agent):
        async def one(number):
            arguments = {"to": calls[number][0], "text": str(number)}
            outcome = await agent.outcome("move", arguments, step=False)
            if outcome.is_error:
                wanted = "plugin_fault" if calls[number][2] else "labels_changed"
                assert outcome.data["error"]["code"] == wanted
            else:
                answers.append(outcome.data)

        async with asyncio.TaskGroup() as group:
            for number in range(len(calls)):
                group.create_task(one(number))
                await reached[number].wait()
            for number in sorted(range(len(calls)), key=lambda n: (calls[n][1], n)):
                gates[number].set()
        await agent.complete()

    folder = tmp_path_factory.mktemp("moves")
    async with open_team(folder, tools=table(tool(handler))) as team:
        await team.run("do it", {"labels": {"protocol": "x"}}, master=master)
        state = team["master"].descriptor.labels.get("p/state", "start")
    written = [e["labels"]["p/state"] for e in team.ledger.events("agent_labels_changed")]
    now = "start"
    for answer in answers:  # in the order in which they were given
        assert answer["from"] == now
        now = answer["to"]
    assert (written, state) == ([answer["to"] for answer in answers], now)

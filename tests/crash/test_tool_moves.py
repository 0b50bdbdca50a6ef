"""An engine that dies at any of its writes: a move is made once, with the message that it sends."""

from __future__ import annotations

import pytest

from prsm_core.errors import StoreError
from tests.engine.deaths import DIED, go_on
from tests.engine.harness import open_team
from tests.engine.test_plugin_tools import LABELS, move, table, tool


async def move_and_tell(call):
    answer = await move(call)
    call.send("w1", call.args["to"])
    return answer


async def take(call):
    message = await call.next_message(None)
    return {"text": None if message is None else message.text}


TOOLS = table(
    tool(move_and_tell, sends_messages=True, acts_outside=True),
    tool(take, "take", takes_messages=True, labels="", roles=frozenset({"worker"})),
)


async def master(agent):
    children = (await agent.call("get_children_status"))["children"]
    if not children:
        await agent.spawn(name="w1")
    state = dict(agent.session.request.labels).get("p/state", "")
    for place in "abc"["abc".find(state) + 1 if state else 0 :]:
        outcome = await agent.outcome("move", {"to": place})
        assert not outcome.is_error or outcome.data["error"]["code"] == "no_move", outcome.text
    await agent.complete()


async def reader(agent):
    while (await agent.call("take"))["text"] is not None:
        pass
    await agent.complete()


def dies_at_write(team, number, *, after):
    """Let the engine die at this write of its; return what tells whether it came so far."""
    commit, written = team.store.commit, []

    async def cut_off(step):
        written.append(step)
        if len(written) == number and not after:
            team.store.broken = StoreError(DIED)
        done = await commit(step)
        if len(written) == number:
            team.store.broken = StoreError(DIED)
        return done

    vars(team.store)["commit"] = cut_off
    return lambda: len(written) >= number


async def dies_and_goes_on(folder, number, *, after):
    """Return whether there was a write of this number; what is left then is checked."""
    folder.mkdir()
    async with open_team(folder, check=False, tools=TOOLS) as team:
        came_so_far = dies_at_write(team, number, after=after)
        team.provider.behaviours.update(master=master, w1=reader)
        try:
            result = await team.engine.run("do it", **LABELS)
        except StoreError:
            result = None
    if not came_so_far():
        assert result is not None
        assert result.status == "completed"
        return False
    async with open_team(folder, tools=TOOLS) as team:
        if result is None:
            if not await team.store.sessions():
                return True  # nothing of it was written
            result = await go_on(team, master=master, w1=reader)
        assert result.status == "completed", result
    moves = [e["labels"]["p/state"] for e in team.ledger.events("agent_labels_changed")]
    assert moves == ["a", "b", "c"], number
    sent = "SELECT consumed_by IS NOT NULL FROM inbox WHERE type = 'peer'"
    rows = team.ledger.rows(sent)
    assert rows == [(1,)] * 3, number
    return True


@pytest.mark.requirement("A4", "A15")
@pytest.mark.parametrize("after", [False, True])
async def test_a_move_and_its_message_are_one_whenever_the_engine_dies(tmp_path, after):
    """At three of its writes here; the long form dies at each."""
    for number in (6, 9, 12):
        assert await dies_and_goes_on(tmp_path / str(number), number, after=after)


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True])
async def test_a_move_and_its_message_are_one_at_each_write(tmp_path, after):
    number = 1
    while await dies_and_goes_on(tmp_path / str(number), number, after=after):
        number += 1
    assert number > 12

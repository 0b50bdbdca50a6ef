"""What waits for a person is put to the user of the client that leads, where the client can."""

from __future__ import annotations

import asyncio
import json

import mcp_types
import pytest

from plugins.prsm_mcp.tests.leader import CLIENT, leading
from tests.place import Place

MAKE = [{"shell": {"id": "made", "cmd": "make it"}}, {"say": "${made.status}: ${made.reason}"}]
CHOOSE = [
    {
        "call": {
            "id": "asked",
            "tool": "ask_user",
            "arguments": {"question": "Which colour?", "options": ["red", "blue"]},
        }
    },
    {"say": "took ${asked}"},
]
TELL = [
    {"call": {"id": "asked", "tool": "ask_user", "arguments": {"question": "How\nmany?"}}},
    {"say": "took ${asked}"},
]
both_protocols = pytest.mark.parametrize("mode", ["auto", "legacy"])
# What is told to the client is the same in both, once it can ask: the older one takes minutes more.
mostly_new = pytest.mark.parametrize(
    "mode", ["auto", pytest.param("legacy", marks=pytest.mark.long)]
)


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    place.script(maker=MAKE, other=MAKE, chooser=CHOOSE, teller=TELL)
    return place


class User:
    """The user of a client: what they were shown, and what they say."""

    def __init__(self, action="accept", **content):
        self.reply = {"action": action, "content": content or None}
        self.shown = []
        self.asked = asyncio.Event()

    async def __call__(self, _context, params):
        self.shown.append(params)
        self.asked.set()
        return mcp_types.ElicitResult(**self.reply)


async def result_of(leader, child):
    """Spawn a child and return what it says at its end."""
    await leader.spawn(child)
    answer = await leader.call("wait_for_message")
    assert answer["type"] == "task_result", answer
    return answer["summary"]


@pytest.mark.requirement("E65", "E57", "D9", "D10")
@mostly_new
@pytest.mark.parametrize(
    ("said", "verdict"),
    [("allow once", "once"), ("always allow, in this run", "always"), ("deny", "deny")],
)
async def test_the_clients_user_decides_about_a_permission(place, mode, said, verdict):
    user = User(permission=said)
    async with leading(place, mode=mode, elicitation_callback=user) as leader:
        summary = await result_of(leader, "maker")
    assert ("the user refused it" in summary) is (verdict == "deny")
    [shown] = user.shown
    assert shown.message.startswith("maker asks permission for Bash:\n  | make it\nwhy you are")
    offered = shown.requested_schema["properties"]["permission"]["enum"]
    assert offered == ["allow once", "always allow, in this run", "deny"], "no rule that lasts"
    [resolved] = await place.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == (verdict, "user")
    assert resolved["via"] == "elicitation, mcp"


@pytest.mark.requirement("E57", "D10")
@both_protocols
async def test_the_clients_user_answers_questions(place, mode):
    user = User(choice="blue")
    async with leading(place, mode=mode, elicitation_callback=user) as leader:
        assert "blue" in await result_of(leader, "chooser")
    [shown] = user.shown
    assert shown.requested_schema["properties"]["choice"]["enum"] == ["red", "blue"]
    user = User(text="  seven ")
    async with leading(place, mode=mode, elicitation_callback=user) as leader:
        assert "seven" in await result_of(leader, "teller")
    [shown] = user.shown
    assert shown.message == "teller asks:\n  | How\n  | many?"
    [answered] = await place.events("question_answered")
    assert answered["answer"]["text"] == "seven"


@mostly_new
@pytest.mark.parametrize("child", ["maker", "chooser"])
async def test_who_declines_refuses(place, mode, child):
    async with leading(place, mode=mode, elicitation_callback=User("decline")) as leader:
        summary = await result_of(leader, child)
    if child == "maker":
        assert summary == "denied: the user refused it"
    kind = "permission_resolved" if child == "maker" else "question_answered"
    [ended] = await place.events(kind)
    assert ended["by"] == "user"


@mostly_new
@pytest.mark.parametrize(
    "user",
    [
        {"action": "cancel"},
        {"action": "accept", "permission": "allow for ever"},
        {"action": "accept", "other": "allow once"},
    ],
    ids=lambda user: " ".join(user.values()),
)
async def test_no_answer_leaves_it_to_a_terminal_and_is_not_asked_for_again(place, mode, user):
    user = User(**user)
    async with leading(
        place, "--patience", "0.2", mode=mode, through=CLIENT, elicitation_callback=user
    ) as leader:
        await leader.spawn("maker")
        answer = await leader.call("wait_for_message")
        while "notice" not in answer or not user.shown:
            assert answer["type"] == "pending"
            answer = await leader.call("wait_for_message", token=answer["token"])
        assert "`prsm attach`" in answer["notice"]
        _, listed, _ = await place.run("answer", "--json")
        [request] = json.loads(listed)
        assert (await place.run_in_terminal("answer", request["request"], "once"))[0] == 0
        while answer["type"] == "pending":
            answer = await leader.call("wait_for_message", token=answer["token"])
    assert "denied" not in answer["summary"]
    assert len(user.shown) == 1


@mostly_new
async def test_what_waits_together_is_asked_together_and_each_is_answered(place, mode):
    user = User(permission="deny")
    async with leading(place, mode=mode, elicitation_callback=user) as leader:
        children = [{"name": name, "prompt": "work"} for name in ("maker", "other")]
        await leader.call("spawn_children_parallel", children=children)
        first = await leader.call("wait_for_message", all=True)
    assert [end["summary"] for end in (first, *first["others"])] == [
        "denied: the user refused it"
    ] * 2
    assert sorted(shown.message.split()[0] for shown in user.shown) == ["maker", "other"]


@pytest.mark.requirement("F10")
@mostly_new
async def test_a_call_that_asked_has_its_effect_once(place, mode):
    place.script(maker=[*MAKE[:1], *MAKE])
    user = User(permission="allow once")
    async with leading(place, mode=mode, elicitation_callback=user) as leader:
        told = await leader.call("spawn_child", name="maker", prompt="work", wait=True)
    assert "denied" not in json.dumps(told)
    assert len(user.shown) == 2
    spawned = await place.events("agent_spawned")
    assert [event["name"] for event in spawned] == ["master", "maker"]


@mostly_new
async def test_a_client_that_cannot_ask_is_told_as_before(place, mode):
    async with leading(place, "--patience", "0.2", "--unattended", "1", mode=mode) as leader:
        await leader.spawn("maker")
        answer = await leader.call("wait_for_message")
        notices = set()
        while answer["type"] == "pending":
            notices.add(answer.get("notice", "")[:21])
            answer = await leader.call("wait_for_message", token=answer["token"])
    assert "Waiting for your user" in notices
    assert "nobody was attached" in answer["summary"]


@mostly_new
async def test_a_user_who_is_being_asked_is_there(place, mode):
    """A request is refused when nobody has attended; somebody is shown it."""
    place.script(maker=MAKE, slow=[{"delay": 5, "say": "slow"}])
    shown, released = asyncio.Event(), asyncio.Event()

    async def slow(_context, _params):
        shown.set()
        await released.wait()
        return mcp_types.ElicitResult(action="accept", content={"permission": "deny"})

    async with (
        leading(place, "--unattended", "3", mode=mode, elicitation_callback=slow) as leader,
        asyncio.TaskGroup() as group,
    ):
        made = group.create_task(leader.spawn("maker", wait=True))
        await shown.wait()
        await leader.spawn("slow", wait=True)
        released.set()
    assert "denied: the user refused it" in json.dumps(made.result())


async def test_rules_and_flags_answer_without_asking_anybody(place):
    user = User(permission="deny")
    async with leading(place, "--on-ask", "allow", elicitation_callback=user) as leader:
        assert "denied" not in await result_of(leader, "maker")
    assert user.shown == []

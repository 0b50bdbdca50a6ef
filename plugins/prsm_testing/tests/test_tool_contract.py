"""The contract of tools finds out each way to break it; the double of a call keeps the rules."""

from typing import ClassVar

import pytest
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from prsm_testing import RecordingToolCall, ToolContract

from prsm_core import (
    AgentRole,
    AgentState,
    Answer,
    MessageRoutingError,
    OrchestrationError,
    PeerMessage,
    PeerNow,
    Question,
    ToolContribution,
)

pytestmark = pytest.mark.requirement("F12")
BROKEN = (AssertionError, KeyError, ValueError, TypeError)


class Move(Struct):
    to: str | UnsetType = UNSET


class MoveByNumber(Struct):
    to: float


class MoveFrom(Struct):
    to: str
    start: str


def tool_contract(handler, when=lambda labels: "on" in labels, **fields):
    class Contract(ToolContract):
        labels: ClassVar = {"on": "yes"}
        samples: ClassVar = ({"to": "work"},)

    made = {"name": "move", "summary": "", "labels": "own", **fields}
    given = {"description": "Moves.", "arguments": Move, "roles": frozenset({"master"}), **made}
    Contract.spec = ToolContribution(handler=handler, when=when, **given)
    return Contract()


async def moves(call):
    return {"labels": dict(call.relabel({"own/state": call.args["to"]}))}


async def answers_a_list(call):
    return ["x"]


async def answers_no_json(call):
    return {"at": {1, 2}}


async def refuses_without_a_hint(call):
    raise OrchestrationError("no")


async def breaks(call):
    return {"x": call.args["nowhere"]}


async def sends(call):
    return {"id": call.send("a", "b")}


async def asks(call):
    return {"said": (await call.ask_user(Question(text="?"))).text}


async def changes_arguments(call):
    call.args["to"] = "other"
    return {}


ANSWERS, WHO = "it_answers_with_json_or_an_error_with_a_hint", "it_says_who_has_it"
TOOLS = [
    ({"handler": answers_a_list}, ANSWERS),
    ({"handler": answers_no_json}, ANSWERS),
    ({"handler": refuses_without_a_hint}, ANSWERS),
    ({"handler": breaks}, ANSWERS),
    ({"handler": sends}, ANSWERS),
    ({"handler": lambda call: []}, ANSWERS),
    ({"handler": moves, "labels": "else"}, ANSWERS),
    ({"handler": moves, "when": lambda labels: labels["on"] == "yes"}, WHO),
    ({"handler": moves, "when": lambda labels: labels.get("on")}, WHO),
    ({"handler": moves, "when": lambda labels: bool(labels.pop("on", ""))}, WHO),
    (
        {"handler": asks, "labels": "", "is_repeatable": True},
        "one_that_is_repeatable_does_nothing",
    ),
    ({"handler": changes_arguments}, "it_changes_nothing_of_what_it_is_given"),
    (
        {"handler": moves, "arguments": MoveByNumber},
        "its_arguments_take_the_samples",
    ),
    (
        {"handler": moves, "arguments": MoveFrom},
        "its_arguments_take_the_samples",
    ),
]


@pytest.mark.parametrize(("fields", "test"), TOOLS)
async def test_a_tool_that_breaks_the_rule_fails_its_test(fields, test):
    await getattr(tool_contract(moves), f"test_{test}")()
    with pytest.raises(BROKEN):
        await getattr(tool_contract(**fields), f"test_{test}")()


async def test_an_author_sees_what_a_tool_has_done():
    contract = tool_contract(moves)
    call = contract.call({"to": "work"}, context_used=0.5)
    assert await contract.answer(call) == {"labels": {"on": "yes", "own/state": "work"}}
    assert (call.changes, call.context_used, call.sent) == ({"own/state": "work"}, 0.5, [])


async def test_the_double_of_a_call_keeps_the_rules_of_the_engine():
    spec = replace(tool_contract(moves).spec, sends_messages=True, takes_messages=True)
    peer = PeerNow(
        agent_id="b", name="w1", role=AgentRole.WORKER, state=AgentState.RUNNING, labels={}
    )
    said = PeerMessage(message_id="m", sender="b", name="w1", text="hello", sent_at=1.0)
    call = RecordingToolCall(spec, peers=[peer], messages=[said], answer=Answer(text="yes"))
    assert call.send("w1", "hi") == "message-1"
    with pytest.raises(MessageRoutingError) as caught:
        call.send("w2", "hi")
    assert caught.value.hint == "agents that you can write to: w1"
    assert [await call.next_message(0) for _ in range(2)] == [said, None]
    for wrong in ({"plain": "x"}, {"else/x": "x"}, {"own/a b": "x"}):
        with pytest.raises(OrchestrationError):
            call.relabel(wrong)
    assert call.changes == {}
    assert (await call.ask_user(Question(text="?"))).text == "yes"
    with pytest.raises(RuntimeError):
        await call.ask_user(Question(text="?"))
    assert (call.sent, [one.text for one in call.asked]) == ([("w1", "hi")], ["?"])

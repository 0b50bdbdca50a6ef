"""What the ledger gets holds no secret, whatever kind of step brings it."""

from __future__ import annotations

import dataclasses

import pytest

from prsm_core.domain import steps
from prsm_core.domain.agents import AgentResult
from prsm_core.domain.messages import MessageType
from prsm_core.domain.steps import CallClose, CallOpenStep, HumanRequest, Resolution, Step
from prsm_core.domain.tools import McpServer
from prsm_core.domain.turns import AgentError, AgentMessage, AgentToolCall, ErrorKind
from prsm_core.engine.secrecy import WRITTEN, without_secrets
from prsm_core.permissions import Redactor
from prsm_core.testing.steps import Steps

SECRET = "hunter2-" * 2
REDACT = Redactor([SECRET]).value
SAID = f"it is {SECRET}!"


def message(text=SAID):
    return AgentMessage(id="m1", role="assistant", content=text, sequence=1, created_at=0)


def error():
    return AgentError(kind=ErrorKind.UNKNOWN, message=SAID)


TEAM = Steps()
TURN = TEAM.open_turn("w1")
RESULT = AgentResult(
    agent_id="a", success=True, summary=SAID, artifacts=(SAID,), error=SAID, evidence_gaps=(SAID,)
)
SERVER = McpServer(command="x", args=(SAID,), env={"K": SECRET}, headers={"K": SECRET})
CALL = TEAM.call("c1", params={"a": [{"b": SAID}]}, result=SAID, error=SAID)
STEPS = {
    "spawn": dataclasses.replace(
        TEAM.spawn("w2"),
        agent=dataclasses.replace(
            TEAM.spawn("w3").agent, prompt=SAID, system_prompt=SAID, mcp_servers={"s": SERVER}
        ),
    ),
    "call": TEAM.open_call(TURN, CALL, "w1"),
    "answer": dataclasses.replace(
        TEAM.close_call(TURN, "c1", "w1"),
        close=CallClose(turn_id="t", call_id="c", status="completed", result=SAID),
        messages=(TEAM.message("w1", "w2", MessageType.ANSWER, payload={"text": SAID}),),
    ),
    "turn": TEAM.close_turn(
        TURN,
        "w1",
        result=TEAM.result(messages=(message(),), tool_calls=(CALL,), error=error()),
    ),
    "end": TEAM.end("w1", result=RESULT),
    "control": TEAM.control(
        "w1",
        "request",
        prompt=SAID,
        data={"command": SAID},
        requests=(
            HumanRequest(
                request_id="r", agent_id="a", kind="question", payload={"q": SAID}, opened_at=0.0
            ),
        ),
        resolutions=(Resolution(request_id="r", answer={"text": SAID}, by="user"),),
    ),
}


@pytest.mark.requirement("U19")
def test_a_key_as_a_tools_name_or_as_an_arguments_is_taken_out():
    call = AgentToolCall(
        id="c",
        tool_name=SECRET,
        params={SECRET: {f"x{SECRET}": 1}},
        status="running",
        started_at=0,
        sequence=1,
    )
    step = CallOpenStep(
        step_id="s", session_id="s", run_id="r", agent_id="a", turn_id="t", call=call
    )
    assert SECRET not in repr(without_secrets(step, REDACT))


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_no_text_of_a_step_holds_a_secret(step):
    assert SECRET in repr(step)
    clean = without_secrets(step, REDACT)
    assert SECRET not in repr(clean)
    assert (clean.step_id, type(clean)) == (step.step_id, type(step))


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_without_secrets_stays_as_it_is(step):
    assert without_secrets(step, Redactor(()).value) is step


KINDS = [
    kind
    for kind in vars(steps).values()
    if isinstance(kind, type) and issubclass(kind, Step) and kind is not Step
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_step_says_which_of_its_fields_hold_text(kind):
    assert {"messages", "changes"} <= set(WRITTEN[kind])


@pytest.mark.parametrize("record", WRITTEN, ids=lambda record: record.__name__)
def test_the_fields_that_hold_text_exist(record):
    assert set(WRITTEN[record]) <= {field.name for field in dataclasses.fields(record)}

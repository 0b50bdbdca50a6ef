"""Agents are held to what their state lists, in every mode and whatever the tool."""

from __future__ import annotations

from inspect import isawaitable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_protocols.enforcing import Enforcing
from prsm_protocols.labels import STATE, pin_of
from prsm_protocols.page import Page, State, Transition, printed
from prsm_protocols.tool_names import ALWAYS

from plugins.prsm_protocols.tests.conftest import INBOX, World
from prsm_core import (
    NATIVE_TOOLS,
    ORCHESTRATION_TOOLS,
    AgentRole,
    Deny,
    OrchestrationError,
    PermissionContext,
    PermissionMode,
    PermissionRequest,
)


async def denial(world, tool, agent="w1", mode=PermissionMode.DEFAULT):
    """Return why an agent may not call a tool, None where it may."""
    context = PermissionContext(
        mode=mode,
        role=AgentRole.WORKER,
        provider="script",
        workspace=str(world.workspace),
        trusted=world.trusted,
        labels=world.labels[agent],
    )
    request = PermissionRequest(agent_id=agent, tool=tool)
    enforcing = Enforcing(world.validator, lambda: world.time)
    verdict = enforcing.decide(request, context)
    if isawaitable(verdict):
        verdict = await verdict
    assert verdict == await enforcing.check(request, context)
    assert verdict is None or isinstance(verdict, Deny)
    return None if verdict is None else verdict.reason


@pytest.mark.requirement("A2", "F8")
async def test_what_a_state_does_not_list_is_denied_and_the_transition_opens_it(world):
    for _ in range(2):  # before its first call, and after it
        assert await denial(world, "Read") is None
        assert await denial(world, "Edit") == (
            "Edit is not for the state 'inbox' of your protocol inbox, which allows Grep, Read. "
            'state_transition(to="deep_work") leads to a state that allows it: When focused task'
            " identified."
        )
        await world.move()
    await world.move("deep_work")
    assert await denial(world, "Edit") is None


@pytest.mark.requirement("F8")
async def test_orchestration_tools_are_held_to_it_too_and_what_frees_an_agent_is_not(world):
    assert "spawn_child is not for the state" in await denial(world, "spawn_child")
    assert "report_progress is not for the state" in await denial(world, "report_progress")
    for tool in sorted(ALWAYS):
        assert await denial(world, tool) is None
    assert set(ALWAYS) == {
        "state_transition", "message_send", "message_next", "measure", "ask_parent", "ask_user",
        "task_complete", "wait_for_message", "respond_to_child",
    }  # fmt: skip


async def test_a_shell_is_a_shell_whoever_runs_it(world):
    assert await denial(world, "run_bash") is not None
    world.page("inbox", INBOX.replace("tools: Read, Grep", "tools: Bash"))
    assert await denial(world, "run_bash") is None
    assert await denial(world, "Bash") is None


async def test_the_way_to_a_state_further_on_is_told_by_its_first_move(world):
    world.page("inbox", INBOX.replace("- deep_work: Focused task execution\n",
                                      "- deep_work: x\n  - tools: Read\n")
                             .replace("tools: none", "tools: Edit"))  # fmt: skip
    assert (await denial(world, "Edit")).endswith(
        'The state distill allows it; the first move there is state_transition(to="deep_work"): '
        "When focused task identified."
    )
    assert (await denial(world, "Bash")).endswith("No transition leads to a state that allows it.")
    await world.move("deep_work")
    assert (await denial(world, "Edit")).endswith("It needs context >= 0.8.")


@pytest.mark.requirement("F8")
async def test_where_the_protocol_cannot_be_read_nothing_else_is_allowed(world):
    world.page("inbox", "# Nothing\n")
    assert "inbox.md:1: 'Nothing' is no title" in await denial(world, "Read")
    assert await denial(world, "ask_user") is None
    world.page("inbox", INBOX)
    world.trusted = False
    assert "the workspace is not trusted" in await denial(world, "Read")
    world.trusted = True
    world.agent("w1", protocol="nope")
    assert "no protocol 'nope'" in await denial(world, "Read")


@pytest.mark.requirement("F8")
async def test_who_is_pinned_to_a_state_that_its_protocol_lacks_may_do_nothing_but_ask(world):
    """Its label was made by a version whose pages are others."""
    await world.move("deep_work")
    world.labels["w1"] = {**world.labels["w1"], STATE: "nowhere"}
    pin = pin_of(world.labels["w1"], "w1")
    assert pin is not None
    validator = world.validator
    for find in (validator.pinned, validator.pinned_now):
        with pytest.raises(OrchestrationError) as lost:
            find(pin)
        assert lost.value.code == "protocol_lost"
    with pytest.raises(OrchestrationError) as lost:
        await validator.pinned_soon(pin)
    assert lost.value.code == "protocol_lost"
    for tool in ("Read", "Edit", "spawn_child"):
        assert f"{pin.protocol} has no state nowhere" in await denial(world, tool), tool
    assert await denial(world, "ask_user") is None
    with pytest.raises(OrchestrationError) as refused:
        await world.move("inbox")
    assert refused.value.code == "protocol_lost"
    assert world.labels["w1"][STATE] == "nowhere", "nothing puts it anywhere else unasked"


async def test_a_state_that_is_over_allows_nothing_but_to_go_on(world):
    await world.move("idle")
    assert await denial(world, "Read") is None
    world.time += 1800
    assert await denial(world, "Read") == (
        "your time in the state idle is over: you are to be in inbox. Call "
        'state_transition(to="inbox") first.'
    )
    await world.move("inbox")
    assert await denial(world, "Read") is None


async def test_who_has_no_protocol_is_let_alone(world):
    world.labels["boss"] = {"effort": "high"}
    assert await denial(world, "Edit", "boss") is None


async def test_a_child_is_held_to_the_first_state_whatever_its_parent_may(world):
    await world.move("deep_work")
    world.labels["c1"] = dict(world.labels["w1"])
    assert await denial(world, "Edit") is None
    assert "state 'inbox'" in await denial(world, "Edit", "c1")


TOOLS = sorted(NATIVE_TOOLS | ORCHESTRATION_TOOLS)
LISTS = st.none() | st.sets(st.sampled_from(TOOLS), max_size=4)


@pytest.mark.requirement("F8")
@settings(max_examples=25)
@given(st.lists(LISTS, min_size=1, max_size=4), st.data())
async def test_in_each_state_exactly_what_it_lists_is_allowed(tmp_path_factory, lists, data):
    folder = tmp_path_factory.mktemp("table")
    world = World(folder / "work", folder / "kept")
    names = ["p", *(f"s{n}" for n in range(1, len(lists)))]
    page = Page(
        name="p",
        states=tuple(
            State(name=name, tools=None if tools is None else tuple(sorted(tools)))
            for name, tools in zip(names, lists, strict=True)
        ),
        transitions=tuple(
            Transition(source=a, target=b) for a in names for b in names if a != b
        ),
    )  # fmt: skip
    world.page("p", printed(page))
    world.agent("w1", protocol="p")
    state = data.draw(st.sampled_from(names))
    if state != "p":
        await world.move(state)
    listed = lists[names.index(state)]
    mode = data.draw(st.sampled_from(PermissionMode))
    for tool in TOOLS:
        is_same_shell = tool == "run_bash" and listed is not None and "Bash" in listed
        may = listed is None or tool in listed or tool in ALWAYS or is_same_shell
        assert (await denial(world, tool, mode=mode) is None) == may, (tool, listed)

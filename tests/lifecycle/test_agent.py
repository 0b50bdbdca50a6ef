"""The life of an agent: nine states, and the only ways between them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.agents import AgentState
from prsm_core.errors import InvalidTransitionError
from prsm_core.lifecycle import AGENT_MACHINE, RESTART, path_to

S = AgentState
WAITING = {S.WAITING_FOR_PARENT, S.WAITING_FOR_CHILD, S.WAITING_FOR_EXPERT}
TERMINAL = {S.COMPLETED, S.FAILED, S.KILLED}
LEGAL = (
    {(S.PENDING, S.STARTING), (S.STARTING, S.RUNNING), (S.RUNNING, S.COMPLETED)}
    | {(S.RUNNING, waiting) for waiting in WAITING}
    | {(waiting, S.RUNNING) for waiting in WAITING}
    | {(live, end) for live in set(S) - TERMINAL for end in (S.FAILED, S.KILLED)}
)
RESTARTS = {(S.COMPLETED, S.STARTING), (S.FAILED, S.STARTING), (S.KILLED, S.PENDING)}
STATES = st.sampled_from(AgentState)


@pytest.mark.requirement("E32", "E33")
@pytest.mark.parametrize("target", list(AgentState))
@pytest.mark.parametrize("source", list(AgentState))
def test_exactly_these_transitions_are_legal(source, target):
    assert (target in AGENT_MACHINE.targets(source)) == ((source, target) in LEGAL)
    if (source, target) in LEGAL:
        AGENT_MACHINE.validate(source, target)
    else:
        with pytest.raises(ValueError, match="no transition"):
            AGENT_MACHINE.validate(source, target)


@pytest.mark.requirement("E33")
@pytest.mark.parametrize("target", list(AgentState))
@pytest.mark.parametrize("source", list(AgentState))
def test_an_ended_agent_lives_again_by_a_restart_only(source, target):
    if (source, target) in RESTARTS:
        AGENT_MACHINE.validate(source, target, trigger=RESTART)
    else:
        with pytest.raises(InvalidTransitionError):
            AGENT_MACHINE.validate(source, target, trigger=RESTART)


@given(choices=st.lists(st.integers(0, 100), max_size=50))
def test_a_random_walk_ends_in_a_terminal_state_and_stays_there(choices):
    state, walk = S.PENDING, [S.PENDING]
    for choice in choices:
        targets = sorted(AGENT_MACHINE.targets(state))
        if not targets:
            assert state in TERMINAL
            break
        state = targets[choice % len(targets)]
        walk.append(state)
    assert all(pair in LEGAL for pair in pairwise(walk))
    assert not any(state.is_terminal for state in walk[:-1])
    if S.COMPLETED in walk:
        assert walk[-2] is S.RUNNING


@given(source=STATES, target=STATES)
def test_a_path_is_legal_in_every_step_or_refused(source, target):
    try:
        path = path_to(source, target)
    except InvalidTransitionError:
        assert (source, target) not in LEGAL
        return
    assert path[-1] is target
    assert len(path) <= 2
    assert all(pair in LEGAL for pair in pairwise((source, *path)))


@pytest.mark.parametrize("waiting", sorted(WAITING))
def test_a_waiting_agent_completes_by_way_of_running(waiting):
    assert path_to(waiting, S.COMPLETED) == (S.RUNNING, S.COMPLETED)
    assert path_to(waiting, S.KILLED) == (S.KILLED,)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_no_path_leaves_a_terminal_state(state):
    for target in AgentState:
        with pytest.raises(InvalidTransitionError):
            path_to(state, target)

"""The states of a task and of its subtasks, against the list of what may follow what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_regions.lifecycle import (
    FINISHED,
    SUBTASK_MACHINE,
    TASK_MACHINE,
    Lifecycle,
    SubtaskState,
    TaskState,
)

from prsm_core.errors import InvalidTransitionError

LISTED = {
    ("idle", "decomposing"),
    ("decomposing", "confirming"),
    ("confirming", "cancelled"),
    ("confirming", "spawning"),
    ("spawning", "running"),
    ("running", "done"),
    ("running", "completed"),
    ("done", "retrying"),
    ("retrying", "running"),
}
UNFINISHED = {"idle", "decomposing", "confirming", "spawning", "running", "retrying"}
CANCELS = {(state, "cancelled") for state in UNFINISHED}
OF_SUBTASKS = {
    ("pending", "running"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "partial"),
    ("failed", "retrying"),
    ("partial", "retrying"),
    ("retrying", "running"),
}


@pytest.mark.requirement("R17", "R19", "R31")
def test_a_task_goes_where_the_list_says_and_nowhere_else():
    found = {(a.value, b.value) for a in TaskState for b in TASK_MACHINE.targets(a)}
    assert found == LISTED | CANCELS
    assert len(TaskState) == 9
    assert {state.value for state in FINISHED} == {state.value for state in TaskState} - UNFINISHED


@pytest.mark.requirement("R18")
def test_a_subtask_goes_where_the_list_says_and_nowhere_else():
    found = {(a.value, b.value) for a in SubtaskState for b in SUBTASK_MACHINE.targets(a)}
    assert found == OF_SUBTASKS
    assert len(SubtaskState) == 6


@pytest.mark.requirement("R19")
@given(st.lists(st.sampled_from(TaskState), max_size=12))
def test_any_way_through_the_states_is_legal_or_refused(wanted):
    life = Lifecycle(TASK_MACHINE, TaskState.IDLE)
    for state in wanted:
        here = life.state
        if (here.value, state.value) in LISTED | CANCELS:
            life.go(state, "because")
            assert (life.state, life.error) == (state, "because")
        else:
            with pytest.raises(InvalidTransitionError, match=here.value):
                life.go(state, "because")
            assert life.state is here


@pytest.mark.requirement("R20")
def test_a_subtask_that_failed_is_retried_and_its_reason_goes_with_that():
    life = Lifecycle(SUBTASK_MACHINE, SubtaskState.PENDING)
    life.go(SubtaskState.RUNNING)
    life.go(SubtaskState.FAILED, "type mismatch in handler")
    said = [life.error]
    life.go(SubtaskState.RETRYING)
    said.append(life.error)
    assert said == ["type mismatch in handler", None]
    life.go(SubtaskState.RUNNING)
    life.go(SubtaskState.COMPLETED)
    with pytest.raises(InvalidTransitionError):
        life.go(SubtaskState.RETRYING)


@pytest.mark.requirement("R17")
@pytest.mark.parametrize(("old", "new"), sorted(LISTED | CANCELS))
def test_a_listed_change_of_a_task_is_made(old, new):
    life = Lifecycle(TASK_MACHINE, TaskState(old))
    life.go(TaskState(new), "because" if new == "cancelled" else None)
    assert (life.state, life.error) == (new, "because" if new == "cancelled" else None)


@pytest.mark.requirement("R18")
@pytest.mark.parametrize(("old", "new"), sorted(OF_SUBTASKS))
def test_a_listed_change_of_a_subtask_is_made(old, new):
    life = Lifecycle(SUBTASK_MACHINE, SubtaskState(old))
    life.go(SubtaskState(new))
    assert life.state == new


@pytest.mark.requirement("R19")
@pytest.mark.parametrize(
    "state", [*TaskState, *SubtaskState], ids=lambda one: f"{type(one).__name__}-{one}"
)
def test_any_other_change_is_refused_with_what_may_follow_and_changes_nothing(state):
    of_task = isinstance(state, TaskState)
    machine, listed = (
        (TASK_MACHINE, LISTED | CANCELS) if of_task else (SUBTASK_MACHINE, OF_SUBTASKS)
    )
    for other in type(state):
        if (state.value, other.value) in listed:
            continue
        life = Lifecycle(machine, state)
        with pytest.raises(InvalidTransitionError, match=state.value):
            life.go(other, "because")
        assert (life.state, life.error) == (state, None)

"""What a turn costs the writer, counted in calls and statements: no clock is asked.

`python -m benchmarks turn` measures the same in time.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from prsm_testing.steps import Steps

from prsm_core.domain.turns import AgentMessage
from prsm_core.domain.writes import AgentsResumed
from prsm_core.errors import FencedError
from prsm_core.store.apply import apply_step, prepare
from prsm_core.store.connection import LedgerLock, open_writer
from tests.counting import calls_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from prsm_core.domain.steps import Step
    from prsm_core.store.apply import Prepared
    from prsm_core.store.connection import WritingConnection

FEW, MANY = 5, 50  # messages and calls of a turn


def turn_of(team: Steps, number: int, size: int) -> tuple[Step, Step]:
    """Return the two steps of the agent's next turn: opened, and closed with its content."""
    parent = f"t{number - 1}" if number > 1 else None
    turn = team.turn("w1", number, turn_id=f"t{number}", parent_turn_id=parent)
    messages = tuple(
        AgentMessage(id=f"m{n}", role="assistant", content="word", sequence=n, created_at=n)
        for n in range(size)
    )
    calls = tuple(
        replace(team.call(f"c{n}", orchestration=False, sequence=n), result="word")
        for n in range(size)
    )
    closing = team.close_turn(turn, "w1", result=team.result(messages=messages, tool_calls=calls))
    return team.step("w1", turn), closing


@pytest.fixture
def team() -> Steps:
    return Steps()


@pytest.fixture
def conn(path: Path, team: Steps) -> Iterator[WritingConnection]:
    """A writer's connection to a ledger with an agent, whose first turn is over."""
    with closing(LedgerLock(path, timeout_s=10)) as lock:
        conn = open_writer(path, lock)
        conn.begin()
        for step in (team.run_started(), team.spawn("w1"), *turn_of(team, 1, FEW)):
            apply_step(conn, prepare(step))
        conn.execute("COMMIT")
        yield conn
        conn.close()


def apply(conn: WritingConnection, steps: tuple[Step, Step]) -> None:
    write(conn, [prepare(step) for step in steps])


def write(conn: WritingConnection, steps: Iterable[Prepared]) -> None:
    for step in steps:
        apply_step(conn, step)


def statements_of(conn: WritingConnection, steps: Iterable[Step]) -> list[str]:
    """Return the statements that a transaction of each step runs."""
    seen: list[str] = []
    conn.set_trace_callback(seen.append)
    for step in steps:
        conn.begin()
        apply_step(conn, prepare(step))
        conn.execute("COMMIT")
    conn.set_trace_callback(None)
    return seen


def test_a_turn_takes_no_look_at_what_the_writer_has_written(conn: WritingConnection, team: Steps):
    seen = statements_of(conn, turn_of(team, 2, FEW))
    assert [sql for sql in seen if sql.startswith("SELECT")] == []
    assert not any("json_each" in sql for sql in seen)  # its calls are counted as they lie there
    # Begin, how new the ledger is, the step, its rows, its event, commit; the rows are turn, thread
    # and agent, then the content, turn, a look whether it has told before what it used, parent,
    # thread, session and history.
    assert len(seen) == (3 + 3 + 2) + (3 + 6 + 2 * FEW + 2)


def test_many_agents_are_taken_over_by_as_few_statements_as_one_is(
    conn: WritingConnection, team: Steps
):
    names = [f"c{n}" for n in range(MANY)]
    conn.begin()
    write(conn, [prepare(team.spawn(name)) for name in names])
    conn.execute("COMMIT")
    seen = []
    for own in (names[:1], names[1:]):
        conn.known.forget()  # as an engine begins that goes on after another one
        lives = {team.agent(name): 2 for name in own}
        told = statements_of(conn, [team.step(None, AgentsResumed(lives=lives))])
        seen.append(set(told))  # what fires a trigger is told once more for each row
    assert [len(one) for one in seen] == [len(seen[0])] * 2
    found = conn.execute("SELECT incarnation FROM agents WHERE name LIKE 'c%'").fetchall()
    assert found == [(2,)] * MANY


def test_the_writer_makes_nothing_that_can_be_made_before(conn: WritingConnection, team: Steps):
    few = [prepare(step) for step in turn_of(team, 2, FEW)]
    many = [prepare(step) for step in turn_of(team, 3, MANY)]
    conn.begin()
    costs = [calls_of(partial(write, conn, turn)) for turn in (few, many)]
    conn.execute("COMMIT")
    assert costs[0] <= 90
    assert costs[1] <= costs[0]  # whatever a turn holds, it is statements by then


def test_a_step_that_cannot_be_written_is_refused_for_what_comes_first(
    conn: WritingConnection, team: Steps
):
    unwritable = replace(team.call("c1", orchestration=False), params={"n": object()})
    turn = team.turn("w1", 2, turn_id="t2", parent_turn_id="t1")
    closing = team.close(turn, result=team.result(tool_calls=(unwritable,)))
    conn.begin()
    with pytest.raises(FencedError):
        apply_step(conn, prepare(team.step("w1", closing, incarnation=0)))
    conn.take_back()
    conn.begin()
    apply_step(conn, prepare(team.step("w1", turn)))
    with pytest.raises(TypeError, match="object is not a JSON value"):
        apply_step(conn, prepare(team.step("w1", closing)))
    conn.take_back()


def test_a_turn_is_applied_by_few_calls(conn: WritingConnection, team: Steps):
    conn.begin()
    few, many = turn_of(team, 2, FEW), turn_of(team, 3, MANY)
    costs = [calls_of(partial(apply, conn, steps)) for steps in (few, many)]
    conn.execute("COMMIT")
    assert costs[0] <= 300
    assert (costs[1] - costs[0]) / (MANY - FEW) <= 11  # of a message and a call

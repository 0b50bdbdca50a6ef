"""Looks what of a session can be gone on with, tells it, and does."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.ledger import is_gone, open_newest, open_session, require_current
from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.run_options import given_again, told_of_kept
from prsm_core.cli.running import Request, run_task
from prsm_core.engine.agents.resuming import LIMIT, time_left, time_spent
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.engine.outcome import FINISHED, result_of
from prsm_core.errors import ConfigError, SessionOwnedError
from prsm_core.kit.text import escape_exact, escape_prose, first_line
from prsm_core.loop.run import run_to_end
from prsm_core.terminal.wording import problem_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core.cli.launch import Launch
    from prsm_core.domain.sessions import AgentNow, RunNow, SessionState


def resume_session(
    launch: Launch,
    *,
    workspace: str,
    session: str | None,
    detach: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Go on with a session's newest run and return its exit code."""
    state, spent = run_to_end(_look(workspace, session))
    run = state.runs[-1]
    if run.status in FINISHED:
        result = result_of(run)
        click.echo(f"prsm: run {run.run_id} is finished: {run.status}", err=True)
        names = {now.agent.agent_id: escape_exact(now.agent.name) for now in state.agents}
        for line in problem_lines(result.problems, names):
            click.echo(f"prsm: {line}", err=True)
        if result.summary:
            click.echo(result.summary)
        return result.exit_code
    request, notes = going_on(state, spent, workspace, options)
    for line in notes:
        click.echo(f"prsm: {escape_prose(line)}", err=True)
    if detach:
        from prsm_core.cli.detaching import run_detached

        return run_detached(launch, request, as_json=as_json)
    return run_task(launch, Request(**request))


async def request_to_go_on(
    workspace: str, session: str, options: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return what `going_on` does of a session; raises ConfigError where its run is finished."""
    state, spent = await _look(workspace, session)
    run = state.runs[-1]
    if run.status in FINISHED:
        raise ConfigError(
            f"run {run.run_id} of session {session} is finished: {run.status}",
            hint="give its master a further task",
            code="finished",
        )
    return going_on(state, spent, workspace, options)


def going_on(
    state: SessionState, spent: float, workspace: str, options: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return `Request` fields to go on with a session, and notes. Raises PrsmError."""
    run = state.runs[-1]
    kept = run.options.get("command_line", {})
    _check_free(workspace, state.session_id)
    _check_folder(run.workspace, workspace, state.session_id)
    limit = told_of_limit(run, spent, options.get("timeout_s"))
    request = {
        **given_again(kept, options),
        "task": run.task,
        "workspace": run.workspace,  # from wherever of the repository it is gone on with
        "session": state.session_id,
        "resumes": True,
    }
    return request, [*told(state), *told_of_kept(kept), *limit]


def _check_free(workspace: str, session: str) -> None:
    owner = find_owner(workspace_paths(workspace).state, session)
    if owner is not None:
        raise SessionOwnedError(
            f"session {session} goes on in process {owner.process.pid}",
            hint=f"follow it: prsm attach {session}",
        )


def _check_folder(folder: str, workspace: str, session: str) -> None:
    """Raise ConfigError unless a run can work in its folder, with the ledger that it is in."""
    if is_gone(folder):
        raise ConfigError(
            f"the folder that this run works in is gone: {folder}",
            hint="move it back there; its agents know their files by that path",
        )
    if workspace_ledger(folder) != workspace_ledger(workspace):  # it was imported
        raise ConfigError(
            f"this run works in {folder}, whose sessions are in another ledger",
            hint=f"take it there: prsm export {session} -o FILE, "
            f"then prsm sessions import FILE --workspace {shlex.quote(folder)}",
        )


async def newest_cut_off(workspace: str) -> str | None:
    """Return the newest session if its newest run was cut off and nobody has set it aside."""
    async with open_newest(workspace) as newest:
        state = None if newest is None else await newest[0].state(newest[1].session_id)
    if state is None or not state.runs or state.runs[-1].status in FINISHED:
        return None
    return state.session_id


async def _look(workspace: str, session: str | None) -> tuple[SessionState, float]:
    async with open_session(workspace, session) as (store, info):
        require_current(info, session)
        state = await store.state(info.session_id)
        return state, await time_spent(store, state) if state.runs else 0.0


def told_of_limit(run: RunNow, spent: float, given: float | None) -> list[str]:
    """Say in at most a line what time a run has left; ConfigError if none, and none is given."""
    if given is not None:
        return [f"its time limit: {given:g} s from here"]
    left = time_left(run, spent)
    if left is None:
        return []
    return [f"its time limit: {left:.0f} s of {run.options[LIMIT]:g} s are left"]


def told(state: SessionState) -> Iterator[str]:
    """Yield what a person is told of a session that goes on, a line each."""
    run = state.runs[-1]
    task = first_line(run.task) or "no task"  # of a transcript in which nobody asked for anything
    yield f"goes on with session {state.session_id}, run {run.run_id}: {task}"
    over = [now for now in state.agents if now.agent.state.is_terminal]
    if over:
        yield f"{len(over)} of its agents have ended and are not run again"
    for now in state.agents:
        if not now.agent.state.is_terminal:
            doing = str(now.agent.state).replace("_", " ")
            doing += f" ({now.waiting_on})" if now.waiting_on else ""
            yield f"{now.agent.name} ({now.agent.provider}) was {doing}; {_how(now)}"
            yield from _unknown(now, state.withheld(now.agent.agent_id))


def _how(now: AgentNow) -> str:
    if now.open_turn is None and now.last_turn is None:
        return "it begins"
    if now.resume_token is None:
        return "its conversation is rebuilt from the ledger"
    return "its vendor's thread goes on where it can, else it is rebuilt"


def _unknown(now: AgentNow, withheld: frozenset[str]) -> Iterator[str]:
    """Yield what nobody saw the end of, but for what never ran."""
    for one in () if now.open_turn is None else now.open_turn.calls:
        started = any(effect.name == "started" for effect in one.effects)
        is_open = one.call.completed_at is None
        if one.call.id in withheld:
            yield f"  not begun: {one.call.tool_name} of {now.agent.name} still waited for leave"
        elif is_open and (started or not one.call.orchestration):
            yield f"  unknown: {one.call.tool_name} of {now.agent.name} may have run"

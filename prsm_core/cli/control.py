"""Acts on sessions that another process runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.cli.ledger import open_ledger, open_session
from prsm_core.cli.places import workspace_paths
from prsm_core.engine.control.client import ControlClient, open_control
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.errors import ControlError
from prsm_core.kit.text import escape_exact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager


async def kill_agent(workspace: str, session: str | None, agent: str) -> None:
    """Kill an agent, and print the names of those that this ended."""
    async with await open_running(workspace, session) as owner:
        for name in await owner.agents.kill(agent):
            click.echo(f"killed {escape_exact(name)}")


async def set_model(workspace: str, session: str | None, agent: str, model: str) -> None:
    """Let an agent go on with another model, and print which that is."""
    async with await open_running(workspace, session) as owner:
        name = await owner.agents.set_model(agent, model)
        click.echo(f"{escape_exact(agent)}: {escape_exact(name)} from its next turn on")


async def prompt_agent(
    workspace: str,
    session: str | None,
    agent: str,
    text: str,
    delivery: str,
    images: Sequence[str] = (),
) -> None:
    """Send a prompt with its images to an agent, and print how it is delivered."""
    async with await open_running(workspace, session) as owner:
        click.echo(await owner.agents.prompt(agent, text, delivery, images))


async def open_running(
    workspace: str, session: str | None, *, via: str = ""
) -> AbstractAsyncContextManager[ControlClient]:
    """Connect to the owner of a session, by default the newest running; answers come from `via`."""
    return open_control(
        workspace_paths(workspace).state, await choose_running(workspace, session), via=via
    )


async def choose_running(workspace: str, prefix: str | None) -> str:
    """Return the session with this prefix, or the newest running one. Raises ControlError."""
    running = await running_sessions(workspace, prefix)
    if not running:
        raise ControlError(
            "no session of this repository runs",
            hint="`prsm tree` shows the newest one; --workspace names another folder",
            code="no_owner",
        )
    return running[0]


async def running_sessions(workspace: str, prefix: str | None) -> list[str]:
    """Return the session with this prefix, or all that have an owner, newest first."""
    if prefix is not None:
        async with open_session(workspace, prefix) as (_, info):
            return [info.session_id]
    async with open_ledger(workspace) as store:
        sessions = await store.sessions()
    state = workspace_paths(workspace).state
    return [s.session_id for s in sessions if find_owner(state, s.session_id) is not None]

"""Forks a session: makes another one that goes on from a point of it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from prsm_core.cli.ledger import open_session, write_ledger
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.listing import name_of
from prsm_core.domain.ids import Ids
from prsm_core.domain.record import Record
from prsm_core.engine.door.naming import checked_name
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import ConfigError
from prsm_core.loop.run import run_to_end

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.cli.launch import Launch
    from prsm_core.domain.sessions import SessionState


class Fork(Record, frozen=True, kw_only=True):
    """The command line of `prsm fork`."""

    workspace: str
    session: str | None
    at: str | None
    prompt: str | None
    models: tuple[str, ...]  # AGENT=PROVIDER/MODEL
    name: str | None
    as_json: bool


def fork(launch: Launch, request: Fork) -> None:
    """Make a fork and say what comes next."""
    if request.prompt is not None and not request.prompt.strip():
        raise ConfigError("the prompt is blank", hint="say what is to be done instead")
    wanted = ForkRequest(
        at=request.at,
        prompt=request.prompt,
        models=_models(launch, request) if request.models else {},
        name=None if request.name is None else checked_name(request.name),
    )
    run_to_end(_fork(request, wanted))


async def _fork(request: Fork, wanted: ForkRequest) -> None:
    async with open_session(request.workspace, request.session) as (_, info):
        session, called = info.session_id, name_of(info.name, info.task)
    async with write_ledger(request.workspace) as store:
        state = await fork_session(store, session, wanted, Ids(time.time), time.time())
    origin = state.origins[-1]
    if request.as_json:
        told = {"session": state.session_id, "origin": origin.session_id, "at": origin.seq}
        click.echo(json.dumps(told))
        return
    say(f"session {state.session_id} goes on from event {origin.seq} of {called!r} ({session})")
    for line in _stands(state):
        say(line)
    say("files are not forked: its agents find the folder as it is now")
    if any(not now.agent.state.is_terminal for now in state.agents):
        say(f"go on with it: prsm resume {state.session_id}")
    else:
        say(f'give it something to do: prsm fork {state.session_id} --prompt "…"')


def _stands(state: SessionState) -> list[str]:
    open_ = [now.agent for now in state.agents if not now.agent.state.is_terminal]
    if not open_:
        return ["all its agents have ended"]
    lines = [f"agents that go on: {', '.join(f'{each.name} ({each.provider})' for each in open_)}"]
    if state.requests:
        lines.append(f"what waits for you is asked again: {len(state.requests)}")
    return lines


def _models(launch: Launch, request: Fork) -> Mapping[str, tuple[str, str]]:
    from prsm_core.cli.setup import load_setup
    from prsm_core.domain.notes import ModelChoice
    from prsm_core.engine.providers.model_choice import resolve_model
    from prsm_core.engine.providers.model_names import DEFAULT_MODEL, ModelNames
    from prsm_core.interfaces.provider import ProviderSpec

    setup = load_setup(launch, request.workspace)
    names = ModelNames(
        settings=setup.settings,
        providers=setup.plugins.collect(ProviderSpec),
        absent=setup.plugins.absent(ProviderSpec),
    )
    found = {}
    for text in request.models:
        agent, sign, wanted = text.partition("=")
        if not agent or not sign or not wanted:
            raise ConfigError(
                f"--model {text} names no agent and model",
                hint="give it as AGENT=PROVIDER/MODEL, such as w1=codex/gpt-5.5",
            )
        base = ModelChoice(provider=wanted.partition("/")[0], model=DEFAULT_MODEL)
        choice = resolve_model(wanted, base, names)
        found[agent] = (choice.provider, choice.model)
    return found

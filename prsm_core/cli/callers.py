"""Decide which commands agents may call.

A command is for people only unless it says `@agents_may`: because it only looks, or because it
leaves the decision to the engine that owns the session.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Decides = Callable[[Mapping[str, Any]], bool]

F = TypeVar("F", bound="Callable[..., Any]")

AGENTS = "__agents_may__"
_GUARDED = "__is_guarded__"


def agents_may(function: F) -> F:
    """Let agents call a command that only looks or leaves the decision to an engine."""
    return agents_may_unless(lambda _: False)(function)


def agents_may_unless(decides: Decides) -> Callable[[F], F]:
    """Let agents call a command unless its parameters decide something for a person."""

    def mark(function: F) -> F:
        setattr(function, AGENTS, decides)
        return function

    return mark


def guard(command: click.Command) -> click.Command:
    """Make a command and all its subcommands check who calls; return it."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            guard(inner)
        if not command.invoke_without_command:
            return command
    if command.callback is not None and not hasattr(command.callback, _GUARDED):
        command.callback = _guarded(command.callback)
    return command


def is_guarded(command: click.Command) -> bool:
    """Return whether `guard` has been at this command."""
    return hasattr(command.callback, _GUARDED)


def require_person(what: str, workspace: str = os.sep) -> None:
    """Raise ControlError if an agent started this process; see engine.control.peers."""
    from prsm_core.cli.places import workspace_paths
    from prsm_core.engine.control import peers

    peers.require_person(what, workspace_paths(workspace))


def _guarded(callback: Callable[..., Any]) -> Callable[..., Any]:
    decides: Decides | None = getattr(callback, AGENTS, None)

    @functools.wraps(callback)
    def call(*args: Any, **options: Any) -> Any:
        ctx = click.get_current_context()
        is_inner = ctx.invoked_subcommand is not None  # of a group: that asks by itself
        if not is_inner and (decides is None or decides(ctx.params)):
            require_person(ctx.command_path, ctx.params.get("workspace") or os.sep)
        return callback(*args, **options)

    setattr(call, _GUARDED, True)
    return call

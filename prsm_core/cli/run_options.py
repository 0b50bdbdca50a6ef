"""Options of the commands that run agents.

Some of `prsm run` stand in the ledger, and hold again when its run goes on; so do those that a
resume is given, in all that come later. Trust is none of them: what a workspace says may have
changed since. A value of --set that holds a secret is left out, by its key, since the ledger keeps
no secrets.
"""

from __future__ import annotations

import math
import os
import shlex
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prsm_core.cli.callers import agents_may_unless
from prsm_core.cli.launch import Launch
from prsm_core.cli.options import workspace_option
from prsm_core.domain.agents import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

F = TypeVar("F", bound="Callable[..., Any]")


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Return a number greater than 0; raise BadParameter for any other."""
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise click.BadParameter(f"{value} is not a number greater than 0")
    return value


def named_texts(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Return labels of NAME=TEXT each, the last of a name; raise BadParameter for what is none."""
    if not values:
        return {}
    from prsm_core.domain.labels import relabelled  # few runs have labels
    from prsm_core.errors import ConfigError

    given = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value!r} has no =: give NAME=TEXT")
        given[name] = text
    try:
        return relabelled({}, given, owner=None, error=ConfigError)
    except ConfigError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}") from error


solo_option = click.option(
    "--solo",
    is_flag=True,
    help="Let the master edit files and run commands itself, in the run's mode; it may still spawn"
    " agents.",
)
label_option = click.option(
    "--label",
    "labels",
    multiple=True,
    callback=named_texts,
    metavar="NAME=TEXT",
    help="Say something of the master, which its children inherit, as programs and checks read it."
    " One that no plugin says it reads is told.",
)
mode_option = click.option(
    "--mode",
    type=click.Choice([mode.value for mode in PermissionMode]),
    help="How much runs without asking.",
)
on_ask_option = click.option(
    "--on-ask",
    type=click.Choice(["deny", "allow"]),
    help="Answer requests so, and questions, without asking a person.",
)
UNATTENDED_SECONDS = 300.0
unattended_option = click.option(
    "--unattended",
    "unattended_s",
    type=float,
    callback=finite,
    metavar="SECONDS",
    help="Refuse a request after this time without an attached terminal, rather than after "
    f"{UNATTENDED_SECONDS:.0f}.",
)
trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Let the workspace's own .prism count in this run, as `prsm trust` does for good.",
)
without_plugin_option = click.option(
    "--without-plugin",
    "without",
    multiple=True,
    metavar="NAME",
    help="Leave out a plugin, and the permission checks that it brings.",
)
"""--without-plugin NAME: any number of them, the parameter `without`."""
budget_usd_option = click.option(
    "--budget-usd",
    type=float,
    callback=finite,
    metavar="DOLLARS",
    help="End the run once this is spent, as far as providers tell it.",
)
budget_tokens_option = click.option(
    "--budget-tokens",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="End the run once these tokens are used.",
)
set_option = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a value, as YAML."
)


def _with_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def limit_options(timeout: str) -> Callable[[F], F]:
    """Return a decorator that adds what a run may do and its limits; `timeout` is a help text."""
    timeout_option = click.option(
        "--timeout", "timeout_s", type=float, callback=finite, metavar="SECONDS", help=timeout
    )
    return _with_options(
        *(on_ask_option, trust_option, without_plugin_option, timeout_option, unattended_option),
        *(budget_usd_option, budget_tokens_option, set_option),
    )


def widens(given: Mapping[str, Any]) -> bool:
    """Return whether these options let agents do what the files and the person would not.

    A session that is gone on with may have any mode and any grants.
    """
    return bool(
        given.get("trust")
        or given.get("session")
        or given.get("continues")
        or given.get("on_ask") == "allow"
        or given.get("mode") in _WIDE_MODES
        or given.get("sets")
        or given.get("without")
        or not click.get_current_context().ensure_object(Launch).load_plugins
        or any(name.startswith(_WIDENING) for name in os.environ)
    )


def lead_options(*, patience: str) -> Callable[[F], F]:
    """Return the decorator of a command by which a client leads a run: options that `lead` takes.

    It stands above `click.pass_obj`. One more of the options, `patience_s`, is for the command
    itself: how many seconds a call may wait; `patience` says in its help what it is otherwise.
    Agents may call the command, unless its options let them do more than the files do.
    """
    patience_option = click.option(
        "--patience",
        "patience_s",
        type=float,
        callback=finite,
        metavar="SECONDS",
        help=f"How long a call may wait before it is answered `pending`. Default: {patience}.",
    )
    options = (
        workspace_option,
        click.option(
            "--provider", metavar="NAME", help="Provider of the agents that name no model."
        ),
        click.option("--model", help="Their model: an alias, provider/model, or an id."),
        mode_option,
        click.option("--session", metavar="ID", help="Run in this session, not in a new one."),
        on_ask_option,
        unattended_option,
        patience_option,
        budget_usd_option,
        budget_tokens_option,
        without_plugin_option,
        set_option,
    )

    return lambda function: _with_options(*options)(agents_may_unless(widens)(function))


_WIDENING = ("PRSM__", "PRSM_PLUGINS")  # variables; no program of an engine inherits them
_WIDE_MODES = (PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS)
_FLAGS = {
    "on_ask": "--on-ask",
    "budget_usd": "--budget-usd",
    "budget_tokens": "--budget-tokens",
    "solo": "--solo",
}
_REPEATED = {"sets": "--set", "without": "--without-plugin"}
LEFT_OUT = "sets_left_out"


def to_keep(given: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Return what is kept of the options that were given: JSON values by name."""
    kept = {name: given[name] for name in (*_FLAGS, *_REPEATED) if given.get(name)}
    sets = kept.get("sets", ())
    plain = [text for text in sets if redact(text) == text]
    secret = [text.partition("=")[0].strip() for text in sets if text not in plain]
    found = {**kept, "sets": plain, "without": list(kept.get("without", ())), LEFT_OUT: secret}
    return {name: value for name, value in found.items() if value}


def given_again(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that hold: those kept, and laid over them those given now."""
    holds = dict(given)
    for name in _FLAGS:
        if holds.get(name) is None:
            holds[name] = kept.get(name)
    for name in _REPEATED:
        values = (*kept.get(name, ()), *given.get(name, ()))
        # Without repetitions: what is given at each resume does not add up.
        holds[name] = tuple(dict.fromkeys(values[::-1]))[::-1]
    return holds


def told_of_kept(kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a person is told of the options that hold again, a line each."""
    given = ((flag, kept[name]) for name, flag in _FLAGS.items() if name in kept)
    words = [flag if value is True else f"{flag} {value}" for flag, value in given]
    for name, flag in _REPEATED.items():
        words += [f"{flag} {shlex.quote(value)}" for value in kept.get(name, ())]
    if words:
        yield f"as it was started: {' '.join(words)}"
    for key in kept.get(LEFT_OUT, ()):
        yield f"--set {key} held a secret, which is not kept: give it again if it is needed"

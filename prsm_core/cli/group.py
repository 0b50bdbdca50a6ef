"""The `prsm` command: a lazy group that imports a command's module when it is called.

A command's module imports only click; the rest comes when it runs, so that `--help` stays cheap.
Commands of other packages follow those of this project.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import guard, require_person
from prsm_core.cli.launch import Launch
from prsm_core.distributions import COMMANDS as ENTRY_POINTS
from prsm_core.distributions import DEFAULT_PACKAGES, GROUP, EntryPoint, entry_points
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from click.shell_completion import CompletionItem

    from prsm_core.errors import PluginError

EDITOR = "extension"  # the frontend by which an editor leads

# By name: the module of a command, or the package of ours that brings it; and its summary.
COMMANDS = {
    "run": (".run", "Run a task with a tree of agents."),
    "resume": (".run", "Go on with a run that was cut off."),
    "demo": ("prsm-demo", "Watch a scripted team at work: no model, no key."),
    "tree": (".watching", "Show the agents of a session."),
    "events": (".watching", "Print the events of a session."),
    "history": (".watching", "Show the conversation of an agent."),
    "sessions": (
        ".sessions.commands",
        "List, show, rename, delete, compact, fork, export, import.",
    ),
    "replay": (".watching", "Show a session again, from its log."),
    "diff": (".watching", "Compare two sessions."),
    "fork": (".sessions.commands", "Go on from a point of a session, in another one."),
    "snapshot": ("prsm-files", "Keep the files of a folder as they are, and go back."),
    "changes": ("prsm-files", "Show what agents changed; accept it, or take it back."),
    "accept": ("prsm-files", "Accept changes: they stay, and are pending no more."),
    "reject": ("prsm-files", "Take changes back, each alone."),
    "undo": ("prsm-files", "Take back the last act, a prompt, a turn, or what an ID names."),
    "export": (".sessions.commands", "Write a session to a file."),
    "prompt": (".steering", "Tell something to an agent of a running session."),
    "kill": (".steering", "Kill an agent of a running session."),
    "model": (".steering", "Let an agent of a running session go on with another model."),
    "answer": (".steering", "Answer what agents ask of a person."),
    "attach": (".steering", "Follow a running session and answer it."),
    "mcp": ("prsm-mcp", "Let an MCP client, such as Claude Code, lead a tree."),
    "install": (".packages", "Install a package of this project."),
    "uninstall": (".packages", "Show what is on disk, and how to remove it."),
    "plugins": (".plugins", "List the plugins, or write a new one."),
    "providers": (".providers", "Look which providers can be used."),
    "models": (".models", "List, discover, rank and recommend models."),
    "sim": ("prsm-testing", "Simulate agent trees, faults included, from a seed."),
    "doctor": (".doctor", "Check what PRSM needs, and say how to mend it."),
    "policy": ("prsm-policy", "Check commands, and edit the rules on them."),
    "config": (".config", "Show the configuration and where it lives."),
    "trust": (".trust", "Trust the .prism folder of a workspace."),
}
_NAME = re.compile(r"[a-z][a-z0-9-]*")  # that another package may give a command


class LazyGroup(click.Group):
    """A group that lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table, then those of other packages."""
        return [name for name, _ in _summaries()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module; None for an unknown or broken command."""
        if (module := _module(cmd_name)) is not None:
            command: click.Command = getattr(importlib.import_module(module), cmd_name)
            return guard(command)
        from prsm_core.errors import PluginError

        try:
            return guard(load_command(_of_a_package(cmd_name)))
        except (LookupError, PluginError):
            return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command or suggest names; raise PluginError for a package's broken one."""
        name = args[0]
        if _module(name) is not None or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        try:
            offered = _of_a_package(name)
        except LookupError:
            raise _no_such_command(name, ctx) from None
        if not {"-h", "--help"}.intersection(args):  # help must not cost the settings
            check_enabled(offered, load_plugins=not ctx.params["no_plugins"])
        return name, guard(load_command(offered)), args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer all names. click would import every command for its summary."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=summary)
            for name, summary in _summaries()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all summaries. click would import every command for them."""
        with formatter.section("Commands"):
            formatter.write_dl(_summaries())


def _summaries() -> list[tuple[str, str]]:
    own = [(name, summary) for name, (_, summary) in COMMANDS.items()]
    others = [
        (
            name,
            offers[0].distribution.summary
            if len(offers) == 1
            else "Brought by two packages: neither runs.",
        )
        for name, offers in package_commands().items()
        if name not in COMMANDS
    ]
    return [*own, *others]


def _module(name: str) -> str | None:
    place = COMMANDS[name][0] if name in COMMANDS else ""
    return f"prsm_core.cli{place}" if place.startswith(".") else None


def _of_a_package(name: str) -> EntryPoint:
    """Return a package's command. Raises LookupError for none, PluginError for two."""
    offers = package_commands()
    if name not in COMMANDS:
        return only_one(name, offers[name])
    return only_one(name, offers.get(name, ()), COMMANDS[name][0])


def package_commands() -> dict[str, list[EntryPoint]]:
    """Return the commands of installed packages, sorted by name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(ENTRY_POINTS):
        if _NAME.fullmatch(point.name):
            found.setdefault(point.name, []).append(point)
    return dict(sorted(found.items()))


def only_one(name: str, offers: Sequence[EntryPoint], package: str | None = None) -> EntryPoint:
    """Return the one command offered; raise PluginError for several, or none without `package`."""
    bringers = sorted(offer.distribution.name for offer in offers)
    if package is not None and package not in bringers:
        what = f"command {name} is not installed: the package {package} brings it"
        raise _refusal(what, f"prsm install {package.removeprefix('prsm-')}", code="not_installed")
    if len(offers) > 1:
        what = f"command {name}: {' and '.join(bringers)} both bring it, so neither runs"
        raise _refusal(what, "uninstall one of them")
    return offers[0]


def check_enabled(command: EntryPoint, *, load_plugins: bool) -> None:
    """Raise PluginError for a command whose package, not a default one, is switched off."""
    distribution = command.distribution
    if distribution.name in DEFAULT_PACKAGES:
        return
    if not load_plugins:
        what = f"command {command.name} is of the package {distribution.name}"
        raise _refusal(what, "plugins are switched off: leave out --no-plugins")
    names = {command.name, *distribution.places.get(GROUP, ())}
    for source, disabled in _lists().items():
        if both := sorted(names.intersection(disabled)):
            what = f"command {command.name} of {distribution.name} is disabled by {source}"
            raise _refusal(what, f"take {both[0]} off that list")


def load_command(command: EntryPoint) -> click.Command:
    """Import a command. Raises PluginError if that fails or it is no click command."""
    try:
        found: object = command.load()
    except Exception as error:
        raise _broken(command, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, click.Command):
        kind = type(found).__name__
        raise _broken(command, f"{command.place} is no click command, but of type {kind}")
    return found


def _broken(command: EntryPoint, why: str) -> PluginError:
    name = command.distribution.name
    what = f"command {command.name} of {name} cannot be loaded: {why}"
    return _refusal(what, f"reinstall {name}")


def _refusal(message: str, hint: str, **fields: Any) -> PluginError:
    from prsm_core.errors import PluginError

    return PluginError(message, hint=hint, **fields)


def _lists() -> Mapping[str, Sequence[str]]:
    from prsm_core.cli.places import workspace_paths
    from prsm_core.config import load_settings
    from prsm_core.config.trust import check_trust

    paths = workspace_paths(".")
    standing = check_trust(paths)
    settings = load_settings(
        paths=paths, environ=os.environ, trusted=standing.trusted, snapshot=standing.snapshot
    ).settings
    variable = "PRSM_DISABLED_PLUGINS"
    named = os.environ.get(variable, "").split(",")
    return {
        "plugins.disabled": settings.plugins.disabled,
        variable: [name.strip() for name in named],
    }


def _no_such_command(name: str, ctx: click.Context) -> click.UsageError:
    from difflib import get_close_matches

    names = [known for known, _ in _summaries()]
    near = " or ".join(map(repr, get_close_matches(name, names)))
    meant = f" Did you mean {near}?" if near else ""
    return click.UsageError(f"No such command {name!r}.{meant}", ctx)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--debug", is_flag=True, help="Show debug messages and tracebacks.")
@click.option("--no-plugins", is_flag=True, help="Load the built-in plugins only.")
@click.option("--ui", metavar="NAME", help="Open this frontend, if no command is given.")
@click.option("--new", "is_new", is_flag=True, help="Open it on a new session, not the newest.")
@click.option(
    "--mode",
    type=click.Choice(["interactive", "extension"]),
    help="Who leads: a person, or an editor by lines of JSON (package prsm-regions).",
)
@click.version_option(__version__, prog_name="prsm")
@click.pass_context
def cli(
    ctx: click.Context,
    debug: bool,
    no_plugins: bool,
    ui: str | None,
    is_new: bool,
    mode: str | None,
) -> int | None:
    """PRSM runs a tree of coding agents as one system.

    Without a command it opens, on a terminal, the installed frontend that stays.
    """
    launch = ctx.ensure_object(Launch)
    launch.debug = debug
    launch.load_plugins = not no_plugins
    if ctx.invoked_subcommand is None:
        if ui and mode:
            raise click.UsageError("--ui and --mode both say what is opened: leave one out", ctx)
        return _open(ctx, launch, ui, is_new=is_new, by_editor=mode == EDITOR)
    given = {"--new": is_new, "--ui": ui, "--mode": mode}
    for option in (name for name, value in given.items() if value):
        raise click.UsageError(f"{option} stands behind a command that takes it", ctx)
    return None


def _open(
    ctx: click.Context, launch: Launch, ui: str | None, *, is_new: bool, by_editor: bool
) -> int:
    """Open a frontend, or print the help without a terminal or a frontend that stays."""
    code, on_terminal = None, _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
    if by_editor or ui or on_terminal:
        require_person(ctx.command_path, ".")
    if by_editor or ui:
        from prsm_core.cli.opening import open_frontend

        package = "prsm-regions" if by_editor else None
        code = open_frontend(launch, ui or EDITOR, is_new=is_new, package=package)
    elif on_terminal:
        from prsm_core.cli.opening import open_staying

        code = open_staying(launch, is_new=is_new)
    if code is None:
        if is_new:
            why = "no frontend that stays is installed" if on_terminal else "this is no terminal"
            raise click.UsageError(f"{why}, so none is opened", ctx)
        click.echo(ctx.get_help())
        if on_terminal:
            click.echo("\nThere is a screen for this terminal: `prsm install tui` adds it.")
    return code or 0


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()

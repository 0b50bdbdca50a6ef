"""The `prsm` command: a lazy group, which imports the module of a command.

`prsm --help` imports no command and no plugin. A command's module imports click only; what the
command works with is imported when it runs, so that its own --help stays as cheap. Commands of
other packages follow those of this project.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import click

from prsm_core.cli.callers import guard, require_person
from prsm_core.cli.launch import Launch
from prsm_core.version import __version__

if TYPE_CHECKING:
    from typing import TextIO

    from click.shell_completion import CompletionItem

    from prsm_core.cli.package_commands import PackageCommand

EDITOR = "extension"  # the frontend by which an editor leads

COMMANDS = {
    "run": ("prsm_core.cli.run:run", "Run a task with a tree of agents."),
    "resume": ("prsm_core.cli.run:resume", "Go on with a run that was cut off."),
    "demo": ("", "Watch a scripted team at work: no model, no key."),
    "tree": ("prsm_core.cli.watching:tree", "Show the agents of a session."),
    "events": ("prsm_core.cli.watching:events", "Print the events of a session."),
    "history": ("prsm_core.cli.watching:history", "Show the conversation of an agent."),
    "sessions": (
        "prsm_core.cli.sessions.commands:sessions",
        "List, show, rename, delete, compact, fork, export, import.",
    ),
    "replay": ("prsm_core.cli.watching:replay", "Show a session again, from its log."),
    "diff": ("prsm_core.cli.watching:diff", "Compare two sessions."),
    "fork": (
        "prsm_core.cli.sessions.commands:fork",
        "Go on from a point of a session, in another one.",
    ),
    "snapshot": (
        "",
        "Keep the files of a folder as they are, and go back.",
    ),
    "changes": (
        "",
        "Show what agents changed; accept it, or take it back.",
    ),
    "accept": (
        "",
        "Accept changes: they stay, and are pending no more.",
    ),
    "reject": ("", "Take changes back, each alone."),
    "undo": (
        "",
        "Take back the last act, a prompt, a turn, or what an ID names.",
    ),
    "export": ("prsm_core.cli.sessions.commands:export", "Write a session to a file."),
    "prompt": ("prsm_core.cli.steering:prompt", "Tell something to an agent of a running session."),
    "kill": ("prsm_core.cli.steering:kill", "Kill an agent of a running session."),
    "model": (
        "prsm_core.cli.steering:model",
        "Let an agent of a running session go on with another model.",
    ),
    "answer": ("prsm_core.cli.steering:answer", "Answer what agents ask of a person."),
    "attach": ("prsm_core.cli.steering:attach", "Follow a running session and answer it."),
    "mcp": ("", "Let an MCP client, such as Claude Code, lead a tree."),
    "install": ("prsm_core.cli.packages:install", "Install a package of this project."),
    "uninstall": (
        "prsm_core.cli.packages:uninstall",
        "Show what is on disk, and how to remove it.",
    ),
    "plugins": ("prsm_core.cli.plugins:plugins", "List the plugins, or write a new one."),
    "providers": ("prsm_core.cli.providers:providers", "Look which providers can be used."),
    "models": ("prsm_core.cli.models:models", "List, discover, rank and recommend models."),
    "sim": ("", "Simulate agent trees, faults included, from a seed."),
    "doctor": ("prsm_core.cli.doctor:doctor", "Check what PRSM needs, and say how to mend it."),
    "policy": ("", "Check commands, and edit the rules on them."),
    "config": ("prsm_core.cli.config:config", "Show the configuration and where it lives."),
    "trust": ("prsm_core.cli.trust:trust", "Trust the .prism folder of a workspace."),
}
# Commands of the table that a package of ours brings, by its name.
BROUGHT = {
    "demo": "demo",
    "mcp": "mcp",
    "policy": "policy",
    "sim": "testing",
    **dict.fromkeys(("snapshot", "changes", "accept", "reject", "undo"), "files"),
}


class LazyGroup(click.Group):
    """A group that lists its commands without importing them, and imports one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table, behind them those of other packages."""
        return [name for name, _ in _summaries()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module; None where there is no such command to run."""
        if cmd_name in COMMANDS and cmd_name not in BROUGHT:
            module, _, attribute = COMMANDS[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return guard(command)
        from prsm_core.cli.package_commands import load_command  # few commands are of packages
        from prsm_core.errors import PluginError

        try:
            return guard(load_command(_of_a_package(cmd_name)))
        except (LookupError, PluginError):
            return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of a misspelt one say which it may be.

        Raises PluginError for one of a package that cannot run, or is not to.
        """
        name = args[0]
        is_in_core = name in COMMANDS and name not in BROUGHT
        if is_in_core or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from prsm_core.cli.package_commands import check_enabled, load_command

        try:
            offered = _of_a_package(name)
        except LookupError:
            raise _no_such_command(name, ctx) from None
        if not {"-h", "--help"}.intersection(args):  # help must not cost the settings
            check_enabled(offered, load_plugins=not ctx.params["no_plugins"])
        return name, guard(load_command(offered)), args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer all names; click's own way would import every command for its summary."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=summary)
            for name, summary in _summaries()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all summaries; click's own way would import every command for them."""
        with formatter.section("Commands"):
            formatter.write_dl(_summaries())


def _summaries() -> list[tuple[str, str]]:
    """Return all commands in their order, each with its summary."""
    from prsm_core.cli.package_commands import package_commands

    own = [(name, summary) for name, (_, summary) in COMMANDS.items()]
    others = [
        (name, offers[0].summary if len(offers) == 1 else "Brought by two packages: neither runs.")
        for name, offers in package_commands().items()
        if name not in COMMANDS
    ]
    return [*own, *others]


def _of_a_package(name: str) -> PackageCommand:
    """Return the command of a package; raises LookupError for none, PluginError for two."""
    from prsm_core.cli.package_commands import only_one, package_commands

    offers, package = package_commands(), BROUGHT.get(name)
    return only_one(name, offers[name] if package is None else offers.get(name, ()), package)


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
    """Open a frontend; without a terminal, or without one that stays, print the help."""
    code, on_terminal = None, _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
    if by_editor or ui or on_terminal:
        require_person(ctx.command_path, ".")
    if by_editor:
        from prsm_core.cli.opening import Opening, open_frontend

        request = Opening(workspace=".", is_new=is_new)
        code = open_frontend(launch, request, EDITOR, package="prsm-regions")
    elif ui or on_terminal:
        from prsm_core.cli.opening import Opening, open_frontend, open_staying

        request = Opening(workspace=".", is_new=is_new)
        code = open_frontend(launch, request, ui) if ui else open_staying(launch, request)
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

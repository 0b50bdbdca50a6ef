"""`prsm run` and `prsm resume`: one task, one tree of agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may_unless
from prsm_core.cli.options import image_option, text_argument, workspace_option
from prsm_core.cli.run_options import (
    UNATTENDED_SECONDS,
    label_option,
    limit_options,
    mode_option,
    solo_option,
    widens,
)
from prsm_core.domain.agents import PermissionMode

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


MOST_BYTES = 8 << 20  # of a task


def _read_stdin() -> str:
    if sys.stdin is None:
        raise click.UsageError("there is no stdin to read the task from")
    from prsm_core.errors import ConfigError  # most tasks are words
    from prsm_core.kit.regular import read_within

    try:
        return read_within(sys.stdin.buffer, MOST_BYTES).decode()
    except OSError as error:
        cure = "keep it in a file of the workspace, and name that as @PATH in the task"
        raise ConfigError(f"the task on stdin: {error.strerror}", hint=cure) from error
    except UnicodeDecodeError as error:
        raise click.UsageError("what stdin holds is not UTF-8 text") from error


def _tell_start(task: str) -> None:
    """Say at once that the command was taken: what follows imports and looks at a lot."""
    from prsm_core.kit.text import first_line
    from prsm_core.loop.output import write_aside

    write_aside()
    click.echo(f"prsm: starts: {first_line(task)}", err=True)


@click.command(short_help="Run a task with a tree of agents.")
@text_argument("task", "TASK")
@workspace_option
@click.option("--provider", metavar="NAME", help="Provider of the master.")
@click.option("--model", help="Model of the master: an alias, provider/model, or an id.")
@mode_option
@solo_option
@label_option
@image_option
@click.option("--ui", metavar="NAME", help="Frontend; console if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print one event a line; nobody is asked.")
@click.option(
    "--detach", is_flag=True, help="Return once the run has begun, and print its session."
)
@click.option("--session", metavar="ID", help="Run in this session.")
@click.option(
    "--continue",
    "continues",
    is_flag=True,
    help="Give the task to the last master of the session, of the newest one if --session is not"
    " given. It remembers what was said, and keeps its model, and its mode unless --mode names"
    " another one.",
)
@click.option("--new", is_flag=True, help="Run in a new session, which is the default.")
@limit_options("End the run after this time.")
@click.pass_obj
@agents_may_unless(widens)
def run(launch: Launch, /, *, as_json: bool, detach: bool, **options: Any) -> int:
    """Run TASK; "-" reads it from stdin.

    @PATH in it shows the model a file of the workspace, @PATH:10-40 some of its lines, a folder
    what is in it.

    With --detach a process of its own runs it to its end, whatever becomes of this terminal; what
    its agents ask waits for `prsm attach` or `prsm answer`. Stdout gets the session, with --json
    {"session", "run"}.

    Progress goes to stderr, the summary to stdout. Exits with 0 when the task is completed, 1
    when it failed, 2 for usage and configuration, 3 without a usable provider, 4 when it failed
    and something was refused because nobody could be asked, or when it completed though all that
    was asked was refused so and no file was changed, or when a login or a limit holds it and
    `prsm resume` is to go on with it, 5 when it completed, but a required gate is red or work is
    not merged, 130 when interrupted.
    """
    task, ui = _checked(as_json=as_json, detach=detach, **options)
    if not as_json:
        _tell_start(task)
    request = {**options, "task": task, "ui": ui}
    del request["new"]
    if detach:
        from prsm_core.cli.detaching import run_detached

        request["unattended_s"] = options["unattended_s"] or UNATTENDED_SECONDS
        return run_detached(launch, request, as_json=as_json)
    from prsm_core.cli.running import Request, run_task

    return run_task(launch, Request(**request))


def _checked(
    *, as_json: bool, detach: bool, ui: str | None, task: str, **options: Any
) -> tuple[str, str | None]:
    if options["new"] and options["session"] is not None:
        raise click.UsageError("--new and --session exclude each other")
    if options["continues"]:
        for name in ("new", "provider", "model", "solo"):
            if options[name]:
                raise click.UsageError(f"--continue and --{name} exclude each other")
    if options["solo"] and options["mode"] == PermissionMode.DELEGATE:
        raise click.UsageError("--solo and --mode delegate exclude each other")
    ui = _checked_ui(ui, options["unattended_s"], as_json=as_json, detach=detach)
    if task == "-":
        task = _read_stdin()
    if not task.strip():
        raise click.UsageError("the task is blank")
    return task, ui


def _checked_ui(
    ui: str | None, unattended_s: float | None, *, as_json: bool, detach: bool
) -> str | None:
    """Return the frontend. Raises UsageError for options that exclude each other."""
    if detach and ui is not None:
        raise click.UsageError(
            f"--detach and --ui {ui} exclude each other: `prsm attach --ui {ui}` shows it"
        )
    if as_json and ui not in {None, "json"}:
        raise click.UsageError(f"--json and --ui {ui} exclude each other")
    if unattended_s is not None and not detach:
        raise click.UsageError("--unattended is for --detach")
    return "json" if as_json and not detach else ui


@click.command(short_help="Go on with a run that was cut off.")
@click.argument("session", required=False)
@workspace_option
@click.option("--ui", metavar="NAME", help="Frontend; console if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print one event a line; nobody is asked.")
@click.option("--detach", is_flag=True, help="Return once the run goes on, and print its session.")
@limit_options("End the run this long from here; what is left of its own limit if not given.")
@click.pass_obj
def resume(
    launch: Launch, /, *, as_json: bool, detach: bool, ui: str | None, **options: Any
) -> int:
    """Go on with the newest run of SESSION, the newest session if not given.

    A run is cut off when its process dies, or is interrupted. All agents go on as they were: what
    they waited for they wait for again, no finished child is run again, and a question is asked
    once. First it is told, of each agent, how it goes on.

    The options that `prsm run` was given hold again, but for --trust; those given here are laid
    over them, here and in later resumes. Its time limit and its budget count from the run's
    beginning; time in which no process worked on it does not count, and a --timeout that is given
    here counts from here. Files of the configuration are read as they are now.

    A run that is finished is not run again: its own exit code is given. Otherwise exits as
    `prsm run` does.
    """
    ui = _checked_ui(ui, options["unattended_s"], as_json=as_json, detach=detach)
    if detach and options["unattended_s"] is None:
        options["unattended_s"] = UNATTENDED_SECONDS
    from prsm_core.cli.resuming import resume_session

    return resume_session(launch, ui=ui, detach=detach, as_json=as_json, **options)

"""Commands that begin a run: led by a client, or as a demonstration; the engine comes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.cli.scratch import ScratchRun
    from prsm_core.interfaces.frontend import AppHandle
    from prsm_core.interfaces.provider import AgentHost
    from prsm_core.kit.stdio import Wire

    Speak = Callable[[AgentHost, AppHandle, Wire, str], Awaitable[None]]


def lead(
    launch: Launch, options: Mapping[str, Any], speak: Speak, *, client: str, hint: str
) -> int:
    """Let the client on stdin and stdout lead a run until it leaves; return the exit code.

    Args:
        launch: The context object of the command.
        options: What the options of `lead_options` say, but for `patience_s`.
        speak: `await speak(host, app, wire, brief)` serves the client and returns once it has
            left. `host` is the master's: its tools are the client's. `brief` is what the engine
            tells whoever leads.
        client: What the client is called in errors, in the log and as the run's task.
        hint: How it begins, for the error where none is there.

    Raises:
        ConfigError: no program is at the other end, or the configuration is wrong.
    """
    from prsm_core.cli import leading  # the engine, which --help has no use for

    return leading.lead(launch, options, speak, client=client, hint=hint)


def run_scratch(
    launch: Launch,
    body: Callable[[ScratchRun], Awaitable[int]],
    *,
    ui: str | None,
    without: Sequence[str] = (),
) -> int:
    """Let a command run a task in a folder of its own, by settings of its own: a demonstration.

    Args:
        launch: The context object of the command.
        body: `await body(run)` makes the folder, runs the task in it and returns the exit code.
            Signals that end a run cancel it.
        ui: The frontend's name; None leaves the choice to the core.
        without: Names of plugins not to load, as --without-plugin gives them.

    Returns:
        What `body` returns.

    Raises:
        PluginError: there is no such frontend.
    """
    from prsm_core.cli import scratch  # the engine, which --help has no use for

    return scratch.run_scratch(launch, body, ui=ui, without=without)

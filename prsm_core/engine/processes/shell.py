"""Run one shell command with a deadline and bounded output, leaving nothing behind."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.errors import ProcessError
from prsm_core.executors import Command
from prsm_core.kit.clocks import first_of
from prsm_core.kit.environment import KEY_NAME, LOADS_CODE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.engine.processes.executor import CommandSandbox
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.interfaces.clock import Clock

OUTPUT_LIMIT = 64 * 2**10  # bytes kept of each of stdout and stderr
MAX_COMMAND = 2**17 - 1  # bytes; Linux takes no longer argument
TERM_GRACE = 2.0  # seconds from the deadline's TERM to the KILL


class ShellResult(Record, frozen=True, kw_only=True):
    """What a command did; after a timeout the exit code is that of its end."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool  # there was more output than was kept
    timed_out: bool


async def run_shell(
    launcher: ProcessLauncher,
    command: str,
    *,
    cwd: str,
    timeout_s: float,
    clock: Clock,
    env: Mapping[str, str] | None = None,
    output_limit: int = OUTPUT_LIMIT,
    keep_end: bool = False,
    sandbox: CommandSandbox | None = None,
    region: Sequence[str] | None = None,
    closed: Sequence[str] = (),
) -> ShellResult:
    """Run exactly `command` by bash, without start-up files and without input.

    Its whole family has ended on return, and on cancellation. `env` is added to the launcher's
    allow-list without variables that load code or hold secrets. Output beyond `output_limit` bytes
    of each stream is dropped; with `keep_end` the last bytes are kept instead of the first. In the
    sandbox only a `region` of the workspace can be written, and what is `closed` cannot. Raises
    ProcessError if `cwd` is missing or the command too long, ConfigError if a required sandbox
    cannot be had.
    """
    _require_runnable(command)
    argv: tuple[str, ...] = ("bash", "--noprofile", "--norc", "-c", "--", command)
    confining: AbstractAsyncContextManager[Command] = nullcontext(Command(argv=argv))
    if sandbox is not None:
        confining = sandbox.confined(argv, cwd, region, closed)
    async with confining as confined:
        return await run_captured(
            launcher,
            confined.argv,
            name="shell command",
            cwd=cwd,
            timeout_s=timeout_s,
            clock=clock,
            env=env,
            output_limit=output_limit,
            keep_end=keep_end,
            inherit=confined.inherit,
        )


async def run_captured(
    launcher: ProcessLauncher,
    argv: Sequence[str],
    *,
    name: str,
    cwd: str,
    timeout_s: float,
    clock: Clock,
    env: Mapping[str, str] | None = None,
    output_limit: int = OUTPUT_LIMIT,
    keep_end: bool = False,
    inherit: Sequence[int] = (),
) -> ShellResult:
    """Run a program as `run_shell` runs bash."""
    process = await launcher.capture(
        argv,
        name=name,
        limit=output_limit,
        keep_end=keep_end,
        cwd=cwd,
        env=scrubbed(env or {}),
        inherit=inherit,
    )
    try:
        in_time = await first_of(clock, timeout_s, process.wire.exited.wait)
        exit_code = await process.wait() if in_time else await process.stop(TERM_GRACE)
    finally:
        if not process.has_exited:  # the wait for it was broken off
            process.kill()
            await process.wait()
    return ShellResult(
        exit_code=exit_code,
        stdout=process.stdout,
        stderr=process.stderr,
        truncated=process.truncated,
        timed_out=not in_time,
    )


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without variables that load code into programs or hold secrets."""
    return {
        name: value
        for name, value in env.items()
        if not LOADS_CODE.fullmatch(name) and not KEY_NAME.search(name.upper())
    }


def _require_runnable(command: str) -> None:
    if "\0" in command:
        raise ProcessError("the command holds a zero byte", hint="remove it")
    if len(command.encode("utf-8", "surrogatepass")) > MAX_COMMAND:
        raise ProcessError(
            f"the command is longer than {MAX_COMMAND} bytes",
            hint="write the text to a file and run that",
        )

"""The command line: `main` is the `prsm` command and the boundary for errors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.cli.launch import Launch


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; results go to stdout, the rest to stderr."""
    given = sys.argv[1:] if args is None else list(args)
    if given == ["--version"]:
        from prsm_core.version import __version__

        if sys.stdout is not None:
            sys.stdout.write(f"prsm, version {__version__}\n")
        return 0

    def run(launch: Launch) -> object:
        from prsm_core.cli.group import cli

        return cli.main(given, prog_name="prsm", standalone_mode=False, obj=launch)

    return run_as_process(run) if args is None else _run(run)


def run_as_process(work: Callable[[Launch], object]) -> int:
    """Do the only work of this process and return the exit code."""
    from prsm_core.loop.leaving import collect_no_more, collect_seldom, see_out

    collect_seldom()
    code = _run(work)
    see_out(code)
    collect_no_more()
    return code


def _run(work: Callable[[Launch], object]) -> int:
    from prsm_core.cli.launch import Launch

    launch = Launch()
    _open_closed_streams()
    try:
        return _run_reporting(launch, work)
    finally:
        # Only commands that may run an engine import it: `prsm --help` has no use for it.
        if (output := sys.modules.get("prsm_core.loop.output")) is not None:
            output.finish_output()


def _run_reporting(launch: Launch, work: Callable[[Launch], object]) -> int:
    from prsm_core.loop.interrupts import noting_interrupts, raise_interrupt

    try:
        with noting_interrupts(raise_interrupt):
            code = work(launch)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # noqa: BLE001 - boundary
        from prsm_core.cli.boundary import report

        return report(error, debug=launch.debug)
    return code if isinstance(code, int) else 0


def _open_closed_streams() -> None:
    """Discard output to a stream that the caller has closed."""
    import os

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - as long as the process

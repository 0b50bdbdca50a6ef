"""`python -m prsm_regions`: an editor leads runs of regions, or a person does in a terminal.

    python -m prsm_regions --mode extension --workspace DIR --model MODEL --effort medium
    python -m prsm_regions --workspace DIR "implement auth feature"

`extension` is `prsm --ui extension`: see `prsm_regions.extension.messages`. `interactive` asks for
an intent, and is `prsm run --provider regions` for each, until the end of stdin.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import TYPE_CHECKING

import click

from prsm_regions.config import Richness

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERRUPTED = 130  # the exit code after Ctrl-C
ASKS = "What is to be done? "


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--mode",
    type=click.Choice(["interactive", "extension"]),
    default="interactive",
    show_default=True,
    help="Who leads: a person in a terminal, or an editor by lines of JSON.",
)
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The folder to work in.",
)
@click.option("--model", metavar="MODEL", help="The model that plans, and that works on subtasks.")
@click.option(
    "--effort",
    type=click.Choice([one.value for one in Richness]),
    help="How much each agent is told.",
)
@click.argument("intent", required=False)
def main(
    mode: str, workspace: str, model: str | None, effort: str | None, intent: str | None
) -> None:
    """Carry out intents by agents that each own a region of the workspace."""
    os.environ.update(_settings(model, effort))
    os.chdir(workspace)
    if mode == "extension":
        if intent is not None:
            raise click.UsageError("an editor says the intent: leave it out")
        sys.exit(_prsm("--ui", "extension"))
    if intent is not None:
        sys.exit(_run(intent))
    sys.exit(_ask())


def _settings(model: str | None, effort: str | None) -> Mapping[str, str]:
    """Return the settings that the options stand for, as variables of the environment."""
    given = {"PLANNER": model, "MODEL": model, "EFFORT": effort}
    section = "PRSM__PROVIDERS__REGIONS__"
    return {section + name: value for name, value in given.items() if value is not None}


def _ask() -> int:
    """Carry out what a person types, until there is nothing more; return the last exit code."""
    code = 0
    while True:
        try:
            intent = input(ASKS).strip()
        except EOFError:
            return code
        except KeyboardInterrupt:
            return INTERRUPTED
        if intent:
            code = _run(intent)


def _run(intent: str) -> int:
    return _prsm("run", "--provider", "regions", "--", intent)


def _prsm(*args: str) -> int:
    """Do what `prsm` does with these arguments, and return its exit code."""
    sys.argv = ["prsm", *args]
    try:
        runpy.run_module("prsm_core", run_name="__main__")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    return 0


if __name__ == "__main__":
    main()

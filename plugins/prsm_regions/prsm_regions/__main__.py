"""`python -m prsm_regions`: an editor leads runs of regions, or a person does in a terminal.

    python -m prsm_regions --mode extension --workspace DIR --model MODEL --effort medium
    python -m prsm_regions --workspace DIR "implement auth feature"

`extension` is `prsm --ui extension`: see `prsm_regions.extension.messages`. `interactive` asks for
an intent, and is `prsm run --provider regions` for each, until the end of stdin.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from prsm_regions.config import Richness

if TYPE_CHECKING:
    from collections.abc import Mapping

PRSM = (sys.executable, "-m", "prsm_core")
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
    environ = {**os.environ, **_settings(model, effort)}
    os.chdir(workspace)
    if mode == "extension":
        if intent is not None:
            raise click.UsageError("an editor says the intent: leave it out")
        os.execve(PRSM[0], [*PRSM, "--ui", "extension"], environ)  # noqa: S606 - our own
    if intent is not None:
        sys.exit(_run(intent, environ))
    sys.exit(_ask(environ))


def _settings(model: str | None, effort: str | None) -> Mapping[str, str]:
    """Return the settings that the options stand for, as variables of the environment."""
    given = {"PLANNER": model, "MODEL": model, "EFFORT": effort}
    section = "PRSM__PROVIDERS__REGIONS__"
    return {section + name: value for name, value in given.items() if value is not None}


def _ask(environ: Mapping[str, str]) -> int:
    code = 0
    while True:
        try:
            intent = input(ASKS).strip()
        except EOFError:
            return code
        except KeyboardInterrupt:
            return 130
        if intent:
            code = _run(intent, environ)


def _run(intent: str, environ: Mapping[str, str]) -> int:
    """Carry out one intent; Ctrl-C is the run's, and ends it."""
    command = [*PRSM, "run", "--provider", "regions", "--", intent]
    with subprocess.Popen(command, env=environ) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the run has had it too, and says what comes of it
                continue


if __name__ == "__main__":
    main()

"""Runs the demonstration and tells what came of it."""

from __future__ import annotations

import asyncio
import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from prsm_core.commands import run_scratch
from prsm_core.kit import escape_prose
from prsm_demo.provider import DEMO
from prsm_demo.sample import changes, lend_sample, sweep

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_core.commands import Launch, ScratchRun

TASK = "Customers who order for exactly 50.00 pay shipping. Mend it."

_INTRO = (
    "A scripted team mends a sample project. No model is asked; the engine, the tools, the "
    "permissions, the ledger and the edits are real."
)
_ASKED = "You will be asked for a permission: the team waits for your answer."


def run_demo(launch: Launch, *, ui: str | None, keep: bool, without: Sequence[str] = ()) -> int:
    """Run the demonstration and return the exit code; see the command."""
    return run_scratch(launch, partial(_run, keep=keep), ui=ui, without=without)


async def _run(run: ScratchRun, *, keep: bool) -> int:
    sweep(run.state)
    is_json = run.frontend.name == "json"
    with lend_sample(run, keep=keep) as folder:
        if not is_json:
            paragraphs = [_INTRO, *([_ASKED] if run.frontend.interactive else [])]
            click.echo("\n".join(map(click.wrap_text, paragraphs)) + "\n", err=True)
        try:
            code = await _play(run, folder, keep=keep)
        except asyncio.CancelledError:
            if not keep:
                click.echo("prsm: the demo leaves nothing; --keep keeps its project", err=True)
            raise
        failed = await run.unfinished(folder)
        if failed:
            click.echo(f"prsm: not completed: {', '.join(failed)}", err=True)
        click.echo(_closing(folder, run.ledger(folder), keep=keep), err=is_json)
    return code or (1 if failed else 0)


async def _play(run: ScratchRun, folder: Path, *, keep: bool) -> int:
    """Run the scenario, show what came of it, and return the exit code."""
    settings = {"providers": {"script": {"scenario": DEMO}}}
    code = await run.play(folder, TASK, provider="script", settings=settings, is_kept=keep)
    if run.frontend.name != "json":
        click.echo("\n" + escape_prose("\n".join(changes(folder))) + "\n")
        # The console has shown the agents already.
        if run.frontend.name != "console":
            await run.print_tree(folder)
    return code


def _closing(folder: Path, ledger: Path, *, keep: bool) -> str:
    where = shlex.quote(str(folder))
    lines = [
        "",
        f"The project:  {folder}",
        f"Its ledger:   {ledger}",
        *([] if keep else ["The next demo removes both; --keep would have kept them."]),
        "",
        "Look around:",
        *(f"  prsm {words} -C {where}" for words in ("tree", "history fixer", "events")),
        "Then on your own code, with a provider (see: prsm providers):",
        '  prsm run "…"',
    ]
    return "\n".join(lines)

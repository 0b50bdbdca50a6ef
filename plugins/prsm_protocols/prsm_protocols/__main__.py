"""`python -m prsm_protocols`: reads pages, draws them, and exports what agents did under them.

python -m prsm_protocols lint --strict
python -m prsm_protocols show inbox
python -m prsm_protocols export | git -C audit fast-import
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from prsm_core import Event, PrsmError
from prsm_protocols.compiled import ProtocolSet, compile_pages, diagram
from prsm_protocols.export import Export
from prsm_protocols.kept import Kept
from prsm_protocols.library import read_files, read_folder
from prsm_protocols.places import PAGES
from prsm_protocols.problems import ProtocolError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_protocols.problems import Problem

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_workspace = click.option(
    "--workspace", type=_FOLDER, default=Path(), help="The folder whose protocols they are."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Read protocols of agents, draw them, and export what was done under them."""


@main.command()
@click.option("--strict", is_flag=True, help="A warning is an error, too.")
@_workspace
@click.argument("pages", nargs=-1, type=click.Path(path_type=Path))
def lint(*, strict: bool, workspace: Path, pages: Sequence[Path]) -> None:
    """Tell what is wrong with pages, by default those of the workspace; PAGES are one set."""
    protocols, odd = _compiled(workspace, pages, strict=strict)
    for problem in odd:
        click.echo(str(problem))
    click.echo(f"{len(protocols.names)} protocols: {', '.join(protocols.names) or 'none'}")


@main.command()
@_workspace
@click.argument("name", required=False)
def show(workspace: Path, name: str | None) -> None:
    """Draw the protocol NAME, or all of them, as state diagrams of Mermaid."""
    protocols, _ = _compiled(workspace)
    if name is not None and name not in protocols.names:
        _fail(f"there is no protocol {name!r}{nearest(name, protocols.names)}")
    for each in protocols.names if name is None else (name,):
        if (protocol := protocols.get(each)) is not None:
            click.echo(f"%% {protocol.id}\n{diagram(protocol)}", nl=False)


@main.command()
@_workspace
@click.option(
    "--events",
    type=click.File(),
    help="A file of events, as `prsm events --json` prints them; - is stdin.",
)
@click.argument("session", required=False)
def export(workspace: Path, events: io.TextIOBase | None, session: str | None) -> None:
    """Write what agents did under protocols as a stream for `git fast-import`.

    SESSION is one that `prsm events` knows, by default the newest of the workspace.
    """
    text = events.read() if events is not None else _printed(workspace, session)
    for part in Export(_pages).stream(_events(text)):
        click.echo(part, nl=False)


def _compiled(
    workspace: Path, pages: Sequence[Path] = (), *, strict: bool = False
) -> tuple[ProtocolSet, tuple[Problem, ...]]:
    try:
        sources = read_files(pages) if pages else read_folder(workspace / PAGES)
        return compile_pages(sources, strict=strict)
    except ProtocolError as error:
        _fail(*map(str, error.problems))


def _fail(*lines: str) -> NoReturn:
    click.echo("\n".join(lines), err=True)
    raise SystemExit(1)


def _printed(workspace: Path, session: str | None) -> str:
    args = ["--json", "--workspace", str(workspace), *([] if session is None else [session])]
    text = io.StringIO()
    sys.argv = ["prsm", "events", *args]
    try:
        with contextlib.redirect_stdout(text):
            runpy.run_module("prsm_core", run_name="__main__")
    except SystemExit as left:
        if left.code not in {0, None}:
            raise
    return text.getvalue()


def _events(text: str) -> Iterator[Event]:
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield Event.from_dict(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            _fail(f"line {number} is no event: {error}")


def _pages(identity: str) -> Mapping[str, str]:
    """Return the pages of a version by name; one that is gone is told, and left out."""
    try:
        return Kept().get(identity).sources
    except PrsmError as error:
        click.echo(f"{error.message}; its pages are left out", err=True)
        return {}


if __name__ == "__main__":
    main()

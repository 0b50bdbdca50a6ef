"""Runs the demonstration and tells what came of it."""

from __future__ import annotations

import asyncio
import difflib
import fcntl
import shlex
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prsm_core import ConfigError
from prsm_core.commands import run_scratch
from prsm_core.files import is_in_repository
from prsm_core.kit import escape_prose, make_private
from prsm_demo.provider import DEMO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_core.commands import Launch, ScratchRun

TASK = "Customers who order for exactly 50.00 pay shipping. Mend it."

_INTRO = (
    "A scripted team mends a sample project. No model is asked; the engine, the tools, the "
    "permissions, the ledger and the edits are real."
)
_ASKED = "You will be asked for a permission: the team waits for your answer."


PREFIX = "prsm-demo-"
_ORIGINAL = Path(__file__).parent / "sample-shop"


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


def make_sample(state: Path) -> Path:
    """Return a new temporary folder with the project, which is in no repository.

    Where the temporary folder is in one, `state` is the place. Raises ConfigError.
    """
    try:
        places = (Path(tempfile.gettempdir()).resolve(), make_private(state / "demos").resolve())
        place = next((one for one in places if not is_in_repository(str(one))), None)
        if place is None:
            raise ConfigError(
                f"{' and '.join(map(str, places))} are in a repository",
                hint="TMPDIR names another folder for temporary files",
            )
        return _copy(place)
    except OSError as error:
        raise ConfigError(
            f"the sample project cannot be written: {error}",
            hint="TMPDIR names another folder for temporary files",
        ) from error


def changes(folder: Path) -> Iterator[str]:
    """Yield the lines of a unified diff between the original and the project in `folder`."""
    before, after = _read(_ORIGINAL), _read(folder)
    for name in sorted(before.keys() | after.keys()):
        yield from difflib.unified_diff(
            before.get(name, "").splitlines(),
            after.get(name, "").splitlines(),
            f"a/{name}" if name in before else "/dev/null",
            f"b/{name}" if name in after else "/dev/null",
            lineterm="",
        )


@contextmanager
def lend_sample(run: ScratchRun, *, keep: bool) -> Iterator[Path]:
    """Lend a new sample project to a demonstration.

    It and its ledger stay for a person to look at: for good if they are to be kept, else until the
    next demonstration. Of one that does not reach its end nothing else would be kept, so that it
    leaves nothing; where it is killed, the next one sees to that. Raises ConfigError when it or
    the list of what is to be removed cannot be written.
    """
    folder = make_sample(run.state)
    if keep:
        yield folder
        return
    folders = (folder, run.ledger(folder).parent)
    with remembered(run.state, *folders) as record:
        try:
            yield folder
        except BaseException:
            _remove(folders)
            record.unlink(missing_ok=True)
            raise


@contextmanager
def remembered(state: Path, *folders: Path) -> Iterator[Path]:
    """Let the next demonstration remove these folders; yield the record. Raises ConfigError."""
    record = state / "demos" / f"{folders[0].name}.txt"
    new = record.with_suffix(".new")
    with ExitStack() as stack:
        with _writing(record):
            make_private(record.parent)
            file = stack.enter_context(new.open("w", encoding="utf-8"))
            fcntl.flock(file, fcntl.LOCK_EX)  # as long as this demonstration lives
            file.write("".join(f"{folder}\n" for folder in folders))
            file.flush()
            new.rename(record)
        yield record


def sweep(state: Path) -> None:
    """Remove what demonstrations left that have ended; raises ConfigError for the list."""
    for record in sorted((state / "demos").glob(f"{PREFIX}*.txt")):
        with _writing(record), suppress(BlockingIOError, FileNotFoundError):  # not ours to remove
            _sweep(record)


def _sweep(record: Path) -> None:
    with record.open(encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: that one still runs
        _remove(map(Path, file.read().splitlines()))
        record.unlink()


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        if folder.name.startswith(PREFIX):
            shutil.rmtree(folder, ignore_errors=True)  # perhaps the system was faster


@contextmanager
def _writing(record: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{record}: cannot be read or written: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
        ) from error


def _copy(place: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    for name, text in _read(_ORIGINAL).items():
        file = folder / name  # with modes of its own: a package may be installed read-only
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def _read(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in files
        if "__pycache__" not in path.parts
    }

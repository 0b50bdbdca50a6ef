"""The sample project of the demonstration: a private copy, what changed in it, its removal."""

from __future__ import annotations

import difflib
import fcntl
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import ConfigError
from prsm_core.kit import make_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prsm_core.commands import ScratchRun

PREFIX = "prsm-demo-"
_ORIGINAL = Path(__file__).parent / "sample-shop"


def make_sample(state: Path) -> Path:
    """Return a new temporary folder with the project, which is no part of another project.

    Where the temporary folder is part of one, `state` is the place. Raises ConfigError when
    neither will do.
    """
    try:
        places = (Path(tempfile.gettempdir()).resolve(), make_private(state / "demos").resolve())
        place = next(filter(_is_neutral, places), None)
        if place is None:
            raise ConfigError(
                f"{' and '.join(map(str, places))} are part of a project",
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
    """Let the first demonstration after this one remove these folders; yields where that stands.

    Raises ConfigError when it cannot be written down.
    """
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


def _is_neutral(place: Path) -> bool:
    """Return whether a folder made here belongs to no repository and to no workspace."""
    return not any(
        (folder / name).exists()
        for folder in (place, *place.parents)
        for name in (".git", ".prism")
    )


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

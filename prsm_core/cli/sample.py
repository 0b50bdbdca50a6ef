"""The sample project of the demonstration: a private copy, what changed in it, its removal."""

from __future__ import annotations

import difflib
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.config import private_dir
from prsm_core.errors import ConfigError
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "prsm-demo-"
_ORIGINAL = Path(__file__).parents[1] / "builtin" / "demo" / "sample-shop"


def make_sample(state: Path) -> Path:
    """Return a new temporary folder with the project, which is no part of another project.

    Where the temporary folder is part of one, `state` is the place. Raises ConfigError when
    neither will do.
    """
    try:
        places = (Path(tempfile.gettempdir()).resolve(), private_dir(state / "demos").resolve())
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


def remember(state: Path, *folders: Path) -> None:
    """Let the next demonstration remove these folders; raises ConfigError when it cannot."""
    record = private_dir(state / "demos") / f"{folders[0].name}.txt"
    with _writing(record):
        record.write_text("".join(f"{folder}\n" for folder in folders), encoding="utf-8")


def sweep(state: Path) -> None:
    """Remove what earlier demonstrations left to be removed; raises ConfigError for the list."""
    for record in sorted((state / "demos").glob(f"{PREFIX}*.txt")):
        for line in record.read_text(encoding="utf-8").splitlines():
            if Path(line).name.startswith(PREFIX):
                shutil.rmtree(line, ignore_errors=True)  # perhaps the system was faster
        with _writing(record):
            record.unlink(missing_ok=True)


@contextmanager
def _writing(record: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{record}: cannot be written: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
        ) from error


def _is_neutral(place: Path) -> bool:
    """Whether a folder made here belongs to no repository and to no workspace."""
    inside = place / PREFIX
    return repo_identity(inside).root == inside and not any(
        (folder / ".prism").exists() for folder in inside.parents
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

"""Which version of a vendor's program is there, and whether a plugin works with it.

Some programs take seconds to print theirs, so it is remembered until the program changes. That file
is only a hint: without it the next look takes the time again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.kit.clocks import deadline
from prsm_core.kit.regular import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.interfaces.provider import Process, ProviderServices

PRINT_SECONDS = 5.0
_VERSION = re.compile(r"\b(\d+)\.(\d+)(?:\.(\d+))?\S*")

Numbers = tuple[int, int, int]


async def _first_line(process: Process, services: ProviderServices) -> str:
    async with deadline(services, PRINT_SECONDS):
        process.close_stdin()
        async for line in process.lines():
            if line.strip():
                return line.decode(errors="replace")
    return ""


class VersionRange(Record, frozen=True, kw_only=True):
    """Which versions of a program a plugin needs, and which it was tested with.

    Attributes:
        program: The vendor's name of it.
        tested_from: The first that was tested.
        below: The first that was not tested any more.
        oldest: The first that works at all.
        install: The command that installs it, or a newer one.
        cure: What to do where it is missing, as a sentence; by default to install it.
        package: Its npm package, if it is one.
    """

    program: str
    tested_from: Numbers
    below: Numbers
    oldest: Numbers = (0, 0, 0)
    install: str = ""
    cure: str = ""
    package: str | None = None

    def __str__(self) -> str:
        """Return what was tested, as `>=1.2,<1.3`."""
        return f">={_dotted(self.tested_from)},<{_dotted(self.below)}"

    async def found(
        self,
        command: Sequence[str],
        services: ProviderServices,
        env: Mapping[str, str] | None = None,
    ) -> str | None:
        """Return the version that is there, None if it does not tell within five seconds.

        Raises ProviderNotAvailableError when the program is missing, cannot run, or is too old.
        """
        text = await self.printed(command, services, env)
        numbers = numbers_of(text or "")
        if numbers is not None and numbers < self.oldest:
            text = await self.printed(command, services, env, fresh=True)  # it may be another now
        return self.checked(text or "")

    async def printed(
        self,
        command: Sequence[str],
        services: ProviderServices,
        env: Mapping[str, str] | None = None,
        *,
        fresh: bool = False,
    ) -> str | None:
        """Return the first line of `--version`, None if none comes within five seconds.

        Unless it must be `fresh` it is remembered in the services' private folder until the
        program's file changes. An npm `package` tells the version at once, so that the program need
        only start. The process has ended when this returns.

        Raises ProviderNotAvailableError when the program is missing or cannot run.
        """
        seen = {**services.environment, **(env or {})}
        if not fresh and (known := recall(command, seen, services.state_dir)) is not None:
            return known
        try:
            process = await services.start_process(
                [*command, "--version"], name=f"{self.program} --version", env=env
            )
        except ProviderNotAvailableError as error:
            cure = self.cure or f"Install it with `{self.install}`, or set `command`."
            raise ProviderNotAvailableError(error.message, hint=cure) from error
        try:
            known = packaged_version(command, self.package) if self.package else None
            told = known or await _first_line(process, services)
        except (TimeoutError, ProcessError):
            return None
        finally:
            await process.stop(grace=0)
        if numbers_of(told) is not None:
            remember(command, seen, services.state_dir, told)
        return told

    def checked(self, text: str) -> str | None:
        """Return the version in a text, if any; raise as `found` does."""
        version, numbers = version_in(text), numbers_of(text)
        if numbers is not None and numbers < self.oldest:
            raise ProviderNotAvailableError(
                f"{self.program} {version} is too old: this plugin needs {_dotted(self.oldest)}",
                hint=f"install a newer one with `{self.install}`",
            )
        return version

    def is_tested(self, version: str | None) -> bool:
        """Return whether a version is inside the tested range."""
        numbers = numbers_of(version or "")
        return numbers is not None and self.tested_from <= numbers < self.below

    def untested(self, version: str | None) -> str | None:
        """Return why a version that was `found` may not work; None for one that was tested."""
        if version is None:
            return f"`{self.program} --version` told no version within {PRINT_SECONDS:g} s"
        return None if self.is_tested(version) else f"version {version} was not tested"


def version_in(text: str) -> str | None:
    """Return the version in a text, as it is written there."""
    match = _VERSION.search(text)
    return match[0] if match else None


def numbers_of(text: str) -> Numbers | None:
    """Return the numbers of the version in a text."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _dotted(numbers: Numbers) -> str:
    major, minor, patch = numbers
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"


_FILE = "versions.json"
_LONGEST = 200  # characters of a line that is a version
_LARGEST = 1 << 20  # bytes of a file that is read
_ENTRIES = 20  # a person may have tried some programs

Stamp = list[list[Any]]  # path, times of change in ns, size and inode of each file of a command


def recall(command: Sequence[str], env: Mapping[str, str], folder: Path) -> str | None:
    """Return what a command has printed, None unless its program is known to be the same."""
    stamp = program_stamp(command, env)
    if stamp is None:
        return None
    entry = _load(folder / _FILE).get(_key(command))
    if not isinstance(entry, dict) or entry.get("files") != stamp:
        return None
    printed = entry.get("printed")
    return printed if isinstance(printed, str) and 0 < len(printed) <= _LONGEST else None


def remember(command: Sequence[str], env: Mapping[str, str], folder: Path, printed: str) -> None:
    """Keep what a command has printed, where a change of its program can be told."""
    stamp = program_stamp(command, env)
    if stamp is None or not 0 < len(printed) <= _LONGEST:
        return
    kept = _load(folder / _FILE)
    kept.pop(_key(command), None)
    newest = dict(list(kept.items())[1 - _ENTRIES :])
    newest[_key(command)] = {"files": stamp, "printed": printed}
    with suppress(OSError):
        replace_file(folder / _FILE, json.dumps(newest).encode())


def program_stamp(command: Sequence[str], env: Mapping[str, str] | None = None) -> Stamp | None:
    """Return what changes with a program; None if no file holds it, as for `npx tool`."""
    path = os.pathsep.join(filter(None, ((env or {}).get("PATH"), os.environ.get("PATH"))))
    first = shutil.which(command[0], path=path)
    files = [] if first is None else [Path(first)]
    others = [Path(word) for word in command[1:] if not word.startswith("-")]
    try:
        if first is None or not all(other.is_absolute() for other in others):
            return None
        return [_stamp(file) for file in (*files, *others)]
    except (OSError, ValueError):
        return None


def _stamp(file: Path) -> list[Any]:
    real = file.resolve(strict=True)
    seen = real.stat()
    if not real.is_file():
        raise OSError(f"{real} is no file")
    return [str(real), seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino]


def _key(command: Sequence[str]) -> str:
    return json.dumps(list(command))


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def packaged_version(command: Sequence[str], package: str) -> str | None:
    """Return the version of the npm package that a word of the command lies in, else None."""
    for word in command:
        try:
            program = Path(shutil.which(word) or word).resolve()
            folders = program.parents if program.is_file() else ()
        except (OSError, ValueError):
            continue
        for folder in folders:
            about = _load(folder / "package.json")
            if about.get("name") == package and isinstance(about.get("version"), str):
                return str(about["version"])
    return None

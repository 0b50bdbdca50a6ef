"""The skills that there are: folders with a SKILL.md, of the user and of a workspace.

A skill is an ordinary file of moderate size below the trusted folder, without secrets. Mistakes are
told in a line each, and the other skills count.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.config.document import parse_text
from prsm_core.config.paths import HOME, SKILLS
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.kit.text import escape_exact
from prsm_core.permissions.paths import why_not_read
from prsm_core.policies.within import is_within

if TYPE_CHECKING:
    from prsm_core.config.paths import SkillPlaces

FILE = "SKILL.md"
MAX_SKILLS = 200  # that are read, of one folder
MAX_ENTRIES = 5_000  # of a folder, which may hold other things
MAX_BYTES = 1 << 20  # of a file; a model could not read a larger one
MAX_FRONT = 16 << 10  # bytes of a file that its front matter is in
MAX_NAME = 64  # characters, as the vendors have it
MAX_DESCRIPTION = 400  # characters that are told; the file has all

_FENCE = "---"
_SHAPE = f"a skill begins with {_FENCE}, `name:` and `description:`, {_FENCE}"


class Skill(Record, frozen=True, gc=False):
    """One skill, as agents are told of it."""

    name: str
    description: str  # what it is for, on one line
    path: str  # of its SKILL.md: below the session's workspace, or `~/…` below the user's home

    @property
    def place(self) -> str:
        """The folder of skills that it lies in: `.claude/skills`, `~/.agents/skills`."""
        return self.path.rsplit("/", 2)[0]

    @property
    def is_of_user(self) -> bool:
        """Whether it is the user's own; any other one is the workspace's."""
        return self.path.startswith(HOME)


class FoundSkills(Record, frozen=True):
    """The skills, by name, and what is wrong with those that do not count: each with its place."""

    skills: tuple[Skill, ...] = ()
    mistakes: tuple[str, ...] = ()


class _RefusedError(Exception):
    """A skill does not count, for the reason that its text says."""


def find_skills(places: SkillPlaces) -> FoundSkills:
    """Return the skills that there are now; blocks.

    Of one name the first counts: the workspace's before the user's, folders in the order of SKILLS.
    A link is no second skill.
    """
    found: dict[str, Skill] = {}
    seen: set[str] = set()
    mistakes: list[str] = []
    for root, begin in places.roots():
        real = os.path.realpath(root)
        for folder in SKILLS:
            for path in _candidates(Path(root, folder), mistakes):
                try:
                    skill = _skill(path, f"{begin}{folder}/{path.parent.name}/{FILE}", real, seen)
                except _RefusedError as refused:
                    mistakes.append(f"{escape_exact(str(path))}: {refused}")
                    continue
                first = None if skill is None else found.setdefault(skill.name, skill)
                if first is not None and first is not skill:
                    told = f"is the second of the name {first.name}: {first.path} counts"
                    mistakes.append(f"{escape_exact(str(path))}: {told}")
    ordered = sorted(found.values(), key=lambda skill: (skill.name.casefold(), skill.name))
    return FoundSkills(tuple(ordered), tuple(mistakes))


def _candidates(folder: Path, mistakes: list[str]) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_ENTRIES + 1)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        mistakes.append(f"{folder}: cannot be read: {error.strerror}")
        return []
    if len(names) > MAX_ENTRIES:
        mistakes.append(f"{folder}: has more than {MAX_ENTRIES:,} entries: no more are looked at")
    files = [folder / name / FILE for name in sorted(names[:MAX_ENTRIES])]
    there = [path for path in files if os.path.lexists(path)]
    if len(there) > MAX_SKILLS:
        left = len(there) - MAX_SKILLS
        mistakes.append(f"{folder}: has {len(there)} skills: the last {left} by name do not count")
    return there[:MAX_SKILLS]


def _skill(path: Path, told: str, root: str, seen: set[str]) -> Skill | None:
    """Return the skill of a file; None for one that is known already, or is not for models."""
    resolved = os.path.realpath(path)
    if resolved in seen:
        return None
    seen.add(resolved)
    if not is_within(resolved, root):
        raise _RefusedError(f"leads out of {root}")
    if (why := why_not_read(resolved, root, root)) is not None:
        raise _RefusedError(why)
    if not told.isprintable():
        raise _RefusedError("the name of its folder has characters that cannot be shown")
    front = _front(_read(resolved))
    if front.get("disable-model-invocation") is True:
        return None
    name, description = front.get("name", path.parent.name), front.get("description")
    if not isinstance(name, str) or not 0 < len(one := _line(name)) <= MAX_NAME:
        raise _RefusedError(f"its name must be a text of at most {MAX_NAME} characters")
    if not isinstance(description, str) or not (text := _line(description)):
        raise _RefusedError(f"has no description: {_SHAPE}")
    cut = text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]}…"
    return Skill(one, cut, told)


def _line(text: str) -> str:
    return escape_exact(" ".join(text.split()))


def _read(path: str) -> str:
    try:
        # Neither a pipe nor a link that took the file's place meanwhile is waited for or followed.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            now = os.fstat(descriptor)
            if not stat.S_ISREG(now.st_mode):
                raise _RefusedError("is no ordinary file")
            if now.st_size > MAX_BYTES:
                raise _RefusedError(f"is larger than {MAX_BYTES >> 20} MiB")
            return file.read(MAX_FRONT).decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise _RefusedError(f"cannot be read: {error.strerror}") from error


def _front(text: str) -> dict[str, Any]:
    lines = text.splitlines()
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == _FENCE), None)
    if end is None or lines[0].rstrip() != _FENCE:
        raise _RefusedError(f"has no front matter in its first {MAX_FRONT >> 10} KiB: {_SHAPE}")
    try:
        front = parse_text("\n" + "\n".join(lines[1:end]), source=FILE).value  # line numbers stay
    except ConfigError as error:
        raise _RefusedError(f"its front matter is no YAML: {error.message}") from error
    if not isinstance(front, dict):
        raise _RefusedError(f"its front matter says nothing: {_SHAPE}")
    return front

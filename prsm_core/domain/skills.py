"""Skills: instructions for one kind of work, in a file that a model reads once it needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = (".agents/skills", ".claude/skills", ".codex/skills", ".gemini/skills")
HOME = "~/"  # what the path of a skill of the user begins with


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


class SkillPlaces(Record, frozen=True, kw_only=True):
    """Where skills are looked for: below a workspace, and below the user's home.

    Of a workspace that is not trusted nothing is read.
    """

    workspace: str
    home: str | None  # None: it is not known
    trusted: bool

    def roots(self) -> Iterator[tuple[str, str]]:
        """Yield the folders that are trusted, and what the paths of skills below begin with."""
        if self.trusted:
            yield self.workspace, ""
        if self.home is not None:
            yield self.home, HOME

    def folders(self) -> Iterator[str]:
        """Yield the folders of skills that there may be."""
        for root, _ in self.roots():
            yield from (f"{root}/{folder}" for folder in FOLDERS)

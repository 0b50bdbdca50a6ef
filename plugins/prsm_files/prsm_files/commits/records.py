"""Commits that are asked for, and what becomes of the changes that they are to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from prsm_files.changes.merging import Wanted


class Asked(Struct, frozen=True, kw_only=True):
    """One commit that is asked for; `changes` are oldest first, `agents` ids, for the caller."""

    message: str
    changes: tuple[Wanted, ...]
    agents: tuple[str, ...] = ()


class Commit(Struct, frozen=True, kw_only=True):
    """A commit of one repository; its `id` is "" as long as it is not made."""

    root: str  # the repository, from the top of the folder
    message: str
    changes: tuple[str, ...]  # ids
    files: tuple[str, ...]  # from the top of the folder
    agents: tuple[str, ...] = ()
    id: str = ""


class Left(Struct, frozen=True):
    """A change that is in no commit, and why."""

    id: str
    why: str


class Held(Struct, frozen=True):
    """A change that HEAD has already, by whomever; `commit` is HEAD."""

    id: str
    commit: str


class Outcome(Struct, frozen=True, kw_only=True):
    """The commits, in their order, what is left out of all of them, and what needs none."""

    commits: tuple[Commit, ...] = ()
    left: tuple[Left, ...] = ()
    held: tuple[Held, ...] = ()

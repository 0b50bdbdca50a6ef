"""Which paths are ordinary: inside the folder an agent works in, not protected, not secret."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.policies import UntoldError, Written, is_within, protected_part, secret_part
from prsm_policy.expansion import Sight, expand
from prsm_policy.secret_names import may_be_secret, may_match_secret, needs_path
from prsm_policy.shell.words import Found, Word
from prsm_policy.tree import Bounds, Trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_core.policies import OwnState
    from prsm_policy.expansion import Hit
    from prsm_policy.safe.asking import Answer
    from prsm_policy.tree import Reach

_TEMPORARY = re.compile(r"/(?:tmp|var/tmp|private/tmp)(?:/|$)|/dev/(?:null|stdout|stderr|tty)$")
_WILD = re.compile(r"[*?\[]")
MAX_FOLDERS = 8  # a command that changes folders more often is not judged
MAX_PATH = 1_000  # characters; a longer one is not ordinary
MAX_PATHS = 500  # that one program reads folders below
MAX_ENTRIES = 5_000  # of folders that one decision looks through for the names in them
MAX_LOOKS = 3_000  # at the file system for one decision; nothing is ordinary after that


_NOTHING_WRITTEN = Written()


def _no_answer(_folder: str) -> None:
    return None


@dataclass(slots=True)
class _Looks:
    """What one decision sees of the file system, and how often it may still look."""

    workspace: str
    trees: Trees
    own: OwnState | None = None
    written: Written = field(default=_NOTHING_WRITTEN)
    trusted: bool = False
    ask_git: Callable[[str], Answer | None] = _no_answer  # of a folder with a .git
    left: int = MAX_LOOKS
    root: str | None = None
    sight: Sight = field(default_factory=Sight)
    bounds: Bounds = field(default_factory=Bounds)
    entries: int = MAX_ENTRIES
    found: dict[object, bool] = field(default_factory=dict)  # what was told of names already

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def resolved(self) -> str:
        """Return where the workspace is."""
        if self.root is None:
            self.root = os.path.realpath(self.workspace)
        return self.root


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command may run: the workspace, and every folder it can be in by then.

    Nothing is resolved before it matters. `elsewhere` are the folders if not the workspace alone.
    """

    looks: _Looks = field(compare=False)
    elsewhere: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        cwd: str,
        workspace: str,
        trees: Trees | None = None,
        own: OwnState | None = None,
        written: Written | None = None,
        ask_git: Callable[[str], Answer | None] = _no_answer,
        *,
        trusted: bool = False,
    ) -> Place | None:
        """Return the place of a command, None when it runs outside the workspace.

        `trees` are indexes that are kept between decisions, `written` what agents may have written
        of the project's environment. `ask_git` returns what git says of the repository of a folder.
        """
        written = _NOTHING_WRITTEN if written is None else written
        looks = _Looks(workspace, trees or Trees(), own, written, trusted, ask_git)
        if cwd in {workspace, ".", ""}:
            return cls(looks)
        try:
            folder = os.path.realpath(Path(looks.resolved(), cwd))
        except ValueError:  # a NUL, or half a character
            return None
        return cls(looks, (folder,)) if is_within(folder, looks.resolved()) else None

    @property
    def is_seen(self) -> bool:
        """Whether what lies there may be looked at; else all of it counts as ordinary."""
        return True

    @property
    def root(self) -> str:
        """The workspace, resolved."""
        return self.looks.resolved()

    @property
    def is_trusted(self) -> bool:
        """Whether the user trusts the workspace."""
        return self.looks.trusted

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders a command may run in, resolved."""
        return self.elsewhere or (self.root,)

    def is_ordinary(self, word: Word, *, is_read: bool = True) -> bool:
        """Return whether an argument is no path, or one inside the workspace without secrets.

        `is_read` is False for a command that shows no more than the names of files.
        """
        if word.found is not None:
            return word.found is Found.ORDINARY or (word.found is Found.SECRET and not is_read)
        text = word.text
        if word.tilde or ".." in text.split("/") or secret_part(text):
            return False
        if word.glob and is_read and may_match_secret(word.pattern or text):
            return False
        fixed = _WILD.split(text, maxsplit=1)[0] if word.glob else text
        return all(self._is_inside(folder, fixed) for folder in self.folders)

    def are_ordinary(self, words: Sequence[Word]) -> bool:
        """Return whether files are ordinary, and those that patterns for them stand for."""
        if not any(word.glob for word in words):
            return all(map(self.is_ordinary, words))
        filled = self.filled(words)
        return filled is not None and all(
            place.is_ordinary(word) for names, place in filled for word in names
        )

    def filled(self, words: Sequence[Word]) -> list[tuple[tuple[Word, ...], Place]] | None:
        """Return the words with what patterns stand for now, for each folder; None if untold.

        A pattern that matches nothing stays.
        """
        try:
            return [
                (
                    tuple(chain.from_iterable(self._names(word, folder) for word in words)),
                    replace(self, elsewhere=(folder,)) if self.elsewhere else self,
                )
                for folder in self.folders
            ]
        except UntoldError:
            return None

    def is_tree_ordinary(self, paths: Sequence[Word], reach: Reach) -> bool:
        """Return whether all that a program reads below paths, or where it runs, is ordinary."""
        if len(paths) > MAX_PATHS:
            return False
        index = self.looks.trees.of(self.root)
        for folder in self.folders:
            resolved = [os.path.realpath(f"{folder}/{word.text}") for word in paths] or [folder]
            if index.why_not(resolved, reach, self.looks.bounds) is not None:
                return False
        return True

    def is_handed(self, word: Word) -> bool:
        """Return whether an argument is the full path of what PRSM hands to agents."""
        own, text = self.looks.own, os.path.normpath(word.text)
        return own is not None and word.known and own.is_handed(text)

    def was_written(self, names: Iterable[str]) -> bool:
        """Return whether an agent may have written one of these of the project's environment."""
        return self.looks.written.has_any(names)

    def has_one_of(self, word: Word, names: Iterable[str]) -> bool:
        """Return whether an argument is a folder of the workspace in which a file has this name."""
        return self.is_ordinary(word) and all(
            word.known and any(Path(folder, word.text, name).is_file() for name in names)
            for folder in self.folders
        )

    def is_writable(self, word: Word) -> bool:
        """Return whether an argument may be written: ordinary and not protected."""
        return not word.glob and self.is_ordinary(word) and protected_part(word.text) is None

    def entered(self, word: Word) -> Place | None:
        """Return the place after a `cd` that may fail; None when it may lead out."""
        if word.glob or word.text.startswith("-") or not self.is_ordinary(word):
            return None
        targets = [self._resolved(folder, word.text) for folder in self.folders]
        folders = tuple(dict.fromkeys((*self.folders, *filter(None, targets))))
        is_told = None not in targets and len(folders) <= MAX_FOLDERS
        return replace(self, elsewhere=folders) if is_told else None

    def joined(self, other: Place) -> Place | None:
        """Return the place that is either; None when it is too many folders."""
        if other == self:
            return self
        folders = tuple(dict.fromkeys((*self.folders, *other.folders)))
        return replace(self, elsewhere=folders) if len(folders) <= MAX_FOLDERS else None

    def is_outside(self, word: Word) -> bool:
        """Return whether a path may lead out of the workspace; ones for temporary files do not."""
        text = word.text
        if word.tilde or text.startswith("~") or not word.exact:
            return True
        if len(text) > MAX_PATH or not self.looks.spend():
            return True
        for folder in self.folders:
            resolved = os.path.realpath(Path(folder, text))
            is_temporary = _TEMPORARY.match(text) and _TEMPORARY.match(resolved)
            if not is_within(resolved, self.root) and not is_temporary:
                return True
        return False

    def _names(self, word: Word, folder: str) -> Sequence[Word]:
        """Return the names that a word stands for in a folder, itself if it is no pattern."""
        if not word.glob or word.found is not None or not word.exact:
            return (word,)
        if word.tilde or not word.pattern:
            raise UntoldError("the pattern cannot be told")
        hits = expand(word.pattern, folder, self.root, self.looks.sight)
        if any(hit.text.startswith("-") for hit in hits):
            raise UntoldError("a name looks like an option")
        close: dict[str, bool] = {}
        return [
            Word(hit.text, glob=True, found=self._found(hit, folder, close)) for hit in hits
        ] or (word,)

    def _found(self, hit: Hit, folder: str, close: dict[str, bool]) -> Found:
        """Return what a name is; `close` remembers the folders that matter for their names."""
        head, _, name = hit.text.rpartition("/")
        if hit.resolved == f"{folder}/{hit.text}":
            if head not in close:
                close[head] = needs_path(f"{folder[len(self.root) :]}/{head}")
            if not close[head] and not may_be_secret(name):
                return Found.ORDINARY
        if not is_within(hit.resolved, self.root):
            return Found.OUTSIDE
        is_secret = secret_part(hit.text) or secret_part(hit.resolved[len(self.root) :])
        return Found.SECRET if is_secret else Found.ORDINARY

    def _is_inside(self, folder: str, text: str) -> bool:
        resolved = self._resolved(folder, text)
        if resolved is None or not is_within(resolved, self.root):
            return resolved == "/dev/null"
        return secret_part(resolved[len(self.root) :]) is None

    def _resolved(self, folder: str, text: str) -> str | None:
        """Return where a path leads, None when that takes too long to tell.

        The folder is resolved already. Only what is below it is looked at, as far as it exists.
        """
        if len(text) > MAX_PATH or "\0" in text:
            return None
        if text.startswith("/"):
            return os.path.realpath(text) if self.looks.spend() else None
        path = folder
        for part in text.split("/"):
            path = f"{path}/{part}"
            if not self.looks.spend():
                return None
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                break
            if stat.S_ISLNK(mode):
                return os.path.realpath(f"{folder}/{text}")
        return os.path.normpath(f"{folder}/{text}")

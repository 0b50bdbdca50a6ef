"""PRSM's own state: a place of secrets, whatever the mode and whatever allows the rest.

Ledgers hold what was said, snapshots what files held, and homes of vendors' programs their logins.
A person is asked before an agent gets at them. What a sink keeps from all agents is refused.
Worktrees, images of prompts, and what providers hand to their agents are left out of it.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.kit.places import own_folders, unseen_folders
from prsm_core.permissions.within import is_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.sink import EventSinkSpec

_HANDED = ("images",)  # below the state: agents are shown them
_WILD = re.compile(r"[*?\[{]")


class Trespass(Record, frozen=True):
    """Why something is not for agents; `is_unseen` says that nobody can allow it."""

    reason: str
    is_unseen: bool = False


class OwnState(Record, frozen=True):
    """Which paths are PRSM's own, as they are written and as they are resolved.

    Attributes:
        kept: The folders of PRSM's own files.
        handed: What of these is meant for agents.
        unseen: Folders that no agent may see.
        roots: All folders that are not for agents.
        above: The folders that one of these lies in.
    """

    kept: tuple[str, ...]
    handed: re.Pattern[str]
    unseen: tuple[str, ...]
    roots: tuple[str, ...]
    above: frozenset[str]

    def why_not(self, path: str) -> Trespass | None:
        """Return why an absolute, normalized path is not for agents; None if it may be."""
        for root in self.unseen:
            if is_within(path, root):
                return Trespass(f"no agent may see {path}", is_unseen=True)
        if any(is_within(path, root) for root in self.kept) and not self.is_handed(path):
            return Trespass(f"{path} is PRSM's own state")
        return None

    def is_handed(self, path: str) -> bool:
        """Return whether a path of PRSM's own is meant for agents."""
        return self.handed.match(path) is not None

    def below_handed(self, path: str) -> str | None:
        """Return what of a path lies below a folder that is meant for agents; None if none does."""
        found = self.handed.match(path)
        return None if found is None else path[found.end() :]

    def is_above(self, path: str) -> bool:
        """Return whether a folder, or one that a pattern stands for, has one of PRSM's own in it.

        The path is absolute and normalized.
        """
        if _WILD.search(path):
            parts = path.split("/")
            roots = (root.split("/") for root in self.roots)
            return any(len(parts) < len(root) and _may_match(parts, root) for root in roots)
        return path in self.above

    def why_not_pattern(self, pattern: str) -> Trespass | None:
        """Return why what an absolute, normalized pattern may stand for is not for agents."""
        parts = pattern.split("/")
        fixed = "/".join(parts[: next(at for at, part in enumerate(parts) if _WILD.search(part))])
        if (found := self.why_not(fixed or "/")) is not None:
            return found
        if self.is_handed(fixed):
            return None
        for root in self.roots:
            names = root.split("/")
            if len(parts) >= len(names) and _may_match(parts, names):
                return Trespass(f"{pattern!r} may stand for PRSM's own state")
        return None


def own_state(
    providers: Iterable[ProviderSpec] = (),
    sinks: Iterable[EventSinkSpec] = (),
    sink_settings: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> OwnState:
    """Return which paths are PRSM's own, by the environment and by what plugins say.

    Raises ConfigError where PRSM_HOME names what is no folder.
    """
    environ = os.environ if environ is None else environ
    handed = sorted({pattern for spec in providers for pattern in spec.handed})
    unseen = map(str, unseen_folders(sinks, sink_settings or {}, environ))
    return _built(*own_folders(environ), tuple(handed), tuple(unseen))


@lru_cache(8)
def _built(
    config: Path,
    data: Path,
    state: Path,
    trees: Path,
    home: Path | None,
    handed: tuple[str, ...],
    unseen: tuple[str, ...],
) -> OwnState:
    kept = (config, data, state) if home is None else (home,)
    # A login of its own is beside the folder of its provider: `NAME@1`.
    patterns = [str(state / "providers" / "*" / each) for each in handed]
    patterns += [str(state / each) for each in _HANDED]
    own, hidden = _both(map(str, kept)), _both(unseen)
    return OwnState(
        kept=own,
        handed=re.compile("|".join(map(_pattern, _both((str(trees), *patterns))))),
        unseen=hidden,
        roots=(*hidden, *own),
        above=frozenset(str(folder) for root in (*hidden, *own) for folder in Path(root).parents),
    )


def _both(paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths as they are written and as they are resolved."""
    written = [os.path.normpath(path) for path in paths]
    return tuple(dict.fromkeys((*written, *map(os.path.realpath, written))))


def _pattern(path: str) -> str:
    return f"(?:{re.escape(path).replace(re.escape('*'), '[^/]*')})(?:/|$)"


def _may_match(pattern: list[str], root: list[str]) -> bool:
    """Return whether the parts of a pattern may stand for those of a path, as far as both go."""
    from prsm_core.permissions.patterns import UntoldError, part_of

    for part, name in zip(pattern, root, strict=False):
        if part == "**":  # as tools read it: any number of folders
            return True
        if part == name or "{" in part:
            continue
        try:
            if not part_of(part).may_match(name):
                return False
        except UntoldError:
            continue
    return True

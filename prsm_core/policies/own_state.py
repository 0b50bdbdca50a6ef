"""PRSM's own state: a place of secrets in every mode, whatever allows the rest.

Ledgers hold what was said, snapshots files, and vendors' homes logins: a person is asked. What a
sink keeps from all agents is refused. Worktrees, images and what is handed to agents are left out.
"""

from __future__ import annotations

import re

from prsm_core.domain.record import Record
from prsm_core.policies.within import is_within

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
        """Return whether an absolute, normalized folder or pattern has one of PRSM's own in it."""
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


def _may_match(pattern: list[str], root: list[str]) -> bool:
    """Return whether the parts of a pattern may stand for those of a path, as far as both go."""
    from prsm_core.policies.patterns import UntoldError, part_of

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

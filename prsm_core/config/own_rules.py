"""Writes the user's own rules, from `prsm policy` and from answers to requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.config.document import MAX_BYTES, decode
from prsm_core.config.paths import POLICY, require_one
from prsm_core.config.policy_file import (
    edit_policy,
    edit_text,
    holds_allow_rules,
    user_policy_path,
    workspace_policy_path,
)
from prsm_core.config.trust import change_file, is_trusted, locked
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.kit.regular import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Self

    from prsm_core.config.paths import Paths

    Words = tuple[str, ...]


class OwnRules(Record, frozen=True, kw_only=True):
    """Where the answers of one run are kept.

    `may_allow_for_project` is False if the workspace has untrusted content: an allow rule in it
    would not hold.
    """

    paths: Paths
    may_allow_for_project: bool

    @classmethod
    def of(cls, paths: Paths) -> Self:
        """Look at a workspace; raises ConfigError when its `.prism` cannot be read."""
        return cls(paths=paths, may_allow_for_project=is_trusted(paths) or _is_alone(paths))

    def add(self, verdict: str, rules: Iterable[Words], *, project: bool) -> Path:
        """Add rules; return their file. Raises ConfigError if they cannot hold in later runs."""
        for words in rules:
            change_rule(self.paths, verdict, words, project=project)
        path = policy_path(self.paths, project=project)
        if project and verdict == "allow" and not is_trusted(self.paths):
            raise ConfigError(
                f"{path}: has it, but .prism holds other changes that are not trusted",
                hint="`prsm trust` shows and trusts them",
            )
        return path


def policy_path(paths: Paths, *, project: bool) -> Path:
    """Return the policy file of the workspace or the user's own."""
    return workspace_policy_path(paths) if project else user_policy_path(paths)


def change_rule(
    paths: Paths, verdict: str, words: Words, *, project: bool, adds: bool = True
) -> bool:
    """Add or remove a rule; return whether that changed anything. Raises ConfigError.

    A trusted workspace stays trusted with exactly this change. One whose `.prism` has only its own
    ask and deny rules becomes trusted by an allow rule.
    """
    path = policy_path(paths, project=project)
    require_one(path.parent, POLICY)

    def edited(old: bytes | None) -> bytes | None:
        text = edit_text(decode(old or b"", path), verdict, words, path, adds=adds)
        return None if text is None else text.encode()

    def may_begin(old: bytes | None) -> bool:
        is_allowing = adds and verdict == "allow"
        return is_allowing and not holds_allow_rules(decode(old or b"", path), path)

    try:
        with locked(paths):
            if project:
                return change_file(paths, path.name, edited, may_begin)
            return edit_policy(path, verdict, words, adds=adds)
    except OSError as error:
        what = f"{error.filename or path}: cannot be written: {error.strerror}"
        raise ConfigError(what) from error


def _is_alone(paths: Paths) -> bool:
    """Return whether `.prism` holds nothing but rules to ask and to deny, if anything."""
    path = workspace_policy_path(paths)
    folder = paths.workspace_dir
    if folder.is_symlink() or path.is_symlink():
        return False
    try:
        if any(entry != path for entry in folder.iterdir()):
            return False
        return not holds_allow_rules(decode(read_regular(path, MAX_BYTES + 1), path), path)
    except FileNotFoundError:
        return True
    except (OSError, ConfigError):  # nobody can tell what it allows
        return False

"""Which paths are ordinary: inside the folder an agent works in, not protected, not secret."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.permissions.shell.words import Word, word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

# Writing to one of these can widen what an agent may do, or run code later.
_PROTECTED = word_set(
    ".git .prism .claude .codex .gemini .agents .mcp.json .vscode .idea .cursor .husky .envrc"
    " .qwen .opencode .windsurf .kiro .roo .zed .devcontainer"
    " .gitconfig .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc"
    " .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .xprofile .xinitrc"
    " .pam_environment .npmrc .yarnrc .yarnrc.yml .pypirc .pythonrc .pdbrc .gdbinit .vimrc .exrc"
    " .ripgreprc config.fish authorized_keys sudoers crontab"
)
# Reading one of these gives away what opens other doors.
_SECRET = word_set(
    ".ssh .aws .gnupg .kube .azure .docker .gcloud .password-store .env .netrc _netrc .pgpass"
    " .git-credentials .vault-token .htpasswd .my.cnf .pypirc .npmrc shadow gshadow shadow-"
    " .credentials.json auth.json oauth_creds.json environ"
)
_SECRET_SHAPE = re.compile(
    r"\.env\..*|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|gpg)|id_(?:rsa|dsa|ecdsa|ed25519).*"
    r"|\..*history|(?:secrets?|credentials?)(?:\.(?:json|ya?ml|toml|ini|cfg|txt|env))?"
)
_SECRET_FOLDER = re.compile(
    r"(?:^|/)\.config/(?:gh|gcloud|op|prsm)(?:/|$)|(?:^|/)dev/(?:tcp|udp)/"
    r"|(?:^|/)\.local/(?:state|share)/prsm(?:/|$)"
)
_HARMLESS_ENV = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
# What a pattern must not match, lest the shell fills in one of the above.
_EXAMPLES = (*sorted(_SECRET), ".env.local", "key.pem", "server.key", "id_rsa", ".bash_history")

_TEMPORARY = re.compile(r"/(?:tmp|var/tmp|private/tmp)(?:/|$)|/dev/(?:null|stdout|stderr|tty)$")
_SEPARATOR = re.compile(r"[/:=,@]")
_WILD = re.compile(r"[*?\[]")
MAX_FOLDERS = 8  # a command that changes folders more often is not judged
MAX_PATH = 1_000  # characters; a longer one is not ordinary
MAX_LOOKS = 3_000  # at the file system for one decision; nothing is ordinary after that


@lru_cache(maxsize=4096)
def secret_part(path: str) -> str | None:
    """Return the part of a path (or of an argument that holds one) that names a secret."""
    folded = path.casefold()
    if match := _SECRET_FOLDER.search(folded):
        return match.group()
    for part in _SEPARATOR.split(folded):
        if part in _SECRET or (_SECRET_SHAPE.fullmatch(part) and part not in _HARMLESS_ENV):
            return part
    return None


def protected_names() -> frozenset[str]:
    """Return the names that nobody writes without asking, in lower case."""
    return _PROTECTED


@lru_cache(maxsize=4096)
def protected_part(path: str) -> str | None:
    """Return the part of a path that nobody writes without asking."""
    for part in path.casefold().split("/"):
        if part in _PROTECTED:
            return part
    return secret_part(path)


def why_not_write(path: str, cwd: str, workspace: str) -> str | None:
    """Return why a file tool may not write to a path without asking, None if it may.

    Links and `..` are resolved; the path as it was written counts as well, because a link may be
    made after the decision.
    """
    if "\0" in path or path.startswith("~"):
        return f"{path!r} is not a path below the folder"
    folder = os.path.realpath(Path(workspace, cwd))
    for resolved in _meanings(path, folder):
        if (part := protected_part(_below(resolved, workspace, folder))) is not None:
            return f"{part} is protected"
        if not is_within(resolved, folder):
            return f"{resolved} is outside {folder}"
    return None


def why_not_region(
    path: str,
    cwd: str,
    workspace: str,
    region: tuple[str, ...] | None,
    leased: Sequence[tuple[str, str]],
) -> str | None:
    """Return why a path is not the agent's to write, by its region and those of others."""
    folder = os.path.realpath(Path(workspace, cwd))
    for resolved in _meanings(path, folder):
        if region is not None and not any(is_within(resolved, own) for own in region):
            return f"{resolved} is outside the agent's region, {', '.join(region)}"
        for other, owner in leased:
            if is_within(resolved, other):
                return f"{resolved} is in the region of {owner}"
    return None


def why_not_read(path: str, cwd: str, workspace: str) -> str | None:
    """Return why a file tool may not read a path without asking, None if it may."""
    if "\0" in path:
        return f"{path!r} is not a path"
    folder = os.path.realpath(Path(workspace, cwd))
    for resolved in _meanings(path, folder):
        if (part := secret_part(_below(resolved, workspace, folder))) is not None:
            return f"{part} may hold a secret"
    return None


def is_within(path: str, folder: str) -> bool:
    """Return whether a resolved path is a folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _meanings(path: str, folder: str) -> tuple[str, str]:
    absolute = Path(folder, path)
    return os.path.normpath(absolute), os.path.realpath(absolute)


def _below(path: str, workspace: str, folder: str) -> str:
    """Return a path relative to the workspace: where that itself lies says nothing."""
    for root in (os.path.realpath(workspace), folder):
        if is_within(path, root):
            return path[len(root) :]
    return path


@dataclass(slots=True)
class _Looks:
    """What one decision sees of the file system, and how often it may still look."""

    workspace: str
    left: int = MAX_LOOKS
    root: str | None = None

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

    Many commands name no path, so that nothing is resolved before it matters; `elsewhere` are the
    folders unless that is the workspace alone.
    """

    looks: _Looks = field(compare=False)
    elsewhere: tuple[str, ...] = ()

    @classmethod
    def of(cls, cwd: str, workspace: str) -> Place | None:
        """Return the place of a command, None when it runs outside the workspace."""
        looks = _Looks(workspace)
        if cwd in {workspace, ".", ""}:
            return cls(looks)
        try:
            folder = os.path.realpath(Path(looks.resolved(), cwd))
        except ValueError:  # a NUL, or half a character
            return None
        return cls(looks, (folder,)) if is_within(folder, looks.resolved()) else None

    @property
    def root(self) -> str:
        """The workspace, resolved."""
        return self.looks.resolved()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders a command may run in, resolved."""
        return self.elsewhere or (self.root,)

    def is_ordinary(self, word: Word, *, is_read: bool = True) -> bool:
        """Return whether an argument is no path, or one inside the workspace without secrets.

        `is_read` is False for a command that shows no more than the names of files.
        """
        text = word.text
        if word.tilde or ".." in text.split("/") or secret_part(text):
            return False
        if word.glob and is_read and _may_match_secret(text):
            return False
        fixed = _WILD.split(text, maxsplit=1)[0] if word.glob else text
        return all(self._is_inside(folder, fixed) for folder in self.folders)

    def is_writable(self, word: Word) -> bool:
        """Return whether an argument may be written: ordinary and not protected."""
        return not word.glob and self.is_ordinary(word) and protected_part(word.text) is None

    def entered(self, word: Word) -> Place | None:
        """Return the place after a `cd` that may fail; None when it may lead out."""
        if word.glob or word.text.startswith("-") or not self.is_ordinary(word):
            return None
        targets = [self._resolved(folder, word.text) for folder in self.folders]
        folders = tuple(dict.fromkeys((*self.folders, *filter(None, targets))))
        if None in targets:
            return None
        return replace(self, elsewhere=folders) if len(folders) <= MAX_FOLDERS else None

    def is_outside(self, word: Word) -> bool:
        """Return whether an argument is a path that may lead out of the workspace.

        Folders for temporary files count as inside where they are named.
        """
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

    def _is_inside(self, folder: str, text: str) -> bool:
        resolved = self._resolved(folder, text)
        if resolved is None or not is_within(resolved, self.root):
            return resolved == "/dev/null"
        return secret_part(resolved[len(self.root) :]) is None

    def _resolved(self, folder: str, text: str) -> str | None:
        """Return where a path leads, None when that takes too long to tell.

        The folder is resolved already, so only what is below it is looked at, until a part of it
        does not exist.
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


def may_show_secret(pattern: str) -> bool:
    """Return whether a pattern for hidden names, or one below the home folder, finds a secret."""
    parts = pattern.split("/")
    is_near = any(part[:1] in {".", "~"} and part not in {".", ".."} for part in parts)
    return is_near and _may_match_secret(pattern)


def _may_match_secret(pattern: str) -> bool:
    *folders, last = pattern.casefold().split("/")
    for part in filter(None, (*folders, last)):
        # The shell lets only a literal dot match the first dot of a name. Secrets without one are
        # files, not folders.
        is_file = part == last
        names = [name for name in _EXAMPLES if part[0] == "." or (is_file and name[0] != ".")]
        if any(fnmatchcase(name, part) for name in names):
            return True
    return False

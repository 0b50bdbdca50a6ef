"""Which settings of git start programs, and which subcommands look at them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.shell.words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable

# Whatever the subcommand: it pages, refreshes the index, compares files, or checks signatures.
_ALWAYS = re.compile(
    r"core\.(?:fsmonitor|pager|alternaterefscommand)|pager\..*"
    r"|diff\.external|diff\..*\.(?:textconv|command|external)|interactive\.difffilter"
    r"|filter\..*\.(?:clean|smudge|process)|merge\..*\.driver"
    r"|gpg\.(?:.*\.)?(?:program|defaultkeycommand)|log\.showsignature"
    r"|lfs\.(?:extension|customtransfer)\..*"
)
_BOOLEAN = word_set("true false yes no on off 1 0")
# What git's own extension for large files is configured with; it is the user's program.
_LARGE_FILES = re.compile(
    r"git-lfs (?:clean|smudge)(?: --skip)? -- %f|git-lfs filter-process(?: --skip)?"
)
# Settings of the way to other machines.
_REMOTE = re.compile(
    r"core\.(?:sshcommand|askpass|gitproxy)|credential\.(?:.*\.)?helper|ssh\.variant"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)|protocol\.(?:.*\.)?allow"
    r"|url\..*\.(?:insteadof|pushinsteadof)|http\.(?:.*\.)?(?:sslcert|proxy|cookiefile).*"
)
_HELPER_URL = re.compile(r"[a-z0-9+.-]+::|-|ext:|fd:|ssh://-", re.IGNORECASE)
_GOES_OUT = word_set("remote ls-remote fetch pull push clone submodule archive")
# With one of these git fetches an object that is missing, whatever asks for it.
_PROMISES = re.compile(r"remote\..*\.(?:promisor|partialclonefilter)|extensions\.partialclone")
_CREDENTIAL_CACHE = re.compile(r"(?:|cache|store|osxkeychain|manager|manager-core|libsecret)")


def starts(name: str, settings: Iterable[tuple[str, str]]) -> bool:
    """Return whether a subcommand may start a program that one of the settings names."""
    settings = tuple(settings)
    if any(_starts_always(key, value) for key, value in settings):
        return True
    goes_out = name in _GOES_OUT or any(_PROMISES.fullmatch(key) for key, _ in settings)
    return goes_out and any(_starts_remote(key, value) for key, value in settings)


def _starts_always(key: str, value: str) -> bool:
    if not _ALWAYS.fullmatch(key):
        return False
    if key in {"core.fsmonitor", "log.showsignature"} or key.startswith("pager."):
        # git's own daemon, or none; a page as the user configures it
        return value.lower() not in (_BOOLEAN if key != "log.showsignature" else {"false", "no"})
    if key.startswith("filter.lfs."):
        return not _LARGE_FILES.fullmatch(value)
    return value != ""


def _starts_remote(key: str, value: str) -> bool:
    if re.fullmatch(r"remote\..*\.(?:push)?url", key):
        return _HELPER_URL.match(value) is not None
    if key.startswith("credential."):
        return not _CREDENTIAL_CACHE.fullmatch(value)
    return _REMOTE.fullmatch(key) is not None

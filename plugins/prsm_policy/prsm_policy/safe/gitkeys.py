"""Which settings of git start programs, and which subcommands look at them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of git: a key with all but its subsection in small letters, and its value.

    `origin` is the file that it stands in; `is_persons` says that this is one of the user or of
    the system, or included from there.
    """

    key: str
    value: str
    origin: str
    is_persons: bool = False


# Whatever the subcommand: it pages, refreshes the index, compares files, looks into submodules
# that only the history knows, or checks signatures.
_ALWAYS = re.compile(
    r"core\.(?:fsmonitor|pager|alternaterefscommand)|pager\..*|hook\..*\.event"
    r"|diff\.(?:external|submodule)|status\.submodulesummary|diff\..*\.(?:textconv|command|external)|interactive\.difffilter"
    r"|filter\..*\.(?:clean|smudge|process)|merge\..*\.driver"
    r"|gpg\.(?:.*\.)?(?:program|defaultkeycommand)|log\.showsignature"
    r"|lfs\.(?:extension|customtransfer)\..*",
    re.DOTALL,
)
_FALSE = word_set("false no off 0") | {""}
_BOOLEAN = _FALSE | word_set("true yes on 1")
_HARMLESS = {
    "core.fsmonitor": _BOOLEAN,  # git's own daemon, or none
    "diff.submodule": word_set("short"),
    "log.showsignature": _FALSE,
    "status.submodulesummary": _FALSE,
}
# What git's own extension for large files is configured with; it is the user's program.
_LARGE_FILES = re.compile(
    r"git-lfs (?:clean|smudge)(?: --skip)? -- %f|git-lfs filter-process(?: --skip)?"
)
# Settings of the way to other machines.
_REMOTE = re.compile(
    r"core\.(?:sshcommand|askpass|gitproxy)|credential\.(?:.*\.)?helper|ssh\.variant"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)|protocol\.(?:.*\.)?allow"
    r"|url\..*\.(?:insteadof|pushinsteadof)|http\.(?:.*\.)?(?:sslcert|proxy|cookiefile).*",
    re.DOTALL,
)
_URL = re.compile(r"remote\..*\.(?:push)?url", re.DOTALL)
# What is served by a program of another machine, not by one that works in a repository here.
_ELSEWHERE = re.compile(
    r"(?:https?|git|ssh)://[\w\[].*|[\w.][\w.@-]*:(?!:).*", re.ASCII | re.DOTALL
)
_HELPER_URL = re.compile(r"[a-z0-9+.-]+::|-|ext:|fd:|ssh://-", re.IGNORECASE)
_GOES_OUT = word_set("remote ls-remote fetch pull push clone submodule archive")
# With one of these git fetches an object that is missing, whatever asks for it.
_PROMISES = re.compile(
    r"remote\..*\.(?:promisor|partialclonefilter)|extensions\.partialclone", re.DOTALL
)
_CREDENTIAL_CACHE = re.compile(r"(?:|cache|store|osxkeychain|manager|manager-core|libsecret)")


def starts(name: str, settings: Sequence[Setting]) -> bool:
    """Return whether a subcommand may start a program that one of the settings names."""
    aliases = {f"alias.{name}", f"alias.{name}.command"}  # a newer git takes it for an old command
    if any(_starts_always(each.key, each.value) or each.key in aliases for each in settings):
        return True
    fetches = any(_PROMISES.fullmatch(each.key) for each in settings)
    if fetches and any(_is_served_here(each) for each in settings):
        return True
    goes_out = fetches or name in _GOES_OUT
    return goes_out and any(_starts_remote(each.key, each.value) for each in settings)


def recurses(name: str, settings: Sequence[Setting]) -> bool:
    """Return whether a subcommand looks into submodules, even those that are not checked out."""
    return name == "grep" and any(
        each.key == "submodule.recurse" and each.value.lower() not in _FALSE for each in settings
    )


def _starts_always(key: str, value: str) -> bool:
    if not _ALWAYS.fullmatch(key):
        return False
    if key in _HARMLESS:
        return value.lower() not in _HARMLESS[key]
    if key.startswith("pager."):
        return value.lower() not in _BOOLEAN  # a page as the user configures it
    if key.startswith("hook."):
        return value == "post-index-change"
    if key.startswith("filter.lfs."):
        return not _LARGE_FILES.fullmatch(value)
    return value != ""


def _is_served_here(setting: Setting) -> bool:
    return bool(_URL.fullmatch(setting.key)) and not _ELSEWHERE.fullmatch(setting.value)


def _starts_remote(key: str, value: str) -> bool:
    if _URL.fullmatch(key):
        return _HELPER_URL.match(value) is not None
    if key.startswith("credential."):
        return not _CREDENTIAL_CACHE.fullmatch(value)
    return _REMOTE.fullmatch(key) is not None

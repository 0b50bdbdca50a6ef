"""Which names need a closer look, and which patterns may stand for a secret."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import (
    KEY_SUFFIXES,
    SECRET_NAMES,
    UntoldError,
    part_of,
    secret_part,
    word_set,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOSE = re.compile(r"/(?:\.config|\.cargo|\.gem|\.m2|secrets?|credentials?)(?:/|$)")
# What a pattern must not match, lest the shell fills in one of the above.
_EXAMPLES = SECRET_NAMES | word_set(
    ".env.local prod.env key.pem server.key id_rsa .bash_history .zsh_history credentials"
)
# A name is looked at closely only if it begins or ends so.
_BEGINNINGS = tuple(
    word_set(
        ". _netrc id_ secret credential client app service shadow gshadow environ auth.json"
        " oauth_creds terraform.rc rclone.conf logins.json key4.db cookies.sqlite settings-security"
        " keyrings"
    )
)
_ENDINGS = KEY_SUFFIXES | {"env", "json", "backup"}
_FIRST = frozenset(beginning[:3] for beginning in _BEGINNINGS)


def needs_path(folder: str) -> bool:
    """Return whether names in a folder can be secret by where they are."""
    is_close = _CLOSE.search(f"/{folder}".casefold()) is not None
    return is_close or secret_part(f"{folder}/x") is not None


def may_be_secret(name: str) -> bool:
    """Return quickly whether a name needs a closer look, unless its folder `needs_path`."""
    folded = name.casefold()
    return folded.startswith(_BEGINNINGS) or folded.rpartition(".")[2] in _ENDINGS


def may_be_secrets(names: Sequence[str]) -> list[str]:
    """Return those of many names that `may_be_secret`, which none is in most folders."""
    return [
        name
        for name, text in zip(names, "/".join(names).casefold().split("/"), strict=False)
        if (text[:1] == "." or text[:3] in _FIRST or text.rpartition(".")[2] in _ENDINGS)
        and may_be_secret(name)
    ]


def may_show_secret(pattern: str) -> bool:
    """Return whether a pattern as the shell matches it, hidden or below home, finds a secret."""
    parts = pattern.split("/")
    is_near = any(part[:1] in {".", "~"} and part not in {".", ".."} for part in parts)
    return is_near and may_match_secret(pattern)


def may_match_secret(pattern: str) -> bool:
    """Return whether a pattern may stand for a secret once there is one."""
    *folders, last = pattern.casefold().split("/")
    for text in filter(None, (*folders, last)):
        try:
            part = part_of(text)
        except UntoldError:
            return True
        # Secrets without a dot at the beginning are files, not folders.
        is_file = text == last
        if any(part.may_match(name) for name in _EXAMPLES if is_file or name[0] == "."):
            return True
    return False

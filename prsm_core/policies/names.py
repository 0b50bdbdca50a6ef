"""Which names and places are protected or secret."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.policies.tables import read_lines, read_words, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Writing to one of these can widen what an agent may do, or run code later.
_PROTECTED = read_words("protected_names")
# Reading one of these, or what is in a folder of that name, gives away what opens other doors.
_SECRET = read_words("secret_names")
# These are files: folders of such a name hold source.
_SECRET_FILE = read_words("secret_files")
SECRET_NAMES = _SECRET | _SECRET_FILE
"""Names of files that hold secrets, and of folders of such."""
_KEY = r"pem|key|p8|p12|pfx|jks|keystore|kdbx|ppk|gpg|ovpn|keychain|keychain-db|tfvars|tfstate"
KEY_SUFFIXES = frozenset(_KEY.split("|"))
"""What the names of keys end with."""
_SECRET_SHAPE = re.compile(
    rf"\.env\..*|.+\.env|.*\.(?:{_KEY})|.*\.(?:tfvars\.json|tfstate\.backup)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519).*|\..*(?:history|hsts|lesshst)"
    r"|(?:client|app)[-_]secrets?.*\.json|service[-_]?account.*\.json|.*firebase-adminsdk.*\.json"
)
_SECRET_ONES = re.compile(
    r"(?:secrets?|credentials?)(?:\.(?:json|ya?ml|toml|ini|cfg|conf|txt|env|xml|csv|properties))?"
)
_SECRET_PATH = re.compile(
    r"(?:^|/)\.config/(?:gh|gcloud|op|prsm|rclone|hub|glab-cli|google-chrome|chromium"
    r"|bravesoftware|microsoft-edge)(?:/|$)|(?:^|/)\.local/(?:state|share)/prsm(?:/|$)"
    r"|(?:^|/)(?:\.cargo/credentials(?:\.toml)?|\.gem/credentials"
    r"|\.m2/settings\.xml|proc/(?:[^/]+/)+mem|proc/kcore|dev/k?mem)$|(?:^|/)dev/(?:tcp|udp)/"
)
# What has such a shape and is shown to everybody.
_HARMLESS = re.compile(
    r"(?:.*\.)?env\.(?:.+\.)?(?:example|sample|template|tpl|dist|defaults|schema)"
    r"|(?:example|sample|template)\.env|(?:.*\.)?(?:example|sample|template)\.tfvars"
    r"|(?:.*[-_.])?(?:pub|public)[-_.]?(?:key)?\.(?:pem|key|gpg)|id_\w+(?:-cert)?\.pub"
    r"|(?:ca|(?:.*[-_.])?(?:ca)?certs?|ca[-_]?bundle|(?:full)?chain)\.pem"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)\w*\.(?:py|js|ts|go|rs|rb|java|md)"
)
_SOURCE = re.compile(
    r".+\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|swift|scala|ex|exs"
    r"|clj|hs|lua|vue|svelte|html|css|scss|md|rst|sh|sql|proto)"
)
_TRANSLATED = re.compile(r"(?:^|/)(?:locales?|i18n|lang|languages|translations|messages)/")
_SEPARATOR = re.compile(r"[/:=,@]")


@lru_cache(maxsize=4096)
def secret_part(path: str) -> str | None:
    """Return the part of a path (or of an argument that holds one) that names a secret."""
    folded = path.casefold()
    if match := _SECRET_PATH.search(folded):
        return match.group()
    at = 0
    for part in _SEPARATOR.split(folded):
        at += len(part)
        if _is_secret(part, folded, at):
            return part
        at += 1
    return None


def protected_names() -> frozenset[str]:
    """Return the names that nobody writes without asking, in lower case."""
    return _PROTECTED


@lru_cache(maxsize=4096)
def protected_part(path: str) -> str | None:
    """Return the part of a path (or of an argument that holds one) that nobody writes unasked."""
    for part in _SEPARATOR.split(path.casefold()):
        if part in _PROTECTED:
            return part
    return secret_part(path)


def _is_secret(part: str, path: str, end: int) -> bool:
    """Return whether one part of a path, which ends there, names a secret or a folder of them."""
    if part in _SECRET:
        return True
    is_folder = path[end : end + 1] == "/" and end + 1 < len(path)
    if _SECRET_ONES.fullmatch(part):  # what is source in a folder of that name is none
        return not (is_folder and _SOURCE.fullmatch(path))
    if part in _SECRET_FILE:
        return not (is_folder or (part == "auth.json" and _TRANSLATED.search(path)))
    return _SECRET_SHAPE.fullmatch(part) is not None and _HARMLESS.fullmatch(part) is None


HOME_PLACES = read_lines("home_places")
"""Paths below the home folder."""
SYSTEM_PLACES = read_lines("system_places")
"""Absolute paths."""
# Variables that move one of these elsewhere; each may hold several paths.
_MOVERS = read_words("moving_variables")
_WHOLE_TREES = {"CARGO_HOME": ("credentials", "credentials.toml")}  # programs lie there, too
_BASES = (
    ("XDG_CONFIG_HOME", ".config/"),
    ("XDG_DATA_HOME", ".local/share/"),
    ("XDG_STATE_HOME", ".local/state/"),
)
# Secret by name, and yet what a build reads: package managers' settings, folders of a Dockerfile.
_BUILD_READS = word_set(".npmrc .docker")


def secret_places(homes: Iterable[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the places of the machine and of `homes` that hold secrets, those that exist."""
    for home in homes:
        with suppress(OSError), os.scandir(home) as entries:
            yield from (entry.path for entry in entries if secret_part(entry.name))
        yield from (path for place in HOME_PLACES if os.path.lexists(path := f"{home}/{place}"))
    yield from filter(os.path.lexists, moved_places(environ))
    for place in SYSTEM_PLACES:
        if os.access(place, os.R_OK):
            yield place


def moved_places(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield where the environment says that secrets are kept; paths that may not exist."""
    for name in sorted(_MOVERS):
        for path in filter(None, environ.get(name, "").split(":")):
            if path.startswith("/"):
                yield from (f"{path}/{part}" for part in _WHOLE_TREES.get(name, ("",)))
    for name, usual in _BASES:
        if (base := environ.get(name, "")).startswith("/"):
            yield from (
                f"{base}/{place.removeprefix(usual)}"
                for place in HOME_PLACES
                if place.startswith(usual)
            )


def is_secret_of_workspace(name: str) -> bool:
    """Return whether a name inside a workspace is hidden from commands.

    That is dotfiles such as `.env` and private keys. Certificates stay: builds and tests read them.
    """
    folded = name.casefold()
    if not folded.startswith((".", "id_")) or folded in _BUILD_READS:
        return False
    return secret_part(folded) is not None

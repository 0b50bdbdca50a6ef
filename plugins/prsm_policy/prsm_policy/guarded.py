"""Which folders nobody reads as a whole without asking: secrets are known to lie in them.

Homes, what keeps the machine's own secrets, and the folders above those. What lies there by names
that only one machine has is found by looking (`tree`), not here.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import PurePosixPath

from prsm_core.policies import HOME_PLACES, SYSTEM_PLACES, is_within, moved_places

# Homes of whom they belong to, and where processes, services and other disks have their files.
_HOMES = re.compile(r"/(?:(?:export/|usr/)?home|Users)(?:/[^/]+)?|/root|/var/root")
_SYSTEM = re.compile(r"/|/(?:var/)?run(?:/(?:user|secrets|credentials))?|/mnt|/media|/Volumes")
_WITHIN_SYSTEM = re.compile(r"/proc(?:/|$)|/(?:var/)?run/(?:user|secrets|credentials)/")
# Everybody can have what a distribution or a package manager puts there.
_PUBLIC = re.compile(r"/(?:usr|lib(?:32|64|x32)?|s?bin|nix/store|opt/homebrew/Cellar)(?:/|$)")
_NOT_PUBLIC = re.compile(r"/usr/(?:home|local/(?:etc|var))(?:/|$)|/usr$|/usr/local$")
_PUBLIC_IN_HOME = (
    ".cargo/registry", ".cargo/git/checkouts", ".rustup/toolchains", "go/pkg/mod",
    ".pyenv/versions", ".nvm/versions", ".m2/repository", ".gradle/caches", ".rbenv/versions",
    ".sdkman/candidates", ".cache/pip", ".cache/go-build", ".npm/_cacache",
)  # fmt: skip


def own_home() -> str:
    """Return the home folder of the user, "" where there is none that tells anything."""
    home = os.path.normpath(os.path.expanduser("~"))  # noqa: PTH111 - of a text
    return "" if home in {"/", "~", "."} else home


def why_guarded(path: str) -> str | None:
    """Return why a folder is not read as a whole, None if nothing is known against it.

    The path is absolute and normalized.
    """
    home = own_home()
    if path == home:
        return f"{path} is a home folder"
    places, above = _places(home, tuple(moved_places(os.environ)))
    if path in above or _SYSTEM.fullmatch(path) or _WITHIN_SYSTEM.match(path):
        return f"secrets lie below {path}"
    if any(parent in places for parent in (path, *_parents(path))):
        return f"{path} may hold secrets"
    found = _HOMES.match(path)
    if found is not None and not (home and is_within(path, home)):
        is_home = len(path) == found.end() or path[found.end()] == "/"
        return f"{path} is in a home folder of another user" if is_home else None
    return None


def is_public(path: str) -> bool:
    """Return whether everybody can have what is in a folder: an absolute, normalized path."""
    if _PUBLIC.match(path):
        return _NOT_PUBLIC.match(path) is None
    home = own_home()
    return bool(home) and any(is_within(path, f"{home}/{each}") for each in _PUBLIC_IN_HOME)


@lru_cache(8)
def _places(home: str, moved: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return where secrets lie, and all folders above."""
    own = tuple(f"{home}/{place}" for place in HOME_PLACES) if home else ()
    places = frozenset((*own, *moved, *SYSTEM_PLACES))
    above = {parent for place in (*places, *filter(None, [home])) for parent in _parents(place)}
    return places, frozenset(above)


def _parents(path: str) -> tuple[str, ...]:
    return tuple(map(str, PurePosixPath(path).parents))

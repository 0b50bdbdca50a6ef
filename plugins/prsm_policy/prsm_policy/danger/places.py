"""Secret and protected places in arguments and redirections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.policies import protected_part, secret_part, word_set
from prsm_policy.secret_names import may_show_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Word

# What they are told is no path.
SPEAKERS = word_set("echo printf true false : test [ [[ expr seq sleep exit return")
# They write to the paths they are told.
WRITERS = word_set(
    "touch mkdir cp mv ln install tee rsync unzip unrar 7z cpio patch split csplit mkfifo mknod"
    " mktemp gzip gunzip bzip2 xz zip tar ar wget convert ffmpeg sponge chmod rmdir"
)
_LEAVERS = frozenset({"cd", "pushd"})


def place_danger(command: Command, place: Place | None) -> str | None:
    """Return why the places that a command reads or writes make it dangerous."""
    if place is None:
        return "it runs outside the workspace"
    reasons = (_write_danger(word, place) for word in command.writes)
    return next(filter(None, reasons), None) or _word_danger(command, place)


def _word_danger(command: Command, place: Place) -> str | None:
    words = (*command.words[1:], *command.reads)
    if command.name in SPEAKERS:
        if any(secret_part(word.text) for word in command.reads):
            return "it reads a secret file"
    elif reason := _argument_danger(word for word in words if not place.is_handed(word)):
        return reason
    if command.name in _LEAVERS and any(map(place.is_outside, filter(_is_path, words))):
        return "it leaves the workspace"
    if command.name in WRITERS:
        for word in command.words[1:]:
            if _is_path(word) and place.is_outside(word):
                return f"{word.text!r} lies outside the workspace"
    return None


def _argument_danger(words: Iterable[Word]) -> str | None:
    for word in words:
        if part := protected_part(word.text):
            return f"{part} is secret or protected"
        if word.glob and may_show_secret(word.pattern or word.text):
            return f"{word.text!r} may stand for a secret file"
    return None


def _write_danger(word: Word, place: Place) -> str | None:
    if not word.exact:
        return "it cannot be told where it writes"
    if part := protected_part(word.text):
        return f"{part} is protected"
    if place.is_outside(word):
        return f"it writes to {word.text!r}, outside the workspace"
    return None


def _is_path(word: Word) -> bool:
    text = word.text
    return word.tilde or (word.exact and (text.startswith(("/", "~")) or ".." in text.split("/")))

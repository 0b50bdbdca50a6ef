"""What fills a disk: sources without an end, or of enormous size, that are written to a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.endless import MAX_LINES, counts_to
from prsm_policy.safe.tools import READ_ONLY

if TYPE_CHECKING:
    from prsm_policy.shell import Command, Script

_DEVICE = re.compile(r"(?:.*=)?/dev/(?:zero|urandom|random|full)")
_SIZE = re.compile(r"(?:-c|--bytes=|-n)?(\d+)([kKMGTPE]?)(?:i?B)?")
_UNITS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
MAX_BYTES = 2**30  # that are written without asking
# They hand on what comes in, and write it where they are told.
_PASSERS = READ_ONLY.keys() | word_set("tee gzip bzip2 xz zstd lz4 pigz sponge dd openssl pv split")
_WRITERS = word_set("tee cp rsync split tar gzip bzip2 xz zstd dd install sponge")
_LOOP_WRITERS = _WRITERS | word_set("mkdir touch mktemp mkfifo ln mv")
_LIMITS = word_set("head timeout")


def fill_danger(script: Script) -> str | None:
    """Return why a text may fill the disk."""
    commands = script.commands
    if script.endless and any(map(_loop_writes, commands)):
        names = {command.name for command in commands}
        if names.isdisjoint({"sleep", "break", "exit", "read"}):
            return "a loop without an end writes files"
    sources = [command for command in commands if _is_endless(command)]
    if not sources:
        return None
    piped = [command for command in commands if command.piped]
    if any(command.name in _LIMITS and not _is_much(command.texts[1:]) for command in piped):
        return None
    is_passed_on = all(command.name in _PASSERS for command in piped if command not in sources)
    writes = any(_writes(command) for command in (*sources, *piped))
    return "it fills the disk" if writes and is_passed_on else None


def _loop_writes(command: Command) -> bool:
    return bool(command.writes) or command.name in _LOOP_WRITERS


def _writes(command: Command) -> bool:
    is_told = command.name == "openssl" and "-out" in command.texts
    return bool(command.writes) or command.name in _WRITERS or is_told


def _is_endless(command: Command) -> bool:
    """Return whether a command prints without an end, or more than a disk should take."""
    name, texts = command.name, command.texts[1:]
    if name == "yes":
        return True
    if name == "seq":
        return counts_to(command.words[1:]) > MAX_LINES
    if texts[:1] == ("rand",) and name == "openssl":
        return _is_much(texts)
    if any(_DEVICE.fullmatch(word.text) for word in (*command.words[1:], *command.reads)):
        return name != "head" or _is_much(texts)
    return False


def _is_much(texts: tuple[str, ...]) -> bool:
    sizes = [match for match in map(_SIZE.fullmatch, texts) if match]
    return any(int(match[1]) * 1024 ** _UNITS[match[2]] > MAX_BYTES for match in sizes)

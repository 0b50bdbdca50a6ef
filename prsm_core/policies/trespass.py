"""Whether a command, or the arguments of a tool, lead to PRSM's own state.

A text is looked at twice: as written, without quotes and with known variables in place, and by the
shell's words, each followed from the folders that the command may be in.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core.domain.record import Record
from prsm_core.policies.own_state import Trespass
from prsm_core.policies.within import is_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prsm_core.policies.own_state import OwnState

MAX_PATH = 1_000  # characters; a longer text is no path
MAX_LOOKS = 2_000  # at paths for one decision
MAX_BASES = 20  # folders from which relative paths are followed
MAX_STRINGS = 500  # in the arguments of one call
_TOO_MANY = Trespass("it names more paths than are looked at")

# What may stand between two paths in a text.
_PLACE = re.compile(r"[:@](?=[/~.])")  # of what comes behind it, as in host:/path
_BLANKS = str.maketrans(dict.fromkeys(";|&<>()`,=#", " "))
_QUOTES = str.maketrans("", "", "\"'\\")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)[^{}$]{0,100}\})")
# Alone it is a home in a word of the shell only: in a text it may be the operator of awk.
_TILDE = re.compile(
    r"(?:^|(?<=[\s=:;|&(<>@,]))~(?:(?=/)|[\w.-]+(?=/|$|[\s;|&)<>]))"
    r"|(?<=\w=)~(?=$|[\s;|&)])"
)
_WILD = re.compile(r"[*?\[{]")
_SLASHES = re.compile(r"^/{2,}")
# Variables whose values are known; what else a text expands is only known when it runs.
_USUAL = {
    "HOME": "~",
    "XDG_CONFIG_HOME": "~/.config",
    "XDG_DATA_HOME": "~/.local/share",
    "XDG_STATE_HOME": "~/.local/state",
}
_OWN_VARIABLE = "PRSM_HOME"


class ShellWord(Protocol):
    """A word as the shell reads it; in a text that is not `exact`, more stands for itself."""

    @property
    def text(self) -> str:
        """What of it is known."""

    @property
    def exact(self) -> bool:
        """Whether that is all of it."""

    @property
    def tilde(self) -> bool:
        """Whether it begins with a home."""


class Walk(Record, frozen=True):
    """A command that reads all below the paths it names; without any, maybe where it runs."""

    words: Sequence[ShellWord]
    reads_here: bool


class NamedPaths(Record, frozen=True):
    """The words of a shell command that may be paths, its variables, and its walks."""

    words: Sequence[ShellWord]
    variables: frozenset[str]
    walks: Sequence[Walk]


def why_not_command(
    text: str, named: NamedPaths, folders: Sequence[str], own: OwnState
) -> Trespass | None:
    """Return why the paths in a command, run in resolved `folders`, are not for agents, if so."""
    written = _paths_in(text)
    names_home = _OWN_VARIABLE in named.variables
    asked = Trespass(f"${_OWN_VARIABLE} is PRSM's own state") if names_home else None
    asked = _strongest(asked, _mentioned(text, written, own))
    if asked is not None and asked.is_unseen:
        return asked
    words = [*written, *_words(named.words)]
    bases = _bases(words, folders, own)
    asked = _strongest(asked, _named(words, bases, own))
    if asked is None and _reads_whole(named, bases, own):
        asked = Trespass("it reads a folder with PRSM's own state or the user's keys in it")
    return asked


def why_not_arguments(arguments: Mapping[str, Any], folder: str, own: OwnState) -> Trespass | None:
    """Return why a call is not for agents by the paths in its arguments, whatever its tool is."""
    asked: Trespass | None = None
    for count, text in enumerate(_strings(arguments)):
        if count >= MAX_STRINGS:
            return asked or _TOO_MANY
        written = _paths_in(text)
        found = _mentioned(text, written, own)
        if len(text) <= MAX_PATH:
            words = [text, *written]
            found = _strongest(found, _named(words, [folder], own))
        asked = _strongest(asked, found)
    return asked


def why_not_path(path: str, folder: str, own: OwnState, *, walks: bool) -> Trespass | None:
    """Return why a file tool's path or pattern is not for agents; `walks`: it reads all below."""
    expanded = os.path.expanduser(path)  # noqa: PTH111 - it may be a pattern
    absolute = _joined(folder, expanded or ".")
    asked = _in_folder(expanded, folder, own)
    if asked is None and walks and own.is_above(absolute):
        return Trespass(f"PRSM's own state lies below {absolute}")
    return asked


def _strongest(one: Trespass | None, other: Trespass | None) -> Trespass | None:
    if one is None or (other is not None and other.is_unseen):
        return other
    return one


def _paths_in(text: str) -> list[str]:
    """Return what may be paths in a text, without quotes and with homes in their place."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(_split(_expanded(text))):
        found[word] = None
        if word[0] == "-" and (at := word.find("/")) > 0:  # an option with its value: -C/x
            found[word[at:]] = None
    return list(found)


def _split(text: str) -> list[str]:
    """Return what stands between the breaks of a text; a million characters take milliseconds."""
    if ":" in text or "@" in text:
        text = _PLACE.sub(" ", text)
    return text.translate(_BLANKS).split()


def _expanded(text: str) -> str:
    plain = text.replace("\\\n", "").translate(_QUOTES)
    if "$" in plain:
        plain = _VARIABLE.sub(_value, plain)
    if "~" in plain:
        homes = {text: os.path.expanduser(text) for text in set(_TILDE.findall(plain))}  # noqa: PTH111
        plain = _TILDE.sub(lambda match: homes[match.group()], plain)
    return plain


def _value(match: re.Match[str]) -> str:
    name = match[1] or match[2]
    usual = _USUAL.get(name)
    if usual is None:
        return match.group()
    return os.environ.get(name) or os.path.expanduser(usual)  # noqa: PTH111 - of a text


def _mentioned(text: str, written: Iterable[str], own: OwnState) -> Trespass | None:
    """Return why a text that names a path of PRSM's own is not for agents, by its letters."""
    asked: Trespass | None = None
    for path in (*_absolute(written), *_with_blanks(text, own)):
        asked = _strongest(asked, _of_text(path, own))
    return asked


def _absolute(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("/") and len(word) <= MAX_PATH:
            yield os.path.normpath(_SLASHES.sub("/", word))


def _with_blanks(text: str, own: OwnState) -> Iterator[str]:
    """Yield paths below folders whose names a split at blanks takes apart."""
    for root in own.roots:
        if _split(root) != [root] and (at := text.find(root)) >= 0:
            rest = text[at + len(root) :][:MAX_PATH].translate(_QUOTES)
            yield os.path.normpath(root + _split(f"/{rest}")[0][1:])


def _of_text(path: str, own: OwnState) -> Trespass | None:
    return own.why_not_pattern(path) if _WILD.search(path) else own.why_not(path)


def _words(words: Iterable[ShellWord]) -> list[str]:
    found: dict[str, None] = {}
    for word in words:
        if 0 < len(word.text) <= MAX_PATH:
            found[_at_home(word)] = None
            found.update(dict.fromkeys(_split(word.text)))
    return list(filter(None, found))


def _at_home(word: ShellWord) -> str:
    return os.path.expanduser(word.text) if word.tilde else word.text  # noqa: PTH111 - of a text


def _bases(words: Iterable[str], folders: Sequence[str], own: OwnState) -> list[str]:
    """Return the folders that relative paths may be of: one above PRSM's own may be entered."""
    bases = list(folders)
    for word in words:
        if len(word) > MAX_PATH or len(bases) >= MAX_BASES:
            continue
        for base in tuple(bases):
            path = _joined(base, word)
            if path not in bases and (own.is_above(path) or own.is_above(_resolved(path, base))):
                bases.append(path)
    return bases


def _joined(base: str, word: str) -> str:
    return os.path.normpath(_SLASHES.sub("/", word) if word[0] == "/" else f"{base}/{word}")


def _named(words: Iterable[str], bases: Sequence[str], own: OwnState) -> Trespass | None:
    asked: Trespass | None = None
    looks = MAX_LOOKS
    for word in dict.fromkeys(words):
        for base in bases:
            looks -= 1
            if looks < 0:
                return asked or _TOO_MANY
            asked = _strongest(asked, _in_folder(word, base, own))
    return asked


def _in_folder(word: str, base: str, own: OwnState) -> Trespass | None:
    """Return why what a word names in a folder is not for agents, links followed."""
    if not word or len(word) > MAX_PATH or "\0" in word:
        return None
    path = _joined(base, word)
    found = _of_text(path, own)
    if found is not None and found.is_unseen:
        return found
    resolved = _resolved(path, base)
    return found if resolved == path else _strongest(found, _of_text(resolved, own))


def _resolved(path: str, base: str) -> str:
    """Return where a path in a resolved folder leads; one that cannot be followed is itself."""
    try:
        if path.rpartition("/")[0] == base:
            _ = os.readlink(path)  # noqa: PTH115 - for each word of a command; most are no links
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _reads_whole(named: NamedPaths, bases: Sequence[str], own: OwnState) -> bool:
    """Return whether a command reads all of a folder that secrets lie below."""
    home = os.path.expanduser("~")  # noqa: PTH111 - of a text

    def is_secret(path: str) -> bool:
        is_home = is_within(home, path) and path not in bases and home != "/"
        return is_home or own.is_above(path)

    variables = named.variables & _USUAL.keys()
    return any(any(map(is_secret, _operands(walk, variables, bases))) for walk in named.walks)


def _operands(walk: Walk, variables: Iterable[str], bases: Sequence[str]) -> Iterator[str]:
    if walk.reads_here:
        yield from bases
    for word in walk.words:
        texts = [_expanded(_at_home(word))] if word.exact or word.text else []
        if not word.exact:
            texts += [f"{_expanded(f'${name}')}{word.text}" for name in variables]
        yield from (_joined(base, text) for text in filter(None, texts) for base in bases)


def _strings(value: Any, depth: int = 8) -> Iterator[str]:
    """Yield the texts in the arguments of a call; what is nested too deep is one text."""
    if isinstance(value, str):
        yield value
    elif depth == 0:
        yield str(value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each, depth - 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each, depth - 1)

"""Programs that run what they fetch, by the shape of what they are told to fetch.

An install of a named package is ordinary. What matters is where code comes from: an address, a
repository, another registry or index, a package that is fetched and run in one go.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.policies import word_set
from prsm_policy.danger.places import SPEAKERS
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.shell.inline import bare_name
from prsm_policy.tables import read_rows, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prsm_policy.shell import Command

# What may stand before a source in the same word: an option, a name and how it is set.
_BEFORE = r"(?:-{0,2}[\w.-]+=|[\w./@-]*@|[^\s@]*\s*@\s+)?"
# Sources that mean code whatever the program.
_STRONG = re.compile(
    rf"{_BEFORE}(?:(?:git|hg|svn|bzr)\+\S|(?:npm|jsr|github|gitlab|bitbucket|gist|gh|ppa|ubi):[\w@/]"
    rf"|git::|git@[\w.-]+:)"
)
_ADDRESS = re.compile(rf"{_BEFORE}(?:-[A-Za-z]|-D[\w.]+=)?[a-z][a-z0-9+.-]*://")
_STRONG_OR_ADDRESS = re.compile(f"{_STRONG.pattern}|{_ADDRESS.pattern}")
# Of programs that nobody knows: behind one of these words an address is where code comes from.
_FETCHING_VERBS = word_set(
    "install add run exec import require global pkg package plugin plugins extension new new-app"
    " init create apply up use launch activate remote-add repo template workload"
)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_NAMED = re.compile(
    rf"{_BEFORE}(?:(?:git|file|link|portal|patch|exec|path|flake|tarball|oci|hf|docker|aqua|asdf|pipx|cargo|gem|vfox"
    rf"|spm):\S"
    rf"|[\w.-]+@[\w.-]+\.\w+:\S|(?:[\w.-]+\.)?(?:github|gitlab|bitbucket)\.(?:com|org)/\S"
    rf"|(?:hf|huggingface)\.co/\S)"
)
_VERSIONED = re.compile(r"@?[\w./-]+@[\w.^~*+-]+")
_INDEX = re.compile(
    r"--(?:(?:extra-|default-)?index(?:-url)?|find-links|registry|source|git|github|gitlab|spec"
    r"|with(?:-requirements|-editable)?|from|repository|server|add-repo|from-module)(?:=.*)?"
    r"|-from-module=.*"
)
# pip takes the beginnings of its options.
_PIP_INDEX = re.compile(
    _INDEX.pattern + r"|--(?:ind|extra-i|find-l|trusted)[a-z-]*(?:=.*)?|-[a-zA-Z]*[if](?:\S*)"
)
# Behind one of these the first word that is no option is what runs; the rest are its arguments.
_RUNS = word_set("run exec x start tool script launch call")
_SCRIPTED = word_set("run run-script rum urn")
_NODE = word_set("npm pnpm yarn bun")
_ADDS = word_set("install i in add isntall ins inst insta instal link ln update up")
_OWNER_AND_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(?:#.*)?")
_TAP = re.compile(r"[\w-]+/[\w-]+/[\w@.+-]+")
_COORDINATES = re.compile(r"[\w-]+(?:\.[\w-]+)+:[\w.-]+(?::[\w.-]+)+")
_PACKAGE_FILE = re.compile(r".*\.(?:deb|rpm|apk|pkg\.tar(?:\.\w+)?|snap|flatpakref|flatpak)")
_FLAKE = re.compile(r"[A-Za-z][\w:/.-]*#.*")
_CHOOSES_FOLDER = word_set("-w --workspace --filter -F -C --dir --cwd --prefix")
_QUIET = SPEAKERS | READ_ONLY.keys() | word_set("git gh glab hub hg svn curl wget ssh code open")
_DOWNLOADS = "downloads and runs code"
_ELSEWHERE = "fetches code from elsewhere"


class _Fetcher(Struct, frozen=True):
    """What of a program's words fetches; see `tables/fetchers.txt`."""

    verbs: frozenset[str] = frozenset()
    versioned: frozenset[str] = frozenset()
    letters: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()


_FETCHERS = {
    name: _Fetcher(**values_of(fields, _Fetcher.__annotations__))
    for head, fields in read_rows("fetchers")
    for name in head.split()
}


def fetch_danger(command: Command) -> str | None:
    """Return why a command runs, or installs, what it fetches."""
    name = command.name
    fetcher = _FETCHERS.get(name) or _FETCHERS.get(bare_name(name))
    if fetcher is not None:
        return _fetched(bare_name(name), fetcher, command.texts[1:])
    texts = command.texts[1:]
    if name in _QUIET or not any(":" in text or "+" in text for text in texts):
        return None
    if _PYTHON.fullmatch(name) and "-m" in texts[:-1]:
        module, *rest = texts[texts.index("-m") + 1 :]
        return _fetched(module, _FETCHERS[module], rest) if module in _FETCHERS else None
    verbs = {text for text in texts[:3] if text[:1] != "-"}
    shape = _STRONG if _FETCHING_VERBS.isdisjoint(verbs) else _STRONG_OR_ADDRESS
    return _ELSEWHERE if any(map(shape.match, texts)) else None


def _fetched(name: str, fetcher: _Fetcher, texts: Sequence[str]) -> str | None:
    operands = [text for text in texts if text[:1] != "-"]
    if fetcher.verbs & {*operands[:1], *texts[:1], "-".join(operands[:2])}:
        return _DOWNLOADS
    verb = operands[0] if operands else ""
    words = list(_own_words(texts, verb))
    if verb in fetcher.versioned and any(map(_VERSIONED.fullmatch, words)):
        return _DOWNLOADS
    if name in _PARTICULAR and _PARTICULAR[name](verb, texts):
        return _ELSEWHERE
    if fetcher.only and not fetcher.only & {*operands[:2], *texts[:1]}:
        return None
    index = _PIP_INDEX if name == "pip" else _INDEX
    if any(word in fetcher.letters or index.fullmatch(word) for word in words):
        return "takes code from another index"
    is_script = name in _NODE and verb in _SCRIPTED
    return _ELSEWHERE if any(_is_source(word, is_script=is_script) for word in words) else None


def _own_words(texts: Sequence[str], verb: str) -> Iterator[str]:
    """Yield the words that are for the program itself, not for what it runs."""
    is_behind = False
    before = ""
    for text in texts:
        if text == "--":
            return
        yield text
        if is_behind and text[:1] != "-" and before[:1] != "-":
            return  # that is what runs
        is_behind = is_behind or (verb in _RUNS and text == verb)
        before = text


def _is_source(word: str, *, is_script: bool) -> bool:
    is_named = _STRONG.match(word) is not None or _NAMED.match(word) is not None
    return _ADDRESS.match(word) is not None or (is_named and not is_script)


def _node(verb: str, texts: Sequence[str]) -> bool:
    """Return whether a package is named by its owner and name on GitHub."""
    return verb in _ADDS and any(
        _OWNER_AND_NAME.fullmatch(text) and before not in _CHOOSES_FOLDER
        for before, text in pairwise(texts)
    )


def _any_of(pattern: re.Pattern[str]) -> Callable[[str, Sequence[str]], bool]:
    return lambda _verb, texts: any(map(pattern.fullmatch, texts))


# Shapes that mean a source to one program only.
_PARTICULAR: Mapping[str, Callable[[str, Sequence[str]], bool]] = {
    **dict.fromkeys(_NODE, _node),
    "brew": _any_of(_TAP),
    "mint": _any_of(_OWNER_AND_NAME),
    **dict.fromkeys(("mvn", "mvnw"), _any_of(_COORDINATES)),
    **dict.fromkeys(
        word_set("apt apt-get dnf yum rpm apk pacman zypper snap flatpak"), _any_of(_PACKAGE_FILE)
    ),
    "nix": _any_of(_FLAKE),
    **dict.fromkeys(("degit", "tiged", "giget", "wasmer"), _any_of(_OWNER_AND_NAME)),
}

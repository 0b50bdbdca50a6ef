"""Folders that are read whole, and patterns that stand for secrets: a read of all that is there.

What lies in the workspace is looked at: where no secret is in it nothing is said. Of folders
outside some are known to hold secrets, whoever reads them; others are looked at as well.
"""

from __future__ import annotations

import dataclasses
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.policies import (
    UntoldError,
    is_within,
    may_match_secret,
    may_show_secret,
    part_of,
    secret_part,
    word_set,
)
from prsm_policy.danger.places import SPEAKERS, WRITERS
from prsm_policy.danger.walk import Walk, values_of
from prsm_policy.danger.walkers import is_walker, walk_of
from prsm_policy.expansion import expand
from prsm_policy.guarded import is_public, own_home, why_guarded
from prsm_policy.places import MAX_PATH, MAX_PATHS
from prsm_policy.safe.listed import simple_pattern
from prsm_policy.safe.producers import names_of_find
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.shell.program_arguments import ungnu
from prsm_policy.shell.words import Word, bare
from prsm_policy.tree import Bounds, Reach, TreeIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Script

_SECONDS = 0.008  # CPU time for the folders that one decision looks at once more
_SLASHES = re.compile(r"^//+")
_WILD = re.compile(r"[*?\[{]")
# A word that may lead out of the workspace, or that is a pattern.
_FAR = re.compile(r"(?:^|[=,]|^-[A-Za-z])[/~]|(?:^|[/=])\.\.(?:/|$)")
# They show which files there are, how large and of what kind, or change them; not what is in them.
NAMES_ONLY = SPEAKERS | word_set(
    "ls dir vdir ll exa eza lsd tree du df dust dua duf ncdu gdu stat file wc cksum sum md5sum"
    " sha1sum sha224sum sha256sum sha384sum sha512sum b2sum realpath readlink basename dirname cd"
    " pushd popd mkdir rmdir rm mv touch chmod chown chgrp ln unlink which type command whereis"
    " namei mountpoint findmnt lsattr getfattr getfacl lsof fuser inotifywait cloc tokei scc"
    " pathchk locate updatedb sync restorecon let read export declare typeset local readonly alias"
    " set unset shift test [ [[ z zoxide umask pwd ps top htop id kill cmp"
)
# What `/` means to them is no folder, or one on another machine or in a container.
_NO_FOLDERS = WRITERS | word_set(
    "awk gawk mawk nawk sed gsed tr cut sort uniq xargs paste join column split csplit fold fmt"
    " numfmt look nl pr read mapfile readarray make gmake curl wget http https xh gh glab npm pnpm"
    " yarn git find fd fdfind ssh ping dig host psql mysql env timeout nice nohup time stdbuf"
    " setsid ionice bash sh dash zsh logger notify-send cmake configure gcc g++ cc clang clang++"
    " ld pkg-config ab wrk hey siege ng vite"
)
_ELSEWHERE = word_set("exec run shell rsh ssh attach start --")
_CONTAINERS = word_set("docker podman nerdctl docker-compose kubectl oc lxc incus")
# Options whose slash is the beginning of an address.
_ADDRESS = re.compile(
    r"--?[\w-]{0,40}(?:base|url|uri|href|prefix|route|public-path|context|scope|sep|delim|endpoint"
    r"|location|mount|pathname)[\w-]{0,40}",
    re.IGNORECASE,
)
_FINDERS = word_set("fd fdfind locate plocate tree ls rg grep egrep fgrep du")
_SPEAK = word_set("echo printf ls set")
# The words of a loop, or of an array.
_LISTED = re.compile(r"(?:\bin[ \t]+|=\()([^;\n()]*)")
_LEADING_CD = re.compile(r"\s*cd[ \t]+([\w./@+-]+)[ \t]*(?:&&|;|\n)")
_LISTERS = word_set("cpio afio pax ptar")  # they read the files whose names come in
_READS_LIST = re.compile(r"-T-?|--files-from=-|-@|-[a-zA-Z]*T|--null|--files0-from=-")
_SHOWS_HIDDEN = re.compile(r"-[a-zA-Z]*[aAHu.][a-zA-Z]*|--(?:all|almost-all|hidden|no-ignore)")
_OWN_RUNS = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_FIND_ENDS = frozenset({";", "+"})
_HIDDEN_PATHS = frozenset({"*/.*", "./.*", ".*", "*/.*/*"})


def folder_danger(command: Command, place: Place) -> str | None:
    """Return why what a command reads of folders makes it dangerous."""
    walk = walk_of(command) if is_walker(command.name) else None
    if walk is not None:
        reason = _Look(place).why_not(walk)
    elif any(_FAR.search(text) for text in command.texts[1:]) and _may_read(command):
        words = values_of(command.words[1:])
        reason = next(filter(None, (_guarded(word, command, place) for word in words)), None)
    else:
        reason = None
    is_shown = reason is None and command.name not in NAMES_ONLY
    return _pattern_danger(command.words[1:], place) if is_shown else reason


def flow_danger(script: Script, place: Place, text: str = "") -> str | None:
    """Return why the names that one command finds are dangerous to be read by another.

    `text` is what was read, in which loops name files.
    """
    if "HOME" in script.variables and (reason := _home_danger(script, place)) is not None:
        return reason
    if not any(map(_takes_names, script.commands)):
        return None
    look = _Look(place)
    for command in script.commands:
        walk = _found_by(command, place)
        if walk is not None and (reason := look.why_not(walk)) is not None:
            return reason
    speakers = (command for command in script.commands if command.name in _SPEAK)
    spoken = [word for command in speakers for word in command.words[1:]]
    listed = (raw for found in _LISTED.finditer(text) for raw in found[1].split())
    spoken += [bare(raw) for raw in islice(listed, MAX_PATHS)]
    if any(secret_part(word.text) or may_show_secret(word.pattern) for word in spoken):
        return "a secret file is named for another command"
    return _pattern_danger(spoken, place)


def _home_danger(script: Script, place: Place) -> str | None:
    """Return why a program that may read what it is told is given the home folder by its name."""
    for command in filter(_may_read, script.commands):
        for word in command.words[1:]:
            if word.exact:
                continue
            told = Word(f"{own_home()}{word.text}")
            if (reason := _guarded(told, command, place)) is not None:
                return reason
    return None


def place_of(script: Script, place: Place, text: str) -> Place:
    """Return where the commands of a text run: elsewhere if it begins by changing folders."""
    names = [command.name for command in script.commands]
    moves = [command for command in script.commands if command.name == "cd"]
    found = _LEADING_CD.match(text) if moves and names[0] == "cd" else None
    if found is not None and not script.functions:
        target = os.path.realpath(os.path.join(place.folders[0], found[1]))  # noqa: PTH118
        if len(place.folders) == 1 and os.path.isdir(target) and is_within(target, place.root):  # noqa: PTH112
            place, moves = dataclasses.replace(place, elsewhere=(target,)), moves[1:]
    for command in moves:
        place = (len(command.words) == 2 and place.entered(command.words[1])) or place
    return place


def _may_read(command: Command) -> bool:
    """Return whether a program that is not known to walk may read a folder that it is told."""
    name = ungnu(command.name)
    if name in NAMES_ONLY or name in _NO_FOLDERS or name in READ_ONLY or not name:
        return False
    return _ELSEWHERE.isdisjoint(command.texts[1:4]) and command.via not in _CONTAINERS


def _guarded(word: Word, command: Command, place: Place) -> str | None:
    """Return why a folder is not for a program of which nobody knows what it does with it."""
    if not _FAR.search(word.text) or not word.exact:
        return None
    if word.text == "/" and any(
        _ADDRESS.fullmatch(text.partition("=")[0])
        and (text.endswith("=/") or command.texts[at + 1 : at + 2] == ("/",))
        for at, text in enumerate(command.texts)
    ):
        return None
    for path in _meanings(word, place):
        if not is_within(path, place.root) and (reason := _why_not_whole(path)) is not None:
            return reason
    return None


def _why_not_whole(path: str) -> str | None:
    """Return why a path is not read whole; what is surely a file is none."""
    reason = why_guarded(path)
    return None if reason is None or os.path.isfile(path) else reason  # noqa: PTH113


def _meanings(word: Word, place: Place) -> Iterator[str]:
    """Yield where a word leads, as it is written and with its links followed."""
    text = os.path.expanduser(word.text)  # noqa: PTH111 - a Path for each is slow
    if not text or len(text) > MAX_PATH or "\0" in text:
        return
    for folder in place.folders:
        path = os.path.normpath(os.path.join(folder, text))  # noqa: PTH118
        yield _SLASHES.sub("/", path)
        resolved = _resolved(path) if place.looks.spend() else path
        if resolved != path:
            yield resolved


def _resolved(path: str) -> str:
    """Return where a path leads; what cannot be followed, as in /proc, is itself."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


class _Look:
    """Looks at the folders that the commands of one decision read whole."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._bounds = Bounds(seconds=_SECONDS)

    def why_not(self, walk: Walk) -> str | None:
        """Return what speaks against a walk, None if nothing does."""
        if walk.always is not None:
            return walk.always
        if len(walk.words) > MAX_PATHS:
            return "it reads more folders than are looked at"
        try:
            folders = dict.fromkeys(
                each for word in walk.words for each in self._folders(word, walk)
            )
        except UntoldError as error:
            return str(error)
        if not folders and walk.is_here:
            folders = dict.fromkeys(self._place.folders)
        for folder in folders:
            if (reason := self._why_not_folder(folder, walk)) is not None:
                return f"it reads the whole folder, and {reason}"
        return None

    def _folders(self, word: Word, walk: Walk) -> Iterator[str]:
        for each in _filled(word, self._place):
            for path in _meanings(each, self._place):
                if self._is_folder(path):
                    yield path

    def _is_folder(self, path: str) -> bool:
        is_there = os.path.isdir(path)  # noqa: PTH112 - a Path for each is slow
        return is_there or (_why_not_whole(path) is not None and not self._is_inside(path))

    def _is_inside(self, path: str) -> bool:
        return is_within(path, self._place.root)

    def _why_not_folder(self, path: str, walk: Walk) -> str | None:
        place = self._place
        if self._is_inside(path):
            if not walk.inside:
                return None
            index = place.looks.trees.of(place.root)
            reason = index.why_not([path], walk.reach, self._bounds)
            is_large = reason is not None and self._bounds.are_spent()
            return None if is_large and walk.searches else reason
        if place.looks.own is not None and place.looks.own.is_handed(path):
            return None
        if walk.is_foreign:
            return f"{path} lies outside the workspace"
        if (reason := why_guarded(path)) is not None or is_public(path):
            return reason
        return TreeIndex(path).why_not([path], replace(walk.reach, follows=False), self._bounds)


def _filled(word: Word, place: Place) -> Iterable[Word]:
    """Return what a word stands for: itself, or what is there for a pattern."""
    if not word.glob or not word.exact or word.found is not None:
        return (word,)
    return [Word(hit) for hit in _hits(word, place)] or (word,)


def _hits(word: Word, place: Place) -> list[str]:
    """Return the full paths that a pattern stands for; raise UntoldError where that is not told."""
    pattern = word.pattern or word.text
    if pattern.startswith("~"):
        home, slash, rest = pattern.partition("/")
        pattern = os.path.expanduser(home) + slash + rest  # noqa: PTH111
    wild = _WILD.search(pattern)
    fixed = pattern[: wild.start()] if wild is not None else pattern
    head, _, _ = fixed.rpartition("/")
    tail = pattern[len(head) + 1 :] if "/" in fixed else pattern
    if "/" in fixed and not head:
        raise UntoldError("the pattern stands for folders of the system")
    head = head.replace("\\", "")
    found: dict[str, None] = {}
    for folder in place.folders:
        base = _resolved(os.path.join(folder, head))  # noqa: PTH118
        if is_public(base):
            continue
        try:
            hits = expand(tail, base, "/", place.looks.sight)
        except OSError as error:
            raise UntoldError("it cannot be told what the pattern stands for") from error
        for hit in hits:
            for path in (hit.resolved, f"{base}/{hit.text}"):
                found[_SLASHES.sub("/", path)] = None
    return list(found)


def _pattern_danger(words: Iterable[Word], place: Place) -> str | None:
    """Return why a pattern may stand for a secret, as the folders are and by its own text."""
    home = own_home()
    for word in words:
        if not word.glob or not word.exact:
            continue
        text = word.pattern or word.text
        if text.startswith(("/home/", "/root/", "/Users/", f"{home}/")) and home:
            inside = is_within(text.rstrip("*"), place.root)
            if not inside and may_match_secret(text):
                return f"{word.text!r} may stand for a secret file"
        try:
            hits = _hits(word, place)
        except UntoldError as error:
            return f"{word.text!r}: {error}"
        for hit in hits:
            below = hit[len(place.root) :] if is_within(hit, place.root) else hit
            is_guarded = below == hit and _is_secret_place(hit)
            if secret_part(below) is not None or is_guarded:
                return f"{word.text!r} stands for {below}, which may hold a secret"
    return None


def _is_secret_place(path: str) -> bool:
    """Return whether a path is a file or folder that is known to hold secrets."""
    reason = why_guarded(path)
    return reason is not None and reason.endswith("may hold secrets")


def _takes_names(command: Command) -> bool:
    """Return whether a command reads files whose names it gets from another."""
    name = ungnu(command.name)
    if name in _LISTERS or any(map(_READS_LIST.fullmatch, command.texts[1:])):
        return name in _LISTERS or is_walker(name)
    if name in NAMES_ONLY or name in {"xargs", "git", "find", "fd", "fdfind", ""}:
        return False
    is_handed = command.via in {"xargs", "find", "gfind", "fd", "fdfind", "parallel"}
    return is_handed or any(not word.exact for word in command.words[1:])


def _found_by(command: Command, place: Place) -> Walk | None:
    """Return a walk through what a command may find the names of."""
    name, words = ungnu(command.name), command.words[1:]
    if name == "find":
        return _find(words, place)
    if name == "git":
        lists = command.texts[1:2] == ("ls-files",)
        others = lists and any(re.fullmatch(r"-[a-z]*o[a-z]*|--others", t) for t in command.texts)
        return Walk(words=tuple(words[1:]), searches=True) if others else None
    if name not in _FINDERS:
        return None
    is_hidden = any(map(_SHOWS_HIDDEN.fullmatch, command.texts[1:]))
    operands = tuple(word for word in words if word.text[:1] != "-")
    reach = Reach(hidden=is_hidden or name in {"grep", "egrep", "fgrep", "du"})
    return Walk(words=operands, reach=reach, searches=True)


def _find(words: Sequence[Word], place: Place) -> Walk:
    roots: list[Word] = []
    rest = list(words)
    while rest and rest[0].text[:1] not in {"-", "(", "!"}:
        roots.append(rest.pop(0))
    patterns = _find_patterns(rest, place)
    texts = [word.text for word in rest]
    skips_hidden = any(
        before in {"!", "-not"} and texts[at + 1 : at + 2] in (["-path"], ["-name"], ["-wholename"])
        and texts[at + 2 : at + 3] and texts[at + 2] in _HIDDEN_PATHS
        for at, before in enumerate(texts)
    )  # fmt: skip
    try:
        narrow = tuple(map(part_of, patterns))
    except UntoldError:
        narrow = ()
    follows = "-L" in texts or "-follow" in texts
    reach = Reach(hidden=not skips_hidden, narrow=narrow, follows=follows)
    return Walk(words=tuple(roots), is_here=not roots, reach=reach, searches=True)


def _find_patterns(rest: Sequence[Word], place: Place) -> tuple[str, ...]:
    """Return patterns one of which each name that is found matches, nothing if there are none."""
    kept: list[Word] = []
    words = iter(rest)
    for word in words:
        if word.text in _OWN_RUNS:
            for inner in words:
                if inner.text in _FIND_ENDS:
                    break
            kept.append(Word("-true"))
        elif not (word.text in _FIND_ENDS or word.text in {"-L", "-H", "-P", "-follow"}):
            kept.append(word)
    names = names_of_find(kept, place)
    found = names.patterns if names is not None else None
    return found if found and all(map(simple_pattern, found)) else ()

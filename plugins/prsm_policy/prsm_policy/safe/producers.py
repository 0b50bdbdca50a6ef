"""What commands print that others take for operands, and what find and xargs run with it.

Names of files must not lead to a secret or out of the workspace, as the disk is, and must not
become options or other words on the way.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from enum import IntEnum
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.policies import is_within, secret_part, word_set
from prsm_policy.safe.options import Syntax, parse
from prsm_policy.safe.tools import paths_of
from prsm_policy.shell.script import Command
from prsm_policy.shell.words import Kind, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_policy.places import Place

_SPLITS = re.compile(r"[\s'\"\\]|^-|[^ -~\u00a1-\U0010ffff]")
_EXPANDS = re.compile(r"[*?\[]")
_SIMPLE_PATTERN = re.compile(r"[\w.*?+@-]+")
_REVISION = re.compile(r"[A-Za-z0-9][\w./]*(?:[~^]\d*|@\{u(?:pstream)?\})*")
_HASH_FORMAT = re.compile("--(?:format|pretty)=%[Hh]|--pretty=format:%H")
_HASH_OPTION = re.compile(r"-\d+|-n.*|--max-count=.*|--reverse|--no-merges", re.DOTALL)
_COUNTING = frozenset({"--count", "--no-merges", "--merges", "--first-parent", "--all"})
_LS_FLAGS = re.compile(r"-[1trSUvcd]+")
_FIND_NAMES = frozenset({"-name", "-iname"})
_FIND_QUIET = word_set("-type -maxdepth -mindepth -size -mtime -mmin -newer -path -ipath -perm")
# `-true` stands for what was run there.
_FIND_ACTS = word_set("-print -print0 -true")
_FIND_OPTIONS = word_set(
    "-empty -o -or -a -and ( ) -print -print0 -readable -executable -not ! -prune -true -mount"
    " -xdev"
)
_LS_FILES = re.compile(r"-[zmocd]+|--(?:cached|modified|others|exclude-standard|deleted)")
_STAR_ENDING = re.compile(r"(?:[\w./-]*/)?(?P<last>\*[\w.-]+)")
_LISTS_FILES = re.compile(r"-[a-zA-Z]*l[a-zA-Z]*|--files-with-matches|--name-only")
_SHOWS_HIDDEN = re.compile(r"-[a-zA-Z]*[uH.][a-zA-Z]*|--hidden|--unrestricted|--no-ignore.*")
_LINE_FILTERS: Mapping[str, re.Pattern[str]] = {
    "sort": re.compile(r"-[ufrnVz]+"),
    "uniq": re.compile(r"-[uz]+"),
    "head": re.compile(r"-n?\d+|-n"),
    "tail": re.compile(r"-n?\d+|-n"),
    "tac": re.compile(r"(?!)"),
    "cat": re.compile(r"(?!)"),
    "grep": re.compile(r"-[vEFiwxPz]+|-e"),
}
_GLOB = frozenset({"-g", "--glob"})
_ENDING = frozenset({"-e", "--extension"})
_MAX_LINES = 50
_SIMPLE_ROOT = re.compile(r"(?!-)[\w./@+-]+")
_XARGS = Syntax(flags="0rt", long=word_set("null no-run-if-empty"))
_VALUES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("-n", "-P", "-L"), re.compile(r"\d+")),
    "-I": re.compile(r"\{\}|%|@"),
    "-d": re.compile(r"\\n|\n"),
}
_PLAIN_LINE = re.compile(r"[\w./@:+,=%* -]*")  # without quotes, which it takes away
_ENDS = frozenset({";", "+"})
_COUNTS = (0, 1, 2, 3)


class Passage(IntEnum):
    """How names reach the next command: as they are, line by line, or split by a shell."""

    WHOLE = 0
    LINES = 1
    WORDS = 2


@dataclass(frozen=True, slots=True)
class Names:
    """Names of files below some folders.

    `patterns` are what the last part of each matches, None for any; `hidden` says that parts may
    begin with a dot, `tracked` that git knows them.
    """

    roots: tuple[str, ...]
    patterns: tuple[str, ...] | None = None
    hidden: bool = True
    tracked: bool = False

    def are_harmless(self, place: Place, passage: Passage) -> bool:
        """Return whether whoever reads all these files shows no secret and takes them for files."""
        if not place.is_seen:
            return True
        found = place.looks.found
        if (self, passage) not in found:
            found[self, passage] = self._search(place, passage)
        return found[self, passage]

    def _search(self, place: Place, passage: Passage) -> bool:
        folders = [(root, False, False) for root in self.roots]
        while folders:
            folder, is_found, is_split = folders.pop()
            if not is_within(folder, place.root):
                return False
            try:
                with os.scandir(folder) as entries:
                    inner = self._look_through(entries, folder, is_found, is_split, place, passage)
            except (FileNotFoundError, NotADirectoryError):
                continue  # then nothing is found in it
            except OSError:
                return False
            if inner is None:
                return False
            folders += inner
        return True

    def _look_through(
        self,
        entries: Iterable[os.DirEntry[str]],
        folder: str,
        is_found: bool,
        is_split: bool,
        place: Place,
        passage: Passage,
    ) -> list[tuple[str, bool, bool]] | None:
        """Return the folders in a folder, None if something in it must not be read.

        What is in a folder that `is_found` is found itself, for readers may go through it. What is
        found below a name that `is_split` on the way is something else then.
        """
        inner: list[tuple[str, bool, bool]] = []
        is_secret = secret_part(folder[len(place.root) :]) is not None
        for entry in entries:
            place.looks.entries -= 1
            if place.looks.entries < 0:
                return None
            name = entry.name
            if not self.hidden and name.startswith("."):
                continue
            found = is_found or self._is_found(name)
            if found and (is_secret or is_split or _is_risky(entry, place.root, passage)):
                return None
            if self.tracked and name == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                inner.append((entry.path, found, is_split or _is_split(name, passage)))
        return inner

    def _is_found(self, name: str) -> bool:
        if self.patterns is None:
            return True
        name = name.casefold()
        return any(fnmatchcase(name, pattern.casefold()) for pattern in self.patterns)


def simple_pattern(text: str) -> bool:
    """Return whether a pattern means the same to everything that matches names."""
    return _SIMPLE_PATTERN.fullmatch(text) is not None


def _is_split(name: str, passage: Passage) -> bool:
    """Return whether a name becomes something else on its way."""
    is_cut = passage >= Passage.LINES and _SPLITS.search(name) is not None
    return is_cut or (passage >= Passage.WORDS and _EXPANDS.search(name) is not None)


def _is_risky(entry: os.DirEntry[str], root: str, passage: Passage) -> bool:
    if _is_split(entry.name, passage) or secret_part(entry.name) is not None:
        return True
    if not entry.is_symlink():
        return False
    target = os.path.realpath(entry.path)
    return not is_within(target, root) or secret_part(target[len(root) :]) is not None


@dataclass(frozen=True, slots=True)
class Output:
    """What a command prints: one text of a kind, or `many`; of names, which files they are.

    `lines` are all that it prints, if these are known and few.
    """

    kind: Kind = Kind.TEXT
    names: Names | None = None
    many: bool = False
    lines: tuple[str, ...] = ()


ANYTHING = Output()
_NUMBERS = Output(Kind.NUMBER)
_HASHES = Output(Kind.HASH)


def output_of(command: Command, place: Place, incoming: Output) -> Output:
    """Return what a safe command prints, given what comes in."""
    if not all(word.exact for word in command.words):
        return ANYTHING
    name, words = command.name, command.words[1:]
    if name in _LINE_FILTERS and incoming is not ANYTHING and not command.reads:
        # Which of the lines are left, and in what order, is not followed.
        if _is_filter(name, words):
            return replace(incoming, lines=())
        return _NUMBERS if name == "grep" and words and _counts_one(words, 1) else ANYTHING
    find = _PRODUCERS.get(name)
    return find(words, place) if find is not None else ANYTHING


def _is_filter(name: str, words: Sequence[Word]) -> bool:
    options = [word for word in words if word.text.startswith("-")]
    operands = [word for word in words if not word.text.startswith("-")]
    if not all(_LINE_FILTERS[name].fullmatch(word.text) for word in options):
        return False
    if name == "grep":
        return len(operands) == 1
    takes_count = name in {"head", "tail"} and "-n" in {word.text for word in options}
    return len(operands) == int(takes_count)


def _counts_one(words: Sequence[Word], operands: int) -> bool:
    """Return whether grep counts in one file: of several it prints the names, too."""
    rest = words[1:]
    is_one = len(rest) == operands and all(word.known for word in rest)
    return is_one and words[0].text == "-c" and not any(word.may_be_option for word in rest)


def names_of_find(words: Sequence[Word], place: Place) -> Names | None:
    """Return what a search finds, None if it prints something else about it."""
    roots: list[str] = []
    rest = list(words)
    while rest and not rest[0].may_be_option and rest[0].text not in {"(", "!"}:
        word = rest.pop(0)
        if not word.known or word.text.startswith("/"):
            return None
        roots += [os.path.normpath(f"{folder}/{word.text}") for folder in place.folders]
    patterns: list[str | None] = []  # of each part of the expression; None where any name may do
    pattern: str | None = None
    has_acted = False  # what stands behind that in a part says nothing of what was found
    while rest:
        text = rest.pop(0).text
        following = rest[0].text if rest else ""
        has_acted = has_acted or text in _FIND_ACTS
        if text in _FIND_NAMES | _FIND_QUIET:
            if text in _FIND_NAMES and simple_pattern(following) and not has_acted:
                pattern = following
            rest = rest[1:]
        elif text in {"-o", "-or"}:
            patterns.append(pattern)
            pattern, has_acted = None, False
        elif text in {"!", "-not"}:
            # What is negated, and its value, say nothing about what is found.
            patterns += [None] if following in {"", "("} else []
            has_acted = has_acted or following in _FIND_ACTS
            rest = rest[2 if following in _FIND_NAMES | _FIND_QUIET else 1 :]
        elif text not in _FIND_OPTIONS:
            return None
    named = [each for each in (*patterns, pattern) if each is not None]
    is_any = len(named) <= len(patterns)
    return Names(tuple(roots) or place.folders, None if is_any else tuple(named))


def _find(words: Sequence[Word], place: Place) -> Output:
    names = names_of_find(words, place)
    return ANYTHING if names is None else Output(Kind.NAME, names)


def _ls(words: Sequence[Word], place: Place) -> Output:
    texts = [word.text for word in words]
    options = [text for text in texts if text.startswith("-")]
    operands = [word for word in words if not word.text.startswith("-")]
    if not all(map(_LS_FLAGS.fullmatch, options)) or len(operands) > 1:
        return ANYTHING
    if not operands:
        return Output(Kind.NAME, Names(place.folders, hidden=False))
    if not operands[0].glob:
        return ANYTHING
    if "-d" not in options:
        return _files(operands[0], place)
    last = operands[0].text.rpartition("/")[2]
    patterns = (last,) if simple_pattern(last) else None
    return Output(Kind.NAME, Names(place.folders, patterns))


def _git(words: Sequence[Word], place: Place) -> Output:
    texts = [word.text for word in words if word.text != "--no-pager"]
    name, rest = texts[0], texts[1:]
    options = [text for text in rest if text.startswith("-")]
    operands = [text for text in rest if not text.startswith("-")]
    if name == "rev-parse" and set(options) <= {"--short", "--verify", "-q", "--quiet"}:
        return _HASHES if operands and all(map(_REVISION.fullmatch, operands)) else ANYTHING
    if name == "merge-base" and set(options) <= {"--all", "-a", "--fork-point"}:
        return _HASHES
    if name in {"log", "rev-list"} and _prints_hashes(name, options):
        return _HASHES
    if name == "rev-list" and "--count" in options and _COUNTING.issuperset(options):
        return _NUMBERS
    if place.folders != (place.root,):
        return ANYTHING
    if name == "ls-files" and all(map(_LS_FILES.fullmatch, set(options) - {"--"})):
        return _tracked(operands, place)
    lists = (
        name == "diff" and "--name-only" in options and not {"-p", "-u", "--stat"} & set(options)
    ) or (name == "grep" and any(map(_LISTS_FILES.fullmatch, options)))
    behind = rest[rest.index("--") + 1 :] if "--" in rest else []
    return _tracked(behind, place) if lists else ANYTHING


def _prints_hashes(name: str, options: Sequence[str]) -> bool:
    is_named = name == "rev-list" or any(map(_HASH_FORMAT.fullmatch, options))
    return is_named and all(
        _HASH_FORMAT.fullmatch(text) or _HASH_OPTION.fullmatch(text) for text in options
    )


def _tracked(operands: Sequence[str], place: Place) -> Output:
    """Return the files of the repository, or those that end as all of these patterns do."""
    matches = [_STAR_ENDING.fullmatch(text) for text in operands]
    endings = tuple(match["last"] for match in matches if match is not None)
    patterns = endings if operands and len(endings) == len(operands) else None
    return Output(Kind.NAME, Names(place.folders, patterns, tracked=True))


def _grep(words: Sequence[Word], place: Place) -> Output:
    texts = [word.text for word in words]
    if not any(map(_LISTS_FILES.fullmatch, texts)) or {"--null", "-Z", "-c"} & set(texts):
        return _NUMBERS if words and _counts_one(words, 2) else ANYTHING
    included = tuple(text[10:] for text in texts if text.startswith("--include="))
    is_known = included and all(map(simple_pattern, included))
    return Output(Kind.NAME, Names(_roots("grep", words, place), included if is_known else None))


def _rg(words: Sequence[Word], place: Place) -> Output:
    texts = [word.text for word in words]
    if "--files" not in texts and not any(map(_LISTS_FILES.fullmatch, texts)):
        return ANYTHING
    if {"--json", "--stats", "--heading", "-c", "--count"} & set(texts):
        return ANYTHING
    globs = tuple(after for before, after in pairwise(texts) if before in _GLOB)
    is_known = globs and all(_STAR_ENDING.fullmatch(text) and "/" not in text for text in globs)
    hidden = any(map(_SHOWS_HIDDEN.fullmatch, texts))
    names = Names(_roots("rg", words, place), globs if is_known else None, hidden)
    return Output(Kind.NAME, names)


def _fd(words: Sequence[Word], place: Place) -> Output:
    texts = [word.text for word in words]
    if {"-a", "--absolute-path", "-l"} & set(texts):
        return ANYTHING
    endings = [after for before, after in pairwise(texts) if before in _ENDING]
    known = endings and all(re.fullmatch(r"\w+", text) for text in endings)
    patterns = tuple(f"*.{text}" for text in endings) if known else None
    hidden = any(map(_SHOWS_HIDDEN.fullmatch, texts))
    return Output(Kind.NAME, Names(_roots("fd", words, place), patterns, hidden))


def _roots(name: str, words: Sequence[Word], place: Place) -> tuple[str, ...]:
    """Return the folders that a search goes through; all where it may run if that is not told."""
    paths = paths_of(name, words, place)
    if not paths or not all(word.known and _SIMPLE_ROOT.fullmatch(word.text) for word in paths):
        return place.folders
    return tuple(
        os.path.normpath(f"{folder}/{word.text}") for word in paths for folder in place.folders
    )


def _echo(words: Sequence[Word], _place: Place) -> Output:
    if not all(word.known for word in words) or (words and words[0].text.startswith("-")):
        return ANYTHING
    return Output(lines=(" ".join(word.text for word in words),))


def _printf(words: Sequence[Word], _place: Place) -> Output:
    is_list = 1 < len(words) <= _MAX_LINES and words[0].text == "%s\\n"
    is_list = is_list and all(word.known for word in words)
    return Output(lines=tuple(word.text for word in words[1:])) if is_list else ANYTHING


def _files(word: Word, place: Place) -> Output:
    """Return the files that a pattern stands for, as long as no folder is among them."""
    filled = place.filled((word,))
    if filled is None or len(place.folders) != 1:
        return ANYTHING
    names = [each.text for each in filled[0][0]]
    if len(names) > _MAX_LINES or any(Path(place.folders[0], name).is_dir() for name in names):
        return ANYTHING
    return Output(lines=tuple(names))


def _counted(words: Sequence[Word], _place: Place) -> Output:
    # Of files wc prints the names, too.
    return _NUMBERS if all(word.text.startswith("-") for word in words) else ANYTHING


def _seq(words: Sequence[Word], _place: Place) -> Output:
    is_number = all(word.text.isdigit() for word in words)
    return Output(Kind.NUMBER, many=True) if is_number else ANYTHING


def _date(words: Sequence[Word], _place: Place) -> Output:
    return _NUMBERS if [word.text for word in words] == ["+%s"] else ANYTHING


_PRODUCERS: Mapping[str, Callable[[Sequence[Word], Place], Output]] = {
    "echo": _echo,
    "printf": _printf,
    "find": _find,
    "ls": _ls,
    "git": _git,
    "grep": _grep,
    "egrep": _grep,
    "rg": _rg,
    "fd": _fd,
    "nproc": _counted,
    "wc": _counted,
    "seq": _seq,
    "date": _date,
}


def carried_by_xargs(command: Command, place: Place, incoming: Output) -> list[Command] | None:
    """Return the commands that xargs may run, given what comes in; None if it cannot be told."""
    command = replace(command, behind=False)  # what it runs does not read what comes in
    words = list(command.words[1:])
    mark = size = ""
    is_other = False  # the lines do not become words as usual
    own: list[Word] = []
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        name, value = option.text[:2], option.text[2:]
        if name not in _VALUES:
            own.append(option)
            continue
        value = value or (words.pop(0).text if words else "")
        if not option.known or not _VALUES[name].fullmatch(value):
            return None
        mark = value if name == "-I" else mark
        size = value if name == "-n" else size
        is_other = is_other or name in {"-L", "-d"}
    if parse(own, _XARGS, place) is None or not words or not all(word.exact for word in words):
        return None
    if incoming.lines:
        known = None if own or is_other else _known(words, incoming.lines, mark, size)
        return None if known is None else [replace(command, words=tuple(each)) for each in known]
    kind: Kind = incoming.kind if incoming.names is None else Kind.TEXT
    if incoming.names is not None and incoming.names.are_harmless(place, Passage.LINES):
        kind = Kind.NAME
    added = Word("", exact=False, kind=kind)
    if not mark:
        return [replace(command, words=(*words, *[added] * count)) for count in _COUNTS]
    filled = [_filled(word, mark, added) for word in words]
    return None if None in filled else [replace(command, words=tuple(filter(None, filled)))]


def _known(
    words: Sequence[Word], lines: Sequence[str], mark: str, size: str
) -> list[list[Word]] | None:
    """Return what runs for lines that are known, None for those that xargs reads differently."""
    if not all(map(_PLAIN_LINE.fullmatch, lines)):
        return None
    if mark:
        return [
            [word.told(word.text.replace(mark, line.lstrip())) for word in words] for line in lines
        ]
    items = [Word(item) for line in lines for item in line.split()]
    step = max(int(size), 1) if size else len(items) or 1
    return [[*words, *items[at : at + step]] for at in range(0, max(len(items), 1), step)]


def carried_by_find(command: Command, place: Place) -> tuple[Command, list[Command]] | None:
    """Return a find without what it runs, and what it runs; None if it cannot be told."""
    words = list(command.words)
    kept: list[Word] = []
    inner: list[tuple[list[Word], str, bool]] = []
    while words:
        word = words.pop(0)
        if word.text not in {"-exec", "-execdir"}:
            kept.append(word)
            continue
        carried: list[Word] = []
        while words and words[0].text not in _ENDS:
            carried.append(words.pop(0))
        if not words or not carried or not words[0].known:
            return None
        inner.append((carried, words.pop(0).text, word.text == "-execdir"))
        kept.append(Word("-true"))
    names = names_of_find(kept[1:], place)
    if names is None or not names.are_harmless(place, Passage.WHOLE):
        return None
    added = Word("", exact=False, kind=Kind.NAME)
    commands: list[Command] = []
    for carried, end, is_beside in inner:
        if is_beside and _names_others(carried):
            return None
        filled = [_filled(word, "{}", added) for word in carried]
        if None in filled or not carried[0].known:
            return None
        first = tuple(filter(None, filled))
        # With + it adds as many names as it has, and some programs write to their second one.
        further = _COUNTS[:-1] if end == "+" else (0,)
        commands += [Command((*first, *[added] * count)) for count in further]
    return replace(command, words=tuple(kept)), commands


def _filled(word: Word, mark: str, added: Word) -> Word | None:
    if word.text == mark:
        return added
    if mark in word.text or not word.exact:
        return None
    return word


def _names_others(words: Sequence[Word]) -> bool:
    """Return whether a command may name files, which are others in each folder."""
    operands = [word for word in words[1:] if not word.text.startswith("-") and word.text != "{}"]
    return len(operands) > (words[0].text == "grep")

"""What programs are told that makes them run code or others: see `tables/runners.txt`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_policy.tables import read_rows, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_policy.shell.words import Word
    from prsm_policy.tables import Fields

_NAMES_A_VALUE = re.compile(r"[=:]")
_CLUSTER = re.compile(r"-[A-Za-z0-9]+")
_MAX_WORDS = 500  # that are looked at
_RUNS_SCRIPTS = re.compile(r"(?:python|pypy|php|ruby|node|nodejs|bun|deno|perl|tsx|ts-node)[0-9.]*")
_CODE_LIKE = re.compile(
    r"--?(?:(?:[a-z]+-)*(?:eval|exec|execute|command|cmd|expr|expression|shell|run|script|code"
    r"|hook|invoke|javaagent|preload|interpreter)|(?:pre|post|on)-[a-z-]+)(?:=(?P<value>.*))?",
    re.DOTALL,
)
_CODE_LETTER = re.compile(r"-(?:(?P<likely>[ec])|[a-zA-Z])(?P<value>.*)", re.DOTALL)
# What many programs take behind -c and -e is the name of a file.
_FILE_NAME = re.compile(r"[\w./-]+\.(?:ya?ml|toml|json|jsonc|ini|cfg|conf|xml|txt|properties)")
LOOKS_LIKE_CODE = re.compile(r"[\s;&|`$<>(]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """How one program is told to run something."""

    code: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    word: tuple[re.Pattern[str], ...] = ()
    value: tuple[re.Pattern[str], ...] = ()
    letters: frozenset[str] = frozenset()  # options of one letter


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that a program is told to run: a text, or nothing if it comes from elsewhere.

    `is_command` if it is a program or a command line, `exact` if it is known before it runs.
    """

    option: str
    text: str = ""
    is_command: bool = False
    exact: bool = True


def _runner(fields: Fields) -> Runner:
    word, value = (
        tuple(re.compile(text, re.DOTALL | re.IGNORECASE) for text in fields.get(kind, ()))
        for kind in ("word", "value")
    )
    code, runs, verbs = (words_of(fields, kind) for kind in ("code", "runs", "verbs"))
    letters = frozenset(option[1] for option in code | runs if len(option) == 2)
    return Runner(code=code, runs=runs, verbs=verbs, word=word, value=value, letters=letters)


RUNNERS: Mapping[str, Runner] = {
    name: runner
    for head, fields in read_rows("runners")
    for runner in [_runner(fields)]
    for name in head.split()
}


def told(name: str, words: Sequence[Word]) -> tuple[Told, ...]:
    """Return what the words of a program, or of the script it interprets, tell it to run."""
    script = script_of(name, words)
    inner = () if script is None else _told(script[0].text.rpartition("/")[2], script)
    return (*_told(name, words), *(each for each in inner if each.text.strip()))


def script_of(name: str, words: Sequence[Word]) -> Sequence[Word] | None:
    """Return the words of an interpreter from its script on, None where there is none."""
    if not _RUNS_SCRIPTS.fullmatch(name):
        return None
    start = next((at for at, word in enumerate(words[1:6], 1) if word.text[:1] != "-"), None)
    return None if start is None or not words[start].exact else words[start:]


def _told(name: str, words: Sequence[Word]) -> tuple[Told, ...]:
    runner = RUNNERS.get(name) or RUNNERS.get(name.rstrip("0123456789."))
    if runner is None or len(words) < 2:
        return ()
    found: list[Told] = []
    first = next((word.text for word in words[1:] if word.text[:1] not in {"-", "+"}), "")
    if first in runner.verbs:
        found.append(Told(first, " ".join(word.text for word in words[1:]).partition(first)[2]))
    for at, word in enumerate(words[1:_MAX_WORDS], start=1):
        following = words[at + 1] if at + 1 < len(words) else None
        found += _option(runner, word, following)
        found += _pattern(runner, word)
    return tuple(found)


def _option(runner: Runner, word: Word, following: Word | None) -> Iterator[Told]:
    text = word.text
    if text in runner.code or text in runner.runs:
        is_known = following is not None and following.exact
        value = following.text if following is not None else ""
        yield Told(text, value, text in runner.runs, exact=is_known)
        return
    if len(text) < 3 or (not runner.letters and "=" not in text and ":" not in text):
        return
    match = _NAMES_A_VALUE.search(text)
    option = text if match is None else text[: match.start()]
    value = "" if match is None else text[match.end() :]
    if option in runner.code or option in runner.runs:
        yield Told(option, value, option in runner.runs, exact=word.exact)
    elif text[0] == "-" and text[1] != "-":
        yield from _cluster(runner, word, following)


def _cluster(runner: Runner, word: Word, following: Word | None) -> Iterator[Told]:
    """Yield what an option of one letter runs that has its value attached, or stands last."""
    text = word.text
    if text[1] in runner.letters:
        option = text[:2]
        yield Told(option, text[2:], option in runner.runs, exact=word.exact)
    elif text[-1] in runner.letters and len(text) < 5 and _CLUSTER.fullmatch(text):
        option = f"-{text[-1]}"
        value = following.text if following is not None else ""
        is_known = following is not None and following.exact
        yield Told(option, value, option in runner.runs, exact=is_known)


def _pattern(runner: Runner, word: Word) -> Iterator[Told]:
    text = word.text
    if any(pattern.fullmatch(text) for pattern in runner.value):
        yield Told(text, _split_setting(text), is_command=True, exact=word.exact)
    elif any(pattern.fullmatch(text) for pattern in runner.word):
        yield Told(text, text, exact=word.exact)


def _split_setting(text: str) -> str:
    """Return what is set: behind the first `=`, else behind the first colon or space."""
    _, equals, value = text.partition("=")
    if equals:
        return value
    # Behind a colon options of the address follow.
    return re.split(r"[:\s]", text, maxsplit=1)[-1].replace(",", " ")


def may_be_code(words: Sequence[Word]) -> str | None:
    """Return the option by which most programs, of which nothing is known, would run a text."""
    for word, following in pairwise((*words[1:_MAX_WORDS], None)):
        text = "" if word is None else word.text
        if text[:1] != "-" or len(text) < 2:
            continue
        value = following.text if following is not None and following.text[:1] != "-" else ""
        if match := _CODE_LIKE.fullmatch(text):
            if match["value"] or value:
                return text.partition("=")[0]
        elif (match := _CODE_LETTER.fullmatch(text)) and text[1] != "-":
            value = match["value"] or value
            is_likely = match["likely"] and not match["value"] and not _FILE_NAME.fullmatch(value)
            if value and (is_likely or LOOKS_LIKE_CODE.search(value)):
                return text[:2]
    return None

"""Readers that have no end of their own, and the `timeout` that gives them one."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.words import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_policy.shell.script import Command
    from prsm_policy.shell.words import Word

MAX_LINES = 10_000_000  # of seq
MAX_SECONDS = 3_600
_FOLLOWS = re.compile(r"-[A-Za-z0-9]*[fF].*|--(?:follow|retry).*")
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?")
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)([smh]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600}
# Other signals may leave the reader running.
_ENDING = word_set("HUP INT QUIT KILL TERM SIGHUP SIGINT SIGQUIT SIGKILL SIGTERM 1 2 3 9 15")
_SEQ_VALUED = word_set("-s -f --separator --format")


def is_endless(name: str, words: Sequence[Word]) -> bool:
    """Return whether a reader, told these words, may go on without an end."""
    if name == "tail":
        return any(_FOLLOWS.fullmatch(word.text) for word in words)
    return name == "seq" and counts_to(words) > MAX_LINES


def counts_to(words: Sequence[Word]) -> float:
    """Return how many lines `seq` prints at most."""
    numbers: list[float] = []
    is_value = False
    for word in words:
        text = word.text
        if is_value or (text[:1] == "-" and not _NUMBER.fullmatch(text)):
            is_value = not is_value and text in _SEQ_VALUED
        elif not word.exact:
            if word.kind is not Kind.NUMBER:
                return inf
            numbers.append(0)
        elif not _NUMBER.fullmatch(text):
            return inf
        else:
            numbers.append(float(text))
    first = numbers[0] if len(numbers) > 1 else 1.0
    step = numbers[1] if len(numbers) > 2 else 1.0
    last = numbers[-1] if numbers else 1.0
    return abs((last - first) / step) if step else inf


def ends_in_time(command: Command) -> bool:
    """Return whether a command is `timeout` with a duration that ends what it runs."""
    if command.texts[0].rpartition("/")[2] != "timeout":
        return False
    texts = list(reversed(command.texts[1:]))
    while texts:
        text = texts.pop()
        name, equals, value = text.partition("=")
        if text[:1] != "-":
            match = _DURATION.fullmatch(text)
            seconds = float(match[1]) * _UNITS[match[2]] if match else 0
            return 0 < seconds <= MAX_SECONDS
        if name in {"-s", "--signal"}:
            value = value if equals else (texts.pop() if texts else "")
            if value.upper() not in _ENDING:
                return False
        elif text.startswith("-s") or name.startswith("--sig"):
            return False
        elif name in {"-k", "--kill-after"} and not equals and texts:
            texts.pop()
    return False

"""Programs in small languages, as far as every implementation reads them alike.

Implementations differ about where a bracket expression ends that begins with `]` or holds a
backslash or a class, about backslashes before letters, and about bytes of a character that some
encoding takes for ASCII. A program that holds none of these is cut into the same tokens by all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

# The second byte of a character may be one of these in some encodings, never a letter's neighbour.
WIDE = r"[^\x00-\xa0\ud800-\udfff](?![@\[\\\]^`{|}~])"


def regex_body(end: str, *, classes: bool = False) -> str:
    """Return a pattern for a part of a regular expression up to a delimiter.

    `end` matches the delimiter, which may stand inside only behind a backslash. With `classes`
    brackets may hold classes and letters behind a backslash; all but the oldest end them alike.
    """
    character = rf"(?!{end})[\t -Z\]^-~]"
    escape = r"\\(?:[!-/:-@\[-^`{-~]|[0-9BSWbfnrstvwx])"
    more = r"|\[:[a-z]+:\]|\\[A-Za-z]" if classes else ""
    bracket = rf"\[\^?(?:(?!{end})[\t -Z_-~]{more})(?:(?!{end})[\t -Z^-~]{more})*+\]"
    return rf"(?:{character}|{WIDE}|{escape}|{bracket})"


class TokenReader(ABC):
    """Reads a program token by token, as long as each is one that all implementations agree on."""

    def __init__(self, program: str, token: re.Pattern[str]) -> None:
        self._program = program
        self._token = token
        self._at = 0
        # Brackets, and what else is to be closed.
        self._open: list[str] = []
        # The last token, or its kind.
        self._before = ""

    def is_agreed(self) -> bool:
        """Return whether all tokens are agreed on, and nothing stays open."""
        while self._at < len(self._program):
            token = self._token.match(self._program, self._at)
            if token is None:
                return False
            self._at = token.end()
            if not self.take(token.lastgroup or "", token.group()):
                return False
        return not self._open

    @abstractmethod
    def take(self, kind: str, text: str) -> bool:
        """Take a token; return False if it is not one that is agreed on."""

"""Characters of programs in small languages that every implementation reads alike.

Implementations differ about where a bracket expression ends that begins with `]` or holds a
backslash or a class, about backslashes before letters, and about bytes of a character that some
encoding takes for ASCII. A program that holds none of these is cut into the same tokens by all.
"""

from __future__ import annotations

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

"""Tells whether a program of jq shows no more than its input, whichever jq reads it.

Only functions that are listed may be called. Left out is what versions read differently: comments,
modules, and a name that does not stand directly behind its dollar sign.
"""

from __future__ import annotations

import re

from prsm_core.policies import word_set
from prsm_policy.shell.agreed import WIDE, TokenReader

_MAX_PROGRAM = 2_000  # characters
_TOKEN = re.compile(
    r"""(?P<space>[ \t\n]+)
    | (?P<string>")
    | (?P<variable>\$(?!ENV(?![A-Za-z0-9_])|__)[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<format>@(?:text|json|csv|tsv|html|uri|sh|base64d?)(?![A-Za-z0-9_]))
    | (?P<field>\.[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?+)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<operator>\.\.(?!\.)|[][(){}.,|:;=<>+*/%?!-])""",
    re.VERBOSE,
)
_STRING = re.compile(
    rf"""(?:[\t !#-\[\]-~]|{WIDE}|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}))*+(?P<end>"|\\\()"""
)
_NAMES = word_set(
    "if then elif else end and or not as reduce foreach try catch label break null true false"
    " empty error add any all range floor ceil round sqrt pow log log2 log10 exp fabs abs length"
    " utf8bytelength keys keys_unsorted values has in inside contains map map_values path paths"
    " leaf_paths del delpaths getpath setpath to_entries from_entries with_entries select recurse"
    " nulls booleans numbers strings arrays objects iterables scalars type tostring tonumber tojson"
    " fromjson toarray sort sort_by group_by min max min_by max_by unique unique_by reverse"
    " startswith endswith ltrimstr rtrimstr trim ltrim rtrim explode implode split splits join"
    " ascii_downcase ascii_upcase test match capture scan sub gsub index rindex indices first last"
    " nth limit flatten combinations transpose walk tostream fromstream truncate_stream now todate"
    " fromdate dateadd datesub date strptime strftime mktime gmtime localtime strflocaltime isnan"
    " isinfinite isnormal nan ascii pick IN INDEX"
)
# These may go on without an end if they are told so.
_MAY_NOT_END = frozenset({"recurse"})
_CLOSES = {")": "(", "]": "[", "}": "{"}


def only_shows_input(program: str) -> bool:
    """Return whether a program shows nothing but its input and what it is given."""
    return len(program) <= _MAX_PROGRAM and _Reader(program, _TOKEN).is_agreed()


class _Reader(TokenReader):
    def take(self, kind: str, text: str) -> bool:
        is_fine = True
        match kind:
            case "space":
                return True
            case "string":
                is_fine = self._string()
            case "name":
                is_fine = self._name(text)
            case "operator":
                is_fine = self._operator(text)
        self._before = text
        return is_fine

    def _string(self) -> bool:
        match = _STRING.match(self._program, self._at)
        if match is None:
            return False
        self._at = match.end()
        if match["end"] != '"':
            self._open.append('"')
        return True

    def _name(self, text: str) -> bool:
        is_key = self._open[-1:] == ["{"] and self._before in {"{", ","}
        if text in _MAY_NOT_END and self._program.startswith("(", self._at):
            return False
        return text in _NAMES or (is_key and text != "env")

    def _operator(self, text: str) -> bool:
        if text in {"(", "[", "{"}:
            self._open.append(text)
        elif text in _CLOSES:
            opened = self._open.pop() if self._open else ""
            if text == ")" and opened == '"':
                return self._string()
            return opened == _CLOSES[text]
        return True

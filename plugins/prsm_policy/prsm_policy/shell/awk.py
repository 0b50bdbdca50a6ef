"""Tells whether a program of awk only prints, or may run others, whichever awk reads it.

The grammar leaves out what mawk, gawk, busybox and the one true awk read differently: a slash that
may divide or begin a pattern, functions, and odd brackets. Such programs may well be harmless.
"""

from __future__ import annotations

import re

from prsm_core.policies import word_set
from prsm_policy.shell.agreed import WIDE, TokenReader, regex_body

NAMES = word_set("awk gawk mawk nawk original-awk bwk goawk")
_MAX_PROGRAM = 2_000  # characters
_TOKEN = re.compile(
    rf"""(?P<space>[ \t]+|\#[A-Za-z0-9 ,.:=-]*+(?=\n|\Z))
    | (?P<newline>\n)
    | (?P<string>"(?:[\t !#-\[\]-~]|{WIDE}|\\[ -~])*+")
    | (?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?+(?![A-Za-z0-9_.]))
    | (?P<name>[A-Za-z][A-Za-z0-9_]*+)
    | (?P<operator>&&|\|\||\+\+|--|!~|[-+*%^=!<>]=|[-+*%^=!<>?:,;~$(){{}}\[\]])
    | (?P<slash>/)""",
    re.VERBOSE,
)
_REGEX = re.compile(rf"/{regex_body('/')}++/")
_REGEX_WITH_CLASSES = re.compile(rf"/{regex_body('/', classes=True)}++/")
_STATEMENTS = word_set("BEGIN END if else while for do break continue next exit delete in nextfile")
_PRINTS = word_set("print printf")
_KEYWORDS = _STATEMENTS | _PRINTS
_FUNCTIONS = word_set(
    "substr index split gsub sub match sprintf tolower toupper int sqrt exp log sin cos atan2 rand"
    " srand strftime systime mktime gensub asort asorti strtonum"
)
# What some awk takes for more than a variable, and formats that are handed to C as they are.
_REFUSED = word_set(
    "system getline close fflush ENVIRON PROCINFO SYMTAB FUNCTAB ARGV ARGC OFMT CONVFMT TEXTDOMAIN"
    " function func return switch case default BEGINFILE ENDFILE patsplit and or xor compl lshift"
    " rshift typeof isarray mkbool dcgettext dcngettext bindtextdomain"
)
# A slash behind these begins a pattern for every awk.
_BEFORE_REGEX = frozenset(["", ";", "{", "}", "(", ",", "!", "~", "!~", "&&", "||"])
_OPERANDS = frozenset(["name", "number", "string", "regex", "length", ")", "]", "++", "--", "$"])
_CALLED = re.compile(r"\(")
_CALLED_APART = re.compile(r"[ \t]*\(")
_CLOSES = {")": "(", "]": "[", "}": "{"}
_ENDLESS = re.compile(r"while\s*\(\s*!?\s*[0-9\"]|for\s*\([^;]*;\s*(?:[0-9\"][^;]*)?;")
POWER = re.compile(
    r"system|getline|close|ENVIRON|PROCINFO|SYMTAB|@|(?<!\|)\|(?!\|)|print.*>", re.DOTALL
)
# What a sandbox of gawk leaves: the environment, other files of code, and loops without an end.
_LEFT_BY_SANDBOX = re.compile(
    r"ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARGV|@|\b(?:while|for|do|func|function)\b"
)


def only_prints(program: str) -> bool:
    """Return whether a program does no more than print, for every awk."""
    if len(program) > _MAX_PROGRAM or _ENDLESS.search(program):
        return False
    return _Reader(program, _REGEX).is_agreed()


def may_run(program: str) -> bool:
    """Return whether a program may run others, write files or show the environment.

    Every word that could make it do so counts, wherever it stands, unless the program surely
    only prints.
    """
    if POWER.search(program) is None:
        return False
    is_short = len(program) <= _MAX_PROGRAM
    return not (is_short and _Reader(program, _REGEX_WITH_CLASSES).is_agreed())


def only_prints_in_sandbox(program: str) -> bool:
    """Return whether gawk's sandbox leaves a program nothing to do but print."""
    return len(program) <= _MAX_PROGRAM and not _LEFT_BY_SANDBOX.search(program)


class _Reader(TokenReader):
    def __init__(self, program: str, regex: re.Pattern[str]) -> None:
        super().__init__(program, _TOKEN)
        self._regex = regex
        # Whether a `>` here would name the file that a statement prints to.
        self._may_write = False

    def take(self, kind: str, text: str) -> bool:
        match kind:
            case "space":
                return True
            case "newline":
                if self._before in _OPERANDS:
                    self._before = "newline"
                return True
            case "slash":
                return self._slash()
            case "operator":
                self._before = text
                return self._operator(text)
            case "name":
                return self._name(text)
        self._before = kind
        return True

    def _name(self, text: str) -> bool:
        is_function = text in _FUNCTIONS
        called = _CALLED_APART if is_function else _CALLED
        is_called = called.match(self._program, self._at) is not None
        self._may_write = self._may_write or text in _PRINTS
        if text in _KEYWORDS or text == "length":
            self._before = "keyword" if text in _KEYWORDS else text
            return True
        self._before = "name"
        return is_called == is_function and text not in _REFUSED

    def _operator(self, text: str) -> bool:
        if text in {"(", "[", "{"}:
            self._open.append(text)
        elif text in _CLOSES and (not self._open or self._open.pop() != _CLOSES[text]):
            return False
        if text in {";", "{", "}"}:
            self._may_write = False
        return text != ">" or not self._may_write or self._open[-1:] == ["("]

    def _slash(self) -> bool:
        if self._before in _BEFORE_REGEX:
            match = self._regex.match(self._program, self._at - 1)
            self._at = -1 if match is None else match.end()
            self._before = "regex"
            return match is not None
        if self._before == ")":
            # It divides, or begins a pattern that does not end.
            is_sure = "/" not in self._program[self._at :]
        else:
            is_sure = self._before in {"name", "number", "]"}
        self._before = "division"
        return is_sure

"""Programs of sed and awk that do no more than print: a parser of each, by what it knows.

What is not understood as GNU and the other versions all understand it is no such program.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.permissions.safe.options import Syntax, parse
from prsm_core.shell.sed import scripts_of
from prsm_core.shell.words import Kind, word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.permissions.paths import Place
    from prsm_core.shell.words import Word

_MAX_PROGRAM = 2_000  # characters

_SED_LONG = word_set(
    "quiet silent regexp-extended separate null-data unbuffered expression= posix sandbox"
)
_SCRIPTS = frozenset({"-e", "--expression"})
_SED = Syntax(
    flags="nErsuz", valued="e", long=_SED_LONG, texts=1, all_paths=_SCRIPTS, free=_SCRIPTS
)
_SED_OPTION = re.compile(r"-[nErsuz]*e|--expression")
_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\[^\n])+/[IM]*)"
_SED_PREFIX = re.compile(rf"(?:{_ADDRESS}(?:\s*,\s*(?:{_ADDRESS}|[+~]\d+))?)?[ \t]*!?[ \t]*")
_SED_COMMAND = re.compile(
    r"""(?P<plain>[=dDgGhHnNpPxzl])
    | [qQ][ \t]*\d*
    | [aic](?:[ \t]*\\\n|[ \t]*\\?)(?=[^\n])[^\\\n;}#]*(?=\n|$)
    | [btT][ \t]*(?:[A-Za-z_]\w*)?
    | :[ \t]*[A-Za-z_]\w*
    | s(?P<by>[^\w\s\\;{}#])(?P<from>(?:(?!(?P=by))[^\\\n]|\\[^\n])*)
      (?P=by)(?:(?!(?P=by))[^\\\n]|\\.)*(?P=by)[gpiImM0-9]*
    | y(?P<y>[^\w\s\\;{}#])(?:(?!(?P=y))[^\\\n]|\\[^\n])*
      (?P=y)(?:(?!(?P=y))[^\\\n]|\\[^\n])*(?P=y)""",
    re.VERBOSE | re.DOTALL,
)
_SED_SPACE = re.compile(r"[\s;]*(?:#[^\n]*(?:\n[\s;]*|$))*")
_SED_END = re.compile(r"[ \t]*(?=[;\n}#]|$)")


def sed_prints(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether sed with these arguments only prints."""
    if not _told(arguments, _SED_OPTION):
        return False
    parsed = parse(arguments, _SED, place)
    if parsed is None:
        return False
    if not parsed.options & _SCRIPTS and (not parsed.operands or not parsed.operands[0].known):
        return False
    return _is_printing_sed("\n".join(scripts_of([word.text for word in arguments])))


def _told(arguments: Sequence[Word], option: re.Pattern[str]) -> bool:
    """Return whether all but names of files is known."""
    before = ""
    for word in arguments:
        if not word.exact and (word.kind is not Kind.NAME or option.fullmatch(before)):
            return False
        if word.glob and option.fullmatch(before):
            return False
        before = word.text
    return True


def _is_printing_sed(script: str) -> bool:
    if len(script) > _MAX_PROGRAM:
        return False
    at = depth = 0
    while True:
        at = _end(_SED_SPACE, script, at)
        if at == len(script):
            return depth == 0
        if script[at] == "}":
            depth -= 1
            at = _end(_SED_END, script, at + 1)
            if depth < 0 or at < 0:
                return False
            continue
        prefix = _SED_PREFIX.match(script, at)
        if prefix is None or _opens_bracket(prefix.group()):
            return False
        at = prefix.end()
        if script[at : at + 1] == "{":
            depth += 1
            at += 1
            continue
        command = _SED_COMMAND.match(script, at)
        if command is None or _opens_bracket(command["from"] or ""):
            return False
        at = _end(_SED_END, script, command.end())
        if at < 0:
            return False


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return -1 if match is None else match.end()


def _opens_bracket(pattern: str) -> bool:
    """Return whether a pattern may go on, because what should end it stands in brackets."""
    return "[" in pattern and "]" not in pattern[pattern.rindex("[") + 1 :]


_AWK_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)
    | (?P<newline>\n)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator>&&|\|\||\+\+|--|[-+*%^=!<>]=|[-+*%^=!<>?:,;~$(){}\[\]])
    | (?P<slash>/)""",
    re.VERBOSE,
)
_AWK_REGEX = re.compile(r"/((?:[^/\\\n]|\\[^\n])*)/")
_AWK_KEYWORDS = word_set(
    "BEGIN END if else while for do break continue next nextfile exit delete in print printf return"
)
_AWK_FUNCTIONS = word_set(
    "length substr index split gsub sub match sprintf tolower toupper int sqrt exp log sin cos"
    " atan2 rand srand strftime systime mktime gensub asort asorti"
)
_AWK_REFUSED = word_set(
    "system getline close fflush ENVIRON PROCINFO SYMTAB FUNCTAB ARGV ARGC function func switch"
    " BEGINFILE ENDFILE"
)
_AWK_VALUE = re.compile(r"[a-z_]\w*=[^\\]*|O?[FR]S=[^\\]*(?:\\[tn])?")
_AWK_OPTION = re.compile(r"-[Fv]")


def awk_prints(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether awk with these arguments only prints."""
    words = list(arguments)
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        if not option.known or option.text[:2] not in {"-F", "-v"}:
            if option.known and option.text == "--":
                break
            return False
        value = option.text[2:]
        if not value:
            if not words or not words[0].known:
                return False
            value = words.pop(0).text
        if option.text[1] == "v" and not _AWK_VALUE.fullmatch(value):
            return False
    if not words or not words[0].known or not _is_printing_awk(words[0].text):
        return False
    return all(
        "=" not in word.text and (word.exact or word.kind is Kind.NAME) and place.is_ordinary(word)
        for word in words[1:]
    )


def _is_printing_awk(program: str) -> bool:
    return len(program) <= _MAX_PROGRAM and _AwkReader(program).prints()


class _AwkReader:
    """Reads a program token by token, as far as it is known to do no more than print."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._at = 0
        self._depth = 0  # of brackets
        self._before = ""  # the kind of the last token, or the operator itself
        self._may_write = False  # a `>` here would say where a statement prints to

    def prints(self) -> bool:
        while self._at < len(self._program):
            token = _AWK_TOKEN.match(self._program, self._at)
            if token is None or not self._take(token.lastgroup or "", token.group()):
                return False
        return self._depth == 0

    def _take(self, kind: str, text: str) -> bool:
        start = self._at
        self._at += len(text)
        if kind == "slash":
            self._at = _after_slash(self._program, start, self._before)
            self._before = "regex" if self._at > start + 1 else "operator"
            return self._at > 0
        if kind == "operator":
            self._before = text
            return self._operator(text)
        if kind == "name":
            self._before = "keyword" if text in _AWK_KEYWORDS else "name"
            self._before = text if text == "length" else self._before
            return self._name(text)
        if kind != "space":
            self._before = kind
        return True

    def _name(self, text: str) -> bool:
        self._may_write = self._may_write or text in {"print", "printf"}
        is_called = self._program[self._at : self._at + 1] == "("
        is_known = not is_called or text in _AWK_FUNCTIONS | _AWK_KEYWORDS
        return is_known and text not in _AWK_REFUSED

    def _operator(self, text: str) -> bool:
        self._depth += (text in {"(", "["}) - (text in {")", "]"})
        if text in {";", "{", "}"}:
            self._may_write = False
        return text != ">" or not self._may_write or self._depth > 0


def _after_slash(program: str, at: int, before: str) -> int:
    """Return where what a slash begins ends: a division, or a pattern; -1 if it may be both."""
    if before in {"name", "number"}:
        return at + 1
    if before in {")", "]", "string", "++", "--", "$", "regex", "length"}:
        return -1 if "/" in program[at + 1 :] else at + 1
    match = _AWK_REGEX.match(program, at)
    return -1 if match is None or _opens_bracket(match[1]) else match.end()

"""Code that interpreters are given in their arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.shell.words import Word

# Files that are what comes in.
INPUT_FILE = re.compile(r"-|/dev/stdin|/dev/fd/[0-9]+|/proc/(?:self|thread-self|[0-9]+)/fd/[0-9]+")
_CODE_LONG = re.compile(
    r"--?(?:eval|print|command|execute|run|expression|ex|iex|cmd)(?:=(?P<value>.*))?", re.DOTALL
)
_VALUED_LONG = word_set(
    "--check-hash-based-pycs --import --loader --require --experimental-loader --conditions"
    " --env-file --input-type --title --icu-data-dir --disable-warning --stack-trace-limit"
)
_MODULE = re.compile(r"-[A-Zbdiqsuv]*m(?P<name>.*)", re.DOTALL)
# Modules that run their arguments, or what comes in.
_RUNNING_MODULES = word_set("timeit pdb code trace profile cProfile asyncio IPython bdb runpy")
# They carry out what comes in, whatever file they are given.
_EDITORS = word_set("ed ex vi vim nvim dc")
# Behind this option they go on with what comes in, whatever they have run.
_ASKING = word_set("python pypy node")
_INTERACTIVE = re.compile(r"-[A-Zbdqsuv]*i.*|--interactive")


class _Letters(NamedTuple):
    """Options of one letter: those that take code, and other values, attached or also apart."""

    code: str
    attached: str = ""
    apart: str = ""


_LETTERS: Mapping[str, _Letters] = {
    **dict.fromkeys(("python", "pypy", "ipython"), _Letters("c", apart="WX")),
    "perl": _Letters("eE", attached="MmFCDidx", apart="I"),
    "ruby": _Letters("er", attached="FKTWxi", apart="IC"),
    "node": _Letters("epr", apart="C"),
    "php": _Letters("rBRE", apart="dczSt"),
    "lua": _Letters("e", apart="l"),
}
_OTHERS = _Letters("ceEpr")


@dataclass(slots=True)
class InlineCode:
    """What an interpreter is given: texts that may be code, and its first other argument.

    Some surely are if `given`; what comes in is run if `reads_input`.
    """

    codes: list[str] = field(default_factory=list)
    operand: Word | None = None
    given: bool = False
    reads_input: bool = False


def bare_name(name: str) -> str:
    """Return the name of an interpreter without its version."""
    return name.rstrip("0123456789.") or name


def inline_code(name: str, words: Sequence[Word]) -> InlineCode:
    """Return what the words of an interpreter of that name give it to run."""
    found = InlineCode()
    kind = bare_name(name)
    position = 1
    while position < len(words):
        text = words[position].text
        if text[:1] not in {"-", "+"} or text == "-":
            break
        position += 1
        if text == "--":
            break
        following = words[position].text if position < len(words) else ""
        if not words[position - 1].exact:  # it may end in the letter that takes code
            found.codes.append(following)
        module = _MODULE.fullmatch(text) if kind in {"python", "pypy"} else None
        if module:
            if (module["name"] or following) in _RUNNING_MODULES:
                found.codes += [word.text for word in words[position:]]
                found.given = found.reads_input = True
            return found
        position += _note_option(text, following, _LETTERS.get(kind, _OTHERS), found)
    found.operand = words[position] if position < len(words) else None
    if found.operand is not None and not found.operand.exact:  # it may be an option that takes code
        found.codes += [word.text for word in words[position:]]
    if found.operand is not None and found.operand.text == "eval":  # of deno
        found.codes += [word.text for word in words[position + 1 :]]
    is_asking = kind in _ASKING and any(_INTERACTIVE.fullmatch(word.text) for word in words[1:])
    is_input = found.operand is None or INPUT_FILE.fullmatch(found.operand.text) is not None
    found.reads_input = is_asking or (is_input and not found.given) or kind in _EDITORS
    return found


def _note_option(text: str, following: str, letters: _Letters, found: InlineCode) -> int:
    """Note the code in an option; return how many words its value takes."""
    if text[0] == "+":
        found.codes.append(text[1:])
        return 0
    if match := _CODE_LONG.fullmatch(text):
        found.codes.append(match["value"] or following)
        found.given = True
        return 0 if match["value"] else 1
    if text.startswith("--"):
        found.codes.append(text)
        found.codes += [following] if text in _VALUED_LONG else []
        return int(text in _VALUED_LONG)
    for at, letter in enumerate(text[1:], start=2):
        if letter in letters.code:
            found.codes.append(text[at:] or following)
            found.given = True
            return 0 if text[at:] else 1
        if letter in letters.attached or letter in letters.apart:
            found.codes.append(text[at:])
            return int(letter in letters.apart and not text[at:])
    return 0

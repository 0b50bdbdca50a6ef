"""Finds the commands inside a command: what wrappers run, and the texts that shells read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.permissions.shell import sed
from prsm_core.permissions.shell.grammar import RESERVED, RefusedError
from prsm_core.permissions.shell.script import Assignment, Command
from prsm_core.permissions.shell.words import UNKNOWN, Word
from prsm_core.permissions.shell.wrappers import (
    CALLS,
    EVALUATES,
    FINDERS,
    HARMLESS_GIT_KEYS,
    INLINE,
    INTERPRETERS,
    LOOSE,
    LOOSE_AFTER,
    PROGRAM_VARIABLES,
    READERS,
    RUNNING_OPTION,
    RUNNING_SHORT,
    SHELLS,
    WRAPPERS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core.permissions.shell.wrappers import Wrapper

_MAX_LOOSE = 40  # words of a command that may stand anywhere among arguments
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SUBSTITUTES = re.compile(r"`|\$[({\[]")
_LOOKS_LIKE_CODE = re.compile(r"[\s;&|`$<>(]")


@dataclass(slots=True)
class Opened:
    """What is inside a command.

    `codes` are texts that a shell reads, `opaque` texts in another language that may start
    programs. `certain` says that `commands` is all there is, `reads_input` that what comes in is
    run as well, by a shell or, with `interprets`, as another language; `unresolved` says why it
    cannot be told which programs run.
    """

    commands: list[Command] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    opaque: list[str] = field(default_factory=list)
    unresolved: str | None = None
    certain: bool = True
    reads_input: bool = False
    interprets: bool = False

    def add_code(self, word: Word, reader: str) -> None:
        """Note a text that will be read as commands."""
        if not word.exact:
            self.unresolved = f"{reader} runs a text that is only known when it runs"
        if word.text:
            self.codes.append(word.text)


@dataclass(frozen=True, slots=True)
class ShellCall:
    """How a shell is called: with a text, with a file, or else it reads its input."""

    code: Word | None = None
    file: Word | None = None
    informs: bool = False
    only_checks: bool = False


def open_command(command: Command) -> Opened:
    """Return what a command runs beside its own program.

    Raises RefusedError when bash would not take it for one command.
    """
    opened = Opened()
    for each in command.assigned:
        if each.name in PROGRAM_VARIABLES:
            opened.add_code(each.value, each.name)
        elif "[" in each.name:
            opened.codes.append(each.name)
    if not command.words:
        return opened
    name = command.name
    if not name:
        opened.unresolved = "the name of a program is only known when it runs"
        _open_loose(command, opened)
    elif name in SHELLS:
        _open_shell(command, opened)
    elif name in WRAPPERS:
        _open_wrapper(command, WRAPPERS[name], opened)
    elif name in LOOSE:
        _open_loose(command, opened)
    else:
        _open_other(name, command, opened)
    opened.reads_input = opened.reads_input or name in READERS
    return opened


def shell_call(words: Sequence[Word]) -> ShellCall:
    """Return how a shell is called by its words."""
    takes_code = reads_input = checks = False
    position = 1
    while position < len(words):
        text = words[position].text
        if not words[position].exact or text[:1] not in {"-", "+"} or len(text) < 2:
            break
        position += 1
        if text == "--":
            break
        if text in {"--version", "--help"}:
            return ShellCall(informs=True)
        if text in {"--rcfile", "--init-file"}:
            position += 1
        elif not text.startswith("--"):
            takes_code = takes_code or (text[0] == "-" and "c" in text)
            reads_input = reads_input or "s" in text
            checks = checks or (text[0] == "-" and "n" in text)
            position += 1 if text[-1] in "oO" else 0
    operand = words[position] if position < len(words) else None
    if takes_code:
        return ShellCall(code=operand or UNKNOWN)
    file = None if reads_input or operand is None or operand.text == "-" else operand
    return ShellCall(file=file, only_checks=checks)


def _open_shell(command: Command, opened: Opened) -> None:
    call = shell_call(command.words)
    if call.code is not None:
        opened.add_code(call.code, command.name)
    elif call.file is not None:
        if not call.file.exact:
            opened.unresolved = f"{command.name} runs a file that is only known when it runs"
    elif not call.informs:
        opened.reads_input = True


# Wrappers.


def _open_wrapper(command: Command, rules: Wrapper, opened: Opened) -> None:
    words = command.words
    if command.name == "command" and len(words) > 1 and words[1].text in {"-v", "-V"}:
        return
    options, position = _options(words, rules, opened)
    if position is None:
        opened.certain = False
        _open_loose(command, opened)
        return
    while command.name == "time" and [word.text for word in words[position : position + 1]] == [
        "!"
    ]:
        position += 1
    assigned: list[Assignment] = []
    while rules.assigns and position < len(words) and _ASSIGNMENT.match(words[position].text):
        name, _, value = words[position].text.partition("=")
        assigned.append(Assignment(name, replace(words[position], text=value)))
        position += 1
    rest = words[position:]
    if command.name == "flock" and rest and rest[0].text in {"-c", "--command"}:
        opened.add_code(rest[1] if len(rest) > 1 else UNKNOWN, "flock")
        return
    if command.name == "xargs":
        rest = _filled(rest, options)
    if command.name == "time" and rest and rest[0].text in RESERVED:
        raise RefusedError(f"{rest[0].text!r} stands where a program should")
    if rest:
        opened.commands.append(_inner(command, rest, assigned))


def _options(
    words: Sequence[Word], rules: Wrapper, opened: Opened
) -> tuple[dict[str, Word], int | None]:
    """Return a wrapper's options and where its command begins, None if that is not sure."""
    options: dict[str, Word] = {}
    position = 1
    while position < len(words) and words[position].text.startswith("-"):
        word = words[position]
        position += 1
        if word.text == "--":
            break
        if not word.known or word.text == "-":
            return options, None
        taken = _option(word, words[position : position + 1], rules, options, opened)
        if taken is None:
            return options, None
        position += taken
    operands = words[position : position + rules.operands]
    if not all(word.exact for word in operands):
        return options, None
    return options, position + rules.operands


def _option(
    word: Word,
    following: Sequence[Word],
    rules: Wrapper,
    options: dict[str, Word],
    opened: Opened,
) -> int | None:
    """Take one word of options; return how many words its value takes, None if unknown."""
    if word.text.startswith("--"):
        name, equals, value = word.text[2:].partition("=")
        if name == "split-string":
            opened.add_code(Word(value) if equals else (*following, UNKNOWN)[0], "env")
        if equals:
            options[name] = Word(value)
            return 0 if f"{name}=" in rules.long or name == "preserve-env" else None
        if f"{name}=" in rules.long and name != "replace":
            options[name] = (*following, UNKNOWN)[0]
            return 1
        options[name] = Word("")
        return 0 if name in rules.long or name == "replace" else None
    if word.text[1:].isdigit() and "n" in rules.valued and not rules.operands:
        return 0  # nice -5
    for at, letter in enumerate(word.text[1:], start=2):
        if letter in rules.valued + rules.code:
            attached = word.text[at:]
            value_word = Word(attached) if attached else (*following, UNKNOWN)[0]
            options[letter] = value_word
            if letter in rules.code:
                opened.add_code(value_word, "env")
            return 0 if attached else 1
        if letter not in rules.flags:
            return None
        options[letter] = Word("")
    return 0


def _filled(rest: Sequence[Word], options: Mapping[str, Word]) -> tuple[Word, ...]:
    """Return the command of xargs with what it adds, which nobody knows yet."""
    if not rest:
        return ()
    marks = [options[name].text or "{}" for name in ("I", "replace") if name in options]
    if not marks:
        return (*rest, UNKNOWN)
    return tuple(replace(word, exact=word.exact and marks[0] not in word.text) for word in rest)


def _inner(command: Command, words: Sequence[Word], assigned: Sequence[Assignment] = ()) -> Command:
    return Command(
        tuple(words),
        (*command.assigned, *assigned),
        command.reads,
        (),
        command.feeds,
        piped=command.piped,
        via=command.name or "?",
    )


def _open_loose(command: Command, opened: Opened, start: int = 1) -> None:
    """Take every argument for the beginning of a command, or for a text that a shell reads."""
    words = command.words
    opened.certain = False
    if len(words) - start > _MAX_LOOSE:
        opened.unresolved = f"{command.name} may run any of its many arguments"
        opened.opaque.append(" ".join(command.texts[start:]))
        return
    for position in range(start, len(words)):
        text = words[position].text
        if text and not text.startswith("-") and not _ASSIGNMENT.match(text):
            opened.commands.append(_inner(command, words[position:]))
        if _LOOKS_LIKE_CODE.search(text):
            opened.codes.append(text)
        if "=" in text:
            opened.codes.append(text.partition("=")[2])


# Other programs.


def _open_other(name: str, command: Command, opened: Opened) -> None:
    words = command.words
    if name in _SPECIAL:
        _SPECIAL[name](command, opened)
    triggers = LOOSE_AFTER.get(name)
    if triggers is not None:
        start = next((at for at, word in enumerate(words) if word.text in triggers), None)
        if start is not None:
            _open_loose(command, opened, start + 1)
    if name in EVALUATES:
        opened.codes += [word.text for word in words[1:] if _SUBSTITUTES.search(word.text)]
    runs = INTERPRETERS.get(name.rstrip("0123456789.") or name) or INTERPRETERS.get(name)
    if runs is not None:
        codes = _inline_codes(words) if runs is CALLS else [word.text for word in words[1:]]
        opened.opaque += filter(runs.search, codes)
        # With a file of their own, what comes in is data.
        reads = runs is CALLS and all(word.text.startswith("-") for word in words[1:])
        opened.reads_input = opened.interprets = reads
        if len(words) > 3 and words[1].text == "-m":
            opened.commands.append(_inner(command, words[2:]))
    if name not in FINDERS:
        _open_running_options(name, words, opened)


def _inline_codes(words: Sequence[Word]) -> list[str]:
    """Return the texts that an interpreter is given to run, up to its file if it has one."""
    codes: list[str] = []
    is_code = False
    for word in words[1:]:
        if is_code:
            codes.append(word.text)
            is_code = False
        elif match := INLINE.fullmatch(word.text):
            codes.append(match["value"] or "")
            is_code = not match["value"]
        elif not word.text.startswith(("-", "+")):
            break
    return codes


def _open_running_options(name: str, words: Sequence[Word], opened: Opened) -> None:
    short = RUNNING_SHORT.get(name, "")
    for position, word in enumerate(words[1:], start=1):
        if word.text[:1] != "-":
            continue
        match = RUNNING_OPTION.fullmatch(word.text)
        if match and match["value"] is not None:
            opened.codes.append(match["value"].removeprefix("exec="))
        elif (match or word.text == short) and position + 1 < len(words):
            opened.add_code(words[position + 1], name)
        elif short and word.text.startswith(short):
            opened.codes.append(word.text[2:])


def _eval(command: Command, opened: Opened) -> None:
    words = command.words[1:]
    text = " ".join(word.text for word in words)
    opened.add_code(Word(text, exact=all(word.known for word in words)), "eval")


def _trap(command: Command, opened: Opened) -> None:
    for word in command.words[1:2]:
        if word.text not in {"-p", "-l", "-", "--"}:
            opened.add_code(word, "trap")
    if len(command.words) > 2 and command.words[1].text == "--":
        opened.add_code(command.words[2], "trap")


def _alias(command: Command, opened: Opened) -> None:
    for word in command.words[1:]:
        if "=" in word.text or not word.exact:
            opened.add_code(replace(word, text=word.text.partition("=")[2]), "alias")


def _callback(command: Command, opened: Opened) -> None:
    """Take the values of -C and -x: mapfile, complete, bind."""
    for before, word in zip(command.words[1:], command.words[2:], strict=False):
        if before.text in {"-C", "-x", "-F"}:
            opened.add_code(replace(word, text=word.text.rpartition('":')[2]), command.name)


def _source(command: Command, opened: Opened) -> None:
    for word in command.words[1:2]:
        if not word.exact:
            opened.unresolved = "a file that is only known when it runs is read as commands"


def _find(command: Command, opened: Opened) -> None:
    words, triggers = command.words, FINDERS[command.name]
    position = 1
    while position < len(words):
        name, equals, value = words[position].text.partition("=")
        position += 1
        if name not in triggers:
            continue
        if equals:
            opened.codes.append(value)
            continue
        end = position
        while end < len(words) and words[end].text not in {";", "+"}:
            end += 1
        rest = [
            replace(word, exact=word.exact and "{" not in word.text) for word in words[position:end]
        ]
        if rest:
            opened.commands.append(_inner(command, (*rest, UNKNOWN)))
        position = end


def _git(command: Command, opened: Opened) -> None:
    texts = command.texts
    runs_text = {"-c", "--config"} | ({"-x"} if {"rebase", "difftool"} & set(texts) else set())
    for before, word in pairwise(command.words):
        if before.text in runs_text:
            key, equals, value = word.text.partition("=")
            if not equals:
                opened.add_code(word, "git")
            elif not key.lower().startswith(HARMLESS_GIT_KEYS):
                opened.add_code(replace(word, text=value.removeprefix("!")), "git")
        opened.codes += _git_codes(word.text)
    if "config" in texts:
        opened.codes += [text.removeprefix("!") for text in texts[2:] if text.startswith("!")]
        if not any(text.lower().startswith(HARMLESS_GIT_KEYS) for text in texts):
            opened.codes.append(texts[-1])
    if {"foreach", "filter-branch"} & set(texts):
        opened.codes += [text for text in texts if _LOOKS_LIKE_CODE.search(text)]


def _git_codes(text: str) -> list[str]:
    """Return what an argument of git lets run: a transport helper, or an option's value."""
    if text.startswith("-O"):
        return [text[2:]]
    if text.startswith(("--upl", "--rec", "--exe", "--ext", "--open")):
        return [text.partition("=")[2]]
    return [text.partition("::")[2]] if "::" in text else []


def _make(command: Command, opened: Opened) -> None:
    for word in command.words[1:]:
        if "=" in word.text:
            opened.codes.append(word.text.partition("=")[2])


def _sed(command: Command, opened: Opened) -> None:
    opened.opaque += filter(sed.may_run, sed.scripts_of(command.texts[1:]))


_SPECIAL: Mapping[str, Callable[[Command, Opened], None]] = {
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    **dict.fromkeys(("mapfile", "readarray", "complete", "compgen", "bind"), _callback),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(FINDERS, _find),
    "git": _git,
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("make", "gmake"), _make),
}

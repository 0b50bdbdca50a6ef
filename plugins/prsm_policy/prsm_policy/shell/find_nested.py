"""Finds the commands inside a command: what shells read, what wrappers run."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from posixpath import normpath
from typing import TYPE_CHECKING

from prsm_policy.shell.grammar import RESERVED, RefusedError
from prsm_policy.shell.nested import ASSIGNMENT, Nested, nested_command, note_any_argument
from prsm_policy.shell.program_arguments import note_program_arguments, ungnu
from prsm_policy.shell.script import Assignment
from prsm_policy.shell.words import UNKNOWN, Word
from prsm_policy.shell.wrappers import LOADER, LOOSE, PROGRAM_VARIABLES, READERS, SHELLS, WRAPPERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.shell.script import Command
    from prsm_policy.shell.wrappers import Wrapper

# Of shells that are no descendants of sh.
_LONG_CODE = frozenset({"--command", "--commands", "--init-command", "--execute"})
_KERNELS = ("/proc/", "/dev/")
# env takes anything before the sign.
_ENTRY = re.compile(r"[^=]+=", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ShellCall:
    """How a shell is called: with a text, with a file, or else it reads its input."""

    code: Word | None = None
    file: Word | None = None
    informs: bool = False
    only_checks: bool = False


def find_nested(command: Command) -> Nested:
    """Return what a command runs beside its own program.

    Raises RefusedError when bash would not take it for one command.
    """
    nested = Nested()
    for each in command.assigned:
        _note_assignment(each, nested)
    if not command.words:
        return nested
    name = ungnu(command.name)
    if not name:
        nested.unresolved = "the name of a program is only known when it runs"
        note_any_argument(command, nested)
    elif _is_kernels(command.words[0].text):
        nested.unresolved = f"{command.words[0].text!r} may be any program"
        _note_shell(command, nested)
        note_any_argument(command, nested)
    elif name in SHELLS:
        _note_shell(command, nested)
    elif name in WRAPPERS:
        _note_wrapper(name, command, nested)
    elif name in LOOSE or LOADER.fullmatch(name):
        note_any_argument(command, nested)
    else:
        note_program_arguments(name, command, nested)
    nested.reads_input = nested.reads_input or name in READERS
    return nested


def _is_kernels(program: str) -> bool:
    """Return whether a program is a name of the kernel's for a running program or an open file."""
    parts = [part for part in program.split("/") if part not in {"", "."}]
    if program.startswith("/"):
        return normpath(f"/{'/'.join(parts)}").startswith(_KERNELS)
    return ".." in parts and not {"proc", "dev"}.isdisjoint(parts)


def _note_assignment(each: Assignment, nested: Nested) -> None:
    name, bracket, _ = each.name.partition("[")
    if bracket:
        nested.codes.append(each.name)
    if name in PROGRAM_VARIABLES:
        nested.add_code(each.value, name)
        nested.add_file(each.value, name)
    elif name.startswith("BASH_FUNC_"):
        nested.add_code(replace(each.value, text=f"f{each.value.text}"), name)
    elif name.startswith("GIT_CONFIG_"):
        nested.add_code(replace(each.value, text=each.value.text.removeprefix("!")), name)


def shell_call(words: Sequence[Word]) -> ShellCall:
    """Return how a shell is called by its words."""
    takes_code = reads_input = checks = False
    start_file = None
    position = 1
    while position < len(words):
        text = words[position].text
        if not words[position].exact and not takes_code:
            # It may hold the letter that makes the next word code.
            following = words[position + 1] if position + 1 < len(words) else UNKNOWN
            return ShellCall(code=replace(following, exact=False), file=words[position])
        if text[:1] not in {"-", "+"}:
            break
        position += 1
        if text in {"-", "--"}:
            break
        if text in {"--version", "--help"}:
            return ShellCall(informs=True)
        name, equals, value = text.partition("=")
        if name in _LONG_CODE:
            following = words[position] if position < len(words) else UNKNOWN
            return ShellCall(code=replace(words[position - 1], text=value) if equals else following)
        if text in {"--rcfile", "--init-file"}:
            start_file = words[position] if position < len(words) else UNKNOWN
            position += 1
        elif not text.startswith("--"):
            takes_code = takes_code or (text[0] == "-" and "c" in text)
            reads_input = reads_input or "s" in text
            checks = checks or (text[0] == "-" and "n" in text)
            position += text.count("o") + text.count("O")
    operand = words[position] if position < len(words) else None
    if takes_code:
        return ShellCall(code=operand or UNKNOWN, file=start_file)
    file = None if reads_input else operand
    return ShellCall(file=file or start_file, only_checks=checks)


def _note_shell(command: Command, nested: Nested) -> None:
    call = shell_call(command.words)
    if call.code is not None:
        nested.add_code(call.code, command.name)
    if call.file is not None:
        nested.add_file(call.file, command.name)
    elif call.code is None and not call.informs:
        nested.reads_input = True


def _note_wrapper(name: str, command: Command, nested: Nested) -> None:
    words, rules = command.words, WRAPPERS[name]
    if name == "command" and len(words) > 1 and words[1].text in {"-v", "-V"}:
        return
    options, position = _options(words, rules, nested)
    if position is None:
        nested.certain = False
        note_any_argument(command, nested)
        return
    while name == "time" and position < len(words) and words[position].text == "!":
        position += 1
    assigned, rest = _assigned(name, words[position:]) if rules.assigns else ([], words[position:])
    if name == "flock" and rest and rest[0].text in {"-c", "--command"}:
        nested.add_code(rest[1] if len(rest) > 1 else UNKNOWN, "flock")
        return
    if name == "xargs":
        rest = _filled(rest, options)
    if name == "time" and rest and rest[0].text in RESERVED:
        raise RefusedError(f"{rest[0].text!r} stands where a program should")
    if rest:
        nested.commands.append(nested_command(command, rest, assigned))


def _assigned(name: str, words: Sequence[Word]) -> tuple[list[Assignment], Sequence[Word]]:
    """Return the variables that a wrapper sets, and the words behind them."""
    pattern = ASSIGNMENT if name == "time" else _ENTRY
    assigned: list[Assignment] = []
    for position, word in enumerate(words):
        if not pattern.match(word.text):
            return assigned, words[position:]
        variable, _, value = word.text.partition("=")
        assigned.append(Assignment(variable, replace(word, text=value)))
    return assigned, ()


def _options(
    words: Sequence[Word], rules: Wrapper, nested: Nested
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
            if not word.exact and word.text[1:2] not in frozenset(rules.valued):
                nested.doubtful = "an option of a wrapper is only known when it runs"
            return options, None
        taken = _option(word, words[position : position + 1], rules, options, nested)
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
    nested: Nested,
) -> int | None:
    """Take one word of options; return how many words its value takes, None if unknown."""
    if word.text.startswith("--"):
        name, equals, value = word.text[2:].partition("=")
        if name == "split-string":
            _split(Word(value) if equals else (*following, UNKNOWN)[0], nested)
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
                _split(value_word, nested)
            return 0 if attached else 1
        if letter not in rules.flags:
            return None
        options[letter] = Word("")
    return 0


def _split(word: Word, nested: Nested) -> None:
    """Note what env takes apart by rules of its own: options and variables come first."""
    text = word.text.replace("\\_", " ")
    is_plain = word.exact and "\\" not in word.text and "$" not in word.text
    nested.add_code(Word(f"env {text}", exact=is_plain), "env")


def _filled(rest: Sequence[Word], options: Mapping[str, Word]) -> tuple[Word, ...]:
    """Return the command of xargs with what it adds, which nobody knows yet."""
    if not rest:
        return ()
    marks = [options[name].text or "{}" for name in ("I", "replace") if name in options]
    if not marks:
        return (*rest, UNKNOWN)
    return tuple(replace(word, exact=word.exact and marks[0] not in word.text) for word in rest)

"""Finds the commands inside a command: what shells read, what wrappers run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import dropwhile, pairwise, takewhile
from posixpath import normpath
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell import awk, sed, wrappers
from prsm_policy.shell.data_shells import DATA_SHELLS, acts_of
from prsm_policy.shell.grammar import RESERVED, RefusedError
from prsm_policy.shell.inline import INPUT_FILE, bare_name, inline_code
from prsm_policy.shell.runners import LOOKS_LIKE_CODE, told
from prsm_policy.shell.script import Assignment, Command
from prsm_policy.shell.words import UNKNOWN, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_policy.shell.runners import Told
    from prsm_policy.shell.wrappers import Wrapper

_MAX_LOOSE = 40  # words of a command that may stand anywhere among arguments
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# An option of one letter with its value: su -crm.
_ATTACHED = re.compile(r"-[A-Za-z]([A-Za-z/].*)", re.DOTALL)
# A command line behind a word of the program's own: a setting of ssh, an address of socat, what a
# debugger or a pager passes to a shell.
OWN_WORD = re.compile(
    r"(?:(?:-o)?\w*Command[\s=]+|(?:EXEC|SYSTEM|SHELL):|\+?!|(?:platform )?shell\s+|pipe\s[^|]*\|)"
    r"(?P<value>.*)",
    re.DOTALL | re.IGNORECASE,
)
# Of shells that are no descendants of sh.
_LONG_CODE = frozenset({"--command", "--commands", "--init-command", "--execute"})
_KERNELS = ("/proc/", "/dev/")
# env takes anything before the sign.
_ENTRY = re.compile(r"[^=]+=", re.DOTALL)
_MAKE_CODE = re.compile(r"(?:-[A-Za-z]*?E|--eval=?)(.*)", re.DOTALL)
_MAKE_FILE = re.compile(r"(?:-[A-Za-z]*?f|--(?:file|makefile)=?)(.*)", re.DOTALL)
_GIT_RUNS = ("--upl", "--rec", "--exe", "--ext", "--open")
_GIT_RUNS_NEXT = ("--upl", "--rece", "--exe", "--extc")
_CALLBACK = re.compile(r"-[A-Za-z]*?[CFx](?P<value>.*)", re.DOTALL)
_OWN_WORDS = word_set("scp sftp less more lldb")
# Of fd, whose option of one letter may stand behind others, with the program attached.
_ATTACHED_RUN = re.compile(r"-[HIaLlpgsiF0u1]*[xX](?P<value>.*)", re.DOTALL)
_MAKES_OPTIONS = re.compile(r"\{(?:[^}]*,)?-")
_AWK_VALUED = word_set("-F -v -l -i --assign --field-separator")


@dataclass(slots=True)
class Nested:
    """What is inside a command.

    A shell reads `codes`; `opaque` texts in another language may start programs. If it is
    `certain`, `commands` are all there is. What comes in is run if it `reads_input`, as another
    language if it `interprets`. `unresolved` says why programs cannot be told, `doubtful` why
    others might run.
    """

    commands: list[Command] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    opaque: list[str] = field(default_factory=list)
    unresolved: str | None = None
    doubtful: str | None = None
    certain: bool = True
    reads_input: bool = False
    interprets: bool = False

    def add_code(self, word: Word, reader: str) -> None:
        """Note a text that will be read as commands."""
        if not word.exact:
            self.unresolved = f"{reader} runs a text that is only known when it runs"
        if word.text:
            self.codes.append(word.text)

    def add_file(self, word: Word, reader: str) -> None:
        """Note a file that will be read as commands."""
        if not word.exact:
            self.unresolved = f"{reader} runs a file that is only known when it runs"
            self.reads_input = True  # it may stand for what a command writes
        elif INPUT_FILE.fullmatch(word.text):
            self.reads_input = True


def _nested_command(
    command: Command, words: Sequence[Word], assigned: Sequence[Assignment] = ()
) -> Command:
    return Command(
        tuple(words),
        (*command.assigned, *assigned),
        command.reads,
        (),
        command.feeds,
        piped=command.piped,
        via=command.name or "?",
    )


def _note_any_argument(command: Command, nested: Nested, start: int = 1) -> None:
    """Take every argument for the beginning of a command, or for a text that a shell reads."""
    words = command.words
    nested.certain = False
    if len(words) - start > _MAX_LOOSE:
        nested.unresolved = f"{command.name} may run any of its many arguments"
        nested.opaque.append(" ".join(command.texts[start:]))
        return
    for position in range(start, len(words)):
        text = words[position].text
        if text and not text.startswith("-") and not ASSIGNMENT.match(text):
            nested.commands.append(_nested_command(command, words[position:]))
        if LOOKS_LIKE_CODE.search(text):
            nested.codes.append(text)
        if "=" in text:
            nested.codes.append(text.partition("=")[2])
        if attached := _ATTACHED.fullmatch(text):
            nested.codes.append(attached[1])
        _note_own_word(text, nested)


def _note_own_word(text: str, nested: Nested) -> None:
    """Note the command line in an argument that begins with a word of the program's own."""
    if found := OWN_WORD.fullmatch(text):
        nested.codes.append(found["value"])


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
        _note_any_argument(command, nested)
    elif _is_kernels(command.words[0].text):
        nested.unresolved = f"{command.words[0].text!r} may be any program"
        _note_shell(command, nested)
        _note_any_argument(command, nested)
    elif name in wrappers.SHELLS:
        _note_shell(command, nested)
    elif name in wrappers.WRAPPERS:
        _note_wrapper(name, command, nested)
    elif name in wrappers.LOOSE or wrappers.LOADER.fullmatch(name):
        _note_any_argument(command, nested)
    else:
        _note_program_arguments(name, command, nested)
    nested.reads_input = nested.reads_input or name in wrappers.READERS
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
    if name in wrappers.PROGRAM_VARIABLES:
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
    words, rules = command.words, wrappers.WRAPPERS[name]
    if name == "command" and len(words) > 1 and words[1].text in {"-v", "-V"}:
        return
    options, rest = _options(words, rules, nested)
    if rest is None:
        _note_any_argument(command, nested)
        return
    if name == "time":
        rest = list(dropwhile(lambda word: word.text == "!", rest))
    assigned = _assigned(name, rest) if rules.assigns else []
    rest = rest[len(assigned) :]
    if name == "flock" and rest and rest[0].text in {"-c", "--command"}:
        nested.add_code(rest[1] if len(rest) > 1 else UNKNOWN, "flock")
        return
    if name == "xargs":
        rest = list(_filled(rest, options))
    if name == "time" and rest and rest[0].text in RESERVED:
        raise RefusedError(f"{rest[0].text!r} stands where a program should")
    if rest:
        nested.commands.append(_nested_command(command, rest, assigned))


def _assigned(name: str, words: Sequence[Word]) -> list[Assignment]:
    pattern = ASSIGNMENT if name == "time" else _ENTRY
    parts = (
        (word, *word.text.partition("="))
        for word in takewhile(lambda word: pattern.match(word.text), words)
    )
    return [Assignment(name, replace(word, text=value)) for word, name, _, value in parts]


def _options(
    words: Sequence[Word], rules: Wrapper, nested: Nested
) -> tuple[dict[str, Word], list[Word] | None]:
    """Return a wrapper's options and the words of its command, None if that is not sure."""
    options: dict[str, Word] = {}
    rest = list(words[1:])
    while rest and rest[0].text.startswith("-"):
        word = rest.pop(0)
        if word.text == "--":
            break
        if not word.known or word.text == "-":
            if not word.exact and word.text[1:2] not in frozenset(rules.valued):
                nested.doubtful = "an option of a wrapper is only known when it runs"
            return options, None
        if not _take_option(word, rest, rules, options, nested):
            return options, None
    if not all(word.exact for word in rest[: rules.operands]):
        return options, None
    return options, rest[rules.operands :]


def _take_option(
    word: Word, rest: list[Word], rules: Wrapper, options: dict[str, Word], nested: Nested
) -> bool:
    """Take one word of options, and the value behind it; return whether it is known."""
    if word.text.startswith("--"):
        return _take_long_option(word, rest, rules, options, nested)
    if word.text[1:].isdigit() and "n" in rules.valued and not rules.operands:
        return True  # nice -5
    for at, letter in enumerate(word.text[1:], start=2):
        if letter in rules.valued + rules.code:
            attached = word.text[at:]
            options[letter] = Word(attached) if attached else rest.pop(0) if rest else UNKNOWN
            if letter in rules.code:
                _split(options[letter], nested)
            return True
        if letter not in rules.flags:
            return False
        options[letter] = Word("")
    return True


def _take_long_option(
    word: Word, rest: list[Word], rules: Wrapper, options: dict[str, Word], nested: Nested
) -> bool:
    name, equals, value = word.text[2:].partition("=")
    takes_value = f"{name}=" in rules.long
    if not equals and takes_value and name != "replace":
        options[name] = rest.pop(0) if rest else UNKNOWN
    else:
        options[name] = Word(value)
    if name == "split-string":
        _split(options[name], nested)
    is_flag = name == "preserve-env" if equals else name in rules.long
    return takes_value or is_flag


def _split(word: Word, nested: Nested) -> None:
    """Note what env takes apart by rules of its own: options and variables come first."""
    text = word.text.replace("\\_", " ")
    is_plain = word.exact and "\\" not in word.text and "$" not in word.text
    nested.add_code(Word(f"env {text}", exact=is_plain), "env")


def _filled(rest: Sequence[Word], options: Mapping[str, Word]) -> Sequence[Word]:
    """Return the command of xargs with what it adds, which nobody knows yet."""
    marks = [options[name].text or "{}" for name in ("I", "replace") if name in options]
    if not marks:
        return (*rest, UNKNOWN) if rest else ()
    return [replace(word, exact=word.exact and marks[0] not in word.text) for word in rest]


def _note_program_arguments(name: str, command: Command, nested: Nested) -> None:
    words = command.words
    if name in _SPECIAL:
        _SPECIAL[name](command, nested)
    _note_behind(name, command, nested)
    if any(map(may_make_options, words)):
        nested.doubtful = f"braces make options of {name}"
    if name in _OWN_WORDS:
        for word in words[1:]:
            _note_own_word(word.text, nested)
    if name in wrappers.EVALUATES:
        nested.codes += [word.text for word in words[1:] if wrappers.SUBSTITUTES.search(word.text)]
    if name in DATA_SHELLS:
        _note_data_shell(name, command, nested)
    runs = wrappers.INTERPRETERS.get(bare_name(name)) or wrappers.INTERPRETERS.get(name)
    if runs is not None:
        _note_interpreter(name, runs, command, nested)
    if name not in wrappers.FINDERS:
        _note_running_options(name, words, nested)
    for each in told(name, words):
        _note_told(each, nested, is_interpreter=runs is not None)


def _note_behind(name: str, command: Command, nested: Nested) -> None:
    """Take what stands behind one of a program's words for a command."""
    triggers = wrappers.LOOSE_AFTER.get(name, ())
    start = next((at for at, text in enumerate(command.texts, 1) if text in triggers), None)
    if start is not None:
        _note_any_argument(command, nested, start)


def _note_told(each: Told, nested: Nested, *, is_interpreter: bool) -> None:
    if each.is_command:
        nested.add_code(Word(each.text, exact=each.exact), each.option)
    elif wrappers.CALLS.search(each.text):
        nested.opaque.append(each.text)
    elif not is_interpreter:  # whose code is looked at already
        nested.doubtful = "it runs code in another language"


def _note_interpreter(name: str, runs: re.Pattern[str], command: Command, nested: Nested) -> None:
    words = command.words
    if runs is wrappers.CALLS:
        inline = inline_code(name, words)
        codes, reads = inline.codes, inline.reads_input
        may_run: Callable[[str], object] = runs.search
        # perl opens an argument with a pipe at either end as one.
        nested.opaque += [text for text in command.texts[1:] if "|" in {text[:1], text[-1:]}]
    else:
        codes, reads = [word.text for word in words[1:]], False
        may_run = awk.may_run
    if any(map(may_run, codes)):
        # It may get from any argument what it runs.
        nested.opaque.append(" ".join(command.texts[1:]))
    nested.reads_input = nested.interprets = reads
    if len(words) > 3 and words[1].text == "-m":
        nested.commands.append(_nested_command(command, words[2:]))


def _note_data_shell(name: str, command: Command, nested: Nested) -> None:
    nested.reads_input = nested.interprets = True
    for act in acts_of(name, command.words[1:], command.feeds):
        nested.opaque.append(act.text)
        if act.command:
            nested.codes.append(act.command)


def _note_running_options(name: str, words: Sequence[Word], nested: Nested) -> None:
    short, long = wrappers.RUNNING_SHORT.get(name, ""), wrappers.RUNNING_LONG.get(name, ())
    for position, word in enumerate(words[1:], start=1):
        text = word.text
        if text[:1] != "-" and not (position == 1 and name.endswith("tar")):
            continue
        if len(text) < 3 and not short:
            continue
        following = words[position + 1] if position + 1 < len(words) else None
        option, equals, value = text.partition("=")
        match = wrappers.RUNNING_OPTION.fullmatch(text)
        if match or (long and any(len(option) > 2 and it.startswith(option) for it in long)):
            if equals:
                nested.codes.append(value.removeprefix("exec="))
            elif following is not None:
                split = following.text.replace(",", " ") if option == "-wrapper" else following.text
                nested.add_code(replace(following, text=split.removeprefix("exec=")), name)
        elif short and text[:2] != "--":
            _note_short(text, short, words[position + 1 :], nested)


def _note_short(text: str, short: str, rest: Sequence[Word], nested: Nested) -> None:
    """Take what options of one letter run: it is attached, or one of the words behind them."""
    found = [at for at, letter in enumerate(text) if letter in short]
    if found and text[0] == "-":
        attached = text[found[0] + 1 :]
        nested.codes += [attached] if attached else [word.text for word in rest[:1]]
    elif found:  # old style: all letters first, then their values
        nested.codes += [word.text for word in rest[: len(text)]]


def _eval(command: Command, nested: Nested) -> None:
    words = command.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    text = " ".join(word.text for word in words)
    nested.add_code(Word(text, exact=all(word.known for word in words)), "eval")


def _trap(command: Command, nested: Nested) -> None:
    for word in command.words[1:2]:
        if word.text not in {"-p", "-l", "-", "--"}:
            nested.add_code(word, "trap")
    if len(command.words) > 2 and command.words[1].text == "--":
        nested.add_code(command.words[2], "trap")


def _alias(command: Command, nested: Nested) -> None:
    for word in command.words[1:]:
        if "=" in word.text or not word.exact:
            nested.add_code(replace(word, text=word.text.partition("=")[2]), "alias")


def _callback(command: Command, nested: Nested) -> None:
    """Take the values of -C, -F and -x: mapfile, complete, bind; they may be attached."""
    for before, word in pairwise((*command.words, Word(""))):
        match = _CALLBACK.fullmatch(before.text)
        if match is None:
            continue
        given = replace(before, text=match["value"]) if match["value"] else word
        nested.add_code(replace(given, text=given.text.rpartition('":')[2]), command.name)


def _source(command: Command, nested: Nested) -> None:
    if len(command.words) > 1:
        nested.add_file(command.words[1], command.name)


def _hash(command: Command, nested: Nested) -> None:
    """Take the program that a name is to stand for."""
    for before, word in pairwise(command.words):
        if before.text.startswith("-") and before.text.endswith("p"):
            nested.add_code(word, "hash")


def ungnu(name: str) -> str:
    """Return the name of a program without what some systems put before it."""
    return name[1:] if name in wrappers.GNU_NAMES else name


def _find(command: Command, nested: Nested) -> None:
    words, triggers = command.words, wrappers.FINDERS[ungnu(command.name)]
    if any(map(_may_be_several, words[1:])):
        nested.doubtful = f"{command.name} may be told to run a program"
    position = 1
    while position < len(words):
        name, equals, value = words[position].text.partition("=")
        attached = _ATTACHED_RUN.fullmatch(words[position].text) if "-x" in triggers else None
        position += 1
        if name not in triggers and attached is None:
            continue
        if equals and name in triggers:
            nested.codes.append(value)
            continue
        first: tuple[Word, ...] = ()
        if attached is not None and attached["value"]:
            first = (replace(words[position - 1], text=attached["value"].removeprefix("=")),)
        end = position
        while end < len(words) and words[end].text not in {";", "+"}:
            end += 1
        rest = [
            replace(word, exact=word.exact and "{" not in word.text)
            for word in (*first, *words[position:end])
        ]
        if rest:
            nested.commands.append(_nested_command(command, (*rest, UNKNOWN)))
        position = end


def _may_be_several(word: Word) -> bool:
    """Return whether the shell may make several words of one, options among them."""
    is_split = (word.glob and not word.text) or word.text.startswith("-")
    return not word.exact and (is_split or may_make_options(word))


def may_make_options(word: Word) -> bool:
    """Return whether braces in a word become options."""
    return not word.exact and _MAKES_OPTIONS.search(word.text) is not None


def _git(command: Command, nested: Nested) -> None:
    texts = command.texts
    runs_text = {"-c", "--config"} | {
        option
        for option, names in (("-x", {"rebase", "difftool"}), ("-u", {"clone"}))
        if names & set(texts)
    }
    if any(text.startswith("--config-env") for text in texts):
        nested.codes += [each.value.text.removeprefix("!") for each in command.assigned]
    for before, word in pairwise(command.words):
        if before.text in runs_text:
            key, equals, value = word.text.partition("=")
            if not equals:
                nested.add_code(word, "git")
            elif not key.lower().startswith(wrappers.HARMLESS_GIT_KEYS):
                nested.add_code(replace(word, text=value.removeprefix("!")), "git")
        nested.codes += _git_codes(before.text, word.text)
        if word.text[:2] in runs_text and word.text[:2] != "-c":
            nested.codes.append(word.text[2:])
    if "config" in texts:
        nested.codes += [text.removeprefix("!") for text in texts[2:] if text.startswith("!")]
        if not any(text.lower().startswith(wrappers.HARMLESS_GIT_KEYS) for text in texts):
            nested.codes.append(texts[-1])
    if {"foreach", "filter-branch"} & set(texts):
        nested.codes += [text for text in texts if LOOKS_LIKE_CODE.search(text)]


def _git_codes(before: str, text: str) -> list[str]:
    """Return what an argument of git lets run: a transport helper, or an option's value."""
    if text.startswith("-O"):
        return [text[2:]]
    if text.startswith(_GIT_RUNS):
        return [text.partition("=")[2]]
    if before.startswith(_GIT_RUNS_NEXT) and "=" not in before:
        return [text]
    return [text.partition("::")[2]] if "::" in text else []


def _make(command: Command, nested: Nested) -> None:
    words = command.words
    for position, word in enumerate(words[1:], start=1):
        text = word.text
        following = words[position + 1].text if position + 1 < len(words) else ""
        if "=" in text:
            nested.codes.append(text.partition("=")[2])
            nested.opaque += [text] if "$(" in text or "${" in text else []
        if match := _MAKE_CODE.fullmatch(text):
            nested.opaque.append(match[1] or following)
        elif match := _MAKE_FILE.fullmatch(text):
            is_input = INPUT_FILE.fullmatch(match[1] or following) is not None
            nested.reads_input = nested.reads_input or is_input


def _sed(command: Command, nested: Nested) -> None:
    running = [text for text in sed.scripts_of(command.texts[1:]) if sed.may_run(text)]
    nested.opaque += running
    nested.reads_input = bool(running)  # a line can be the command
    if "" in sed.scripts_of(command.texts[1:]):
        nested.doubtful = "it cannot be told what sed does"


def _awk(command: Command, nested: Nested) -> None:
    at = 1
    while at < len(command.words) and command.texts[at].startswith("-"):
        at += 2 if command.texts[at] in _AWK_VALUED else 1
    if command.texts[at : at + 1] == ("",):
        nested.doubtful = "it cannot be told what awk does"


_SPECIAL: Mapping[str, Callable[[Command, Nested], None]] = {
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    **dict.fromkeys(("mapfile", "readarray", "complete", "compgen", "bind"), _callback),
    **dict.fromkeys(("source", "."), _source),
    "hash": _hash,
    **dict.fromkeys(wrappers.FINDERS, _find),
    "git": _git,
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(awk.NAMES, _awk),
    **dict.fromkeys(("make", "gmake"), _make),
}

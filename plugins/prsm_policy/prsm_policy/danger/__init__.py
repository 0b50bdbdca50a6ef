"""The danger room: which commands a person is asked about even where everything else is allowed.

They destroy, gain privilege, stay behind, run fetched or generated code, give secrets away, or
widen what an agent may do: by their program alone, by what it is told, or by where it reads and
writes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.danger.fetching import fetch_danger
from prsm_policy.danger.folders import flow_danger, folder_danger, place_of
from prsm_policy.danger.git import git_danger, git_place_danger, taken_danger
from prsm_policy.danger.migrations import migration_danger
from prsm_policy.danger.places import place_danger
from prsm_policy.danger.programs import agent_danger, program_danger, setting_danger
from prsm_policy.danger.tools import TOOLS, sending_danger
from prsm_policy.safe.tools import MAX_LINES, READ_ONLY, counts_to
from prsm_policy.shell.find_nested import may_make_options, shell_call, ungnu
from prsm_policy.shell.inline import INPUT_FILE, inline_code
from prsm_policy.shell.runners import told
from prsm_policy.shell.wrappers import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Script

__all__ = ["command_danger", "script_danger"]

_SECRET_VARIABLE = re.compile(
    r"KEY|TOKEN|SECRET|PASS(?:W|$|_)|CREDENTIAL|PRIVATE|AUTH(?!OR)|^AWS_|COOKIE", re.IGNORECASE
)
_FETCHERS = word_set("curl wget aria2c fetch http https xh")
# They run what lies in the folder where they are, or that they are told.
_RUN_A_PROJECT = word_set(
    "make npm pnpm yarn bun pip pip3 uv poetry cargo go bundle rake gradle mvn cmake docker tox nox"
    " pytest python python3 node deno bash sh composer mix dotnet"
)
_SEARCHES = word_set("pgrep pidof lsof fuser ps ss netstat")
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/")  # noqa: S108 - where others may put programs
_SYSTEM = re.compile(r"/(?:usr/local/|usr/)?s?bin/[^/]+")

# Versions of them have longer names.
_INTERPRETER = re.compile(
    r"(?:python|pypy|node|nodejs|deno|bun|perl|ruby|php|lua|luajit|tclsh|osascript|Rscript|R|julia"
    r"|groovy|elixir|erl|guile|pwsh|powershell|ipython|irb|ts-node|tsx)[0-9.]*(?:w|\.exe)?"
)
# They run what comes in where they are told no script.
_READERS_OF_CODE = word_set(
    "runghc runhaskell ghci jshell racket scala scala-cli amm kotlin sbcl clisp ecl ocaml utop"
    " swipl gprolog gnuplot octave octave-cli maxima gap gp sage scilab clojure clj bb janet fennel"
    " swift crystal nim raku perl6 gforth qjs d8 gjs coffee lsc factor io hy mit-scheme gosh chez"
    " wish psysh pry"
)
_MAX_SHOWN = 40  # characters of an option
_ACTIVATION = re.compile(r"(?:[\w.-]+/)*bin/activate")
_DEVICE = re.compile(r"(?:.*=)?/dev/(?:zero|urandom|random|full)")
_SIZE = re.compile(r"(?:-c|--bytes=|-n)?(\d+)([kKMGTPE]?)(?:i?B)?")
_UNITS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
MAX_BYTES = 2**30  # that are written without asking
# They hand on what comes in, and write it where they are told.
_PASSERS = READ_ONLY.keys() | word_set("tee gzip bzip2 xz zstd lz4 pigz sponge dd openssl pv split")
_WRITERS = word_set("tee cp rsync split tar gzip bzip2 xz zstd dd install sponge")
_LOOP_WRITERS = _WRITERS | word_set("mkdir touch mktemp mkfifo ln mv")
_LIMITS = word_set("head timeout")


def script_danger(
    script: Script, place: Place | None, text: str = ""
) -> tuple[str, Command | None] | None:
    """Return why a text is dangerous and which of its commands makes it so, None if it is not.

    What cannot be told counts as dangerous. `text` is what was read, if it is at hand.
    """
    where = None if place is None else place_of(script, place, text)
    for command in script.commands:
        reason = command_danger(command, place, where)
        if reason is not None:
            return reason, command
    reason = _whole_danger(script)
    if reason is None and where is not None:
        reason = flow_danger(script, where, text)
    return None if reason is None else (reason, None)


def command_danger(command: Command, place: Place | None, where: Place | None = None) -> str | None:
    """Return why a simple command is dangerous; `where` is where it reads, if known better."""
    return next(filter(None, _reasons(command, place, where or place)), None)


def _reasons(command: Command, place: Place | None, where: Place | None) -> Iterator[str | None]:
    name = command.name
    if command.words and not name:
        yield "the name of its program is only known when it runs"
    yield _disguise(command, name)
    if any(map(may_make_options, command.words)):
        yield "braces make options that cannot be told"
    yield setting_danger(command)
    yield program_danger(command)
    yield agent_danger(command)
    if name == "git":
        yield git_danger(command)
        yield git_place_danger(command, place)
    elif (check := TOOLS.get(ungnu(name))) is not None:
        yield check(command)
    yield taken_danger(command, place)
    yield fetch_danger(command)
    yield migration_danger(command)
    yield sending_danger(command)
    yield _code_danger(command)
    yield place_danger(command, place)
    if where is not None:
        yield folder_danger(command, where)


def _disguise(command: Command, name: str) -> str | None:
    """Return why a program may not be the one that its name says."""
    if not name.isascii():
        return "the name of its program looks like another"
    program = command.words[0].text if command.words else ""
    if "/" not in program or _SYSTEM.fullmatch(program):
        return None
    if name in READ_ONLY or name in {"git", "sudo", *SHELLS}:
        return f"{program!r} is not the program of that name"
    is_elsewhere = program.startswith((*_TEMPORARY, "../")) or "/../" in program
    return f"{program!r} lies outside the workspace" if is_elsewhere else None


def _whole_danger(script: Script) -> str | None:
    if script.unresolved or script.opaque:
        return script.unresolved or "it runs code in another language"
    if script.evaluates:
        return "it evaluates the text of a variable"
    secret = next(filter(_SECRET_VARIABLE.search, sorted(script.variables)), None)
    if secret is not None:
        return f"{secret} may hold a secret"
    names = [command.name for command in script.commands]
    kills = [command for command in script.commands if command.name == "kill"]
    is_found = any(kill.via == "xargs" for kill in kills) or not all(
        word.exact for kill in kills for word in kill.words
    )
    if is_found and not _SEARCHES.isdisjoint(names):
        return "ends processes that it searches for"
    if filled := _fill_danger(script):
        return filled
    if any(names.count(name) > 1 for name in script.functions):
        return "a function calls itself"
    runs_local = any(map(_is_local, script.commands))
    if runs_local and not _FETCHERS.isdisjoint(names):
        return "it may run what it downloads"
    clones = any(
        command.name in {"git", "gh"} and "clone" in command.texts for command in script.commands
    )
    if clones and (runs_local or not _RUN_A_PROJECT.isdisjoint(names)):
        return "it may run what it clones"
    return None


def _is_local(command: Command) -> bool:
    program = command.texts[0] if command.words else ""
    return "/" in program and not _SYSTEM.fullmatch(program)


def _code_danger(command: Command) -> str | None:
    name = command.name
    if name in {"source", "."}:
        is_one = len(command.words) == 2 and command.words[1].exact
        is_environment = is_one and _ACTIVATION.fullmatch(command.texts[1])
        return None if is_environment else "runs a script whose text is not known"
    if name in SHELLS:
        call = shell_call(command.words)
        if call.file is not None and not call.only_checks:
            return "runs a script whose text is not known"
        is_fed = command.piped or command.reads or command.via == "xargs"
        if call.code is None and not call.informs and is_fed:
            return "a shell runs what comes in"
    elif _INTERPRETER.fullmatch(name) and (reason := _interpreted(command)):
        return reason
    elif name in _READERS_OF_CODE and _is_fed(command):
        texts = command.texts[1:]
        if all(text[:1] == "-" or INPUT_FILE.fullmatch(text) for text in texts):
            return "runs code that comes in"
    for each in told(ungnu(name), command.words):
        if each.is_command:
            return f"{each.option[:_MAX_SHOWN]} of {name} runs another program"
        return "runs code given in the command"
    return None


def _is_fed(command: Command) -> bool:
    return bool(command.piped or command.reads or command.feeds or command.via == "xargs")


def _interpreted(command: Command) -> str | None:
    inline = inline_code(command.name, command.words)
    operand = inline.operand.text if inline.operand is not None else ""
    is_eval = command.name in {"deno", "bun"} and operand in {"eval", "x"}
    if _is_fed(command) and inline.reads_input and not inline.given:
        return "runs code that comes in"
    if inline.given or is_eval:
        return "runs code given in the command"
    return "runs code from the network" if "://" in operand else None


def _fill_danger(script: Script) -> str | None:
    commands = script.commands
    names = {command.name for command in commands}
    is_polling = not names.isdisjoint({"sleep", "break", "exit", "read"})
    writes = any(command.writes or command.name in _LOOP_WRITERS for command in commands)
    if script.endless and writes and not is_polling:
        return "a loop without an end writes files"
    sources = [command for command in commands if _is_endless(command)]
    if not sources:
        return None
    piped = [command for command in commands if command.piped]
    if any(command.name in _LIMITS and not _is_much(command.texts[1:]) for command in piped):
        return None
    is_passed_on = all(command.name in _PASSERS for command in piped if command not in sources)
    return "it fills the disk" if is_passed_on and any(map(_writes, (*sources, *piped))) else None


def _writes(command: Command) -> bool:
    is_told = command.name == "openssl" and "-out" in command.texts
    return bool(command.writes) or command.name in _WRITERS or is_told


def _is_endless(command: Command) -> bool:
    """Return whether a command prints without an end, or more than a disk should take."""
    name, texts = command.name, command.texts[1:]
    if name == "yes":
        return True
    if name == "seq":
        return counts_to(command.words[1:]) > MAX_LINES
    if texts[:1] == ("rand",) and name == "openssl":
        return _is_much(texts)
    if any(_DEVICE.fullmatch(word.text) for word in (*command.words[1:], *command.reads)):
        return name != "head" or _is_much(texts)
    return False


def _is_much(texts: tuple[str, ...]) -> bool:
    sizes = [match for match in map(_SIZE.fullmatch, texts) if match]
    return any(int(match[1]) * 1024 ** _UNITS[match[2]] > MAX_BYTES for match in sizes)

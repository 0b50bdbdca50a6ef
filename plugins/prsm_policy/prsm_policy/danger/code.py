"""Code that is given to interpreters and shells, in whatever way."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.find_nested import shell_call
from prsm_policy.shell.inline import inline_code
from prsm_policy.shell.nested import INPUT_FILE
from prsm_policy.shell.program_arguments import ungnu
from prsm_policy.shell.runners import told
from prsm_policy.shell.wrappers import SHELLS

if TYPE_CHECKING:
    from prsm_policy.shell import Command

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


def code_danger(command: Command) -> str | None:
    """Return why the code that a command runs makes it dangerous."""
    name = command.name
    if name in {"source", "."}:
        return _sourced(command)
    if name in SHELLS:
        call = shell_call(command.words)
        if call.file is not None and not call.only_checks:
            return "runs a script whose text is not known"
        is_fed = command.piped or command.reads or command.via == "xargs"
        if call.code is None and not call.informs and is_fed:
            return "a shell runs what comes in"
    elif _INTERPRETER.fullmatch(name) and (reason := _interpreted(command)):
        return reason
    elif name in _READERS_OF_CODE and _is_fed(command) and not _has_script(command):
        return "runs code that comes in"
    for each in told(ungnu(name), command.words):
        if each.is_command:
            return f"{each.option[:_MAX_SHOWN]} of {name} runs another program"
        return "runs code given in the command"
    return None


def _sourced(command: Command) -> str | None:
    words = command.words
    is_environment = len(words) == 2 and words[1].exact and _ACTIVATION.fullmatch(words[1].text)
    return None if is_environment else "runs a script whose text is not known"


def _is_fed(command: Command) -> bool:
    return bool(command.piped or command.reads or command.feeds or command.via == "xargs")


def _has_script(command: Command) -> bool:
    return any(text[:1] != "-" and not INPUT_FILE.fullmatch(text) for text in command.texts[1:])


def _interpreted(command: Command) -> str | None:
    inline = inline_code(command.name, command.words)
    if inline.given:
        return "runs code given in the command"
    operand = inline.operand
    if _is_fed(command) and inline.reads_input:
        return "runs code that comes in"
    if operand is not None and command.name in {"deno", "bun"} and operand.text in {"eval", "x"}:
        return "runs code given in the command"
    if operand is not None and "://" in operand.text:
        return "runs code from the network"
    return None

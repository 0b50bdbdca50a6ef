"""Tables of programs that run other programs, and how their command lines are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.policies import word_set
from prsm_policy.shell import awk
from prsm_policy.tables import read_rows, read_words, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Wrapper(Struct, frozen=True, kw_only=True):
    """How a program is told which command to run.

    The value of a `code` option is a text for the shell. Long options are written whole, with `=`
    where they take a value. `operands` stand before the command; variables may if it `assigns`.
    """

    flags: str = ""
    valued: str = ""
    code: str = ""
    long: frozenset[str] = frozenset()
    operands: int = 0
    assigns: bool = False


SHELLS = word_set(
    "sh bash dash ash zsh ksh mksh yash fish csh tcsh rbash ksh93 lksh oksh loksh mksh-static posh"
    " osh hush elvish nu xonsh"
)


WRAPPERS: Mapping[str, Wrapper] = {
    name: Wrapper(**values_of(fields, Wrapper.__annotations__))
    for head, fields in read_rows("wrappers")
    for name in head.split()
}

# What some systems call these, beside programs of their own by these names.
GNU_NAMES = word_set(
    "gtimeout gnice gnohup gstdbuf genv gxargs gchroot gtime gfind gsort gsplit gtar gkill gchmod"
    " grm gdd gshred gtruncate gunlink gchown gchgrp gmv ginstall gdate"
)
# The loader of programs, which starts the one that it is told.
LOADER = re.compile(r"ld(?:-(?:linux|musl))?[A-Za-z0-9_.-]*\.so(?:\.[0-9]+)*")
# Anything in their arguments may be a command, or a text that a shell reads; of some, only what
# stands behind one of these words.
LOOSE_AFTER = read_words("loose", "after")
LOOSE = {name for head, _ in read_rows("loose") for name in head.split()} - LOOSE_AFTER.keys()
FINDERS: Mapping[str, frozenset[str]] = {
    "find": word_set("-exec -execdir -ok -okdir"),
    **dict.fromkeys(("fd", "fdfind"), word_set("-x -X --exec --exec-batch")),
}
# Builtins that evaluate names and numbers: a subscript in them runs commands, even quoted.
EVALUATES = word_set(
    "test [ [[ let printf read declare typeset local export readonly unset mapfile readarray"
    " getopts wait compgen complete"
)
# What a text of its own runs where a shell expands it again.
SUBSTITUTES = re.compile(r"`|\$[({\[]")
# Programs that take what they do from their arguments, in a language of their own; versions of
# them have longer names. By what in such a text may start a program.
CALLS = re.compile(
    r"system|exec|spawn|popen|passthru|process|\bcall\b|\brun\b|shell|eval|import|`|!|\bqx\b|%x"
    r"|cmd|\bcommand\b|\bpipe\b|readpipe|\bproc_|\bterm|jobstart|job_start|open_port"
    r"|\bprogram\b|\bopen\b[^;\n]{0,200}\|",
    re.IGNORECASE,
)
INTERPRETERS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(awk.NAMES, awk.POWER),
    **dict.fromkeys(
        word_set(
            "python pypy node deno bun perl ruby php lua tclsh wish osascript Rscript julia groovy"
            " elixir erl guile ed ex vi vim nvim emacs m4 dc gdb lldb irb ipython"
        ),
        CALLS,
    ),
}
# Programs that are no shells and yet read commands from their input.
READERS = word_set("at batch crontab ssh su parallel pwsh powershell")
# Options whose value is a program, whatever the tool.
RUNNING_OPTION = re.compile(
    r"--?(?:(?:[a-z]+-)*(?:exec|command|cmd|program|prog|shell|rsh|pager|editor|askpass|helper)"
    r"|pre|hostname-bin|to-command|upload-pack|receive-pack|checkpoint-action|rsync-path|extcmd"
    r"|interpreter|open-files-in-pager|tool|vettool|toolexec|eval|html)(?:=(?P<value>.*))?",
    re.DOTALL,
)
RUNNING_SHORT: Mapping[str, str] = {
    **dict.fromkeys(("tar", "bsdtar", "gtar"), "IF"),
    "rsync": "e",
    "man": "PH",
    "scp": "S",
    "sftp": "SD",
    **dict.fromkeys(("nc", "ncat", "netcat"), "ec"),
}
# Long ones that may be abbreviated.
RUNNING_LONG: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("tar", "bsdtar", "gtar"),
        word_set(
            "--use-compress-program --to-command --info-script --new-volume-script --rsh-command"
            " --rmt-command --checkpoint-action"
        ),
    ),
    **dict.fromkeys(("sort", "gsort"), word_set("--compress-program")),
    **dict.fromkeys(("split", "gsplit"), word_set("--filter")),
    "zip": word_set("-TT --unzip-command"),
    **dict.fromkeys(word_set("gcc g++ cc c++ clang clang++"), word_set("-wrapper")),
}
# Settings of git that start nothing.
HARMLESS_GIT_KEYS = (
    "user.", "author.", "committer.", "color.", "advice.", "core.quotepath", "core.autocrlf",
    "core.filemode", "core.ignorecase", "core.eol", "core.longpaths", "core.abbrev",
    "init.defaultbranch", "commit.gpgsign=", "tag.gpgsign=", "log.", "push.default",
    "push.autosetupremote", "pull.rebase", "pull.ff", "merge.ff", "fetch.prune", "rebase.autostash",
    "diff.renames", "diff.algorithm", "diff.noprefix", "diff.mnemonicprefix", "protocol.version",
    "rerere.enabled", "safe.directory", "http.postbuffer", "grep.", "column.", "status.",
)  # fmt: skip
# Variables that hold a command for a program or for the shell itself.
PROGRAM_VARIABLES = word_set(
    "BASH_ENV ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 PAGER MANPAGER GIT_PAGER EDITOR VISUAL GIT_EDITOR"
    " GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND"
    " SSH_ASKPASS SUDO_ASKPASS BROWSER LESSOPEN LESSCLOSE RSYNC_RSH SHELL CC CXX LD AR RUSTC"
    " RUSTC_WRAPPER MAKEFLAGS GOFLAGS TAR_OPTIONS FCEDIT HISTCMD VIMINIT EXINIT"
    " BASH_ALIASES BASH_CMDS HGEDITOR HGPAGER TEXEDIT CVS_RSH CVSEDITOR SVN_SSH SVN_EDITOR BORG_RSH"
    " DELTA_PAGER BAT_PAGER AWS_PAGER GH_PAGER GH_EDITOR GH_BROWSER GLAB_PAGER PSQL_PAGER"
    " PSQL_EDITOR KUBE_EDITOR BUNDLER_EDITOR SUDO_EDITOR JJ_EDITOR SYSTEMD_PAGER SYSTEMD_EDITOR"
    " NODE_REPL_EXTERNAL_MODULE"
)
# Variables whose values the shell evaluates: as numbers, or as what it shows before a command.
EVALUATED = PROGRAM_VARIABLES | word_set("RANDOM SECONDS LINENO OPTIND SRANDOM")

"""Programs whose arguments are understood: none of them is a command that was not found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.danger.places import SPEAKERS, WRITERS
from prsm_policy.danger.programs import by_name
from prsm_policy.danger.tools import TOOLS
from prsm_policy.safe.checks import CHECKERS
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.shell.data_shells import DATA_SHELLS
from prsm_policy.shell.inline import bare_name
from prsm_policy.shell.runners import RUNNERS, may_be_code
from prsm_policy.shell.wrappers import (
    EVALUATES,
    FINDERS,
    GNU_NAMES,
    INTERPRETERS,
    LOADER,
    LOOSE,
    LOOSE_AFTER,
    READERS,
    SHELLS,
    WRAPPERS,
)

if TYPE_CHECKING:
    from prsm_policy.shell import Command

_OTHERS = word_set(
    "cd pushd popd source . alias unalias unset local shift wait umask ulimit shopt getopts break"
    " continue jobs fg bg disown dirs caller help let times man info less more bat view open"
    " xdg-open cc gcc g++ clang clang++ ld as nm strip objdump readelf strings od xxd hexdump"
    " base64 base32 cksum sum sha1sum sha512sum b2sum fmt fold expand unexpand join tsort shuf"
    " numfmt pr look whereis whatis apropos locate pgrep pidof ps top htop free uptime lsof ss"
    " hg svn bzr fossil javac java jar kotlinc scalac dotnet nuget composer bower isort pre-commit"
    " brew port zypper emerge nix-env guix opam cabal stack luarocks cpan cpanm mix rebar3 lein"
)
_UNDERSTOOD = frozenset().union(
    READ_ONLY, TOOLS, CHECKERS, SPEAKERS, WRITERS, WRAPPERS, SHELLS, LOOSE, LOOSE_AFTER, FINDERS,
    INTERPRETERS, EVALUATES, READERS, GNU_NAMES, RUNNERS, DATA_SHELLS, _OTHERS,
    {"git", "eval", "trap", "hash", "exec"},
)  # fmt: skip


def understood_programs() -> frozenset[str]:
    """Return the names of all programs whose arguments are understood."""
    return _UNDERSTOOD


def is_understood(command: Command) -> bool:
    """Return whether it is known what the arguments of a command mean to its program."""
    name = command.name
    is_named = name in _UNDERSTOOD or bare_name(name) in INTERPRETERS or by_name(name) is not None
    return not name or is_named or name.startswith("git-") or LOADER.fullmatch(name) is not None


def code_of_unknown_program(command: Command) -> str | None:
    """Return why an unknown program may run code that it is given, None if nothing says so."""
    if not command.words or is_understood(command):
        return None
    option = may_be_code(command.words)
    return None if option is None else f"{option} of {command.name} may give it code to run"

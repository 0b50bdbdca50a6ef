"""Which variables of a person's environment reach what agents run.

Vendors' programs, their shells and MCP servers, and gates get the basic ones, those of the network,
and those that `pass_env` names.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_BASIC = frozenset({"PATH", "HOME", "USER", "LANG", "TERM", "TZ", "TMPDIR", "SHELL"})
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NO_PROXY = ("NO_PROXY", "no_proxy")
CERTIFICATES = (
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    "CODEX_CA_CERTIFICATE",
)
_NETWORK = frozenset(
    {*_PROXIES, *map(str.lower, _PROXIES), *_NO_PROXY, *CERTIFICATES, "NODE_USE_SYSTEM_CA"}
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# What describes a person's terminal and desktop: nobody misses it in an agent's shell.
_OF_A_SESSION = re.compile(
    r"_|PWD|OLDPWD|SHLVL|LOGNAME|HOSTNAME|MAIL|EDITOR|VISUAL|PAGER|LS_COLORS|LESS.*|COLORTERM"
    r"|TERM_.*|WINDOWID|DISPLAY|WAYLAND_.*|XAUTHORITY|XDG_.*|DBUS_.*|DESKTOP_.*|GTK_.*|QT_.*"
    r"|GNOME_.*|KDE_.*|VTE_.*|KITTY_.*|SSH_(CLIENT|CONNECTION|TTY)|TMUX.*|STY|PS[0-9]|PRSM_.*"
    r"|VIRTUAL_ENV.*"
)

LOADS_CODE = re.compile(
    r"BASH_ENV|ENV|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|BASH_FUNC_.*|LD_.*|PYTHON(PATH|HOME|STARTUP)"
    r"|NODE_OPTIONS|PERL5(LIB|OPT)|RUBY(LIB|OPT)|GIT_.*"
)
"""What makes a shell, or a program that it runs, load code."""

KEY_NAME = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)")
"""What a variable with a secret is called, in capitals."""

# A pattern must not take any of these: it was written for something else.
_MAY_BE_A_KEY = re.compile(
    r"KEY|TOKEN|SECRET|PASS|PWD$|CREDENTIAL|AUTH|COOKIE|PRIVATE|SIGNATURE|(^|_)(PAT|DSN)(_|$)"
)
_USER_INFO = re.compile(r"://([^\s/?#]*):([^\s/?#]*)@")

# What git is told in each shell: a second wall behind the policy on commands. None of it keeps git
# from doing what a person has allowed. A folder that only looks like a bare repository configures
# nothing (git 2.38 and newer ignore it, older ones do not know the setting); a look starts no
# monitor, and looks into no submodule that only the history knows.
_GIT = (
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
)
GIT_SETTINGS = {
    "GIT_CONFIG_COUNT": str(len(_GIT)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(_GIT)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(_GIT)},
}
"""The settings as variables of the environment, which git 2.31 and newer read."""


def child_environment(
    source: Mapping[str, str], pass_env: Sequence[str] = (), workspace: Path | None = None
) -> dict[str, str]:
    """Return the variables of `source` that every child gets, and git's settings.

    `pass_env` names further ones, see `passed`. Loopback needs no proxy. PRSM's own virtual
    environment comes last in PATH unless it lies in the workspace.
    """
    found = {
        name: value
        for name, value in source.items()
        if name in _BASIC or name in _NETWORK or name.startswith("LC_")
    }
    found |= {name: source[name] for name in passed(source, pass_env)}
    if "PATH" in found:
        found["PATH"] = own_programs_last(found["PATH"], workspace)
    return with_loopback(found | GIT_SETTINGS)


def passed(source: Mapping[str, str], pass_env: Iterable[str]) -> list[str]:
    """Return which variables of `source` a list names, in full or by patterns such as CONDA_*.

    No pattern takes one that may be a key, holds a password, or makes programs load code.
    """
    names = frozenset(pass_env)
    starts = tuple(word[:-1] for word in names if word.endswith("*"))
    return [
        name
        for name, value in source.items()
        if name in names or (name.startswith(starts) and not must_be_named(name, value))
    ]


def not_passed(source: Mapping[str, str], pass_env: Iterable[str]) -> list[str]:
    """Return which variables of `source` no child has, without those of a person's terminal."""
    known = child_environment(source, tuple(pass_env))
    return sorted(
        name for name in source if name not in known and not _OF_A_SESSION.fullmatch(name)
    )


def must_be_named(name: str, value: str) -> bool:
    """Return whether a variable is passed only where it is named in full."""
    upper = name.upper()
    return (
        _MAY_BE_A_KEY.search(upper) is not None
        or LOADS_CODE.fullmatch(upper) is not None
        or any(url_passwords(value))
    )


def url_passwords(text: str) -> Iterator[str]:
    """Yield the passwords of URLs in a text: alone, as they are meant, and with their user."""
    for match in _USER_INFO.finditer(text):
        user, password = match.groups()
        if password:
            yield password
            yield unquote(password)
            yield f"{user}:{password}"
            yield f"{unquote(user)}:{unquote(password)}"


def with_loopback(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with loopback in NO_PROXY and no_proxy, which default to each other."""
    given = [env[name] for name in _NO_PROXY if env.get(name)]
    default = given[0] if given else ""
    return {**env, **{name: _without_proxy(env.get(name) or default) for name in _NO_PROXY}}


def _without_proxy(hosts: str) -> str:
    given = [host for host in (each.strip() for each in hosts.split(",")) if host]
    return ",".join([*given, *(host for host in _LOOPBACK if host not in given)])


def own_programs_last(path: str, workspace: Path | None) -> str:
    """Return a PATH with PRSM's own virtual environment last, so that agents get their project's.

    One in the workspace is the project's own, and stays where it is.
    """
    own = Path(sys.prefix)
    if sys.prefix == sys.base_prefix:
        return path
    if workspace is not None and _real(own).is_relative_to(_real(workspace)):
        return path
    folders = path.split(os.pathsep)
    programs = _real(own / "bin")
    moved = [folder for folder in folders if folder and _real(Path(folder)) == programs]
    return os.pathsep.join([*(each for each in folders if each not in moved), *moved])


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))

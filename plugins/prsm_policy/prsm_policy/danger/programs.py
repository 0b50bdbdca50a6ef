"""Programs that are dangerous whatever they are told, and variables that make others so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.danger.agents import AGENTS
from prsm_policy.shell.program_arguments import ungnu
from prsm_policy.shell.wrappers import PROGRAM_VARIABLES
from prsm_policy.tables import read_rows, words_of

if TYPE_CHECKING:
    from prsm_policy.shell import Command

_REASONS = {
    name: reason
    for reason, fields in read_rows("dangerous_programs")
    for name in words_of(fields, "programs")
}
_PATTERN = re.compile(r"mkfs(?:\..*)?|fsck(?:\..*)?|git-.*-daemon|docker-credential-.*|rm\..*")

_PRSM = word_set("prsm prism")
# It as a module: `-m prsm_core`, `-mprsm_core.cli`.
_MODULE = re.compile(r"(-[A-Za-z]*m)?prsm_core(?:\.[\w.]*)?")
_RUNS_MODULE = re.compile(r"-[A-Za-z]*m")
_PRSM_INFORMS = word_set("tree plugins providers doctor models --help -h --version config sim demo")
_PRSM_SHOWS = word_set("events history sessions snapshots changes logs export diff why")
_PRSM_POLICY_INFORMS = word_set("check list")


def by_name(name: str) -> str | None:
    """Return why a program of that name is dangerous whatever it is told."""
    return "starts an agent outside the tree" if name in AGENTS else _REASONS.get(name)


def named_programs() -> frozenset[str]:
    """Return the names of all programs that are dangerous whatever they are told."""
    return AGENTS.union(_REASONS)


def program_danger(command: Command) -> str | None:
    """Return why a program is dangerous by its name."""
    name = command.name
    arguments = command.texts[1:]
    called = arguments if name in _PRSM else _of_module(arguments)
    if called and not _prsm_informs(called):
        is_shown = called[0] in _PRSM_SHOWS
        return "shows PRSM's own state" if is_shown else "changes what agents may do"
    reason = _REASONS.get(name) or _REASONS.get(ungnu(name))
    if reason is None and _PATTERN.fullmatch(name):
        return "deletes or overwrites data"
    if reason is not None and arguments in (("--version",), ("--help",)):
        return None
    return reason


def _of_module(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of PRSM where it is called as a module, whatever runs that."""
    for at, text in enumerate(arguments):
        found = _MODULE.fullmatch(text)
        if found and (found[1] or (at and _RUNS_MODULE.fullmatch(arguments[at - 1]))):
            return arguments[at + 1 :]
    return ()


def _prsm_informs(arguments: tuple[str, ...]) -> bool:
    if not arguments or {"--help", "-h", "--version"} & set(arguments[:2]):
        return True
    if arguments[0] == "policy":
        return len(arguments) > 1 and arguments[1] in _PRSM_POLICY_INFORMS
    return arguments[0] in _PRSM_INFORMS


_NAMES = PROGRAM_VARIABLES | word_set(
    "PATH IFS CDPATH GLOBIGNORE SHELLOPTS BASHOPTS HOME TMPDIR LESS XDG_CONFIG_HOME XDG_DATA_HOME"
    " PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS NODE_OPTIONS PERL5OPT"
    " PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS"
    " MAVEN_OPTS GRADLE_OPTS CLASSPATH GCONV_PATH GLIBC_TUNABLES MALLOC_CHECK_ NLSPATH HOSTALIASES"
    " RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND BAT_PAGER PSQLRC PGPASSFILE MYSQL_HOME INPUTRC"
    " GREP_OPTIONS OPENSSL_CONF SSL_CERT_FILE CURL_HOME WGETRC GNUPGHOME SSH_AUTH_SOCK DOCKER_HOST"
    " DOCKER_CONFIG KUBECONFIG HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy"
    " CODEX_HOME CLAUDE_CONFIG_DIR GEMINI_CLI_HOME ANTHROPIC_BASE_URL OPENAI_BASE_URL"
    " CONFIG_SHELL PKG_CONFIG RUSTFLAGS CARGO_HOME GOPATH GOROOT GOPROXY TERMINFO TERMCAP"
)
_PREFIXES = re.compile(
    r"(?:LD|DYLD|GIT|PRSM|BASH_FUNC|NPM_CONFIG|npm_config|PIP|UV|CARGO_BUILD|CARGO_TARGET"
    r"|XDG_CONFIG)_"
)
_GIT_HARMLESS = re.compile(
    r"GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|GIT_TERMINAL_PROMPT|GIT_MERGE_AUTOEDIT"
    r"|GIT_OPTIONAL_LOCKS|GIT_PAGER_IN_USE|UV_NO_PROGRESS|PIP_NO_INPUT|PIP_DISABLE_PIP_VERSION_CHECK"
)
# Setting one of these to one of those only keeps a program from waiting for a person.
_QUIET = re.compile(r"(?:[A-Z]+_)*(?:MAN)?(?:PAGER|EDITOR)|VISUAL")
_QUIET_VALUES = frozenset({"", "cat", "true", ":", "/bin/true", "/usr/bin/true"})


def setting_danger(command: Command) -> str | None:
    """Return why the variables that are set for or by a command are dangerous."""
    for each in command.assigned:
        name = each.name
        if _QUIET.fullmatch(name) and each.value.known and each.value.text in _QUIET_VALUES:
            continue
        if _GIT_HARMLESS.fullmatch(name):
            continue
        if name in _NAMES or _PREFIXES.match(name) or not name.isidentifier():
            return f"setting {name} can make programs run others"
    return None

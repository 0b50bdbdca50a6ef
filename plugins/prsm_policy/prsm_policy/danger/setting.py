"""Variables that make programs run others, or find other programs, files or servers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.wrappers import PROGRAM_VARIABLES

if TYPE_CHECKING:
    from prsm_policy.shell import Command

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

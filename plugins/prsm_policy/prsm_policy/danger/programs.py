"""Programs that are dangerous whatever they are told, and variables that make others so."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.find_nested import ungnu
from prsm_policy.shell.wrappers import PROGRAM_VARIABLES
from prsm_policy.tables import read_rows, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_policy.shell import Command

_OUTSIDE = "starts an agent outside the tree"
# Programs that are dangerous whatever they are told, by the reason; agents among them.
_REASONS = {
    name: reason
    for reason, fields in read_rows("dangerous_programs")
    for name in words_of(fields, "programs")
}
_INFORM = word_set("--version --help")
_AGENT_INFORMS = _INFORM | word_set("-v -V -h help version doctor")
# Modules of Python that are such programs.
_MODULES = word_set(
    "aider openhands llm interpreter gptme sweagent minisweagent autogpt metagpt crewai smolagents"
    " gpt_engineer pilot sgpt shell_gpt letta ra_aid mentat claude_agent_sdk open_interpreter"
    " opendevin devika agentless plandex codel swe_agent openinterpreter"
)
# Programs that start one behind these words, of which each line is a beginning.
_BEHIND: Mapping[str, frozenset[str]] = {
    "ollama": word_set("launch"),
    "cursor": word_set("agent"),
    "gh": word_set("copilot agent-task agent models"),
    "docker": word_set("ai agent model-agent sandbox"),
    "warp": word_set("agent"),
    "oz": word_set("agent"),
    "warp-cli": word_set("agent"),
    "acli": word_set("rovodev"),
    "code": word_set("chat"),
    "lms": word_set("agent"),
    "zed": word_set("--agent"),
    "hf": word_set("agents"),
    "tiny-agents": word_set("run"),
    "langgraph": word_set("dev up"),
    "az": word_set("ai"),
}
# In the path of a script of node, say.
_PACKAGE = re.compile(
    r"(?:^|/)(?:claude-code|@openai/codex|@google/gemini-cli|opencode-ai|@sourcegraph/amp"
    r"|@qwen-code/qwen-code|@charmland/crush|@github/copilot|@anthropic-ai/claude-agent-sdk"
    r"|@augmentcode/auggie|@kilocode/cli|@continuedev/cli|@factory/cli|cline|openclaw)(?:/|$)"
)
_RUN_SCRIPTS = re.compile(r"(?:node|nodejs|bun|deno|tsx|ts-node|python|pypy)[0-9.]*")
# Bridges and variants of the best known.
_KIN = re.compile(r"(?:claude|codex|gemini|opencode|openhands|aider|cursor-agent|qwen)-[\w.-]+")
_PROMPTS = word_set("-p --print --prompt -x --execute")
_PATTERN = re.compile(r"mkfs(?:\..*)?|fsck(?:\..*)?|git-.*-daemon|docker-credential-.*|rm\..*")
_PRSM = word_set("prsm prism")
# It as a module: `-m prsm_core`, `-mprsm_core.cli`.
_MODULE = re.compile(r"(-[A-Za-z]*m)?prsm_core(?:\.[\w.]*)?")
_RUNS_MODULE = re.compile(r"-[A-Za-z]*m")
_PRSM_INFORMS = word_set("tree plugins providers doctor models --help -h --version config sim demo")
_PRSM_SHOWS = word_set("events history sessions snapshots changes logs export diff why")
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


def agent_danger(command: Command) -> str | None:
    """Return why a command starts an agent that PRSM does not see."""
    return _OUTSIDE if _starts_agent(command) else None


def _starts_agent(command: Command) -> bool:
    name, arguments = command.name, command.texts[1:]
    if _REASONS.get(name) == _OUTSIDE or _KIN.fullmatch(name):
        return not (len(arguments) == 1 and arguments[0] in _AGENT_INFORMS)
    if name in {"agent", "forge"}:  # of Cursor and ForgeCode, or programs of other makers
        return not _PROMPTS.isdisjoint(arguments)
    if name in _BEHIND:
        return not _BEHIND[name].isdisjoint(arguments[:1])
    if not _RUN_SCRIPTS.fullmatch(name):
        return False
    for before, text in pairwise(("", *arguments[:5])):
        module = text if before == "-m" else text[2:] if text[:2] == "-m" else ""
        if module.partition(".")[0] in _MODULES or _PACKAGE.search(text):
            return True
        if "/" in text and _REASONS.get(text.rpartition("/")[2]) == _OUTSIDE:
            return True
    return False


def by_name(name: str) -> str | None:
    """Return why a program of that name is dangerous whatever it is told."""
    return _REASONS.get(name)


def named_programs() -> frozenset[str]:
    """Return the names of all programs that are dangerous whatever they are told."""
    return frozenset(_REASONS)


def program_danger(command: Command) -> str | None:
    """Return why a program is dangerous by its name."""
    name = command.name
    arguments = command.texts[1:]
    called = arguments if name in _PRSM else _of_module(arguments)
    if called and not _prsm_informs(called):
        is_shown = called[0] in _PRSM_SHOWS
        return "shows PRSM's own state" if is_shown else "changes what agents may do"
    if _REASONS.get(name) == _OUTSIDE:
        return agent_danger(command)
    reason = _REASONS.get(name) or _REASONS.get(ungnu(name))
    if reason is None and _PATTERN.fullmatch(name):
        return "deletes or overwrites data"
    return None if len(arguments) == 1 and arguments[0] in _INFORM else reason


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
        return len(arguments) > 1 and arguments[1] in {"check", "list"}
    return arguments[0] in _PRSM_INFORMS


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

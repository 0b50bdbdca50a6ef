"""What build tools are told: tasks that check, and look-ups of what is in a project.

Tasks, goals and sessions are words that a project gives a meaning to, so only names that projects
use for checks count. Look-ups load the configuration of a project and may start a toolchain that
it chooses. Both are safe only where the user trusts the workspace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.policies import HOOK_MANIFESTS, PYTHON_MANIFESTS, word_set
from prsm_policy.safe.environment import NODE, RUNNERS, in_packages, inner_check
from prsm_policy.safe.options import Syntax, operands_of, parse, read_command_lines, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.safe.options import Judge
    from prsm_policy.shell.words import Word

# Environments of tox and sessions of nox are joined of such parts: py311-django, tests-3.12.
_PART = (
    r"(?:py(?:py)?\d*|3\.\d+|django\d*|tests?|unit|integration|unittests?|pytest|all|lint(?:ers?)?"
    r"|linting|style|format|types?|typing|type_?check(?:ing)?|mypy|pyright|flake8|pylint|ruff|black"
    r"|isort|checks?|cov(?:erage)?|docs?test|static|quality|min|latest|core|fast|ci)"
)
_SESSIONS = re.compile(rf"{_PART}(?:[-_.,:]+{_PART})*")
_POSITIONAL = Syntax(
    flags="qvxsl",
    valued="kmnr",
    long=word_set(
        "maxfail= lf ff nf last-failed verbose quiet no-header no-summary durations= tb="
        " exitfirst color= showlocals timeout= cov no-cov numprocesses="
    ),
    free=frozenset({"-k", "-m"}),
)
_PRE_COMMIT = Syntax(
    flags="av",
    long=word_set("all-files files verbose show-diff-on-failure color= from-ref= to-ref="),
)
_HOOK = re.compile(r"[a-z][\w-]*")
_MANAGE = Syntax(
    flags="k",
    valued="v",
    long=word_set(
        "verbosity= keepdb parallel parallel= failfast noinput no-input no-color force-color"
        " buffer tag= exclude-tag= reverse shuffle timing debug-mode traceback deploy fail-level="
        " check dry-run"
    ),
)
_RAKE_TASK = re.compile(
    r"(?:test|spec)(?::(?:all|system|models|controllers|helpers|units|functionals|integration))?"
    r"|zeitwerk:check|rubocop|standard|lint"
)
_RAILS_OPTIONS = Syntax(
    flags="vfbd",
    valued="ns",
    long=word_set("verbose fail-fast backtrace defer-output name= seed= trace"),
    free=frozenset({"-n", "--name"}),
)
# By the words that come first.
_QUERIES = {words: rules for words, rules, _ in read_command_lines("queries")}
# What these read that an agent must not have written, since it is run or fetched by.
_READS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(word_set("npm pnpm yarn bun"), NODE),
    **dict.fromkeys(word_set("uv poetry tox nox"), PYTHON_MANIFESTS),
}
_GO_LIST = re.compile(r"-(?:m|deps|test|e|find)|--?json|--deps|-(?:json|f|tags)=.*", re.DOTALL)
_GO_LIST_VALUED: Mapping[str, Judge] = {
    option: lambda word, _place: word.known for option in ("-f", "--f", "-tags")
}
_RUN = word_set("run run-script --json")
_SCRIPT_LISTERS = word_set("npm pnpm bun")
_PROGRAMS = {words[0] for words in _QUERIES} | _SCRIPT_LISTERS | RUNNERS


class Tasks(Struct, frozen=True):
    """The command line of a tool that runs what it is told by name."""

    names: re.Pattern[str]
    options: re.Pattern[str]
    valued: Mapping[str, Judge] = {}
    needs_name: bool = True


def _is_value(word: Word, place: Place) -> bool:
    return not word.may_be_option and place.is_ordinary(word)


GRADLE = Tasks(
    re.compile(
        r":?(?:[\w-]+:)*(?:test|check|lint|detekt|ktlintCheck|spotlessCheck"
        r"|(?:checkstyle|pmd|spotbugs)(?:Main|Test)|(?:unit|integration|functional|jvm)Test"
        r"|(?:test|lint)(?:Debug|Release)(?:UnitTest)?)"
    ),
    re.compile(
        r"-[qiwS]|--(?:quiet|info|warn|stacktrace|offline|no-daemon|continue|parallel|rerun-tasks"
        r"|build-cache|no-build-cache|no-parallel|console=plain|warning-mode=\w+|max-workers=\d+"
        r"|tests=[\w.*$-]+)"
    ),
    dict.fromkeys(
        word_set("--tests -x --exclude-task --console --warning-mode --max-workers"), _is_value
    ),
)
MAVEN = Tasks(
    re.compile("test|verify"),
    re.compile(
        r"-(?:q|B|o|e|ntp|am|amd|fae|ff|T\w+)|--(?:quiet|batch-mode|offline|errors|also-make"
        r"|fail-at-end|no-transfer-progress)|-D(?:skipITs|skipTests|maven\.test\.skip"
        r"|failIfNoTests|surefire\.failIfNoSpecifiedTests|test|it\.test|checkstyle\.skip"
        r"|style\.color)(?:=[\w.,*#+!-]*)?"
    ),
    dict.fromkeys(word_set("-pl --projects -T --threads"), _is_value),
)


def _is_session(word: Word, _place: Place) -> bool:
    return _SESSIONS.fullmatch(word.text) is not None


_TOX = Tasks(
    re.compile("run|r|run-parallel|p"),
    re.compile(r"-[qvp]+|--(?:quiet|parallel|skip-pkg-install|no-recreate-pkg)|-p ?auto"),
    {"-e": _is_session},
    needs_name=False,
)
_NOX = Tasks(
    _SESSIONS,
    re.compile(
        r"-[rRvN]+|--(?:reuse-existing-virtualenvs|no-install|verbose|stop-on-first-error"
        r"|no-color|nocolor|non-interactive)|-x"
    ),
    dict.fromkeys(word_set("-e -s --session --sessions --python"), _is_session),
    needs_name=False,
)
_RAKE = Tasks(_RAKE_TASK, re.compile(r"-[qt]|--(?:trace|quiet|silent)"))
# By the program whose arguments are tasks.
_BY_TASK: Mapping[str, Tasks] = {"gradle": GRADLE, "mvn": MAVEN, "rake": _RAKE}
TASK_PROGRAMS = _BY_TASK.keys() | word_set("tox nox pre-commit rails python python3")


def is_task(words: Sequence[Word], place: Place) -> bool | None:
    """Return whether a build tool runs checks only; None for another program."""
    program, rest = words[0].text, words[1:]
    if program in {"python", "python3"} and len(words) > 1:
        if words[1].text in {"manage.py", "./manage.py"}:
            return _manage(words[2:], place)
        if words[1].text == "-m" and len(words) > 2 and words[2].text in {"tox", "nox"}:
            program, rest = words[2].text, words[3:]
    if program in {"tox", "nox"}:
        return _session(program, rest, place)
    if program == "pre-commit":
        return _pre_commit(rest, place)
    if program == "rails":
        return _rails(rest, place)
    tasks = _BY_TASK.get(program)
    return None if tasks is None else runs_tasks(rest, tasks, place)


def runs_tasks(words: Sequence[Word], tasks: Tasks, place: Place) -> bool:
    """Return whether a tool runs tasks of these names, with these options."""
    names = operands_of(words, tasks.options, tasks.valued, place)
    if names is None or not all(tasks.names.fullmatch(word.text) for word in names):
        return False
    return bool(names) or not tasks.needs_name


def _session(program: str, words: Sequence[Word], place: Place) -> bool:
    """Return whether tox or nox runs sessions that check, in environments it made itself."""
    if place.was_written(PYTHON_MANIFESTS | {f".{program}"}):
        return False
    texts = [word.text for word in words]
    at = texts.index("--") if "--" in texts else len(texts)
    if parse(words[at + 1 :], _POSITIONAL, place) is None:
        return False
    return runs_tasks(words[:at], _TOX if program == "tox" else _NOX, place)


def _pre_commit(words: Sequence[Word], place: Place) -> bool:
    if not words or words[0].text != "run" or place.was_written(HOOK_MANIFESTS):
        return False
    parsed = parse(words[1:], _PRE_COMMIT, place)
    return parsed is not None and (
        "--files" in parsed.options or all(_HOOK.fullmatch(word.text) for word in parsed.operands)
    )


def _manage(words: Sequence[Word], place: Place) -> bool:
    if not words or place.was_written({"manage.py"}):
        return False
    parsed = parse(words[1:], _MANAGE, place)
    return parsed is not None and (
        words[0].text in {"test", "check"}
        or (words[0].text == "makemigrations" and "--dry-run" in parsed.options)
    )


def _rails(words: Sequence[Word], place: Place) -> bool:
    is_named = bool(words) and _RAKE_TASK.fullmatch(words[0].text) is not None
    return is_named and parse(words[1:], _RAILS_OPTIONS, place) is not None


def is_query(words: Sequence[Word], place: Place) -> bool:
    """Return whether a build tool only tells what is in the project."""
    program = words[0].text
    if program not in _PROGRAMS and "/" not in program:
        return False
    if program in _SCRIPT_LISTERS and words[-1].text in _RUN:
        return not place.was_written(NODE) and _lists_scripts(words, place)
    inner = inner_check(words, place)
    if inner is not None:
        return bool(inner) and is_query(inner, place)
    texts = [word.text for word in words]
    if texts[:2] == ["go", "list"]:
        return _go_list(words[2:], place)
    row = row_of(_QUERIES, texts)
    is_known = row is not None and all(word.exact for word in words)
    return row is not None and is_known and _is_told_by(program, words[row[0] :], row[1], place)


def _is_told_by(program: str, words: Sequence[Word], rules: Syntax, place: Place) -> bool:
    """Return whether a tool has such options, and reads nothing that an agent wrote to be run."""
    if rules.no_input and any(word.text == "-" for word in words):
        return False  # the names of files come from the input
    is_own = not place.was_written(_READS.get(program, ()))
    return is_own and parse(words, rules, place) is not None


def _lists_scripts(words: Sequence[Word], place: Place) -> bool:
    """Return whether a package manager is told to run a script, and not which."""
    chosen = in_packages(words, place) if all(word.exact for word in words) else None
    if chosen is None:
        return False
    texts = [word.text for word in chosen[0][1:] if word.text != "--json"]
    return len(texts) == 1 and texts[0] in _RUN


def _go_list(words: Sequence[Word], place: Place) -> bool:
    packages = operands_of(words, _GO_LIST, _GO_LIST_VALUED, place)
    # One with a version is fetched.
    return packages is not None and all(
        word.exact and "@" not in word.text and place.is_ordinary(word) for word in packages
    )

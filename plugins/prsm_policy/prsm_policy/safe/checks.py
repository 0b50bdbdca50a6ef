"""A project's own checks (tests, linters, type checkers) and the version output of its tools.

The checks run the code of the workspace, so they are safe only where the user trusts it, and only
without options that name another program, configuration, project or output.

A program prints its version here if its documentation says that the option ends it before it looks
for a project, a plugin or a configuration below the folder it starts in. Others load code of the
repository first: yarn (`yarnPath`), pnpm (`packageManager`), jest, eslint, prettier and the like
(their configuration), pytest (conftest.py), flake8 and pylint (plugins), mvn (`.mvn`), bundle and
composer (the lock file), poetry and hatch (plugins), hg (`.hg/hgrc`), ansible, gemini.
"""

from __future__ import annotations

import os
import re
import stat
from itertools import dropwhile
from os import lstat
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.policies import is_within, word_set
from prsm_policy.safe.ecosystems import TASK_PROGRAMS, is_task
from prsm_policy.safe.environment import (
    NODE,
    RUN_SCRIPTS,
    RUNNERS,
    in_packages,
    inner_check,
    may_be_written,
)
from prsm_policy.safe.options import (
    Syntax,
    are_harmless,
    operands_of,
    parse,
    read_command_lines,
    row_of,
)
from prsm_policy.tables import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.safe.options import Judge
    from prsm_policy.shell.words import Word

_RUST = word_set("cargo rustc rustup rustfmt rustdoc")
VERSIONED = _RUST | word_set(
    "python python3 pip pip3 uv uvx ruff mypy pyright black isort node npm npx deno bun tsc"
    " gcc g++ cc c++ clang clang++ ld as nasm make cmake ninja meson ghc swift ocaml zig nim"
    " kotlinc scalac java javac ruby gem perl php lua luajit R Rscript julia erl elixir"
    " git gh svn docker docker-compose podman kubectl helm bash sh zsh fish tar gzip"
    " curl wget rg fd jq yq grep egrep fgrep sed awk gawk find tree ls cat head tail wc sort uniq"
    " cut tr diff cmp cp mv mkdir touch date du df stat file xargs less openssl ssh psql mysql"
    " sqlite3 redis-cli ffmpeg shellcheck shfmt hadolint codex claude dotnet conda nvidia-smi go"
    " busybox bwrap tmux vim nano env timeout nice sha256sum md5sum base64 xz zip unzip bzip2"
)
_SHORT = word_set(
    "python:-V python3:-V node:-v npm:-v cargo:-V cargo:-vV rustc:-V rustc:-vV ruby:-v php:-v"
    " perl:-v go:version java:-version javac:-version docker:version tsc:-v"
    " mypy:-V pip:-V pip3:-V ruff:-V ruff:version black:-V kubectl:version:--client helm:version"
    " uv:-V cmake:-version lua:-v tmux:-V ssh:-V openssl:version git:version rustup:-V"
)
# Files from which version managers take which program starts: a path, or what they download.
_MANAGED = word_set(".tool-versions mise.toml .mise.toml")
_BY_SHIM = word_set(
    "python python3 pip pip3 node npm npx deno bun tsc java javac kotlinc scalac ruby gem perl php"
    " lua julia erl elixir zig nim go terraform kubectl helm"
)
_TOOLCHAINS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(_RUST, word_set("rust-toolchain rust-toolchain.toml")),
    "go": word_set("go.mod go.work"),
    "dotnet": word_set("global.json"),
    "erl": word_set(".erlang"),
    "elixir": word_set(".erlang"),
}
_MAX_FOLDERS = 40  # above one another


# Programs of packages that a runner may start if they are there.
PACKAGED = word_set("tsc vue-tsc eslint prettier jest vitest mocha biome oxlint pyright")

# Filters of warnings, and plugins that are switched off.
_PYTEST_VALUES = {
    "-W": re.compile(
        r"(?:error|ignore|default|always|once|module)(?::{1,2}(?:[A-Z][A-Za-z]*Warning)?)?"
    ),
    "-p": re.compile(r"no:[a-z]+"),
}
_TSCONFIG = re.compile(r"(?:[\w.@-]+/)*tsconfig[\w.-]*\.json")

# By the words that come first: its options, and those of which it needs at least one.
_CHECKS = {words: rules for words, rules, _ in read_command_lines("checks")}
_NEEDED = {
    words: words_of(fields, "needs")
    for words, _, fields in read_command_lines("checks")
    if "needs" in fields
}
_PYTEST = _CHECKS[("pytest",)]
_UNITTEST = _CHECKS[("python", "-m", "unittest")]
_TSC = _CHECKS[("tsc",)]
CARGO = Syntax(
    flags="qv",
    valued="pjF",
    long=word_set(
        "all workspace release lib bins bin= tests test= doc benches examples example= all-targets"
        " all-features no-fail-fast no-run no-deps keep-going no-default-features features="
        " package= exclude= jobs= quiet verbose locked offline frozen color= message-format="
    ),
)
_CARGO_CHECKS = frozenset({("test",), ("check",), ("clippy",)})
_CARGO_PASSED_ON = re.compile(
    r"--(?:nocapture|exact|ignored|include-ignored|show-output|list|quiet|test-threads=\d+)"
    r"|-[DWAF]|-q"
)
_PACKAGERS = frozenset({"npm", "yarn", "pnpm", "bun"})
_SCRIPT = re.compile(
    r"(?:test|lint|typecheck|type-check|check-types|types|format:check|fmt:check|format-check)"
    r"(?::(?:unit|integration|ci|all|js|ts|types|check|backend|frontend|client|server|api|node|run"
    r"|coverage|cov|quick|web|app|ui|core|lib|packages|src|tests?|css|md|styles?))?"
)
# These run a script, or a program of a package, by its name alone.
_RUN_BY_NAME = frozenset({"yarn", "pnpm"})
_RUN = frozenset({"run", "run-script"})
_SILENT = frozenset({"--silent", "-s"})
_TEST_OPTION = re.compile(
    r"--(?:watch(?:All)?=false|no-watch|coverage|no-coverage|ci|run|bail|silent|verbose|runInBand"
    r"|max-warnings=\d+|quiet|reporter=(?:dot|spec|verbose|default)"
    r"|(?:testPathPatterns?|testNamePattern|grep)=[\w./ -]+)"
)
_MAKE_TARGETS = word_set(
    "test tests lint check typecheck type-check format-check fmt-check check-format unit-test"
    " unittest test-unit vet"
)
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_MAKE_VALUED: Mapping[str, Judge] = dict.fromkeys(
    ("-C", "--directory"), lambda word, place: place.has_one_of(word, _MAKEFILES)
)
_MAKE_PLAN = re.compile(r"-[sk]*n[sk]*|--(?:dry-run|just-print|recon)")
_MAKE_OPTION = re.compile(
    rf"{_MAKE_PLAN.pattern}|-[sk]+|-j\d*|--(?:silent|quiet|keep-going|no-print-directory)"
)
_MAKE_TARGET = re.compile(r"[A-Za-z0-9][\w./-]*")
_GO_OPTION = re.compile(
    r"--?(?:v|race|short|cover|failfast|json|benchmem"
    r"|(?:count|run|skip|bench|benchtime|timeout|parallel|cpu|shuffle|list|covermode|tags)=.*)"
)
_GO_VALUED: Mapping[str, Judge] = {
    f"{dashes}{name}": lambda word, _place: word.known
    for name in word_set("count run skip bench benchtime timeout parallel cpu list p")
    for dashes in ("-", "--")
}

# Of the same kind, but what they are told of here is their version, and they load code for it.
_LOADERS = word_set(
    "poetry pipenv pdm hatch pylint tox nox pre-commit coverage bundle rake composer stack bazel"
    " mvn gradle sbt kotlin scala prettier jest vitest mocha webpack vite next nest hg ansible"
    " vagrant gemini nvm"
)
# All whose arguments are told apart here.
CHECKERS = (
    VERSIONED
    | _LOADERS
    | _PACKAGERS
    | word_set("pytest flake8 eslint phpunit pest phpstan psalm pint")
)
# All that may run a check, but for what only a path leads to.
_PROGRAMS = (
    {words[0] for words in _CHECKS}
    | {"cargo", "make", "go", "npx", "pip", "pip3"}
    | _PACKAGERS
    | TASK_PROGRAMS
    | RUNNERS
)
# What is fetched, and run by some.
FETCHED = re.compile(r"[^/]*://|(?:npm|jsr|github|gitlab|data|file|https?|git(?:\+\w+)?):")
_PIP_LISTS = frozenset({"list", "show", "freeze"})
_PIP_OPTION = re.compile(r"--(?:outdated|uptodate|local|user|not-required|all|format=[a-z]+)|-[ou]")
_NPM_LISTS = frozenset({"ls", "list", "ll", "la"})
_NPM_OPTION = re.compile(
    r"-g|-a|--(?:global|all|json|long|parseable|prod|production|dev|link|depth=\d+|omit=[a-z]+)"
)
_NAME = re.compile(r"[A-Za-z0-9@][A-Za-z0-9._@/-]*")
_GO_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_PYTHON = re.compile(r"python3?(?:\.\d+)?$")
_NO_RUN = word_set(
    "--version --help -h --collect-only --co --exit-zero --no-run --list --listTests --list-tests"
    " -list --dry-run --just-print --recon --show-files --show-only --fixtures --markers"
    " --setup-plan --print-config"
)
# These run what follows.
_RUNNERS = (
    *((name, "run") for name in ("uv", "poetry", "pipenv", "pdm", "rye", "hatch")),
    *((name, "exec") for name in ("pnpm", "yarn", "npm", "bundle")),
    ("npx",),
    ("bunx",),
    ("uvx",),
)
# Beside those that may run unasked where the workspace is trusted.
_MORE = {
    ("cargo", "test"), ("cargo", "check"), ("cargo", "clippy"), ("go", "test"), ("go", "vet"),
    ("gradlew", "test"), ("gradlew", "check"), ("mvnw", "test"), ("mvn", "verify"),
    ("pre-commit", "run"), ("hatch", "test"), ("deno", "test"), ("composer", "test"),
    ("rake", "test"), ("bazel", "test"), ("sbt", "test"), ("stack", "test"), ("node", "--test"),
    ("just", "test"), ("tox",), ("nox",), ("phpunit",), ("python", "-m", "tox"),
    ("python", "-m", "nox"),
}  # fmt: skip
# All that have a name, by the options of which they need at least one.
_NAMED = {words: _NEEDED.get(words, frozenset()) for words in _CHECKS.keys() | _MORE}
_NO_INSTALL = frozenset({"--no-install", "--no", "--offline"})


def _prints_version(texts: Sequence[str]) -> bool:
    """Return whether a command prints the version of a program that loads nothing for it."""
    if len(texts) == 2 and texts[1] == "--version":
        return texts[0] in VERSIONED
    return ":".join(texts) in _SHORT


def is_its_own(program: str, place: Place) -> bool:
    """Return whether no file of the workspace chooses what starts under the name of a program."""
    if not place.is_seen:
        return True
    names = _TOOLCHAINS.get(program, frozenset())
    if program in _BY_SHIM:
        names |= _MANAGED
    return not names or not any(_has_any(folder, names, place) for folder in place.folders)


def _has_any(folder: str, names: frozenset[str], place: Place) -> bool:
    """Return whether a folder, or one above it in the workspace, has a file of these names."""
    for _ in range(_MAX_FOLDERS):
        if any(_exists(f"{folder}/{name}", place) for name in names):
            return True
        if folder == place.root or len(folder) <= 1:
            return False
        folder = folder.rpartition("/")[0]
    return True


def _exists(path: str, place: Place) -> bool:
    if not place.looks.spend():
        return True
    try:
        return not stat.S_ISDIR(lstat(path).st_mode)
    except OSError:
        return False


def is_project_check(words: Sequence[Word], place: Place) -> bool:
    """Return whether a command runs one of the project's checks and nothing else."""
    program = words[0].text
    if (program not in _PROGRAMS and "/" not in program) or not all(word.exact for word in words):
        return False
    texts = tuple(word.text for word in words)
    # Several of these tools would read more arguments from a file that an @ names.
    may_read_more = program not in _PACKAGERS and any(text.startswith("@") for text in texts)
    if may_read_more or any(map(FETCHED.match, texts)):
        return False
    inner = inner_check(words, place)
    if inner is not None:
        return bool(inner) and _is_inner_check(program, inner, place)
    if may_be_written(place):
        return False
    if program in _PACKAGERS or program == "npx":
        return not place.was_written(NODE) and _package(words, place)
    if (is_check := is_task(words, place)) is not None:
        return is_check
    if program == "cargo" and texts[1:2] in _CARGO_CHECKS:
        return _cargo(texts, words[2:], place)
    if program == "make":
        return made_by(words[1:], _MAKE_TARGETS, place)
    if texts[:2] in {("go", "test"), ("go", "vet")}:
        packages = operands_of(words[2:], _GO_OPTION, _GO_VALUED, place)
        return packages is not None and all(map(place.is_ordinary, packages))
    return _by_table(words, texts, place)


def _is_inner_check(runner: str, words: Sequence[Word], place: Place) -> bool:
    """Return whether a program of the environment checks, or tells its version or packages."""
    texts = tuple(word.text for word in words)
    if runner in RUN_SCRIPTS and _SCRIPT.fullmatch(texts[0]):
        return all(map(place.is_ordinary, words[1:])) and not any(
            word.may_be_option for word in words[1:]
        )
    return is_version_output(texts, place, trusted=True) or is_project_check(words, place)


def check_named(texts: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """Return which check of the project a command line runs, and its arguments; None for none."""
    if not texts or not _NO_RUN.isdisjoint(texts):
        return None
    program = texts[0].rpartition("/")[2]
    words = (_PYTHON.sub("python", program), *texts[1:])
    runner = next((runner for runner in _RUNNERS if words[: len(runner)] == runner), None)
    if runner is not None:
        rest = words[len(runner) :]
        start = next((at for at, word in enumerate(rest) if word[:1] != "-"), 0)
        return check_named(rest[start:])
    if program in _PACKAGERS:
        at = 2 if words[1:2] in {("run",), ("run-script",)} else 1
        if _SCRIPT.fullmatch(name := "".join(words[at : at + 1])):
            return f"{program} {name}", words[at + 1 :]
        return check_named(words[1:]) if program in _RUN_BY_NAME else None
    if program == "make":
        targets = [word for word in words[1:] if word in _MAKE_TARGETS]
        is_plan = any(_MAKE_PLAN.fullmatch(word) for word in words[1:])
        return (f"make {' '.join(targets)}", ()) if targets and not is_plan else None
    row = row_of(_NAMED, words)
    if row is None or (row[1] and row[1].isdisjoint(texts)):
        return None
    size, _needed = row
    return " ".join(words[:size]).removeprefix("python -m "), words[size:]


def is_version_output(texts: Sequence[str], place: Place, *, trusted: bool = False) -> bool:
    """Return whether a command prints a version, a list of packages, or a setting of go."""
    program, rest = texts[0], tuple(texts[1:])
    if _prints_version(texts):
        return trusted or is_its_own(program, place)
    if program in {"pip", "pip3"} and rest and rest[0] in _PIP_LISTS:
        return all(_NAME.fullmatch(text) or _PIP_OPTION.fullmatch(text) for text in rest[1:])
    if program == "npm" and rest and rest[0] in _NPM_LISTS:
        names = [text for text in rest[1:] if text != "--depth"]
        return all(_NAME.fullmatch(text) or _NPM_OPTION.fullmatch(text) for text in names)
    if (program, *rest[:1]) == ("go", "env") and (trusted or is_its_own(program, place)):
        return len(rest) > 1 and all(_GO_VARIABLE.fullmatch(text) for text in rest[1:])
    return False


def _by_table(words: Sequence[Word], texts: tuple[str, ...], place: Place) -> bool:
    if texts[1:3] == ("-m", "pip") and texts[0] in {"python", "python3"}:
        return is_version_output(("pip", *texts[3:]), place, trusted=True)
    if texts[:2] == ("cargo", "fmt"):
        words = [word for word in words if word.text != "--"]
    row = row_of(_CHECKS, texts)
    if row is None:
        return False
    size, rules = row
    rest = list(words[size:])
    if (needed := _NEEDED.get(texts[:size])) is not None and needed.isdisjoint(texts):
        return False
    if rules is _UNITTEST and rest and rest[0].text == "discover":
        rest = rest[1:]
    if rules is _PYTEST:
        rest = _without_warnings(rest)
    parsed = parse(rest, rules, place)
    if parsed is None or not are_harmless(texts, parsed.values):
        return False
    # What a type checker is told of projects must be configured in the workspace.
    return rules is not _TSC or all(_TSCONFIG.fullmatch(value.text) for _, value in parsed.values)


def _without_warnings(words: Sequence[Word]) -> list[Word]:
    """Leave out the filters of warnings and the plugins that are switched off, if harmless."""
    rest = list(words)
    kept: list[Word] = []
    while rest:
        word = rest.pop(0)
        shape = _PYTEST_VALUES.get(word.text)
        if shape is not None and rest and shape.fullmatch(rest[0].text):
            rest.pop(0)
        else:
            kept.append(word)
    return kept


def script_named(
    words: Sequence[Word], names: re.Pattern[str], programs: frozenset[str], place: Place
) -> bool | Sequence[Word]:
    """Return whether a package manager runs such a script, or the command line it runs instead."""
    program = words[0].text
    chosen = in_packages(words, place) if program in _PACKAGERS else (words, False)
    if chosen is None:
        return False
    words, is_elsewhere = chosen
    package = _packaged(words, programs)
    if package is not None:
        # Only npx downloads; where else a package has its programs is not looked up.
        return package if is_elsewhere or _is_there(package[0].text, place) else False
    return program in _PACKAGERS and _script(program, words[1:], names, place)


def _package(words: Sequence[Word], place: Place) -> bool:
    """Return whether a package manager runs a check: a script, or a program that is there."""
    found = script_named(words, _SCRIPT, PACKAGED, place)
    return found if isinstance(found, bool) else is_project_check(found, place)


def _script(program: str, words: Sequence[Word], names: re.Pattern[str], place: Place) -> bool:
    rest = [word for word in words if word.text not in _SILENT] if len(words) > 1 else words
    at = 1 if rest and rest[0].text in _RUN else 0
    name = rest[at].text if at < len(rest) and rest[at].known else ""
    is_run = at or program in _RUN_BY_NAME
    if not (is_run or name == "test") or not names.fullmatch(name):
        return False
    passed = rest[at + 1 :]
    if passed and passed[0].text == "--":
        passed = passed[1:]
    elif program == "npm" and passed:
        return False  # it may be for npm
    return all(
        _TEST_OPTION.fullmatch(word.text) if word.may_be_option else place.is_ordinary(word)
        for word in passed
    )


def _packaged(words: Sequence[Word], programs: frozenset[str]) -> Sequence[Word] | None:
    """Return the command line of a program of a package that a runner starts, None for others."""
    texts = [word.text for word in words]
    if texts[0] == "npx":
        rest: Sequence[Word] = tuple(dropwhile(lambda word: word.text in _NO_INSTALL, words[1:]))
    elif texts[:2] in (["pnpm", "exec"], ["yarn", "exec"], ["yarn", "run"]):
        rest = words[2:]
    else:
        rest = words[1:] if texts[0] in _RUN_BY_NAME else ()
    return rest if rest and rest[0].known and rest[0].text in programs else None


def _is_there(program: str, place: Place) -> bool:
    """Return whether a program is installed in the workspace, so that none is downloaded."""
    files = [Path(folder, "node_modules", ".bin", program) for folder in place.folders]
    return all(is_within(os.path.realpath(file), place.root) and file.exists() for file in files)


def made_by(
    words: Sequence[Word], names: frozenset[str], place: Place, *, first: bool = False
) -> bool:
    """Return whether make makes such targets, or tells what it would; `first` if none is named."""
    operands = operands_of(words, _MAKE_OPTION, _MAKE_VALUED, place)
    if operands is None:
        return False
    targets = [word.text for word in operands]
    texts = {word.text for word in words}
    if any(map(_MAKE_PLAN.fullmatch, texts)):
        return texts.isdisjoint(_MAKE_VALUED) and all(map(_MAKE_TARGET.fullmatch, targets))
    return (first or bool(targets)) and names.issuperset(targets)


def _cargo(texts: Sequence[str], arguments: Sequence[Word], place: Place) -> bool:
    parsed = parse(arguments, CARGO, place)
    if parsed is None or not are_harmless(texts, parsed.values):
        return False
    # What stands behind -- goes to the test program or to the compiler.
    options = [word.text for word in parsed.operands if word.text.startswith("-")]
    return all(_CARGO_PASSED_ON.fullmatch(option) for option in options)

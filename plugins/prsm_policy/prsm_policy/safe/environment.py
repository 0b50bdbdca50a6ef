"""The project's own environment: programs that lie in the workspace, and tools that run them.

They are safe only where the user trusts the workspace, for what they run is one of the project's
checks, and where no agent has written what they lie in or fetch by.
"""

from __future__ import annotations

import os
import re
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.policies import PYTHON_MANIFESTS, is_within, word_set
from prsm_policy.shell.words import Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.places import Place

_PYTHON = word_set(".venv venv site-packages")
_GRADLE = word_set("gradlew gradle/wrapper")
_MAVEN = word_set("mvnw .mvn")
_COMPOSER = word_set("vendor")
_BUNDLE = word_set("vendor .bundle")
NODE = word_set("node_modules .yarn .pnp.cjs")
# By the folder that a program lies in: the environment.
_FOLDERS: Mapping[str, frozenset[str]] = {
    ".venv/bin": _PYTHON,
    "venv/bin": _PYTHON,
    "vendor/bin": _COMPOSER,
}
# Scripts of a project: the environment, and the program that they start.
_SCRIPTS: Mapping[str, tuple[frozenset[str], str]] = {
    "gradlew": (_GRADLE, "gradle"),
    "mvnw": (_MAVEN, "mvn"),
    **{
        f"bin/{name}": (_BUNDLE | {f"bin/{name}"}, name)
        for name in ("rails", "rake", "rspec", "rubocop")
    },
}
_INTERPRETER = re.compile(r"python[0-9.]*")
_ACTIVATE = re.compile(r"(?:.*/)?(\.venv|venv)/bin/activate")
_BY_MANIFEST = _PYTHON | PYTHON_MANIFESTS
# They take the name of a script of the project as well.
RUN_SCRIPTS = word_set("pdm hatch rye pipenv")
_OPTION = re.compile(r"(--[a-z-]+)=[\w.,-]+")
_OF_YARN = word_set("workspace workspaces")
_PACKAGE = re.compile(r"[\w@.!{\[][\w@./*{}\[\]^~-]*")
_FOREACH = word_set("-A --all -p --parallel -t --topological -v --verbose -i --interlaced -R")


class _Runner(Struct, frozen=True):
    """A tool that runs a program of an environment: what it reads, and its options."""

    names: frozenset[str]
    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()


_RUNNERS: Mapping[tuple[str, ...], _Runner] = {
    ("uv", "run"): _Runner(
        _BY_MANIFEST,
        word_set(
            "--frozen --locked --no-sync --offline --quiet -q --verbose -v --all-extras --dev"
            " --all-groups --no-dev --no-progress --exact --all-packages"
        ),
        word_set("--extra --group --only-group --no-group --no-extra --package"),
    ),
    **{
        (name, "run"): _Runner(_BY_MANIFEST) for name in ("poetry", "pdm", "pipenv", "rye", "hatch")
    },
    ("bundle", "exec"): _Runner(_BUNDLE),
}
RUNNERS = frozenset(start[0] for start in _RUNNERS)


def inner_check(words: Sequence[Word], place: Place) -> Sequence[Word] | None:
    """Return what a program of the project's environment is told to run, by bare names.

    None is for any other command; nothing where an agent may have written what would run.
    """
    if "/" in words[0].text:
        return _by_path(words, place)
    runner = _RUNNERS.get(tuple([word.text for word in words[:2]]))
    if runner is None:
        return None
    return () if place.was_written(runner.names) else _behind_options(words[2:], runner)


def may_be_written(place: Place) -> bool:
    """Return whether a bare name may lead to a program that an agent has written.

    It does where a virtual environment of the workspace was taken up before PRSM was started.
    """
    if not place.was_written(_PYTHON | NODE | _COMPOSER):
        return False
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return any(is_within(os.path.realpath(folder), place.root) for folder in folders)


def is_activation(words: Sequence[Word], place: Place) -> bool:
    """Return whether a shell takes up a virtual environment that no agent has written."""
    if len(words) != 2 or words[0].text not in {"source", "."} or not words[1].known:
        return False
    match = _ACTIVATE.fullmatch(words[1].text)
    return (
        match is not None
        and not place.was_written(_PYTHON)
        and all(_lies_in(folder, words[1].text, place) for folder in place.folders)
    )


def _by_path(words: Sequence[Word], place: Place) -> Sequence[Word]:
    text = words[0].text
    *_, folder, name = ("", *text.split("/"))
    last = "/".join(text.split("/")[-3:-1])
    script = _SCRIPTS.get(name) or _SCRIPTS.get(f"{folder}/{name}")
    names = script[0] if script else _FOLDERS.get(last)
    if names is None or not words[0].known or place.was_written(names):
        return ()
    if not all(_lies_in(each, text, place) for each in place.folders):
        return ()
    is_versioned = name != "python" and _INTERPRETER.fullmatch(name)
    program = script[1] if script else "python3" if is_versioned else name
    return (Word(program), *words[1:])


def _lies_in(folder: str, text: str, place: Place) -> bool:
    """Return whether a program is where its path says, or is an interpreter of the machine."""
    path = Path(folder, text)
    home = os.path.realpath(path.parent)
    if not is_within(home, place.root) or home != os.path.normpath(path.parent):
        return False
    resolved = os.path.realpath(path)
    if _INTERPRETER.fullmatch(path.name):
        return not is_within(resolved, place.root) or is_within(resolved, home)
    return is_within(resolved, place.root)


def _behind_options(words: Sequence[Word], runner: _Runner) -> Sequence[Word]:
    """Return what is run behind the options of a runner, nothing with one that is not known."""
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        text = rest.pop(0).text
        match = _OPTION.fullmatch(text)
        if text == "--":
            return rest
        if runner.flags and text in {"-m", "--module"}:
            return (Word("python"), Word("-m"), *rest)
        if text in runner.valued and rest and not rest[0].may_be_option:
            rest.pop(0)
        elif text not in runner.flags and not (match and match[1] in runner.valued):
            return ()
    return rest


class _Chooser(Struct, frozen=True):
    """Options of a package manager that choose packages: none, a name, or a folder behind them.

    Without them a command line is one of the root package: `pnpm --filter ui test` is `pnpm test`.
    """

    flags: frozenset[str]
    named: frozenset[str]
    folders: frozenset[str]


_CHOOSERS: Mapping[str, _Chooser] = {
    "npm": _Chooser(
        word_set("--workspaces -ws --if-present --include-workspace-root --silent -s"),
        word_set("--workspace -w"),
        word_set("--prefix"),
    ),
    "pnpm": _Chooser(
        word_set(
            "-r --recursive -w --workspace-root --if-present --silent -s --parallel --stream"
            " --no-bail --aggregate-output"
        ),
        word_set("--filter -F"),
        word_set("-C --dir"),
    ),
    "yarn": _Chooser(word_set("--silent -s"), frozenset(), word_set("--cwd")),
    "bun": _Chooser(word_set("--silent"), word_set("--filter"), word_set("--cwd")),
}


def in_packages(words: Sequence[Word], place: Place) -> tuple[Sequence[Word], bool] | None:
    """Return a command line without what chooses packages, and whether anything did.

    None is for one that chooses what is not in the workspace.
    """
    if not any(word.text[:1] == "-" or word.text in _OF_YARN for word in words):
        return words, False
    program, rest = words[0].text, list(words[1:])
    chooser = _CHOOSERS[program]
    if program == "yarn":
        rest = _behind_workspace(rest)
    end = next((at for at, word in enumerate(rest) if word.text == "--"), len(rest))
    kept: list[Word] = []
    own = iter(rest[:end])
    for word in own:
        name, equals, value = word.text.partition("=")
        if word.text in chooser.flags:
            continue
        if name not in chooser.named | chooser.folders:
            kept.append(word)
            # What a script is told begins behind its name, and is not for the package manager.
            if program != "npm" and len(kept) > 1 + (kept[0].text in {"run", "exec"}):
                kept += own
            continue
        chosen = word.told(value) if equals else next(own, None)
        if chosen is None:
            return None
        if name in chooser.folders:
            is_here = place.has_one_of(chosen, ("package.json",))
        else:
            is_here = chosen.known and place.is_ordinary(chosen)
            is_here = is_here and _PACKAGE.fullmatch(chosen.text) is not None
        if not is_here:
            return None
    is_chosen = len(kept) < end or len(rest) < len(words) - 1
    return (words[0], *kept, *rest[end:]), is_chosen


def _behind_workspace(words: list[Word]) -> list[Word]:
    texts = [word.text for word in words]
    if texts[:1] == ["workspace"] and len(words) > 2 and _PACKAGE.fullmatch(texts[1]):
        return words[2:]
    if texts[:2] == ["workspaces", "foreach"]:
        return list(dropwhile(lambda word: word.text in _FOREACH, words[2:]))
    return words[2:] if texts[:2] == ["workspaces", "run"] else words

"""The class of commands that build the project, into folders that git ignores by custom.

They run the project's code and leave what they make. So they are no checks: a person says once for
a workspace whether agents may build it. It holds only where the workspace is trusted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import PYTHON_MANIFESTS, names_of, word_set
from prsm_policy.safe import sets_only_harmless
from prsm_policy.safe.checks import CARGO, FETCHED, made_by, script_named
from prsm_policy.safe.ecosystems import (
    GRADLE_OPTION,
    GRADLE_VALUED,
    MAVEN_OPTION,
    MAVEN_VALUED,
    Tasks,
    runs_tasks,
)
from prsm_policy.safe.environment import NODE, RUNNERS, inner_check
from prsm_policy.safe.formats import are_harmless
from prsm_policy.safe.options import Syntax, parse, read_command_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Word

_SCRIPT = re.compile(
    r"(?:build|compile|transpile|bundle|tsc)(?:[:-](?:prod(?:uction)?|dev(?:elopment)?|client|server"
    r"|web|app|ui|api|libs?|types|css|styles|js|ts|esm|cjs|umd|all|docs|main|renderer|wasm|packages"
    r"|core|ci|tests?|backend|frontend|node|browser|fast))?"
)
_GRADLE = Tasks(
    re.compile(
        r":?(?:[\w-]+:)*(?:build|assemble|clean|classes|testClasses|jar|bootJar|shadowJar"
        r"|compile(?:Test)?(?:Java|Kotlin|Groovy|Scala)"
        r"|(?:assemble|compile|bundle)(?:Debug|Release)(?:Kotlin|JavaWithJavac|Sources)?)"
    ),
    GRADLE_OPTION,
    GRADLE_VALUED,
)
_MAVEN = Tasks(
    re.compile("clean|compile|test-compile|process-classes|package|verify"),
    MAVEN_OPTION,
    MAVEN_VALUED,
)
_MAKE = word_set("all build compile debug release")
_OUTPUT = re.compile(r"(?:\./)?(?:build|out|dist|target|bin|tmp)(?:/[\w.-]+)*/?")
_CMAKE_BUILD = Syntax(
    flags="v",
    valued="jt",
    long=word_set("parallel parallel= config= target= verbose clean-first"),
    max_operands=0,
)
_CMAKE_TARGETS = re.compile(r"all|clean|tests?|[\w-]*_tests?|[\w-]*lib[\w-]*")
_CMAKE_OPTION = re.compile(
    r"-D(?:CMAKE_BUILD_TYPE|CMAKE_EXPORT_COMPILE_COMMANDS|BUILD_[A-Z_]+|ENABLE_[A-Z_]+|WITH_[A-Z_]+)"
    r"(?::[A-Z]+)?=\w+|-G(?:Ninja|Unix Makefiles)|-Wno-dev"
)
# By the words that come first.
_BY_OPTIONS = {
    ("cargo", "build"): CARGO,
    **{words: rules for words, rules, _ in read_command_lines("builds")},
}
_PYTHON_BUILDS = word_set("python python3 uv poetry hatch")
_OF_NODE = word_set("tsc vue-tsc vite next nuxt astro ng webpack rollup turbo nx")
_PACKAGERS = word_set("npm pnpm yarn bun npx")

_PROGRAMS = (
    {words[0] for words in _BY_OPTIONS}
    | {"make", "gradle", "mvn", "go", "cmake", "ninja"}
    | _PACKAGERS
    | RUNNERS
)


def is_build(command: Command, place: Place) -> bool:
    """Return whether a simple command builds the project, and does nothing else."""
    if not place.is_trusted or command.writes or command.feeds or not command.words:
        return False
    program = command.words[0].text
    if program not in _PROGRAMS and "/" not in program:
        return False
    if not sets_only_harmless(command, place, trusted=True):
        return False
    is_told = all(word.known and not FETCHED.match(word.text) for word in command.words)
    return is_told and _builds(command.words, place)


def are_builds(parts: Iterable[tuple[Command, Place]]) -> bool:
    """Return whether each of some parts of a command, at least one, builds the project."""
    found = [is_build(part, place) for part, place in parts]
    return bool(found) and all(found)


def _builds(words: Sequence[Word], place: Place) -> bool:
    inner = inner_check(words, place)
    if inner is not None:
        return bool(inner) and _builds(inner, place)
    program, rest = words[0].text, words[1:]
    if program in _PACKAGERS:
        return not place.was_written(NODE) and _packaged(words, place)
    if program == "make":
        return made_by(rest, _MAKE, place, first=True)
    if program in {"gradle", "mvn"}:
        return runs_tasks(rest, _GRADLE if program == "gradle" else _MAVEN, place)
    if program == "go":
        return bool(rest) and rest[0].text == "build" and _go(rest[1:], place)
    if program == "cmake":
        return _cmake(rest, place)
    if program == "ninja":
        return _ninja(rest)
    return _by_options(words, place)


def _by_options(words: Sequence[Word], place: Place) -> bool:
    program, texts = words[0].text, tuple(word.text for word in words)
    if program in _PYTHON_BUILDS and place.was_written(PYTHON_MANIFESTS):
        return False  # what it builds with is fetched
    for length in (3, 2, 1):
        rules = _BY_OPTIONS.get(texts[:length])
        if rules is not None:
            parsed = parse(words[length:], rules, place)
            return parsed is not None and are_harmless(texts, parsed.values)
    return False


def _packaged(words: Sequence[Word], place: Place) -> bool:
    """Return whether a package manager runs a script that builds, or a program that does."""
    found = script_named(words, _SCRIPT, _OF_NODE, place)
    if isinstance(found, bool):
        return found
    return _by_options(found, place)


def _go(words: Sequence[Word], place: Place) -> bool:
    """Return whether go builds packages without a file, or into a folder for such files."""
    is_kept, packages = False, []
    own = iter(words)
    for word in own:
        if word.text == "-o":
            target = next(own, None)
            if target is None or not _is_output(target, place):
                return False
            is_kept = True
        elif word.text in {"-tags", "-p"}:
            if next(own, None) is None:
                return False
        elif word.may_be_option:
            if not re.fullmatch(r"-(?:v|race|x|n|a|trimpath|cover|tags=[\w,]+|p=\d+)", word.text):
                return False
        else:
            packages.append(word)
    if not all(map(place.is_ordinary, packages)):
        return False
    return is_kept or any(word.text.endswith("...") for word in packages)


def _is_output(word: Word, place: Place) -> bool:
    if word.text == "/dev/null":
        return True
    is_apart = _OUTPUT.fullmatch(word.text) is not None and not names_of(word.text)
    return is_apart and place.is_writable(word)


def _cmake(words: Sequence[Word], place: Place) -> bool:
    if not words:
        return False
    if words[0].text == "--build":
        if len(words) < 2 or not _is_output(words[1], place):
            return False
        parsed = parse(words[2:], _CMAKE_BUILD, place)
        return parsed is not None and all(
            _CMAKE_TARGETS.fullmatch(value.text)
            for option, value in parsed.values
            if option in {"-t", "--target"}
        )
    own = iter(words)
    for word in own:
        value = next(own, None) if word.text in {"-S", "-B", "-G"} else word
        if value is None:
            return False
        is_place = word.text == "-S" and place.is_ordinary(value)
        is_target = word.text == "-B" and _is_output(value, place)
        is_kind = word.text == "-G" and value.text in {"Ninja", "Unix Makefiles"}
        if not (is_place or is_target or is_kind or _CMAKE_OPTION.fullmatch(word.text)):
            return False
    return "-B" in {word.text for word in words}


def _ninja(words: Sequence[Word]) -> bool:
    """Return whether ninja builds all of a folder of builds."""
    texts = [word.text for word in words]
    if texts[:1] == ["-C"]:
        return len(texts) > 1 and _OUTPUT.fullmatch(texts[1]) is not None and not texts[2:]
    return False

"""Classes of commands that one rule to allow covers: look-ups at services, and builds.

A look-up changes nothing, but asks with the user's login. It shows no secrets and loads no code of
the repository. A build runs the project's code and leaves what it makes in folders that git ignores
by custom. It counts only where the workspace is trusted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.policies import BUILDS, LOOK_UPS, PYTHON_MANIFESTS, names_of, word_set
from prsm_policy.safe import program_name, sets_only_harmless
from prsm_policy.safe.checks import CARGO, FETCHED, made_by, script_named
from prsm_policy.safe.ecosystems import GRADLE, MAVEN, runs_tasks
from prsm_policy.safe.environment import NODE, RUNNERS, inner_check
from prsm_policy.safe.options import (
    Syntax,
    are_harmless,
    operands_of,
    parse,
    read_command_lines,
    row_of,
    syntax_of,
)
from prsm_policy.tables import read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.rules import Rule
    from prsm_policy.safe.options import Judge
    from prsm_policy.shell import Command, Word

    Part = tuple[Command, Place]
    Paths = frozenset[tuple[str, ...]]
# Other formats of these show what a resource holds, its environment too.
_FORMATTING = frozenset({"kubectl", "helm"})
_PLAIN_FORMATS = frozenset({"wide", "name", "table"})
_PLAIN_OPTION = re.compile(r"(?:-o|--output=)(?:wide|name|table)")
_SCRIPT = re.compile(
    r"(?:build|compile|transpile|bundle|tsc)(?:[:-](?:prod(?:uction)?|dev(?:elopment)?|client|server"
    r"|web|app|ui|api|libs?|types|css|styles|js|ts|esm|cjs|umd|all|docs|main|renderer|wasm|packages"
    r"|core|ci|tests?|backend|frontend|node|browser|fast))?"
)
_GRADLE = re.compile(
    r":?(?:[\w-]+:)*(?:build|assemble|clean|classes|testClasses|jar|bootJar|shadowJar"
    r"|compile(?:Test)?(?:Java|Kotlin|Groovy|Scala)"
    r"|(?:assemble|compile|bundle)(?:Debug|Release)(?:Kotlin|JavaWithJavac|Sources)?)"
)
_MAVEN = re.compile("clean|compile|test-compile|process-classes|package|verify")
_TASKS = {"gradle": replace(GRADLE, names=_GRADLE), "mvn": replace(MAVEN, names=_MAVEN)}
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
_GO_OPTION = re.compile(r"-(?:v|race|x|n|a|trimpath|cover|tags=[\w,]+|p=\d+)")
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


def _starts(lines: Iterable[str]) -> Paths:
    """Return subcommands: words, or a group and behind the colon those that may follow it."""
    parts = [line.rpartition(":") for line in lines]
    return frozenset((*head.split(), name) for head, _, names in parts for name in names.split())


# By program: the words that begin a look-up, and the options it may have.
_LOOKUPS: Mapping[str, tuple[Paths, Syntax]] = {
    name: (_starts(fields["starts"]), syntax_of(fields))
    for head, fields in read_rows("lookups")
    for name in head.split()
}


def class_of(command: Command, place: Place) -> Rule | None:
    """Return the rule of the class that a simple command is of, None if it is of none."""
    return next((rule for rule, is_of in _CLASSES.items() if is_of(command, place)), None)


def common_class(parts: Iterable[Part]) -> Rule | None:
    """Return the rule of the class that all of some parts of a command are of."""
    classes = {class_of(part, place) for part, place in parts}
    return classes.pop() if len(classes) == 1 else None


def is_lookup(command: Command, place: Place) -> bool:
    """Return whether a simple command only looks things up at a service."""
    name = program_name(command.words[0]) if command.words else None
    if name is None or name not in _LOOKUPS or not sets_only_harmless(command):
        return False
    if command.writes or command.feeds or not all(word.known for word in command.words):
        return False
    starts, rules = _LOOKUPS[name]
    arguments = command.words[1:]
    size = next((size for size in (2, 1) if command.texts[1 : size + 1] in starts), 0)
    rest = _without_plain_output(arguments[size:]) if name in _FORMATTING else arguments[size:]
    return size > 0 and parse(rest, rules, place) is not None


def _without_plain_output(words: Sequence[Word]) -> list[Word]:
    """Return the words without a format that shows names and states only: `-o wide`."""
    rest: list[Word] = []
    for word in words:
        if word.text in _PLAIN_FORMATS and rest and rest[-1].text in {"-o", "--output"}:
            rest.pop()
        elif not _PLAIN_OPTION.fullmatch(word.text):
            rest.append(word)
    return rest


def _is_build(command: Command, place: Place) -> bool:
    if not place.is_trusted or command.writes or command.feeds or not command.words:
        return False
    program = command.words[0].text
    if program not in _PROGRAMS and "/" not in program:
        return False
    if not sets_only_harmless(command, place, trusted=True):
        return False
    is_told = all(word.known and not FETCHED.match(word.text) for word in command.words)
    return is_told and _builds(command.words, place)


def _builds(words: Sequence[Word], place: Place) -> bool:
    inner = inner_check(words, place)
    if inner is not None:
        return bool(inner) and _builds(inner, place)
    program, rest = words[0].text, words[1:]
    if program in _PACKAGERS:
        return not place.was_written(NODE) and _packaged(words, place)
    if program == "make":
        return made_by(rest, _MAKE, place, first=True)
    if program in _TASKS:
        return runs_tasks(rest, _TASKS[program], place)
    if program == "go":
        return bool(rest) and rest[0].text == "build" and _go(rest[1:], place)
    if program == "cmake":
        return _cmake(rest, place)
    if program == "ninja":
        texts = [word.text for word in rest]
        return len(texts) == 2 and texts[0] == "-C" and _OUTPUT.fullmatch(texts[1]) is not None
    return _by_options(words, place)


def _by_options(words: Sequence[Word], place: Place) -> bool:
    program, texts = words[0].text, tuple(word.text for word in words)
    if program in _PYTHON_BUILDS and place.was_written(PYTHON_MANIFESTS):
        return False  # what it builds with is fetched
    row = row_of(_BY_OPTIONS, texts)
    parsed = None if row is None else parse(words[row[0] :], row[1], place)
    return parsed is not None and are_harmless(texts, parsed.values)


def _packaged(words: Sequence[Word], place: Place) -> bool:
    found = script_named(words, _SCRIPT, _OF_NODE, place)
    if isinstance(found, bool):
        return found
    return _by_options(found, place)


def _go(words: Sequence[Word], place: Place) -> bool:
    """Return whether go builds packages without a file, or into a folder for such files."""
    packages = operands_of(words, _GO_OPTION, _GO_VALUED, place)
    if packages is None or not all(map(place.is_ordinary, packages)):
        return False
    is_kept = any(word.text == "-o" for word in words)
    return is_kept or any(word.text.endswith("...") for word in packages)


def _is_output(word: Word, place: Place) -> bool:
    if word.text == "/dev/null":
        return True
    is_apart = _OUTPUT.fullmatch(word.text) is not None and not names_of(word.text)
    return is_apart and place.is_writable(word)


_GO_VALUED: Mapping[str, Judge] = {
    "-o": _is_output,
    "-tags": lambda _word, _place: True,
    "-p": lambda _word, _place: True,
}
_CMAKE_VALUED: Mapping[str, Judge] = {
    "-S": lambda word, place: place.is_ordinary(word),
    "-B": _is_output,
    "-G": lambda word, _place: word.text in {"Ninja", "Unix Makefiles"},
}


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
    is_told = operands_of(words, _CMAKE_OPTION, _CMAKE_VALUED, place) == []
    return is_told and "-B" in {word.text for word in words}


_CLASSES: Mapping[Rule, Callable[[Command, Place], bool]] = {
    (LOOK_UPS,): is_lookup,
    (BUILDS,): _is_build,
}

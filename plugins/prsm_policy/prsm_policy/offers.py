"""The rules that the answer to an Ask may make: what a person allows or denies for good.

To allow covers a class of commands: a program with its subcommand. Where the command is dangerous,
or its program does whatever it is told, the class is its exact words. To deny takes exact words.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.policies import word_set
from prsm_policy.allowed_by_rule import is_allowed_by
from prsm_policy.classes import class_of
from prsm_policy.danger import command_danger
from prsm_policy.rules import MAX_RULE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core import Ask
    from prsm_policy.places import Place
    from prsm_policy.rules import Rule
    from prsm_policy.shell import Command

    Part = tuple[Command, Place]

# Programs whose name alone tells what they do, whatever they are told.
_ONE_PURPOSE = word_set(
    "mkdir touch pytest tox nox black isort flake8 pylint mypy pyright eslint prettier tsc"
    " jest vitest ctest ninja gofmt rustfmt clang-format shellcheck"
)
# Programs whose first argument names what they do, and of these the groups, where what they do is
# named by the next one: `gh pr list` is not `gh pr merge`.
_SUBCOMMANDS: Mapping[str, frozenset[str]] = {
    "git": word_set(
        "bisect bundle commit-graph lfs maintenance notes reflog sparse-checkout stash worktree"
        " flow annex subtree replace rerere multi-pack-index credential"
    ),
    **dict.fromkeys(
        word_set("npm pnpm yarn bun"),
        word_set("pkg cache audit version store env pm plugin set doctor"),
    ),
    "cargo": word_set("nextest llvm-cov tarpaulin make hack xtask sqlx"),
    "go": word_set("mod tool work telemetry"),
    **dict.fromkeys(word_set("make just task rake sbt gradle mvn mix"), frozenset[str]()),
    "dotnet": word_set("nuget tool sln add remove workload ef dev-certs user-secrets package"),
    "swift": word_set("package"),
    "zig": word_set("libc"),
    **dict.fromkeys(("pip", "pip3"), word_set("cache index")),
    "uv": word_set("pip tool python cache self workspace auth"),
    "poetry": word_set("env cache self source plugin debug"),
    "ruff": word_set("analyze"),
    "helm": word_set("repo get show dependency plugin registry search env"),
    "terraform": word_set("state workspace providers metadata"),
    **dict.fromkeys(
        ("docker", "podman"),
        word_set(
            "compose container image network volume system builder context plugin secret service"
            " stack swarm node config pod machine"
        ),
    ),
    "kubectl": word_set("config rollout auth set top certificate plugin create krew"),
}
# Of these every first argument is a group.
_ALL_GROUPS = word_set("gh glab")
# What fetches and runs code of others, or runs what it is told: nobody means all of it.
_BROAD = word_set(
    "install i add exec x dlx create init get run publish login link alias api config remote"
    " submodule eval import ci update upgrade up sync generate download workspace workspaces each"
    " foreach do debug shell batch apply"
)
_SCRIPT_RUNNERS = word_set("npm pnpm yarn bun")
_INTERPRETERS = re.compile(r"(?:python|pypy|node|ruby|perl|php|deno)[0-9.]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_:-]*")


def with_rules(ask: Ask, parts: Sequence[Part]) -> Ask:
    """Return an Ask that names the parts it is about, and the rules that its answers make.

    It has no option without a rule: none to allow if one of the parts cannot be covered, none to
    deny if it is not clear which of several parts that is about.
    """
    allow = [allow_rule(part, place) for part, place in parts]
    dangerous = [part for part, place in parts if command_danger(part, place) is not None]
    denied = dangerous or [part for part, _ in parts]
    deny = deny_rule(denied[0]) if len(denied) == 1 else None
    allow_rules = tuple(dict.fromkeys(rule for rule in allow if rule)) if all(allow) else ()
    deny_rules = (deny,) if deny else ()
    makes = {"allow_rule": allow_rules, "deny_rule": deny_rules}
    return replace(
        ask,
        options=tuple(option for option in ask.options if makes.get(option, True)),
        parts=tuple(shlex.join(part.texts) for part, _ in parts),
        allow_rules=allow_rules,
        deny_rules=deny_rules,
    )


def allow_rule(part: Command, place: Place) -> Rule | None:
    """Return the rule that allows the class of a command, None where no rule covers it."""
    if (rule := class_of(part, place)) is not None:
        return rule
    words = part.texts
    size = None if command_danger(part, place) is not None else _class_size(words)
    if size is None and (part.piped or part.reads):
        return None  # what comes in may matter more than its words: `… | sh`
    for rule in (words[:size], words):
        if _can_be_rule(rule) and is_allowed_by(rule, part, place):
            return rule
    return None


def deny_rule(part: Command) -> Rule | None:
    """Return the rule that denies the exact words of a command, None where words do not say it."""
    says_more = part.assigned or part.reads or part.writes or part.feeds
    is_known = not says_more and all(word.known for word in part.words)
    return part.texts if is_known and _can_be_rule(part.texts) else None


def _can_be_rule(words: Rule) -> bool:
    return 0 < len(words) <= MAX_RULE and all(words)


def _class_size(words: Rule) -> int | None:
    """Return how many of the first words say what a command does, None where all may matter."""
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program in _ONE_PURPOSE:
        return 1
    if _INTERPRETERS.fullmatch(program):
        is_file = bool(arguments) and arguments[0][:1] != "-" and "." in arguments[0]
        return 2 if is_file else None
    if program in _ALL_GROUPS:
        return _size_of_group(arguments)
    if program not in _SUBCOMMANDS or not arguments or not _NAME.fullmatch(arguments[0]):
        return None
    if program in _SCRIPT_RUNNERS and arguments[0] in {"run", "run-script"}:
        return 3 if len(arguments) > 1 and _NAME.fullmatch(arguments[1]) else None
    if arguments[0] in _SUBCOMMANDS[program]:
        return _size_of_group(arguments)
    return None if arguments[0] in _BROAD else 2


def _size_of_group(arguments: Rule) -> int | None:
    """Return how many words name a subcommand in a group, None where it does what it is told."""
    names = arguments[:2]
    is_named = len(names) == 2 and all(map(_NAME.fullmatch, names))
    return 3 if is_named and _BROAD.isdisjoint(names) else None

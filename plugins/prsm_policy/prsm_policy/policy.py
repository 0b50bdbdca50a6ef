"""The command policy: what a shell command needs, by rules and by what is known of commands.

Deny rules come first in every mode, and look at every command that a text may run, however it is
nested. Allow rules cover plain text only. Commands that are known to be safe may also be put
together in ways that can be followed. What cannot be told is never allowed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as replace_fields

from prsm_core import Allow, Ask, Deny, PermissionMode
from prsm_core.policies import (
    BUILDS,
    ENVIRONMENT,
    HOOK_MANIFESTS,
    LOOK_UPS,
    PYTHON_MANIFESTS,
    RULE_CLASSES,
    CommandPolicy,
    Judgement,
    NamedPaths,
    UnaskedError,
    Walk,
    Written,
    has_second_name,
    may_be_named,
    names_of,
    why_not_command,
    word_set,
)
from prsm_policy.allowed_by_rule import is_allowed_by
from prsm_policy.by_text import exact, exit_parts, looks_up, only_reads, programs_of
from prsm_policy.classes import common_class
from prsm_policy.danger import command_danger, script_danger
from prsm_policy.danger.places import SPEAKERS, WRITERS
from prsm_policy.danger.programs import by_name
from prsm_policy.danger.tools import TOOLS
from prsm_policy.offers import allow_rule, with_rules
from prsm_policy.places import Place
from prsm_policy.rules import Match, best_match, by_program, concerns, hidden_rule, rule_words
from prsm_policy.safe import every_part, is_safe, is_safe_text, program_name, sets_only_harmless
from prsm_policy.safe.asking import SECONDS as GIT_SECONDS
from prsm_policy.safe.asking import Repositories
from prsm_policy.safe.checks import CHECKERS, check_named
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.shell import read_script, wrappers
from prsm_policy.shell.data_shells import DATA_SHELLS
from prsm_policy.shell.inline import bare_name
from prsm_policy.shell.runners import RUNNERS, may_be_code
from prsm_policy.shell.words import Word, ansi_c
from prsm_policy.tree import Trees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_core import Verdict
    from prsm_core.policies import (
        CommandPart,
        CommandRules,
        CommandSetting,
        OwnState,
        Trespass,
        Words,
    )
    from prsm_policy.rules import Rule, Rules
    from prsm_policy.shell import Command, Script

# An Ask that may make a rule.
ASK_OPTIONS = ("once", "always", "allow_rule", "deny_rule", "deny")
MAX_PART = 120  # characters of a command that a reason shows
MAX_COMPOSED = 4_000  # characters; what a longer text does is not followed
_CLASS_REASONS = {
    LOOK_UPS: f"it looks things up at a service; the rule allow {LOOK_UPS} is about all that do",
    BUILDS: f"it builds the project; the rule allow {BUILDS} is about what {RULE_CLASSES[BUILDS]}",
}
_TRUST_ENDS_IT = "the project's own checks run unasked in a workspace that you trust: prsm trust"
_RULE_ENDS_IT = "a rule for this project (p) ends such questions"
# What only the structure of a text tells of: what comes in, or where it goes on.
_BY_STRUCTURE = word_set("xargs : true false break continue exit")
ONCE = ("once", "deny")  # where the same question must come again next time

# They read all below a folder, or hand it on.
_WALKERS = word_set(
    "rg ag ack rgrep ugrep diff cp mv tar bsdtar zip 7z 7za rsync scp sftp pax ditto rclone"
)
_GREPS = word_set("grep egrep fgrep zgrep")
_FINDERS = word_set("find fd fdfind locate plocate")
_FIND_RUNS = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch -delete")
# Their first operand is no path, and without one they read where they are.
_SEARCHERS = _GREPS | word_set("rg ag ack rgrep ugrep")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR]|--(?:rec|deref)[a-z-]*|--dir[a-z]*=recurse|recurse")
_PATTERN_GIVEN = re.compile(r"-[A-Za-z]*[ef]|--(?:regexp|file)(?:=|$)|--files$")

# What a text must hold to name any of these, or to install something.
_CLOSER_LOOK = re.compile(
    r"tar|zip|7z|cpio|pax|patch|rsync|cp|mv|ln|venv|site-packages|yarn|pnp|vendor|bundle|grad|mvn|\.tox|\.nox|nox|bin|manage|toml|lock|pip|setup"
    r"|require|constraints|python|tox|commit|install|add|sync|[*?\[]|npm|uv|poetry|node",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[^\w./*?\[\]-]+")
_INSTALLERS = {
    **dict.fromkeys(("pip", "pip3"), word_set(".venv venv")),
    **dict.fromkeys(("uv", "poetry", "pdm", "pipenv"), word_set(".venv")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), word_set("node_modules")),
    "composer": word_set("vendor"),
    "bundle": word_set("vendor .bundle"),
}
_INSTALLS = word_set(
    "install i ci add sync update upgrade remove uninstall rebuild dedupe link lock require venv"
)
# By the program that fetches: what it has fetched by.
_FETCHES = {
    **dict.fromkeys(word_set("uv poetry pdm pipenv hatch rye tox nox"), PYTHON_MANIFESTS),
    "pre-commit": HOOK_MANIFESTS,
}
_FETCHING = word_set("run sync install add update test tox nox")
# What these write is told by what they are given, not by their words.
_UNPACKS = word_set("tar bsdtar unzip 7z cpio pax patch rsync")
_COPIES = word_set("cp mv install ln")
_HERE = word_set(". ./")
_RUNS = word_set("source .")
# Subcommands of git that leave the files of the workspace as they are.
_KEEPS_FILES = word_set("add commit push fetch tag branch log show diff status")

_MAX_ESCAPES = 500  # of $'…' that are decoded
_MAX_TRIES = 500  # places that are looked at for one word
_QUOTES = b"'\"\\"
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_IN_WORD = re.compile(rb"[A-Za-z0-9_.-]")
# Options with a command attached to them: env -Srm, su -crm.
_OPTION = re.compile(rb"(?:^|[^A-Za-z0-9_.-])-[A-Za-z]+$")

_OPTIONS = {
    "touch": frozenset({"-a", "-c", "-m"}),
    "mkdir": frozenset({"-p", "-v"}),
    "tee": frozenset({"-a"}),
    "cp": frozenset({"-f", "-v"}),  # what a link leads to is copied, not the link
}

_OTHERS = word_set(
    "cd pushd popd source . alias unalias unset local shift wait umask ulimit shopt getopts break"
    " continue jobs fg bg disown dirs caller help let times man info less more bat view open"
    " xdg-open cc gcc g++ clang clang++ ld as nm strip objdump readelf strings od xxd hexdump"
    " base64 base32 cksum sum sha1sum sha512sum b2sum fmt fold expand unexpand join tsort shuf"
    " numfmt pr look whereis whatis apropos locate pgrep pidof ps top htop free uptime lsof ss"
    " hg svn bzr fossil javac java jar kotlinc scalac dotnet nuget composer bower isort pre-commit"
    " brew port zypper emerge nix-env guix opam cabal stack luarocks cpan cpanm mix rebar3 lein"
)
_UNDERSTOOD = frozenset().union(
    READ_ONLY, TOOLS, CHECKERS, SPEAKERS, WRITERS, RUNNERS, DATA_SHELLS, _OTHERS,
    wrappers.WRAPPERS, wrappers.SHELLS, wrappers.LOOSE, wrappers.LOOSE_AFTER, wrappers.FINDERS,
    wrappers.INTERPRETERS, wrappers.EVALUATES, wrappers.READERS, wrappers.GNU_NAMES,
    {"git", "eval", "trap", "hash", "exec"},
)  # fmt: skip

_NAMES_ANEW = word_set("ln cp mv install rsync link gln gcp gmv")
_RUNS_OTHERS = frozenset().union(
    DATA_SHELLS, wrappers.SHELLS, wrappers.WRAPPERS, wrappers.LOOSE, wrappers.FINDERS,
    wrappers.INTERPRETERS,
)  # fmt: skip
_ENTERS = word_set("cd pushd")
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/")


class BashPolicy(CommandPolicy):
    """The rules of all layers; deny beats ask beats allow, and safe commands need no rule.

    A rule is the first words of a command. `workspace_allow` holds only where the user trusts the
    workspace it came from. With `broken`, which says why not all rules to ask and to deny could be
    read, nothing but safe commands is allowed. `own` is PRSM's own state, `written` what agents
    may have written of the project's environment, `git_seconds` the time for one answer of git.
    """

    def __init__(
        self,
        allow: Iterable[str | Sequence[str]] = (),
        ask: Iterable[str | Sequence[str]] = (),
        deny: Iterable[str | Sequence[str]] = (),
        *,
        workspace_allow: Iterable[str | Sequence[str]] = (),
        broken: str | None = None,
        own: OwnState,
        written: Written | None = None,
        git_seconds: float = GIT_SECONDS,
    ) -> None:
        self._allow = tuple(map(rule_words, allow))
        self._workspace_allow = tuple(map(rule_words, workspace_allow))
        self._ask = by_program(map(rule_words, ask))
        self._deny = by_program(map(rule_words, deny))
        self._broken = broken
        self._own = own
        self._trees = Trees()
        self._written = Written() if written is None else written
        self._repositories = Repositories(seconds=git_seconds)

    def decide(self, command: str, setting: CommandSetting) -> Verdict:
        """Return the verdict on a command by the policy alone."""
        return self.judge(command, setting).verdict

    def judge(self, command: str, setting: CommandSetting) -> Judgement:
        """Return the verdict on a command, and the rule behind it.

        Whatever fails on the way is a Deny that says so. Raises UnaskedError, and nothing else,
        where git must be asked and the setting does not wait.
        """
        try:
            return self._judged(command, setting)
        except UnaskedError:
            raise
        except Exception as error:  # noqa: BLE001 - a policy that fails refuses
            what = f"{type(error).__name__}: {error}"[:MAX_PART]
            reason = f"the command policy failed on it ({what}); report it, and try another command"
            return Judgement(verdict=Deny(reason))

    def _judged(self, command: str, setting: CommandSetting) -> Judgement:
        script = read_script(command)
        place = self._place(setting)
        ruled = self._ruled(script, place)
        if ruled is not None and isinstance(ruled.verdict, Deny):
            return ruled
        trespass = self._trespass(command, script, setting)
        if trespass is not None and trespass.is_unseen:
            return Judgement(verdict=Deny(trespass.reason))
        is_safe_script = trespass is None and _is_safe(command, script, place, setting)
        if setting.mode is PermissionMode.PLAN and not is_safe_script:
            return Judgement(verdict=Deny("plan mode runs safe commands only"))
        if trespass is not None:
            return Judgement(verdict=Ask(trespass.reason, ONCE))
        if ruled is not None:
            return ruled
        if is_safe_script:
            return Judgement(verdict=Allow("it is known to be safe"))
        if self._broken is not None:
            return Judgement(verdict=self._incomplete(self._broken))
        rule = self._covered(script, place, setting)
        if rule is not None:
            verdict = Allow(f"the rule allow {rule!r} covers it")
            return Judgement(verdict=verdict, rule=f"allow {rule}")
        judgement = _by_mode(command, script, place, setting)
        if isinstance(judgement.verdict, Ask):
            common = common_class(self.open_parts(command, setting))
            reason = _CLASS_REASONS[common[0]] if common else ""
            return Judgement(verdict=Ask(reason, ASK_OPTIONS)) if common else judgement
        return judgement

    def offered(self, command: str, setting: CommandSetting) -> Verdict:
        """Return the verdict; an Ask comes with rules for its answers, or what else ends them."""
        verdict = self.decide(command, setting)
        if not isinstance(verdict, Ask):
            return verdict
        parts = self.open_parts(command, setting)
        asked = with_rules(verdict, parts)
        if not setting.trusted and self.safe(command, replace_fields(setting, trusted=True)):
            return replace_fields(asked, hint=_TRUST_ENDS_IT)
        # A rule with options is one for these words alone.
        are_broad = all(word[:1] != "-" for rule in asked.allow_rules for word in rule)
        are_checks = all(check_named(part.texts) for part, _ in parts)
        if asked.allow_rules and are_broad and are_checks:
            return replace_fields(asked, hint=_RULE_ENDS_IT)
        return asked

    def denied(self, command: str) -> Deny | None:
        """Return a Deny when a deny rule matches a command anywhere in the text."""
        found = self._ruled(read_script(command))
        return found.verdict if found and isinstance(found.verdict, Deny) else None

    def trespass(self, command: str, setting: CommandSetting) -> Trespass | None:
        """Return why a command is not for agents by PRSM's own state, None if it may be."""
        return self._trespass(command, read_script(command), setting)

    def asked(self, command: str, setting: CommandSetting) -> Ask | None:
        """Return an Ask when a rule wants one, or when a deny rule may be evaded or missing."""
        place = self._place(setting)
        found = self._ruled(read_script(command), place)
        if found is not None:
            return found.verdict if isinstance(found.verdict, Ask) else None
        if self._broken is None or self.safe(command, setting):
            return None
        return self._incomplete(self._broken)

    def safe(self, command: str, setting: CommandSetting) -> bool:
        """Return whether each part of the command is safe, and so is what they do together."""
        place = self._place(setting)
        return _is_safe(command, read_script(command), place, setting)

    def stays_inside(self, command: str, setting: CommandSetting) -> bool:
        """Return whether a plain command surely writes in the workspace and nowhere else."""
        return every_part(read_script(command), self._place(setting), stays_inside)

    def allowed(self, command: str, setting: CommandSetting) -> bool:
        """Return whether each part of a plain command is safe or covered by an allow rule."""
        place = self._place(setting)
        script = read_script(command)
        is_safe_script = _is_safe(command, script, place, setting)
        return is_safe_script or bool(self._covered(script, place, setting))

    def open_parts(
        self, command: str, setting: CommandSetting
    ) -> tuple[tuple[Command, Place], ...]:
        """Return the parts of a plain command that no rule covers and that are not safe.

        Each comes with the folder it runs in.
        """
        found: list[tuple[Command, Place]] = []
        rules = self._allowing(setting)

        def note(part: Command, where: Place) -> bool:
            is_ruled = any(is_allowed_by(rule, part, where) for rule in rules)
            if not is_ruled and not is_safe(part, where, trusted=setting.trusted):
                found.append((part, where))
            return True

        place = self._place(setting)
        return tuple(found) if every_part(read_script(command), place, note) else ()

    def note_edits(self, names: Iterable[str]) -> None:
        """Take note of what an agent writes of the project's environment, by its names."""
        self._written.note(names)

    def note_command(self, command: str, setting: CommandSetting) -> None:
        """Take note of a command that was let through: what of the environment it may write."""
        if _CLOSER_LOOK.search(command) is None or self.safe(command, setting):
            return
        script, place = read_script(command), self._place(setting)
        parts: list[Command] = []
        for part in script.commands:
            if place is not None and not part.piped and part.words:
                bare = replace(part, writes=(), feeds=())
                if is_safe(bare, place, trusted=False):  # it writes where its output goes
                    part = replace(part, words=part.words[:1], feeds=())
            parts.append(part)
        is_unasked = setting.mode is PermissionMode.BYPASS
        _note_command(self._written, script, command, parts, setting.workspace, unasked=is_unasked)

    def told(self) -> list[dict[str, Any]]:
        """Return the rules as JSON values, the strongest first.

        Their `layer` is own or workspace. Rules to ask and to deny have none: they count alike.
        """
        layers = (
            *(("deny", rule, None) for rules in self._deny.values() for rule in rules),
            *(("ask", rule, None) for rules in self._ask.values() for rule in rules),
            *(("allow", rule, "own") for rule in self._allow),
            *(("allow", rule, "workspace") for rule in self._workspace_allow),
        )
        return [
            {"verdict": verdict, "words": list(words), "layer": layer}
            for verdict, words, layer in layers
        ]

    def add(self, verdict: str, rule: str | Sequence[str]) -> None:
        """Let one more rule of the user's own hold from now on."""
        words = rule_words(rule)
        if verdict == "allow":
            self._allow += (words,)
            return
        rules = {"ask": self._ask, "deny": self._deny}[verdict]
        for program, new in by_program([words]).items():
            rules.setdefault(program, []).extend(new)

    def only_reads(self, command: str) -> bool:
        """Return whether a command is known to change nothing."""
        return only_reads(command)

    def looks_up(self, command: str) -> bool:
        """Return whether a command does no more than look how something is, here or elsewhere."""
        return looks_up(command)

    def exact(self, command: str) -> str:
        """Return a plain single command with its words quoted in one way, any other as it is."""
        return exact(command)

    def parts(self, command: str) -> tuple[CommandPart, ...] | None:
        """Return the simple commands of a text; None for one that cannot be read."""
        return exit_parts(command)

    def programs(self, command: str) -> Words:
        """Return the programs that a text looks for on the PATH."""
        return programs_of(command)

    def rules_for(self, command: str, setting: CommandSetting) -> tuple[Words, ...]:
        """Return rules by which a command would run unasked; none for what is dangerous."""
        parts = self.open_parts(command, setting)
        place = Place.of(setting.cwd, setting.workspace)
        if common_class(parts) is None and script_danger(read_script(command), place) is not None:
            return ()
        rules = []
        for part, where in parts:
            rule = allow_rule(part, where)
            if rule and (rule[0] in RULE_CLASSES or command_danger(part, where) is None):
                rules.append(rule)
        return tuple(rules)

    def covers(self, rule: Words, command: str, setting: CommandSetting) -> bool:
        """Return whether a rule to allow covers a part of a command where it begins."""
        place = Place.of(setting.cwd, setting.workspace)
        return place is not None and any(
            is_allowed_by(rule, part, place) for part in read_script(command).commands if part.words
        )

    def _place(self, setting: CommandSetting) -> Place | None:
        return Place.of(
            setting.cwd,
            setting.workspace,
            self._trees,
            self._own,
            self._written,
            partial(self._repositories.of, waits=setting.waits),
            trusted=setting.trusted,
        )

    def _trespass(self, command: str, script: Script, setting: CommandSetting) -> Trespass | None:
        return why_not_command(command, _named_paths(script), (setting.folder,), self._own)

    def _allowing(self, setting: CommandSetting) -> tuple[Rule, ...]:
        return self._allow + (self._workspace_allow if setting.trusted else ())

    def _incomplete(self, why: str) -> Ask:
        return Ask(f"not all rules to ask and to deny can be read: {why}", ONCE)

    def _ruled(self, script: Script, place: Place | None = None) -> Judgement | None:
        """Return what deny and ask rules say, or that they might be evaded."""
        denied, asked = _found(self._deny, script), _found(self._ask, script)
        if denied is not None and denied.match is Match.YES:
            reason = f"the rule deny {denied.rule!r} forbids it{_shown(denied.part)}"
            return Judgement(verdict=Deny(reason), rule=f"deny {denied.rule}")
        if asked is not None and asked.match is Match.YES:
            reason = f"the rule ask {asked.rule!r} wants it{_shown(asked.part)}"
            return Judgement(verdict=Ask(reason, ONCE), rule=f"ask {asked.rule}")
        maybe = denied or asked
        if maybe is not None:
            kind = "ask" if denied is None else "deny"
            reason = f"it cannot be told whether the rule {kind} {maybe.rule!r} is about it"
            verdict = Ask(f"{reason}{_shown(maybe.part)}", ONCE)
            return Judgement(verdict=verdict, rule=f"{kind} {maybe.rule}")
        untold = self._untold(script, place) if self._deny else None
        if untold is not None:
            return Judgement(verdict=Ask(f"{untold}, and there are deny rules", ONCE))
        return None

    def _untold(self, script: Script, place: Place | None) -> str | None:
        if script.unresolved or script.opaque or script.doubtful:
            return script.unresolved or script.doubtful or "it runs code in another language"
        return _strange(script) or renamed(script.commands, self._deny, place)

    def _covered(self, script: Script, place: Place | None, setting: CommandSetting) -> str | None:
        """Return the first allow rule at work when all parts are covered or safe, else None."""
        rules = self._allowing(setting)
        used: list[str] = []

        def is_acceptable(part: Command, where: Place) -> bool:
            if is_safe(part, where, trusted=setting.trusted):
                return True
            rule = next((rule for rule in rules if is_allowed_by(rule, part, where)), None)
            used.extend([] if rule is None else [" ".join(rule)])
            return rule is not None

        if not rules or not every_part(script, place, is_acceptable):
            return None
        return used[0] if used else None


@dataclass(frozen=True, slots=True)
class _Finding:
    """The best match of some rules with a part of a text."""

    match: Match
    rule: str
    part: Command | None = None


def _found(rules: Rules, script: Script) -> _Finding | None:
    best: _Finding | None = None
    for command in script.commands if rules else ():
        if not concerns(rules, command):
            hidden = hidden_rule(rules, command) if best is None else None
            if hidden and not _is_understood(command):
                best = _Finding(Match.MAYBE, " ".join(hidden), command)
            continue
        match, rule = best_match(rules, command)
        if match is Match.YES or (match and best is None):
            best = _Finding(match, " ".join(rule), command)
        if match is Match.YES:
            return best
    for text in script.opaque:
        for program, rest in ((name, rule[1:]) for name in rules for rule in rules[name]):
            if may_contain(text, (program, *rest)):
                return _Finding(Match.YES, " ".join((program, *rest)))
    return best


def _by_mode(text: str, script: Script, place: Place | None, setting: CommandSetting) -> Judgement:
    danger = script_danger(script, place, text)
    if danger is not None:
        reason, part = danger
        return Judgement(verdict=Ask(f"{reason}{_shown(part)}", ASK_OPTIONS))
    strange = _strange(script)
    if strange is not None:
        return Judgement(verdict=Ask(strange, ASK_OPTIONS))
    if setting.mode is PermissionMode.BYPASS:
        return Judgement(verdict=Allow("bypass mode, and it is not known to be dangerous"))
    return Judgement(verdict=Ask("it is not known to be safe", ASK_OPTIONS))


def _strange(script: Script) -> str | None:
    """Return why a program that nobody knows may run code that it is given."""
    return next(filter(None, map(_code_of_unknown_program, script.commands)), None)


def _is_safe(text: str, script: Script, place: Place | None, setting: CommandSetting) -> bool:
    trusted = setting.trusted
    if every_part(script, place, lambda part, where: is_safe(part, where, trusted=trusted)):
        return True
    if place is None or not script.own or len(text) > MAX_COMPOSED:
        return False
    if script.functions or script.evaluates or script.opaque:
        return False
    # One plain command has no other structure than itself.
    is_one = script.plain and script.own == 1 and script.commands[0].texts[0] not in _BY_STRUCTURE
    return not is_one and is_safe_text(script.text or text, script.own, place, trusted=trusted)


def _shown(part: Command | None) -> str:
    if part is None or not part.words:
        return ""
    text = " ".join(part.texts)
    return f": {text if len(text) <= MAX_PART else text[:MAX_PART] + '…'}"


def _named_paths(script: Script) -> NamedPaths:
    """Return what a text names, and where it reads all below a folder."""
    words = [
        word
        for command in script.commands
        for word in (*command.words[1:], *command.reads, *command.writes)
    ]
    return NamedPaths(words, script.variables, tuple(_all_walks(script)))


def _all_walks(script: Script) -> Iterator[Walk]:
    passes_on = any(not word.exact for command in script.commands for word in command.words)
    for command in script.commands:
        if not _walks(command, passes_on=passes_on):
            continue
        words = [word for word in command.words[1:] if not word.text.startswith("-")]
        if command.name in _SEARCHERS and not any(map(_PATTERN_GIVEN.match, command.texts[1:])):
            words = words[1:]
        yield Walk(words, reads_here=not words and command.name in _SEARCHERS | _FINDERS)


def _walks(command: Command, *, passes_on: bool) -> bool:
    if command.name in _GREPS:
        return any(_RECURSIVE.match(text) for text in command.texts[1:])
    if command.name in _FINDERS:
        return passes_on or not _FIND_RUNS.isdisjoint(command.texts)
    return command.name in _WALKERS


def _note_command(
    written: Written,
    script: Script,
    text: str,
    parts: Iterable[Command],
    root: str,
    *,
    unasked: bool,
) -> None:
    """Take note of a command that was let through in the workspace at `root`.

    Its `parts` may write. If it was `unasked`, what it installs is the agent's choice.
    """
    if not unasked and (fetched := _fetched(script)):
        written.forget(fetched)
    names = _named(parts, root)
    if script.opaque or script.unresolved or script.doubtful or script.evaluates:
        names |= _names_in(text, root)
    if unasked:
        names = names.union(*map(_folders_of_installer, script.commands))
    written.note(names)


def _named(parts: Iterable[Command], root: str) -> set[str]:
    """Return what commands name that they do not just run."""
    found: set[str] = set()
    for part in parts:
        if part.name in _UNPACKS or (part.name in _COPIES and part.texts[-1] in _HERE):
            found |= ENVIRONMENT
        named = {name for text in _operands(part) for name in _names_in(text, root)}
        # Installers read manifests: `pip install -r requirements.txt`.
        found |= named - PYTHON_MANIFESTS if _folders_of_installer(part) else named
    return found


def _operands(command: Command) -> Iterator[str]:
    """Yield all texts of a command but the program that it runs."""
    skipped = 2 if command.texts[:1] and command.texts[0] in _RUNS else 1
    if command.name == "git" and not _KEEPS_FILES.isdisjoint(command.texts[1:2]):
        skipped = len(command.texts)
    yield from command.texts[skipped:]
    yield from (word.text for word in (*command.writes, *command.feeds))
    yield from (each.value.text for each in command.assigned)


def _names_in(text: str, root: str) -> set[str]:
    """Return the names in a text; where the workspace itself lies says nothing."""
    found: set[str] = set()
    for path in _SEPARATORS.split(text.replace(f"{root}/", "")):
        found |= names_of(path) | may_be_named(path.casefold().removeprefix("./"))
    return found


def _folders_of_installer(command: Command) -> frozenset[str]:
    for at, text in enumerate(command.texts):
        folders = _INSTALLERS.get(text.rpartition("/")[2])
        if folders and not _INSTALLS.isdisjoint(command.texts[at + 1 :]):
            return folders
    return frozenset()


def _fetched(script: Script) -> set[str]:
    """Return the manifests by which a command has fetched all that they want."""
    found: set[str] = set()
    for command in script.commands:
        if command.name in _FETCHES and not _FETCHING.isdisjoint((command.name, *command.texts)):
            found |= _FETCHES[command.name]
    return found


def build(rules: CommandRules) -> BashPolicy:
    """Return the policy of these rules."""
    return BashPolicy(
        rules.allow,
        rules.ask,
        rules.deny,
        workspace_allow=rules.workspace_allow,
        broken=rules.broken,
        own=rules.own,
        written=rules.written,
    )


def may_contain(text: str, words: Sequence[str]) -> bool:
    """Return whether words, first a program, may stand in a text in their order, however quoted."""
    data = _unquoted(text)
    if data is None:
        return True
    at = 0
    for position, word in enumerate(words):
        wanted = word.encode("utf-8", "surrogatepass").translate(None, _QUOTES)
        found = _find(data, wanted, at, is_program=position == 0)
        if found is None:
            return False
        at = found
    return True


@lru_cache(maxsize=4)
def _unquoted(text: str) -> bytes | None:
    """Return a text without its quotes, None if that would take long."""
    if "$'" in text:
        if text.count("$'") > _MAX_ESCAPES:
            return None
        text = _ANSI_C.sub(lambda match: ansi_c(match[1]).text, text)
    data = text.encode("utf-8", "surrogatepass").replace(b"\\\n", b"")
    return data.translate(None, _QUOTES)


def _find(data: bytes, wanted: bytes, start: int, *, is_program: bool) -> int | None:
    """Return where a word ends that stands alone; after many tries it counts as found."""
    end = start
    for _ in range(_MAX_TRIES):
        at = data.find(wanted, start)
        if at < 0:
            return None
        end = at + len(wanted)
        if not _IN_WORD.match(data, end) and _may_begin(data, at, is_program=is_program):
            return end
        start = at + 1
    return end


def _may_begin(data: bytes, at: int, *, is_program: bool) -> bool:
    if at == 0 or not _IN_WORD.match(data, at - 1):
        return True
    return is_program and _OPTION.search(data, max(0, at - 12), at) is not None


def stays_inside(command: Command, place: Place) -> bool:
    """Return whether a command writes in the workspace alone, if it writes at all."""
    if not all(_may_write(word, place) for word in command.writes):
        return False
    bare = replace(command, writes=())
    if is_safe(bare, place, trusted=False):
        return True
    name = program_name(command.words[0])
    options = _OPTIONS.get(name or "")
    if options is None or not sets_only_harmless(command) or command.feeds:
        return False
    operands = [word for word in command.words[1:] if word.text not in options]
    if not operands or any(word.may_be_option for word in operands):
        return False
    if not all(map(place.is_ordinary, operands)):
        return False
    written = _copies(operands) if name == "cp" else iter(operands)
    return all(_may_write(word, place) for word in written)


def _copies(operands: list[Word]) -> Iterator[Word]:
    """Yield where `cp` may write: its last operand, or a file of each name in that folder."""
    *sources, last = operands
    yield last
    for source in sources:
        yield Word(f"{last.text}/{source.text.rstrip('/').rpartition('/')[2]}")


def _may_write(word: Word, place: Place) -> bool:
    names = (f"{folder}/{word.text}" for folder in place.folders)
    return place.is_writable(word) and not any(map(has_second_name, names))


def understood_programs() -> frozenset[str]:
    """Return the names of all programs whose arguments are understood."""
    return _UNDERSTOOD


def _is_understood(command: Command) -> bool:
    """Return whether it is known what the arguments of a command mean to its program."""
    name = command.name
    if not name or name in _UNDERSTOOD or bare_name(name) in wrappers.INTERPRETERS:
        return True
    is_kind = name.startswith("git-") or wrappers.LOADER.fullmatch(name) is not None
    return is_kind or by_name(name) is not None


def _code_of_unknown_program(command: Command) -> str | None:
    """Return why an unknown program may run code that it is given, None if nothing says so."""
    if not command.words or _is_understood(command):
        return None
    option = may_be_code(command.words)
    return None if option is None else f"{option} of {command.name} may give it code to run"


def renamed(commands: Sequence[Command], rules: Rules, place: Place | None) -> str | None:
    """Return why a program may be one that rules are about under another name, else None."""
    for command in commands:
        if command.name in _NAMES_ANEW and (name := _gives_name(command, rules)):
            return f"{name} may get another name by it"
    called = [command for command in commands if _is_by_path(command)]
    if not called or place is None:
        return None
    folders = tuple(_folders(commands, place))
    leads = (_leads(command, folders, rules, place) for command in called)
    return next(filter(None, leads), None)


def _gives_name(command: Command, rules: Rules) -> str | None:
    for text in command.texts[1:]:
        folder, slash, name = text.rpartition("/")
        if slash and name in rules and f"{folder}/".startswith("/"):
            return name
    return None


def _is_by_path(command: Command) -> bool:
    program = command.texts[0] if command.texts else ""
    return "/" in program and "\0" not in program and not program.startswith(_SYSTEM)


def _folders(commands: Iterable[Command], place: Place) -> Iterator[str]:
    yield from place.folders
    for command in commands:
        if command.name in _ENTERS and len(command.texts) > 1 and "\0" not in command.texts[1]:
            for folder in place.folders:
                yield f"{folder}/{command.texts[1]}"


def _leads(command: Command, folders: Sequence[str], rules: Rules, place: Place) -> str | None:
    program = command.texts[0]
    for folder in folders:
        if not place.looks.spend():
            return "too many programs lie elsewhere"
        path = program if program.startswith("/") else f"{folder}/{program}"
        if os.path.islink(path):  # noqa: PTH114 - text all the way, it may be no path
            target = os.path.realpath(path)
            if _counts(command.name, target.rpartition("/")[2], rules):
                return f"{program!r} is a link to {target!r}"
    return None


def _counts(name: str, target: str, rules: Rules) -> bool:
    """Return whether a link leads to a program that matters: `python` may well be python3.11."""
    if bare_name(target) == bare_name(name):
        return False
    return target in rules or bare_name(target) in _RUNS_OTHERS or target in _RUNS_OTHERS

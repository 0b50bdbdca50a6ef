"""Which commands an allow rule covers.

A person who allows `make docs` means the makefile that lies there. Options that lead to other code,
another configuration or a place outside are not what the rule is about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import RULE_CLASSES, word_set
from prsm_policy.classes import class_of
from prsm_policy.danger import command_danger
from prsm_policy.safe import program_name, sets_only_harmless
from prsm_policy.shell.find_nested import find_nested
from prsm_policy.tables import read_rows

if TYPE_CHECKING:
    from prsm_policy.places import Place
    from prsm_policy.rules import Rule
    from prsm_policy.shell import Command, Word

# Options of any program that may name programs, configurations or places nobody thought of when
# the rule was made.
_FAR_REACHING = re.compile(
    r"--?(?:[a-z]+-)*(?:exec|shell|command|cmd|program|script|hooks?|eval|pager|editor|config"
    r"|userconfig|globalconfig|rc|rcfile|conf|plugins?|preload|require|import|loader|wrapper"
    r"|compiler|interpreter|helper|prefix|cwd|registry|proxy|exec-path|node-options|toolchain"
    r"|init-file|init-script|makefile|directory|rulesdir|rootdir|inifile|manifest-path|target-dir"
    r"|project|project-dir|project-file|build-file|settings-file|working-dir|workdir|chdir"
    r"|justfile|rakefile|taskfile|jakefile|gulpfile|gruntfile|dockerfile|recipe-file|workspace-root"
    r"|outfile|output-file|destination|overlay|modfile|pkgdir"
    r"|rakelibdir|libdir|include-dir|load-path|load-plugins|parser|resolver|formatter|reporter"
    r"|setupFiles|globalSetup|testRunner|testEnvironment|test-runner|runner|context|host|kubeconfig"
    r"|[a-z-]*executable|settings-(?:path|file)|index-url|extra-index-url|find-links|editable|requirement|constraint|source|from)(?:=.*)?",
    re.DOTALL | re.IGNORECASE,
)
# Short ones, by program: what they take is a file, a folder, a module or a setting of that kind.
_SHORT = {
    name: fields["short"][0] for head, fields in read_rows("choices") for name in head.split()
}
# Programs whose options are whole words behind one dash.
_ONE_DASH = word_set("go java javac ant terraform gradle tsc swift zig dart")
# Programs of which every operand is one more thing to do.
_MANY_TARGETS = word_set(
    "make gmake just task rake ant gradle gradlew mvn mvnw sbt invoke inv doit lein rebar3"
)
_LEADS_OUT = re.compile(r"(?:\.\.(?:/|$)|/|~)")
_INNER = re.compile(r"(?<!:)[:,](?!//)")
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*[:+?]?=")


def is_allowed_by(rule: Rule, command: Command, place: Place) -> bool:
    """Return whether an allow rule covers a simple command.

    Words behind the rule's must not be dangerous, nor reach further than the program itself.
    """
    if rule[0] in RULE_CLASSES:
        return class_of(command, place) == rule
    size = len(rule)
    words = command.words
    if command.texts[:size] != rule or not all(word.known for word in words[:size]):
        return False
    if program_name(words[0]) is None or not sets_only_harmless(command):
        return False
    if command.writes or command.feeds:
        return False
    nested = find_nested(command)
    if len(words) == size:
        return not nested.reads_input  # it would run whatever it is fed
    if nested.commands or nested.codes or nested.opaque or nested.reads_input:
        return False
    if command_danger(command, place) is not None:
        return False
    if size > 1 and any(_is_more_to_do(word, command) for word in words[size:]):
        return False
    return all(_stays_near(word, command, place) for word in words[size:])


def _stays_near(word: Word, command: Command, place: Place) -> bool:
    """Return whether a word behind a rule chooses no other code, configuration or place."""
    text = word.text
    if not word.exact or _FAR_REACHING.fullmatch(text) or _is_short_choice(text, command.name):
        return False
    if _ASSIGNS.match(text) or (word.glob and word.may_be_option):
        return False
    return not any(_leads_out(part, word, place) for part in _parts(text))


def _is_more_to_do(word: Word, command: Command) -> bool:
    """Return whether a word behind a rule that names a target is one more: `make docs deploy`."""
    is_operand = not word.may_be_option and not word.text.isdigit()
    return is_operand and command.name in _MANY_TARGETS


def _is_short_choice(text: str, program: str) -> bool:
    if len(text) < 2 or text[0] != "-" or text[1] == "-":
        return False
    letters = _SHORT.get(program, "")
    if program in _ONE_DASH:
        return len(text) == 2 and text[1] in letters
    # Letters that take no value may stand before one that does, and its value behind it.
    return bool(letters) and re.match(f"-[A-Za-z]*[{letters}]", text) is not None


def _parts(text: str) -> tuple[str, ...]:
    """Return what in a word may be a path: the whole, a value, one that a letter stands before."""
    if text.startswith("-"):
        _, equals, value = text.partition("=")
        text = value if equals else text[2:]
    # What a format is written to stands behind a colon: `text:/tmp/x`.
    return (text, *_INNER.split(text)[1:])


def _leads_out(text: str, word: Word, place: Place) -> bool:
    if not text or not (_LEADS_OUT.match(text) or "/../" in text or text.endswith("/..")):
        return word.tilde
    return place.is_outside(type(word)(text, tilde=word.tilde))

"""Reads and writes policy files: YAML with the lists `allow`, `ask` and `deny` of shell commands.

Nothing unreadable is dropped in silence: if it may hold a restricting rule, the policy says that
it is incomplete. An edit leaves all other lines as they are.
"""

from __future__ import annotations

import re
import shlex
from itertools import islice
from typing import TYPE_CHECKING, Any

from prsm_core.config.document import Document, decode, parse_text, read_text
from prsm_core.config.layers import nearest_origin
from prsm_core.config.paths import POLICY, find_file, require_one
from prsm_core.config.snapshot import Scope, take_snapshot
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.policies.rule_classes import RULE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from prsm_core.config.paths import Paths
    from prsm_core.config.snapshot import Snapshot


VERDICTS = ("allow", "ask", "deny")
RESTRICTING = frozenset({"ask", "deny"})
OPERATORS = "();<>|&"  # of the shell: they end the words of a command
MAX_WORDS = 16
CLASS_MARK = "@"  # begins the name of a class of commands
MAX_SALVAGED = 2_000  # rules read line by line of a file that is no YAML

_KEY = re.compile(r"(allow|ask|deny)\s*:\s*(\[.*)?(?:#.*)?$")
_COMMENT = re.compile(r"\s#")


class PolicyRule(Record, frozen=True, kw_only=True):
    """A rule: the first words of a command and its verdict.

    `layer` is "user" or "workspace", `origin` is "file:line".
    """

    verdict: str
    words: tuple[str, ...]
    layer: str
    origin: str


class Policy(Record, frozen=True, kw_only=True):
    """The rules of all policy files and the problems of those files.

    `incomplete` says that a restricting rule may have been lost.
    """

    rules: tuple[PolicyRule, ...] = ()
    problems: tuple[str, ...] = ()
    incomplete: bool = False

    def words(self, verdict: str, layer: str | None = None) -> tuple[tuple[str, ...], ...]:
        """Return the words of all rules with a verdict, or of those of one layer."""
        return tuple(
            rule.words
            for rule in self.rules
            if rule.verdict == verdict and layer in {None, rule.layer}
        )

    def __add__(self, other: Policy) -> Policy:
        """Return both policies as one."""
        return _joined((self, other))


def user_policy_path(paths: Paths) -> Path:
    """Return the user's own policy file, beside the configuration."""
    return find_file(paths.user_config.parent, POLICY)


def workspace_policy_path(paths: Paths) -> Path:
    """Return the policy file of a workspace."""
    return find_file(paths.workspace_dir, POLICY)


def read_policy(
    paths: Paths, snapshot: Snapshot | None = None, *, user: Path | None = None
) -> Policy:
    """Read both policy files. A missing one is empty, a broken one never raises.

    Args:
        paths: Where they lie.
        snapshot: The workspace's `.prism` as read; None: it is read now.
        user: A file that replaces the user's own.
    """
    return _user_policy(paths, user) + workspace_policy(paths.workspace, snapshot)


def _user_policy(paths: Paths, given: Path | None) -> Policy:
    path = given or user_policy_path(paths)
    if given is None:
        try:
            require_one(path.parent, POLICY)
        except ConfigError as error:
            return _broken(error.message)
    return _parsed(path, "user", lambda: read_text(path))


def workspace_policy(workspace: Path, snapshot: Snapshot | None = None) -> Policy:
    """Read the policy file of a workspace; see read_policy."""
    try:
        snapshot = snapshot or take_snapshot(workspace, Scope.RULES)
        name = snapshot.name_of(POLICY)
    except ConfigError as error:
        return _broken(error.message)
    path, taken = snapshot.path(name), snapshot

    def read() -> str | None:
        data = taken.data(name)
        return None if data is None else decode(data, path)

    return _parsed(path, "workspace", read)


def policy_notices(policy: Policy, *, trusted: bool) -> list[str]:
    """Return what the user should know of the policy files."""
    notices = list(policy.problems)
    if policy.incomplete:
        notices.append("a rule to ask or to deny may be lost: only safe commands run unasked")
    if not trusted and policy.words("allow", "workspace"):
        notices.append(
            "the allow rules of the workspace do not hold: it is not trusted"
            " (`prsm trust` shows and trusts it)"
        )
    return notices


def parse_rule(value: Any, verdict: str = "allow") -> tuple[str, ...]:
    """Return a rule's words, given as text or list. Raises ValueError that says what is wrong."""
    if isinstance(value, str):
        words = split_rule(value)
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = tuple(value)
    else:
        raise ValueError("must be text or a list of words")
    if not words or not all(words) or len(words) > MAX_WORDS:
        raise ValueError(f"must have 1 to {MAX_WORDS} words")
    return check_class(words, verdict)


def check_class(words: tuple[str, ...], verdict: str) -> tuple[str, ...]:
    """Return a rule's words; a class of commands must exist. Raises ValueError."""
    if not words[0].startswith(CLASS_MARK):
        return words
    known = ", ".join(RULE_CLASSES)
    if len(words) > 1 or words[0] not in RULE_CLASSES:
        raise ValueError(f"is no class of commands: {' '.join(words)!r}; there is {known}")
    if verdict != "allow":
        raise ValueError(f"is a class of commands, which can only be allowed: {words[0]}")
    return words


def split_rule(text: str) -> tuple[str, ...]:
    """Return a rule's words. Raises ValueError, also for an operator: no command could match it."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=OPERATORS)
    lexer.commenters = ""
    try:
        operator = next((token for token in lexer if set(token) <= set(OPERATORS)), None)
        words = tuple(shlex.split(text))
    except ValueError:
        raise ValueError("has a quote that is not closed") from None
    if operator:
        raise ValueError(
            f"has {operator!r}: a rule is the first words of one command; "
            "give each command a rule of its own"
        )
    return words


def _parsed(path: Path, layer: str, read: Callable[[], str | None]) -> Policy:
    text = None
    try:
        text = read()
        if text is None:
            return Policy()
        return _of_document(parse_text(text, source=str(path)), layer)
    except ConfigError as error:
        policy = _broken(error.message)
        return policy if text is None else policy + _salvaged(text, path, layer)


def _of_document(document: Document, layer: str) -> Policy:
    value = document.value if document.value is not None else {}
    if not isinstance(value, dict):
        raise ConfigError(f"{document.origins[()]}: a policy must be a mapping")
    return _joined(
        part for key, rules in value.items() for part in _of_list(key, rules, document, layer)
    )


def _of_list(key: str, rules: Any, document: Document, layer: str) -> Iterator[Policy]:
    origin = document.origins[key,]
    if key not in VERDICTS:
        yield _broken(f"{origin}: {key} is not one of {', '.join(VERDICTS)}")
    elif isinstance(rules, list):
        for index, rule in enumerate(rules):
            where = nearest_origin(document.origins, (key, index))
            yield _rule(key, rule, layer, where)
    elif rules is not None:
        yield _wrong(key, f"{origin}: {key} must be a list of rules")


def _joined(policies: Iterable[Policy]) -> Policy:
    parts = list(policies)
    return Policy(
        rules=tuple(rule for part in parts for rule in part.rules),
        problems=tuple(problem for part in parts for problem in part.problems),
        incomplete=any(part.incomplete for part in parts),
    )


def _rule(verdict: str, value: Any, layer: str, origin: str) -> Policy:
    try:
        words = parse_rule(value, verdict)
    except ValueError as error:
        return _wrong(verdict, f"{origin}: a rule to {verdict} {error}")
    return Policy(rules=(PolicyRule(verdict=verdict, words=words, layer=layer, origin=origin),))


def _wrong(verdict: str, problem: str) -> Policy:
    return Policy(problems=(problem,), incomplete=verdict in RESTRICTING)


def _broken(problem: str) -> Policy:
    return Policy(problems=(problem,), incomplete=True)


def _salvaged(text: str, path: Path, layer: str) -> Policy:
    """Return the rules to ask and to deny that a file shows line by line, though it is no YAML."""
    rules: list[PolicyRule] = []
    for number, verdict, item in islice(_items_of(text), MAX_SALVAGED):
        rules += _rule(verdict, _unquoted(item), layer, f"{path}:{number}").rules
    return Policy(rules=tuple(rules))


def _items_of(text: str) -> Iterator[tuple[int, str, str]]:
    verdict = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _KEY.match(line):
            verdict = match[1]
        elif verdict in RESTRICTING and (item := _item(line)):
            yield number, verdict, item


def _item(line: str) -> str:
    """Return what follows a line's dash, without its comment; "" if nothing does.

    Not one pattern: that takes quadratic time in the spaces of a line.
    """
    dash, _, rest = line.lstrip().partition("-")
    if dash or not rest[:1].isspace():
        return ""
    item = rest.strip()
    comment = _COMMENT.search(item)
    return item if comment is None else item[: comment.start()].rstrip()


def _unquoted(text: str) -> Any:
    try:
        return parse_text(text, source="rule").value
    except ConfigError:
        return text


def render_rule(words: Iterable[str]) -> str:
    """Return a rule as it is written in a policy file."""
    words = tuple(words)
    text = " ".join(words)
    if all(re.fullmatch(r"[A-Za-z0-9_./=+@-]+", word) for word in words) and text[0].isalpha():
        return text
    import json

    return json.dumps(list(words))


Words = tuple[str, ...]
Lists = dict[str, list[Words]]


def edit_policy(path: Path, verdict: str, words: Words, *, adds: bool = True) -> bool:
    """Add or remove a rule in a file; return whether that changed anything.

    Raises ConfigError for a file that cannot be read: it is never overwritten.
    """
    text = edit_text(read_text(path) or "", verdict, words, path, adds=adds)
    if text is None:
        return False
    from prsm_core.kit.regular import replace_file  # few runs make a rule

    try:
        file = path.resolve()  # a link stays one: the user keeps the rules elsewhere
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    return True


def edit_text(text: str, verdict: str, words: Words, path: Path, *, adds: bool) -> str | None:
    """Return a policy's text with one more rule, or without it; None for no change.

    Raises ConfigError, which names `path`, when the text cannot be read.
    """
    lists = _lists(text, path)
    if (words in lists[verdict]) is adds:
        return None
    if adds:
        lists[verdict].append(words)
        changed = _with_line(text, verdict, words)
    else:
        lists[verdict].remove(words)
        changed = _without_line(text, verdict, words)
    try:
        if _lists(changed, path) == lists:
            return changed
    except ConfigError:
        pass  # it was written in a way that one line does not fit
    from prsm_core.config.document import dump_document

    values = {key: [list(rule) for rule in rules] for key, rules in lists.items() if rules}
    return dump_document(values) if values else ""


def holds_allow_rules(text: str, path: Path) -> bool:
    """Return whether the text of a policy file allows anything. Raises ConfigError."""
    return bool(_lists(text, path)["allow"])


def _lists(text: str, path: Path) -> Lists:
    document = parse_text(text, source=str(path))
    value = document.value if document.value is not None else {}
    if not isinstance(value, dict) or not set(value) <= set(VERDICTS):
        raise ConfigError(f"{path}: is no policy file: it must hold {', '.join(VERDICTS)} only")
    lists: Lists = {}
    for verdict in VERDICTS:
        rules = value.get(verdict) or []
        if not isinstance(rules, list):
            raise ConfigError(f"{document.origins[verdict,]}: {verdict} must be a list of rules")
        try:
            lists[verdict] = [parse_rule(rule, verdict) for rule in rules]
        except ValueError as error:
            raise ConfigError(f"{document.origins[verdict,]}: a rule {error}") from None
    return lists


def _with_line(text: str, verdict: str, words: Words) -> str:
    """Return the text with one line more: behind the last rule of its list, or at the end."""
    lines = text.splitlines()
    begin = _line_of(lines, verdict)
    if begin is None:
        return "\n".join([*lines, f"{verdict}:", f"  - {render_rule(words)}"]) + "\n"
    end, indent = begin + 1, "  "
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        if line.lstrip().startswith("- "):
            end, indent = number + 1, line[: len(line) - len(line.lstrip())]
        elif line.strip() and not line[0].isspace() and line[0] != "#":
            break
    lines.insert(end, f"{indent}- {render_rule(words)}")
    return "\n".join(lines) + "\n"


def _without_line(text: str, verdict: str, words: Words) -> str:
    lines = text.splitlines()
    begin = _line_of(lines, verdict)
    for number in range(len(lines) if begin is None else begin + 1, len(lines)):
        item = lines[number].lstrip()
        if item.startswith("- ") and _is_rule(item[2:], words):
            del lines[number]
            break
    return "\n".join(lines) + "\n"


def _is_rule(text: str, words: Words) -> bool:
    try:
        return parse_rule(parse_text(text, source="rule").value) == words
    except (ConfigError, ValueError):
        return False


def _line_of(lines: list[str], verdict: str) -> int | None:
    return next((n for n, line in enumerate(lines) if line.startswith(f"{verdict}:")), None)

"""Adds rules to a policy file and takes them out; all its other lines stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.config.atomic import replace_file
from prsm_core.config.document import parse_text, read_text
from prsm_core.config.policy_file import VERDICTS, parse_rule, render_rule
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

Words = tuple[str, ...]
Lists = dict[str, list[Words]]


def add_rule(path: Path, verdict: str, words: Words) -> bool:
    """Add a rule; return False when the file has it already.

    Raises ConfigError for a file that cannot be read: it is never overwritten.
    """
    return _change(path, with_rule(read_text(path) or "", verdict, words, path))


def remove_rule(path: Path, verdict: str, words: Words) -> bool:
    """Take a rule out; return False when the file does not have it. Raises ConfigError."""
    return _change(path, without_rule(read_text(path) or "", verdict, words, path))


def with_rule(text: str, verdict: str, words: Words, path: Path) -> str | None:
    """Return the text of a policy file with one more rule, None when it has it already.

    Raises ConfigError, which names `path`, when the text cannot be read.
    """
    lists = _lists(text, path)
    if words in lists[verdict]:
        return None
    lists[verdict].append(words)
    return _checked(_with_line(text, verdict, words), lists, path)


def without_rule(text: str, verdict: str, words: Words, path: Path) -> str | None:
    """Return the text without a rule, None when it does not have it. Raises ConfigError."""
    lists = _lists(text, path)
    if words not in lists[verdict]:
        return None
    lists[verdict].remove(words)
    return _checked(_without_line(text, verdict, words), lists, path)


def holds_allow_rules(text: str, path: Path) -> bool:
    """Return whether the text of a policy file allows anything. Raises ConfigError."""
    return bool(_lists(text, path)["allow"])


def _change(path: Path, text: str | None) -> bool:
    if text is None:
        return False
    try:
        file = path.resolve()  # a link stays one: the user keeps the rules elsewhere
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    return True


def _checked(changed: str, lists: Lists, path: Path) -> str:
    """Return the changed text, or where it does not say just these rules, one that does."""
    try:
        is_right = _lists(changed, path) == lists
    except ConfigError:
        is_right = False
    return changed if is_right else _rewritten(lists)


def _lists(text: str, path: Path) -> Lists:
    """Return the rules by verdict; raise ConfigError when one of them is wrong."""
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
    """Return the text without the line of the rule, if it stands on a line of its own."""
    lines = text.splitlines()
    begin = _line_of(lines, verdict)
    for number in range((begin if begin is not None else len(lines)) + 1, len(lines)):
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
    found = (n for n, line in enumerate(lines) if line.startswith(f"{verdict}:"))
    return next(found, None)


def _rewritten(lists: Lists) -> str:
    values = {
        verdict: [list(words) for words in rules] for verdict, rules in lists.items() if rules
    }
    from prsm_core.config.document import dump_document

    return dump_document(values) if values else ""

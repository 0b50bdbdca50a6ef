"""Reads YAML into plain JSON values, remembers where each of them stands, and writes them."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import yaml

from prsm_core.config.paths import cannot_be_read
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


KeyPath = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_NODES = 20_000  # as written, and after aliases are expanded: a small file can name billions
MAX_DEPTH = 40  # also what ends an alias that holds itself

TOO_DEEP = "is nested too deeply"
TOO_MANY = f"holds more than {MAX_NODES:,} values"

_TAB = r"found character '\t' that cannot start any token"
_TAG = "tag:yaml.org,2002:"
_PLAIN = frozenset(_TAG + kind for kind in ("int", "float", "bool", "null"))
# A date is text here: nothing in the configuration is one, but model ids look like one.
_TEXT = frozenset({_TAG + "str", _TAG + "timestamp"})


class Document(Record, frozen=True, kw_only=True):
    """A value and, for each key path in it, its origin ("file:line" or a name)."""

    value: Any
    origins: Mapping[KeyPath, str]


def read_document(path: Path) -> Document | None:
    """Read a file; None if there is none. Raises ConfigError, if possible with line and column."""
    text = read_text(path)
    return None if text is None else parse_text(text, source=str(path))


def read_text(path: Path) -> str | None:
    """Read a file of moderate size as UTF-8; None if there is none. Raises ConfigError."""
    if not os.path.lexists(path):  # most are not there
        return None
    # A repository could hold a named pipe where a file is expected.
    from prsm_core.kit.regular import read_regular

    try:
        data = read_regular(path, MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.EISDIR}:
            hint = "put a file of text in its place, or move it away"
            raise ConfigError(f"{path}: is not a regular file", hint=hint) from error
        raise cannot_be_read(path, error) from error
    return decode(data, path)


def decode(data: bytes, path: Path) -> str:
    """Return the bytes of a file of moderate size as text. Raises ConfigError."""
    if len(data) > MAX_BYTES:
        hint = "keep what is long in a file of its own"
        raise ConfigError(f"{path}: is larger than {MAX_BYTES >> 20} MiB", hint=hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text") from error


def parse_text(text: str, *, source: str) -> Document:
    """Read YAML text; errors and origins name `source` and the line."""
    return _Reader(source, numbered=True).read(text)


def parse_value(text: str, *, origin: str) -> Document:
    """Read the YAML value of a variable or an option; errors name `origin`, not the value."""
    return _Reader(origin, numbered=False).read(text)


class _Loader(yaml.SafeLoader):
    """Stops early at too deep or too large input, so that reading time grows only with the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._composed = 0

    def fetch_flow_collection_start(self, token_class: type[yaml.Token]) -> None:
        self._check_depth()
        super().fetch_flow_collection_start(token_class)

    def add_indent(self, column: int) -> bool:
        self._check_depth()
        is_deeper: bool = super().add_indent(column)
        return is_deeper

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._composed += 1
        if self._composed > MAX_NODES:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, TOO_MANY, mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def _check_depth(self) -> None:
        if self.flow_level + len(self.indents) > MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, TOO_DEEP, self.get_mark())


def _problem(error: yaml.MarkedYAMLError) -> str:
    if error.problem in {TOO_DEEP, TOO_MANY}:
        return error.problem
    if error.problem == _TAB:
        return "is not YAML: a tab stands where only spaces may"
    return f"is not YAML: {error.problem}" if error.problem else "is not YAML"


class _Reader:
    def __init__(self, source: str, *, numbered: bool) -> None:
        self._source = source
        self._numbered = numbered
        self._origins: dict[KeyPath, str] = {}
        self._nodes = 0

    def read(self, text: str) -> Document:
        try:
            self._loader = _Loader(text)
            node = self._loader.get_single_node()
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            column = error.position - text.rfind("\n", 0, error.position)
            where = self._where(line, column)
            raise ConfigError(f"{where}: holds a character that YAML forbids") from None
        except yaml.MarkedYAMLError as error:
            # Without its cause, which quotes the text: that may be a secret.
            raise self._error(_problem(error), error.problem_mark) from None
        except ValueError as error:  # a %YAML or \U escape with an impossible number
            raise ConfigError(f"{self._source}: is not YAML: {error}") from error
        value = None if node is None else self._value(node, ())
        self._origins.setdefault((), self._source)
        return Document(value=value, origins=self._origins)

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error("its aliases stand for too many values", node.start_mark)
        if len(path) > MAX_DEPTH:
            raise self._error(TOO_DEEP, node.start_mark)
        self._origins.setdefault(path, self._at(node.start_mark))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _TEXT:
            return node.value
        if isinstance(node, yaml.ScalarNode) and node.tag in _PLAIN:
            try:
                return self._loader.construct_object(node)
            except (ValueError, LookupError):  # !!int x, or more digits than Python takes
                kind = node.tag.removeprefix(_TAG)
                raise self._error(f"is no {kind} that can be read", node.start_mark) from None
        tag = node.tag.replace(_TAG, "!!")
        raise self._error(f"the tag {tag} is not supported", node.start_mark)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key in values:
                raise self._error(f"the key {key} stands twice", key_node.start_mark)
            self._origins[*path, key] = self._at(key_node.start_mark)
            values[key] = self._value(value_node, (*path, key))
        return values

    def _key(self, node: yaml.Node) -> str:
        if node.tag == _TAG + "merge":
            raise self._error("merge keys (<<) are not supported", node.start_mark)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _TEXT:
            raise self._error("a key must be text; put it in quotes", node.start_mark)
        return str(node.value)

    def _error(self, problem: str, mark: yaml.Mark | None) -> ConfigError:
        where = self._where(mark.line + 1, mark.column + 1) if mark else self._source
        return ConfigError(f"{where}: {problem}")

    def _where(self, line: int, column: int) -> str:
        return f"{self._source}:{line}:{column}" if self._numbered else self._source

    def _at(self, mark: yaml.Mark) -> str:
        return f"{self._source}:{mark.line + 1}" if self._numbered else self._source


def dump_document(values: Any) -> str:
    """Return plain values as YAML in their order. What is not ASCII is escaped for the terminal."""
    text: str = yaml.safe_dump(values, sort_keys=False)
    return text

"""Reads a syntax tree into simple commands, in the order of the text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.grammar import (
    KNOWN_KINDS,
    PLAIN_KINDS,
    RESERVED,
    RefusedError,
    parse,
)
from prsm_policy.shell.lists import LISTS, REDIRECTS, WORDS, pipelines
from prsm_policy.shell.literals import BARE, Literals, Part, inner_of
from prsm_policy.shell.script import Assignment, Command, Reading
from prsm_policy.shell.words import Word, is_simple
from prsm_policy.shell.wrappers import EVALUATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from tree_sitter import Node

_STATEMENTS = word_set("command declaration_command unset_command test_command")
_EXPRESSIONS = word_set("unary_expression binary_expression parenthesized_expression")
_NO_WORDS = REDIRECTS | {"variable_assignment"}
_SUBSTITUTIONS = word_set("command_substitution process_substitution")
_EXPANSIONS = word_set("simple_expansion expansion")
_COMMENTED = word_set(
    "program list pipeline redirected_statement subshell compound_statement do_group if_statement"
    " elif_clause else_clause while_statement for_statement case_statement case_item"
    " function_definition command_substitution process_substitution"
)
# bash takes as many of these characters as make an operator: ;& is one, and so is &>.
_OPERATORS = word_set("; & | && || |& ;;")
_LONGER = {
    kind: frozenset({b";", b"&", b"|", *([b">"] if kind == "&" else [])}) for kind in _OPERATORS
}
_META = frozenset("<>()&|;")
# The values of variables are expanded in numbers, in subscripts and in offsets.
_COMPUTING = word_set("arithmetic_expansion (( [[ c_style_for_statement subscript :")
_QUOTES = frozenset("'\\")
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")

_BETWEEN_WORDS = re.compile(rb"(?:[ \t]|\\\n)*")
_LINE_END = re.compile(rb"[ \t]*\n[ \t\n]*")
_HEREDOC = re.compile(rb"(?<!<)<<(?!<)")
_DOUBLE = re.compile(rb"[$<>]\((?:\\\n)*\(")
_MAX_ENDS = 4
_EDGE = re.compile(rb"[ \t\n;|]|$")
_BETWEEN = re.compile(rb"(?:[ \t\n]|\\\n)*")
_BEFORE_COMMENT = b" \t\n;&|()"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STANDARD = re.compile(r"[012-]")
# Conditions that never change.
_CONSTANT = re.compile(
    r"(?:true|false|:|\[\[? *(?:-n )?[\w\"']+ *\]\]?|\(\( *\d+ *\)\)|test \w+|! *(?:false|true))"
    r"[ \t\n;]*"
)
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
NOWHERE = "/dev/null"


@dataclass(slots=True)
class _Draft:
    """A command that is being read.

    `piped` says that it stands in a pipeline, or in what does, `beside` that a pipe stands beside
    it, `behind` that one stands before it.
    """

    piped: bool = False
    beside: bool = False
    behind: bool = False
    words: list[Word] = field(default_factory=list)
    assigned: list[Assignment] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    feeds: list[Word] = field(default_factory=list)

    def done(self, *, plain: bool) -> Command:
        return Command(
            tuple(self.words),
            tuple(self.assigned),
            tuple(self.reads),
            tuple(self.writes),
            tuple(self.feeds),
            piped=self.beside if plain else self.piped,
            behind=plain and self.behind,
        )


class _LineEndError(RefusedError):
    """The tree takes what stands before and behind the end of a line for one command."""

    def __init__(self, at: int) -> None:
        super().__init__("it cannot be told where a command ends")
        self.at = at  # in bytes


def read_tree(text: str, deadline: float) -> Reading:
    """Read a text until a moment in CPU seconds of this thread.

    Behind some pipelines the grammar does not see the end of a line. A semicolon there means the
    same to bash where it ends a command and no heredoc begins with the next line. So the text is
    read with one, and refused unless it ends a command.

    Raises RefusedError when it cannot be told for sure what is in it.
    """
    data = text.encode("utf-8", "surrogatepass")
    ends: set[int] = set()
    while True:
        try:
            reading = _Reader(parse(text, deadline), data).read(ends)
            return replace(reading, text=text) if ends else reading
        except _LineEndError as error:
            if len(ends) == _MAX_ENDS or _HEREDOC.search(data[: error.at]):
                raise
            ends.add(error.at)
            data = data[: error.at] + b";" + data[error.at + 1 :]
            text = data.decode("utf-8", "surrogatepass")


class _Reader:
    def __init__(self, root: Node, data: bytes) -> None:
        self._data = data
        self._literals = Literals(data)
        # What is still to be visited, with the id of the command it belongs to; or where to go on.
        self._stack: list[tuple[Node, bool, int] | int] = [(root, False, 0)]
        self._drafts: dict[int, _Draft] = {}  # by node, in the order of the text
        self._taken: set[int] = set()  # assignments that belong to a command
        self._grouped: set[int] = set()  # lists whose members are known
        self._piped: set[int] = set()  # members of pipelines
        self._owners: dict[int, int] = {}  # by redirection: what it belongs to
        self._kinds: set[str] = set()
        self._semicolons: set[int] = set()
        self._functions: set[str] = set()
        self._variables: set[str] = set()
        self._end = 0
        self._last = _Draft()
        self._is_beside = False
        self._plain = True
        self._evaluates = False
        self._computes = False
        self._endless = False

    def read(self, ends: AbstractSet[int] = frozenset()) -> Reading:
        """Read the tree; at `ends` there must be semicolons that end commands."""
        while self._stack:
            entry = self._stack.pop()
            if isinstance(entry, int):
                self._end = entry
            else:
                self._visit(*entry)
        if not _BETWEEN.fullmatch(self._data, self._end):
            raise RefusedError("a part of it belongs to nothing")
        if unknown := self._kinds - KNOWN_KINDS:
            raise RefusedError(f"it holds what is not understood: {' '.join(sorted(unknown))}")
        if ends and (not ends <= self._semicolons or "c_style_for_statement" in self._kinds):
            raise RefusedError("it cannot be told where a line ends")
        plain = self._plain and self._kinds <= PLAIN_KINDS
        commands = tuple(draft.done(plain=plain) for draft in self._drafts.values())
        for command in commands:
            first = command.words[0] if command.words else None
            if first and first.exact and (first.text in RESERVED or _ASSIGNS.match(first.text)):
                raise RefusedError(f"{first.text!r} stands where a program should")
        return Reading(
            commands,
            plain and all(map(_is_literal, commands)),
            frozenset(self._functions),
            frozenset(self._variables),
            self._evaluates,
            tuple(self._literals.latent),
            self._evaluates or self._computes or not _COMPUTING.isdisjoint(self._kinds),
            "process_substitution" in self._kinds,
            endless=self._endless,
        )

    def _visit(self, node: Node, piped: bool, owner: int) -> None:
        kind = node.type
        self._kinds.add(kind)
        piped = piped or node.id in self._piped
        children = node.children
        if kind in {"string", "heredoc_body"}:
            self._text(node, is_heredoc=kind != "string")
        elif not children:
            self._leaf(node, kind)
        elif kind in _STATEMENTS:
            self._statement(node, kind, children, piped)
        elif kind in REDIRECTS:
            self._redirect(kind, children, self._owners.get(node.id, owner))
        elif kind in LISTS:
            self._list(node, children, piped)
        else:
            self._structure(node, kind, children, piped)

    def _push(self, nodes: Sequence[Node], piped: bool = False, owner: int = 0) -> None:
        self._stack += [(node, piped, owner) for node in nodes[::-1]]

    def _list(self, node: Node, children: Sequence[Node], piped: bool) -> None:
        if node.id not in self._grouped:
            for pipeline in pipelines(node):
                if len(pipeline) > 1:
                    self._piped.update(member.node.id for member in pipeline)
                for member in pipeline:
                    for redirect in member.redirects:
                        self._owners[redirect.id] = member.node.id
        self._grouped.update(child.id for child in children)
        self._push(children, piped)

    def _structure(self, node: Node, kind: str, children: Sequence[Node], piped: bool) -> None:
        if kind == "variable_assignment" and node.id not in self._taken:
            self._drafts[node.id] = _Draft(piped, assigned=[self._assignment(node)])
        elif kind == "function_definition":
            name = node.child_by_field_name("name")
            self._functions.add("" if name is None else self._literals.word(name).text)
        elif kind == "command_substitution" and children[0].type == "`":
            self._literals.check_backquotes(node)
        elif kind in _SUBSTITUTIONS and _DOUBLE.match(self._data, node.start_byte):
            # bash takes it for arithmetic at first and ends it at the parenthesis that matches,
            # be that in a heredoc or in a comment.
            raise RefusedError("it cannot be told where a substitution ends")
        elif kind in _EXPANSIONS:
            self._expansion(children)
            # In a quoted text bash takes single quotes inside an expansion for letters.
            if len(children) > 3 and not _QUOTES.isdisjoint(self._literals.text(node)):
                self._computes = True
        elif kind == "while_statement":
            is_constant = _CONSTANT.fullmatch(self._literals.text(children[1])) is not None
            self._endless = self._endless or is_constant
        elif kind == "for_statement":
            name = node.child_by_field_name("variable")
            if name is None or self._literals.text(name) in EVALUATED:
                self._computes = True
        self._push(children, piped or kind == "process_substitution")

    def _expansion(self, children: Sequence[Node]) -> None:
        for child in children:
            if child.type in {"!", "@"}:
                self._evaluates = True
            elif child.type in {"variable_name", "special_variable_name", "subscript"}:
                self._variables.add(self._literals.text(child).partition("[")[0])

    # Every byte of the text belongs to a leaf, or is space between two.

    def _leaf(self, node: Node, kind: str) -> None:
        self._advance(node)
        self._literals.check_leaf(node, kind)
        if kind in _OPERATORS and self._data[node.end_byte : node.end_byte + 1] in _LONGER[kind]:
            raise RefusedError("it cannot be told where an operator ends")
        if kind == ";":
            self._semicolons.add(node.start_byte)
        elif kind == "|":
            self._last.beside = self._is_beside = True
        if kind == "comment" and node.start_byte:
            parent = node.parent
            before = self._data[node.start_byte - 1]
            if before not in _BEFORE_COMMENT or parent is None or parent.type not in _COMMENTED:
                raise RefusedError("it cannot be told where a comment begins")

    def _text(self, node: Node, *, is_heredoc: bool) -> None:
        """Visit a quoted text: what lies between its expansions is part of it."""
        self._advance(node)
        if is_heredoc and node.parent is not None and node.parent.id in self._taken:
            return  # its delimiter is quoted: nothing in it is expanded
        inner = inner_of(node)
        self._literals.check_pieces(node, inner, is_heredoc=is_heredoc)
        self._stack.append(self._end)
        for child in reversed(inner):
            self._stack += [(child, False, 0), child.start_byte]

    def _advance(self, node: Node) -> None:
        start, end = node.start_byte, self._end
        if start < end or (start > end and not _BETWEEN.fullmatch(self._data, end, start)):
            raise RefusedError("a part of it belongs to nothing")
        self._end = node.end_byte

    def _statement(self, node: Node, kind: str, children: Sequence[Node], piped: bool) -> None:
        draft = self._drafts[node.id] = self._last = _Draft(piped, self._is_beside, self._is_beside)
        self._is_beside = False
        parts = list(map(Part.of, _parts(kind, children)))
        self._check_lines(parts)
        # The grammar knows no difference between [ and [[ here; the shell does.
        if parts[0].kind == "[" and any(_is_operator(part.node) for part in parts):
            raise RefusedError("what stands between the brackets cannot be told")
        words = parts
        if kind != "test_command" and any(part.kind in _NO_WORDS for part in parts):
            words = [part for part in parts if part.kind not in REDIRECTS]
            for part in words:
                if part.kind == "variable_assignment":
                    self._taken.add(part.node.id)
                    draft.assigned.append(self._assignment(part.node))
            if kind == "command":
                words = [part for part in words if part.kind != "variable_assignment"]
        draft.words += self._literals.words(words)
        self._visit_parts(node, parts)

    def _visit_parts(self, node: Node, parts: Sequence[Part]) -> None:
        """Visit the parts of a command, between which there is nothing but space."""
        self._advance(parts[0].node)
        self._stack.append(node.end_byte)
        for part in reversed(parts):
            if part.kind in BARE:
                self._kinds.add(part.kind)  # a leaf that is checked already
            elif part.node.child_count:
                self._stack += [(part.node, False, node.id), part.start]
            else:
                self._kinds.add(part.kind)
                self._literals.check_leaf(part.node, part.kind)

    def _assignment(self, node: Node) -> Assignment:
        name = self._literals.text(node).partition("=")[0]
        child = node.children[-1]
        value = Word("") if child.type == "=" else self._literals.word(child)
        if not _NAME.fullmatch(name.removesuffix("+")):
            value = replace(value, exact=False)  # a subscript is evaluated
        return Assignment(name.removesuffix("+"), value)

    def _check_lines(self, parts: Sequence[Part]) -> None:
        """Refuse a command over several lines: for bash a newline ends it."""
        for before, after in pairwise(parts):
            gap = self._data[before.end : after.start]
            if gap != b" " and not _BETWEEN_WORDS.fullmatch(gap):
                if _LINE_END.fullmatch(gap):
                    raise _LineEndError(before.end + gap.index(b"\n"))
                raise RefusedError("it cannot be told where a command ends")
            if not gap and before.kind in _NO_WORDS:
                raise RefusedError("it cannot be told where a word ends")

    def _redirect(self, kind: str, children: Sequence[Node], owner: int) -> None:
        draft = self._drafts.setdefault(owner, _Draft(owner in self._piped))
        if kind == "heredoc_redirect":
            self._heredoc(children, draft)
            return
        self._check_lines(list(map(Part.of, children)))
        if kind == "herestring_redirect":
            draft.feeds.append(self._literals.word(children[-1]))
        else:
            self._file_redirect(children, draft)
        self._push(children)

    def _file_redirect(self, children: Sequence[Node], draft: _Draft) -> None:
        number = children[0] if children[0].type == "file_descriptor" else None
        operator, *rest = children[1:] if number else children
        if any(not node.is_named for node in rest):
            raise RefusedError("it cannot be told what a redirection is for")
        self._check_edges(number, operator)
        if number is not None and not _STANDARD.fullmatch(self._literals.text(number)):
            self._plain = False
        words = self._literals.words(map(Part.of, rest))
        if operator.type not in {">&-", "<&-"}:
            if not words:
                raise RefusedError("a redirection leads nowhere")
            self._point(operator.type, words.pop(0), draft)
        draft.words += words

    def _check_edges(self, number: Node | None, operator: Node) -> None:
        """Refuse a redirection that may begin or end elsewhere: at a number, behind a dash."""
        start, end = operator.start_byte, operator.end_byte
        before = self._data[start - 1 : start] if start and number is None else b""
        is_closing = operator.type in {">&-", "<&-"}
        if before.isdigit() or before == b"}" or (is_closing and not _EDGE.match(self._data, end)):
            raise RefusedError("it cannot be told what a redirection is for")

    def _point(self, operator: str, target: Word, draft: _Draft) -> None:
        if operator in {">&", "<&"} and target.known and _DESCRIPTOR.fullmatch(target.text):
            self._plain = self._plain and _STANDARD.fullmatch(target.text) is not None
            return
        if operator in {">&", "<&"} and not (target.known and is_simple(target.text)):
            # What is no number is expanded once more, its quotes gone.
            self._computes = True
            self._plain = False
            target = replace(target, exact=False)
        if operator in {"<", "<&"}:
            draft.reads.append(target)
        elif not (target.known and target.text == NOWHERE):
            self._plain = False
            draft.writes.append(target)

    def _heredoc(self, children: Sequence[Node], draft: _Draft) -> None:
        by_kind = {child.type: child for child in children}
        start, end = by_kind.get("heredoc_start"), by_kind.get("heredoc_end")
        body = by_kind.get("heredoc_body")
        kinds = [child.type for child in children if child.type not in REDIRECTS]
        if start is None or end is None or len(set(kinds)) != len(kinds):
            raise RefusedError("it cannot be told where a heredoc ends")
        is_literal = self._literals.check_heredoc(
            start,
            body,
            end,
            strips_tabs="<<-" in by_kind,
        )
        if body is not None:
            draft.feeds.append(
                Word(self._literals.text(body), exact=is_literal or not body.children)
            )
            if is_literal and (parent := body.parent) is not None:
                self._taken.add(parent.id)
        draft.words += [self._literals.word(child) for child in children if child.type in WORDS]
        self._grouped.update(child.id for child in children)
        self._push(children)


def _is_literal(command: Command) -> bool:
    words = (*command.words, *command.reads, *(each.value for each in command.assigned))
    return bool(command.words) and all(word.exact for word in words)


def _is_operator(node: Node) -> bool:
    return not node.is_named and not _META.isdisjoint(node.type)


def _parts(kind: str, children: Sequence[Node]) -> Iterator[Node]:
    """Yield the words of a command one by one, and its redirections."""
    if kind == "command":
        for child in children:
            if child.type == "command_name":
                yield from child.children
            else:
                yield child
        return
    stack = list(reversed(children))
    while stack:
        node = stack.pop()
        if kind == "test_command" and node.type in _EXPRESSIONS:
            stack.extend(reversed(node.children))
        else:
            yield node

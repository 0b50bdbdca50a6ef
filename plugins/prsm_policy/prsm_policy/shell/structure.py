"""Builds the structure of a text from its syntax tree.

What bash may read differently was refused before. Here everything is on an allow-list once more:
what is not known has no structure.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell import tree
from prsm_policy.shell.grammar import MAX_SECONDS, RefusedError, parse, require
from prsm_policy.shell.lists import REDIRECTS, WORDS, below, between, only, pipelines
from prsm_policy.shell.literals import Literals, Part, inner_of
from prsm_policy.shell.words import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tree_sitter import Node

    from prsm_policy.shell.lists import Member
    from prsm_policy.shell.tree import Piece, Pieces, Step

_MAX_DEPTH = 40
_SEPARATORS = frozenset({";", "\n", ";;", ";&", ";;&"})
_SKIPPED = _SEPARATORS | {"comment"}
_COUNTED = word_set("command test_command variable_assignment")
_LITERAL = word_set("word number raw_string ansi_c_string extglob_pattern regex test_operator")
_EXPANDED = word_set(
    "simple_expansion expansion command_substitution process_substitution arithmetic_expansion"
)
_CUTS = word_set("% %% # ## / // /# /% ^ ^^ , ,,")
_HARMLESS_CUT = re.compile(r"[\w.*?/@:+ -]*")
_PARAMETER = re.compile(r"[A-Za-z_]\w*|[?#$]")
_STATUS = re.compile(r"PIPESTATUS\[\d\]")
_RANGE = re.compile(r"\{\d{1,6}\.\.\d{1,6}(?:\.\.\d{1,4})?\}")
_NUMBER = re.compile(r"0|[1-9]\d{0,14}")
_CALCULATED = word_set("binary_expression unary_expression parenthesized_expression")
_CALCULATES = word_set("+ - * / % ( ) $(( )) < > <= >= == !=")


@lru_cache(maxsize=64)
def read_structure(text: str) -> tuple[Step, int] | None:
    """Return the structure of a text and how many commands are in it, None if it has none."""
    try:
        return _Builder(text).read()
    except RefusedError:
        return None


class _Builder:
    def __init__(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self._root = parse(text, time.thread_time() + MAX_SECONDS)
        self._literals = Literals(data)
        self._commands = 0
        self._depth = 0

    def read(self) -> tuple[Step, int]:
        return self._sequence(self._root.children), self._commands

    def _sequence(self, nodes: Iterable[Node]) -> Step:
        steps = [self._step(node) for node in nodes if node.type not in _SKIPPED]
        _require(steps, "a part of it in which nothing runs")
        return steps[0] if len(steps) == 1 else tree.Sequence(tuple(steps))

    def _step(self, node: Node) -> Step:
        build = _STEPS.get(node.type)
        self._depth += 1
        if build is None or self._depth > _MAX_DEPTH:
            raise RefusedError(f"{node.type} cannot be followed")
        step = build(self, node)
        self._depth -= 1
        return step

    def _list(self, node: Node) -> Step:
        steps = tuple(map(self._pipeline, pipelines(node)))
        return steps[0] if len(steps) == 1 else tree.Either(steps)

    def _pipeline(self, members: Sequence[Member]) -> Step:
        _require(all(member.operator != "|&" for member in members), "a pipeline")
        parts = tuple(map(self._member, members))
        return parts[0] if len(parts) == 1 else tree.Pipeline(parts)

    def _member(self, member: Member) -> Step:
        step = tree.Simple(()) if member.is_bare else self._step(member.node)
        if member.redirects:  # behind what is no command they are read as one
            self._commands += member.node.type not in _COUNTED
        return self._pointed(step, member.redirects)

    def _pointed(self, step: Step, redirects: Iterable[Node]) -> Step:
        reads: list[Pieces] = []
        feeds: list[Pieces] = []
        for node in redirects:
            if node.type == "file_redirect":
                reads += self._file(node)
            elif node.type == "herestring_redirect":
                feeds.append(self._one(only(node, 2)[1]))
            else:
                feeds += self._heredoc(node)
        return tree.Fed(step, tuple(reads), tuple(feeds)) if reads or feeds else step

    def _file(self, node: Node) -> list[Pieces]:
        children = [child for child in node.children if child.type != "file_descriptor"]
        operator, *targets = children
        if operator.type in {">&-", "<&-"} and not targets:
            return []
        _require(len(targets) == 1, "a redirection")
        if operator.type == "<":
            _require(len(children) == len(node.children), "a redirection")
            return [self._one(targets[0])]
        text = self._literals.text(targets[0])
        is_nowhere = operator.type in {">", ">>", "&>", "&>>"} and text == "/dev/null"
        if not is_nowhere and not (operator.type == ">&" and text in {"1", "2"}):
            raise RefusedError("it writes")
        return []

    def _heredoc(self, node: Node) -> list[Pieces]:
        found: list[Pieces] = []
        quoted = False
        for child in node.children:
            _require(child.type not in WORDS, "a heredoc")
            if child.type == "heredoc_start":
                quoted = not self._literals.text(child)[:1].isalnum()
            elif child.type == "heredoc_body" and quoted:
                found.append((tree.Literal(Word(self._literals.text(child))),))
            elif child.type == "heredoc_body":
                found.append(self._inside(child, is_quoted=False))
        return found

    def _branches(self, children: Sequence[Node]) -> list[tuple[Step | None, Step]]:
        then = next((at for at, child in enumerate(children) if child.type == "then"), None)
        if then is None:
            raise RefusedError("a branch cannot be followed")
        ends = (at for at, child in enumerate(children) if child.type in _ENDS)
        end = next(ends, len(children))
        branches: list[tuple[Step | None, Step]] = [
            (self._sequence(children[1:then]), self._sequence(children[then + 1 : end]))
        ]
        for child in children[end:]:
            if child.type == "elif_clause":
                branches += self._branches(child.children)
            elif child.type == "else_clause":
                branches.append((None, self._sequence(child.children[1:])))
            else:
                _require(child.type in {"fi", "comment"}, "a branch")
        return branches

    def _case(self, node: Node) -> Step:
        subject = node.child_by_field_name("value")
        if subject is None:
            raise RefusedError("a case cannot be followed")
        known = {"case", "in", "esac", "case_item", "comment", subject.type, ";", "\n"}
        _require(all(child.type in known for child in node.children), "a case")
        items = [child for child in node.children if child.type == "case_item"]
        bodies = tuple((None, body) for item in items if (body := self._item(item)) is not None)
        return tree.Choice(bodies, self._one(subject))

    def _item(self, node: Node) -> Step | None:
        children = node.children
        end = next((at for at, child in enumerate(children) if child.type == ")"), None)
        if end is None:
            raise RefusedError("a case cannot be followed")
        for child in children[:end]:
            _require(child.type in _LITERAL | {"|", "(", "string", "concatenation"}, "a case")
            _require(all(each.type not in _EXPANDED for each in below(child)), "a case")
        body = [each for each in children[end + 1 :] if each.type not in _SKIPPED]
        return self._sequence(body) if body else None

    def _for(self, node: Node) -> Step:
        name = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if name is None or body is None or node.children[0].type != "for":
            raise RefusedError("a loop cannot be followed")
        values = node.children_by_field_name("value")
        _require(any(child.type == "in" for child in node.children), "a loop over arguments")
        parts = {name.id, body.id, *(value.id for value in values)}
        others = {each.type for each in node.children if each.id not in parts}
        _require(others <= _SKIPPED | {"for", "in"}, "a loop")
        return tree.Loop(self._do(body), self._literals.text(name), self._words(values))

    def _while(self, node: Node) -> Step:
        body = node.child_by_field_name("body")
        if body is None:
            raise RefusedError("a loop cannot be followed")
        condition = [each for each in node.children[1:] if each.id != body.id]
        return tree.Loop(self._do(body), condition=self._sequence(condition))

    def _do(self, node: Node) -> Step:
        return self._sequence(between(node, "do", "done"))

    def _command(self, node: Node) -> Step:
        self._commands += 1
        assigned: list[tuple[str, Pieces]] = []
        words: list[Node] = []
        redirects: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assigned.append(self._assignment(child))
            elif child.type == "command_name":
                words += child.children or [child]
            elif child.type in REDIRECTS:
                redirects.append(child)
            else:
                words.append(child)
        return self._pointed(tree.Simple(self._words(words), tuple(assigned)), redirects)

    def _assigned(self, node: Node) -> Step:
        nodes = [node] if node.type == "variable_assignment" else node.children
        self._commands += len(nodes)
        return tree.Simple((), tuple(map(self._assignment, nodes)))

    def _assignment(self, node: Node) -> tuple[str, Pieces]:
        children = node.children
        kinds = [child.type for child in children[:2]]
        is_plain = node.type == "variable_assignment" and kinds == ["variable_name", "="]
        _require(is_plain and len(children) <= 3, "an assignment")
        value = self._one(children[2]) if len(children) == 3 else (tree.Literal(Word("")),)
        return self._literals.text(children[0]), value

    def _test(self, node: Node) -> Step:
        self._commands += 1
        words: list[Pieces] = []
        stack = list(reversed(node.children))
        _require(node.children[0].type in {"[", "[["}, "what is computed")
        while stack:
            each = stack.pop()
            if each.type in _CALCULATED:
                stack += reversed(each.children)
            elif not each.is_named or each.type == "test_operator":
                words.append((tree.Literal(Word(self._literals.text(each))),))
            else:
                words.append(self._one(each))
        return tree.Simple(tuple(words))

    def _words(self, nodes: Iterable[Node]) -> tuple[Pieces, ...]:
        """Return the words of some nodes; those that touch are one."""
        groups: list[list[Node]] = []
        for node in nodes:
            if groups and groups[-1][-1].end_byte == node.start_byte:
                groups[-1].append(node)
            else:
                groups.append([node])
        return tuple(map(self._word, groups))

    def _one(self, node: Node) -> Pieces:
        return self._word([node])

    def _word(self, nodes: Sequence[Node]) -> Pieces:
        text = self._literals.text(nodes[0])
        if len(nodes) == 1 and _RANGE.fullmatch(text) and nodes[0].type != "string":
            return (tree.Number(),)
        if not any(each.type in _EXPANDED for node in nodes for each in below(node)):
            return (tree.Literal(self._known(nodes)),)
        pieces: list[Piece] = []
        for node in nodes:
            children = node.children if node.type == "concatenation" else [node]
            for child in children:
                pieces += self._pieces(child)
        _require(len(pieces) == 1 or not any(map(_is_odd, pieces)), "a word")
        return tuple(pieces)

    def _known(self, nodes: Sequence[Node]) -> Word:
        allowed = _LITERAL | {"string", "concatenation", "string_content", "variable_name"}
        for node in nodes:
            for each in below(node):
                _require(not each.is_named or each.type in allowed, each.type)
        words = self._literals.words(map(Part.of, nodes))
        _require(len(words) == 1 and words[0].exact, "a word")
        return words[0]

    def _pieces(self, node: Node) -> list[Piece]:
        kind = node.type
        if kind == "string":
            return list(self._inside(node, is_quoted=True))
        if kind in _EXPANDED:
            return [self._expanded(node, quoted=False)]
        word = self._known([node])
        may_expand = kind in {"word", "extglob_pattern", "regex"}
        _require(not may_expand or set("{}").isdisjoint(word.text), "what braces become")
        return [tree.Literal(word)]

    def _inside(self, node: Node, *, is_quoted: bool) -> Pieces:
        inner = inner_of(node)
        texts = self._literals.segments(node, inner, quoted=is_quoted)
        pieces: list[Piece] = []
        for text, child in zip(texts, [*inner, None], strict=True):
            pieces += [tree.Literal(Word(text))] if text or not inner else []
            pieces += [] if child is None else [self._expanded(child, quoted=True)]
        return tuple(pieces)

    def _expanded(self, node: Node, *, quoted: bool) -> Piece:
        if node.type == "simple_expansion":
            mark, name = only(node, 2)
            return self._variable(mark, name, quoted=quoted)
        if node.type == "expansion":
            return self._expansion(node, quoted=quoted)
        if node.type == "arithmetic_expansion":
            return self._number(node)
        marks = {"command_substitution": ({"$(", "`"}, {")", "`"})}
        begin, end = marks.get(node.type, ({"<("}, {")"}))
        children = node.children
        _require(children[0].type in begin and children[-1].type in end, "a substitution")
        if len(children) == 3 and children[1].type == "file_redirect":
            self._commands += 1
            body = self._pointed(tree.Simple(()), [children[1]])
        else:
            body = self._sequence(children[1:-1])
        return tree.Substitution(body, quoted, file=node.type == "process_substitution")

    def _variable(self, mark: Node, name: Node, *, quoted: bool) -> tree.Variable:
        text = self._literals.text(name)
        _require(mark.type == "$" and _PARAMETER.fullmatch(text), "a variable")
        return tree.Variable(text, quoted)

    def _expansion(self, node: Node, *, quoted: bool) -> tree.Variable | tree.Number:
        parts = [self._literals.text(child) for child in node.children]
        _require(parts[0] == "${" and parts[-1] == "}", "an expansion")
        if len(parts) == 3 and _STATUS.fullmatch(parts[1]):
            return tree.Number()
        if len(parts) == 4 and parts[1] == "#" and _PARAMETER.fullmatch(parts[2]):
            return tree.Variable(parts[2], quoted, counted=True)
        _require(len(parts) > 2 and _PARAMETER.fullmatch(parts[1]), "an expansion")
        if len(parts) == 3:
            return tree.Variable(parts[1], quoted)
        _require(parts[2] in _CUTS, "an expansion")
        _require(all(map(_HARMLESS_CUT.fullmatch, parts[3:-1])), "an expansion")
        return tree.Variable(parts[1], quoted, derived=True)

    def _number(self, node: Node) -> tree.Number:
        names: list[str] = []
        for each in below(node):
            text = self._literals.text(each)
            if each.type == "simple_expansion":
                names.append(text[1:])
            elif each.child_count:
                _require(each.type in _CALCULATED | {node.type, "number"}, "what is computed")
            elif each.type in {"variable_name", "word"}:
                names.append(text)
            elif each.type not in _CALCULATES | {"$"}:
                _require(_NUMBER.fullmatch(text), "what is computed")
        _require(all(map(_PARAMETER.fullmatch, names)), "what is computed")
        return tree.Number(tuple(names))


_ENDS = frozenset({"elif_clause", "else_clause", "fi"})
_STEPS: Mapping[str, Callable[[_Builder, Node], Step]] = {
    "list": _Builder._list,
    "pipeline": _Builder._list,
    "negated_command": _Builder._list,
    "redirected_statement": _Builder._list,
    "subshell": lambda builder, node: tree.Subshell(builder._sequence(between(node, "(", ")"))),
    "compound_statement": lambda builder, node: builder._sequence(between(node, "{", "}")),
    "if_statement": lambda builder, node: tree.Choice(tuple(builder._branches(node.children))),
    "case_statement": _Builder._case,
    "for_statement": _Builder._for,
    "while_statement": _Builder._while,
    "command": _Builder._command,
    "variable_assignment": _Builder._assigned,
    "variable_assignments": _Builder._assigned,
    "test_command": _Builder._test,
}


def _require(holds: object, what: str) -> None:
    require(holds, f"{what} cannot be followed")


def _is_odd(piece: Piece) -> bool:
    """Return whether a piece means something else when it is a part of a word."""
    if isinstance(piece, tree.Literal):
        return piece.word.tilde or (piece.word.glob and "[" in piece.word.text)
    return isinstance(piece, tree.Substitution) and piece.file

"""Builds the structure of a text from its syntax tree.

The text was read as simple commands before, which refuses what bash may read differently. Here
everything is on an allow-list once more: what is not known has no structure.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.grammar import MAX_SECONDS, RefusedError, parse
from prsm_policy.shell.lists import REDIRECTS, WORDS, below, between, only, pipelines
from prsm_policy.shell.literals import Literals, Part, inner_of
from prsm_policy.shell.tree import (
    Choice,
    Either,
    Fed,
    Literal,
    Loop,
    Number,
    Pipeline,
    Sequence,
    Simple,
    Subshell,
    Substitution,
    Variable,
)
from prsm_policy.shell.words import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Sequence as Listed

    from tree_sitter import Node

    from prsm_policy.shell.lists import Member
    from prsm_policy.shell.tree import Piece, Pieces, Step

_MAX_DEPTH = 40
_SEPARATORS = frozenset({";", "\n", ";;", ";&", ";;&"})
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
_NUMBER = re.compile(r"\d{1,15}")
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
        skipped = _SEPARATORS | {"comment"}
        steps = [self._step(node) for node in nodes if node.type not in skipped]
        if not steps:
            raise RefusedError("nothing runs in a part of it")
        return steps[0] if len(steps) == 1 else Sequence(tuple(steps))

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
        return steps[0] if len(steps) == 1 else Either(steps)

    def _pipeline(self, members: Listed[Member]) -> Step:
        if any(member.operator == "|&" for member in members):
            raise RefusedError("a pipeline cannot be followed")
        parts = tuple(map(self._member, members))
        return parts[0] if len(parts) == 1 else Pipeline(parts)

    def _member(self, member: Member) -> Step:
        step = Simple(()) if member.is_bare else self._step(member.node)
        if member.redirects:  # behind what is no command they are read as one
            self._commands += member.node.type not in _COUNTED
        return self._pointed(step, member.redirects)

    def _subshell(self, node: Node) -> Step:
        return Subshell(self._sequence(between(node, "(", ")")))

    def _group(self, node: Node) -> Step:
        return self._sequence(between(node, "{", "}"))

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
        return Fed(step, tuple(reads), tuple(feeds)) if reads or feeds else step

    def _file(self, node: Node) -> list[Pieces]:
        children = [child for child in node.children if child.type != "file_descriptor"]
        operator, *targets = children
        if operator.type in {">&-", "<&-"} and not targets:
            return []
        if len(targets) != 1:
            raise RefusedError("a redirection cannot be followed")
        if operator.type == "<":
            if len(children) < len(node.children):
                raise RefusedError("a redirection cannot be followed")
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
            if child.type == "heredoc_start":
                quoted = not self._literals.text(child)[:1].isalnum()
            elif child.type == "heredoc_body":
                found.append(self._text(child, quoted=quoted))
            elif child.type in WORDS:
                raise RefusedError("a heredoc cannot be followed")
        return found

    def _text(self, node: Node, *, quoted: bool) -> Pieces:
        """Return the pieces of a heredoc."""
        if quoted:
            return (Literal(Word(self._literals.text(node))),)
        return self._inside(node, is_quoted=False)

    def _if(self, node: Node) -> Step:
        return Choice(tuple(self._branches(node.children)))

    def _branches(self, children: Listed[Node]) -> list[tuple[Step | None, Step]]:
        then = next((at for at, child in enumerate(children) if child.type == "then"), None)
        if then is None:
            raise RefusedError("a branch cannot be followed")
        ends = [at for at, child in enumerate(children) if child.type in _ENDS]
        end = ends[0] if ends else len(children)
        branches: list[tuple[Step | None, Step]] = [
            (self._sequence(children[1:then]), self._sequence(children[then + 1 : end]))
        ]
        for child in children[end:]:
            if child.type == "elif_clause":
                branches += self._branches(child.children)
            elif child.type == "else_clause":
                branches.append((None, self._sequence(child.children[1:])))
            elif child.type not in {"fi", "comment"}:
                raise RefusedError("a branch cannot be followed")
        return branches

    def _case(self, node: Node) -> Step:
        subject = node.child_by_field_name("value")
        if subject is None:
            raise RefusedError("a case cannot be followed")
        known = {"case", "in", "esac", "case_item", "comment", subject.type, ";", "\n"}
        items = [child for child in node.children if child.type == "case_item"]
        if any(child.type not in known for child in node.children):
            raise RefusedError("a case cannot be followed")
        bodies = tuple((None, body) for item in items if (body := self._item(item)) is not None)
        return Choice(bodies, self._one(subject))

    def _item(self, node: Node) -> Step | None:
        children = node.children
        end = next((at for at, child in enumerate(children) if child.type == ")"), None)
        if end is None:
            raise RefusedError("a case cannot be followed")
        for child in children[:end]:
            if child.type not in _LITERAL | {"|", "(", "string", "concatenation"}:
                raise RefusedError("a case cannot be followed")
            if any(each.type in _EXPANDED for each in below(child)):
                raise RefusedError("a case cannot be followed")
        body = [
            each
            for each in children[end + 1 :]
            if each.type not in _SEPARATORS and each.type != "comment"
        ]
        return self._sequence(body) if body else None

    def _for(self, node: Node) -> Step:
        name = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if name is None or body is None or node.children[0].type != "for":
            raise RefusedError("a loop cannot be followed")
        values = node.children_by_field_name("value")
        if not any(child.type == "in" for child in node.children):
            raise RefusedError("a loop over arguments cannot be followed")
        known = {"for", "in", "comment", *_SEPARATORS}
        known_ids = {name.id, body.id, *(value.id for value in values)}
        if any(each.type not in known and each.id not in known_ids for each in node.children):
            raise RefusedError("a loop cannot be followed")
        return Loop(self._do(body), self._literals.text(name), self._words(values))

    def _while(self, node: Node) -> Step:
        body = node.child_by_field_name("body")
        if body is None:
            raise RefusedError("a loop cannot be followed")
        condition = [each for each in node.children[1:] if each.id != body.id]
        return Loop(self._do(body), condition=self._sequence(condition))

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
        return self._pointed(Simple(self._words(words), tuple(assigned)), redirects)

    def _assigned(self, node: Node) -> Step:
        nodes = [node] if node.type == "variable_assignment" else node.children
        self._commands += len(nodes)
        return Simple((), tuple(map(self._assignment, nodes)))

    def _assignment(self, node: Node) -> tuple[str, Pieces]:
        children = node.children
        if node.type != "variable_assignment" or children[0].type != "variable_name":
            raise RefusedError("an assignment cannot be followed")
        if len(children) < 2 or children[1].type != "=" or len(children) > 3:
            raise RefusedError("an assignment cannot be followed")
        value = self._one(children[2]) if len(children) == 3 else (Literal(Word("")),)
        return self._literals.text(children[0]), value

    def _test(self, node: Node) -> Step:
        self._commands += 1
        words: list[Pieces] = []
        stack = list(reversed(node.children))
        if node.children[0].type not in {"[", "[["}:
            raise RefusedError("what is computed cannot be followed")
        while stack:
            each = stack.pop()
            if each.type in _CALCULATED:
                stack += reversed(each.children)
            elif not each.is_named or each.type == "test_operator":
                words.append((Literal(Word(self._literals.text(each))),))
            else:
                words.append(self._one(each))
        return Simple(tuple(words))

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

    def _word(self, nodes: Listed[Node]) -> Pieces:
        text = self._literals.text(nodes[0])
        if len(nodes) == 1 and _RANGE.fullmatch(text) and nodes[0].type != "string":
            return (Number(),)
        if not any(each.type in _EXPANDED for node in nodes for each in below(node)):
            return (Literal(self._known(nodes)),)
        pieces: list[Piece] = []
        for node in nodes:
            children = node.children if node.type == "concatenation" else [node]
            for child in children:
                pieces += self._pieces(child)
        if len(pieces) > 1 and any(map(_is_odd, pieces)):
            raise RefusedError("a word cannot be followed")
        return tuple(pieces)

    def _known(self, nodes: Listed[Node]) -> Word:
        allowed = _LITERAL | {"string", "concatenation", "string_content", "variable_name"}
        for node in nodes:
            for each in below(node):
                if each.is_named and each.type not in allowed:
                    raise RefusedError(f"{each.type} cannot be followed")
        words = self._literals.words(map(Part.of, nodes))
        if len(words) != 1 or not words[0].exact:
            raise RefusedError("a word cannot be followed")
        return words[0]

    def _pieces(self, node: Node) -> list[Piece]:
        kind = node.type
        if kind == "string":
            return list(self._inside(node, is_quoted=True))
        if kind in _EXPANDED:
            return [self._expanded(node, quoted=False)]
        word = self._known([node])
        if kind in {"word", "extglob_pattern", "regex"} and not set("{}").isdisjoint(word.text):
            raise RefusedError("braces cannot be followed")
        return [Literal(word)]

    def _inside(self, node: Node, *, is_quoted: bool) -> Pieces:
        inner = inner_of(node)
        texts = self._literals.segments(node, inner, quoted=is_quoted)
        pieces: list[Piece] = []
        for text, child in zip(texts, [*inner, None], strict=True):
            pieces += [Literal(Word(text))] if text or not inner else []
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
        if children[0].type not in begin or children[-1].type not in end:
            raise RefusedError("a substitution cannot be followed")
        if len(children) == 3 and children[1].type == "file_redirect":
            self._commands += 1
            body = self._pointed(Simple(()), [children[1]])
        else:
            body = self._sequence(children[1:-1])
        return Substitution(body, quoted, file=node.type == "process_substitution")

    def _variable(self, mark: Node, name: Node, *, quoted: bool) -> Variable:
        text = self._literals.text(name)
        if mark.type != "$" or not _PARAMETER.fullmatch(text):
            raise RefusedError("a variable cannot be followed")
        return Variable(text, quoted)

    def _expansion(self, node: Node, *, quoted: bool) -> Variable | Number:
        parts = [self._literals.text(child) for child in node.children]
        if parts[0] != "${" or parts[-1] != "}":
            raise RefusedError("an expansion cannot be followed")
        if len(parts) == 3 and _STATUS.fullmatch(parts[1]):
            return Number()
        if len(parts) == 4 and parts[1] == "#" and _PARAMETER.fullmatch(parts[2]):
            return Variable(parts[2], quoted, counted=True)
        if len(parts) < 3 or not _PARAMETER.fullmatch(parts[1]):
            raise RefusedError("an expansion cannot be followed")
        if len(parts) == 3:
            return Variable(parts[1], quoted)
        if parts[2] not in _CUTS or not all(map(_HARMLESS_CUT.fullmatch, parts[3:-1])):
            raise RefusedError("an expansion cannot be followed")
        return Variable(parts[1], quoted, derived=True)

    def _number(self, node: Node) -> Number:
        names: list[str] = []
        for each in below(node):
            text = self._literals.text(each)
            if each.type in {"variable_name", "word"} and each.child_count == 0:
                names.append(text)
            elif each.type == "simple_expansion":
                names.append(self._literals.text(each)[1:])
            elif each.child_count == 0 and each.type not in _CALCULATES | {"$"}:
                if not _NUMBER.fullmatch(text) or (text[0] == "0" and len(text) > 1):
                    raise RefusedError("what is computed cannot be followed")
            elif each.child_count and each.type not in _CALCULATED | {node.type, "number"}:
                raise RefusedError("what is computed cannot be followed")
        if not all(map(_PARAMETER.fullmatch, names)):
            raise RefusedError("what is computed cannot be followed")
        return Number(tuple(names))


_ENDS = frozenset({"elif_clause", "else_clause", "fi"})
_STEPS: Mapping[str, Callable[[_Builder, Node], Step]] = {
    "list": _Builder._list,
    "pipeline": _Builder._list,
    "negated_command": _Builder._list,
    "redirected_statement": _Builder._list,
    "subshell": _Builder._subshell,
    "compound_statement": _Builder._group,
    "if_statement": _Builder._if,
    "case_statement": _Builder._case,
    "for_statement": _Builder._for,
    "while_statement": _Builder._while,
    "command": _Builder._command,
    "variable_assignment": _Builder._assigned,
    "variable_assignments": _Builder._assigned,
    "test_command": _Builder._test,
}


def _is_odd(piece: Piece) -> bool:
    """Return whether a piece means something else when it is a part of a word."""
    if isinstance(piece, Literal):
        return piece.word.tilde or (piece.word.glob and "[" in piece.word.text)
    return isinstance(piece, Substitution) and piece.file

"""The text of leaves and words of a syntax tree, checked against what bash makes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.policies import word_set
from prsm_policy.shell.grammar import RefusedError, require
from prsm_policy.shell.words import UNKNOWN, Word, ansi_c, bare, double_quoted, is_simple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from tree_sitter import Node

BARE = word_set("word number variable_name special_variable_name file_descriptor test_operator")
_INNER = word_set("simple_expansion expansion command_substitution arithmetic_expansion")

UNTOLD_HEREDOC = "it cannot be told where a heredoc ends"
_MAX_ESCAPES = 2_000  # backslashes in one word
_WORD = re.compile(r"(?:[^\s\\'\"`$<>|&;()]|\\[^\n])+")
_ANSI_C = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_RAW = re.compile(r"'[^']*'")
# A dollar is literal where neither a name nor a bracket follows.
_DOUBLE = re.compile(r"(?:[^\"\\`$]++|\\.|\$(?![\w({\[@*#?$!'\"-]))*+", re.DOTALL)
_HEREDOC = re.compile(r"(?:[^\\`$]++|\\.|\$(?![\w({\[@*#?$!-]))*+", re.DOTALL)
_SUBSTITUTES = re.compile(r"`|\$[({\[]|[<>]\(")
# What runs when a literal text is expanded after all.
_LATENT = re.compile(r"`[^`]+`|\$\(|\$\{[ |\n]|[<>]\(")
# What bash finds in backquotes, and where they end, depends on what else stands in them.
_BACKQUOTED = re.compile(r"`[^`\\#'\"]*`")
_TO_NEXT_LINE = re.compile(rb"[^\n]*\n[ \t]*")
_DELIMITER = re.compile(r"(?P<quote>\\|'|\"|)(?P<name>[A-Za-z0-9_.!@%+-]+)(?P<end>['\"]?)")


class Part(NamedTuple):
    """A node with what is asked of it again and again, which nodes are slow to tell."""

    node: Node
    kind: str
    start: int
    end: int

    @classmethod
    def of(cls, node: Node) -> Self:
        """Return the part that a node is."""
        return cls(node, node.type, node.start_byte, node.end_byte)


class Literals:
    """Reads the literal parts of one tree from its text, which nodes are slow to tell."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.latent: list[str] = []  # literal texts that would run something if they were expanded

    def text(self, node: Node) -> str:
        """Return the text of a node."""
        return self._data[node.start_byte : node.end_byte].decode()

    def _escaped_text(self, node: Node) -> str:
        text = self.text(node)
        require(text.count("\\") <= _MAX_ESCAPES, "it is too long")
        return text

    def check_leaf(self, node: Node, kind: str) -> None:
        """Raise RefusedError where a leaf may hold more than the grammar says."""
        text = self.text(node)
        if kind in BARE:
            fits = _WORD.fullmatch(text) is not None
            if "\\" in text:
                self._note(text.replace("\\", ""))
        elif kind == "raw_string":
            fits = _RAW.fullmatch(text) is not None
            self._note(text[1:-1])
        elif kind == "ansi_c_string":
            fits = _ANSI_C.fullmatch(text) is not None
            self._note(ansi_c(text[2:-1]).text)
        else:
            fits = not node.is_named or kind == "comment" or not _SUBSTITUTES.search(text)
        require(fits, f"what {text[:40]!r} does cannot be told")

    def check_backquotes(self, node: Node) -> None:
        """Raise RefusedError for backquotes that hold more than plain words."""
        is_plain = _BACKQUOTED.fullmatch(self.text(node))
        require(is_plain, "what stands in backquotes cannot be told")

    def check_pieces(self, node: Node, inner: Sequence[Node], *, is_heredoc: bool) -> None:
        """Raise RefusedError where more than these expansions may happen in a text."""
        pattern = _HEREDOC if is_heredoc else _DOUBLE
        pieces = self._pieces(node, inner, quoted=not is_heredoc)
        require(all(map(pattern.fullmatch, pieces)), "what a quoted text does cannot be told")
        self._note("".join(map(double_quoted, pieces)))

    def _note(self, text: str) -> None:
        if _LATENT.search(text):
            self.latent.append(text)

    def word(self, node: Node) -> Word:
        """Return the word that a node of a literal, or of several, stands for."""
        kind = node.type
        if not node.is_named:
            return Word(self.text(node))
        if kind in BARE:
            return bare(self._escaped_text(node))
        if kind == "raw_string":
            return Word(self.text(node)[1:-1])
        if kind == "string":
            inner = inner_of(node)
            self._escaped_text(node)
            pieces = self._pieces(node, inner, quoted=True)
            return Word("".join(map(double_quoted, pieces)), exact=not inner)
        if kind == "ansi_c_string":
            return ansi_c(self._escaped_text(node)[2:-1])
        if kind in {"translated_string", "command_name"}:
            return self.word(node.children[-1])
        return self._rare_word(node, kind)

    def _rare_word(self, node: Node, kind: str) -> Word:
        children = node.children
        if kind == "concatenation":
            if all(child.type in BARE for child in children):
                return bare(self._escaped_text(node))
            return self.words(map(Part.of, children))[0]
        if kind in {"regex", "extglob_pattern"}:
            return Word(self.text(node))
        if kind == "variable_assignment":
            name = self.text(node).partition("=")[0]
            value = children[-1]
            return Word(f"{name}=") + (Word("") if value.type == "=" else self.word(value))
        return UNKNOWN

    def words(self, parts: Iterable[Part]) -> list[Word]:
        """Return the checked words of the parts of a command, those that touch as one."""
        words: list[Word] = []
        last, last_kind, shape = -1, "", ""
        for node, kind, start, end in parts:
            text = self._data[start:end].decode() if kind in BARE else "q"
            word = self._checked_bare(text) if kind in BARE else self.word(node)
            if start != last:
                words.append(word)
                shape = text
            else:
                shape += text  # of the word, quoted parts left out
                if last_kind == "$" and kind == "string":  # translated text
                    words[-1] = words[-1].told(words[-1].text[:-1])
                words[-1] += word
                if "{" in shape and not bare(shape).exact:  # braces expand also around quotes
                    words[-1] = replace(words[-1], exact=False)
            last, last_kind = end, kind
        return words

    def segments(self, node: Node, inner: Sequence[Node], *, quoted: bool) -> list[str]:
        """Return what the literal texts around the expansions of a quoted text mean."""
        return list(map(double_quoted, self._pieces(node, inner, quoted=quoted)))

    def check_heredoc(
        self, start: Node, body: Node | None, end: Node, *, strips_tabs: bool
    ) -> bool:
        """Check that a heredoc ends where bash ends it; return whether its text is literal."""
        match = _DELIMITER.fullmatch(self.text(start))
        before = self._data[start.end_byte : (body or end).start_byte]
        after = self._data[end.end_byte : end.end_byte + 1]
        is_sure = _TO_NEXT_LINE.fullmatch(before) and after in {b"", b"\n"}
        if not is_sure or match is None or match["end"] != match["quote"].replace("\\", ""):
            raise RefusedError(UNTOLD_HEREDOC)
        # For the grammar the space that a text begins with, and the tabs before its end, are no
        # part of it. What stands before the end is the last line.
        first = self._data.index(b"\n", start.end_byte) + 1
        lines = self._data[first : end.start_byte].decode().split("\n")
        ends = [text.lstrip("\t") if strips_tabs else text for text in lines]
        is_end = ends[-1] == "" and self.text(end) == match["name"]
        require(is_end and match["name"] not in ends, UNTOLD_HEREDOC)
        if match["quote"] and body is not None:
            self._note(self.text(body))
        return bool(match["quote"])

    def _checked_bare(self, text: str) -> Word:
        if is_simple(text):
            return Word(text, pattern=text)
        require(_WORD.fullmatch(text), f"what {text[:40]!r} does cannot be told")
        require(text.count("\\") <= _MAX_ESCAPES, "it is too long")
        word = bare(text)
        if "\\" in text:
            self._note(word.text)
        return word

    def _pieces(self, node: Node, inner: Sequence[Node], *, quoted: bool) -> list[str]:
        edges = [node.start_byte + quoted]
        for child in inner:
            edges += [child.start_byte, child.end_byte]
        edges.append(node.end_byte - quoted)
        return [self._data[edges[at] : edges[at + 1]].decode() for at in range(0, len(edges), 2)]


def inner_of(node: Node) -> list[Node]:
    """Return the expansions in a string or in the body of a heredoc."""
    return [child for child in node.children if child.type in _INNER]

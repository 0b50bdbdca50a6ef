"""Reads a text: all that it runs, wrappers and interpreters followed, in bounded time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell import grammar
from prsm_policy.shell.data_shells import DATA_SHELLS, acts_of
from prsm_policy.shell.find_nested import find_nested
from prsm_policy.shell.grammar import MAX_TEXT, RESERVED, RefusedError, require
from prsm_policy.shell.inline import bare_name
from prsm_policy.shell.lists import LISTS, REDIRECTS, WORDS, pipelines
from prsm_policy.shell.literals import BARE, UNTOLD_HEREDOC, Literals, Part, inner_of
from prsm_policy.shell.script import Assignment, Command, Reading, Script
from prsm_policy.shell.words import Word, is_simple
from prsm_policy.shell.wrappers import CALLS, EVALUATED, EVALUATES, INTERPRETERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from tree_sitter import Node

MAX_PLAIN = 20_000  # characters; a longer text is not plain
MAX_COMMANDS = 1_000
MAX_WORDS = 4_000  # of all commands together: each wrapper repeats those of what it runs
_ECHO_OPTION = re.compile(r"-[neE]+")
_RUN_FILES = DATA_SHELLS | {"make", "gmake", "sed", "gsed"}  # beside interpreters
_TELLERS = frozenset({"echo", "printf", "cat", "tee"})

_MAX_LENGTH = 400  # characters
_BARE = r"(?!=)(?:[A-Za-z0-9_./,:@%+=-]|(?<=[A-Za-z0-9])~)++"
_QUOTED = r"'[^'`$<>\x00-\x1f\x7f-\U0010ffff]*'|\"[^\"\\`$<>\x00-\x1f\x7f-\U0010ffff]*\""
_NAME = r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*"
_QUIET = r"2>&1|[12&]?> ?/dev/null"
_COMMAND = rf"{_NAME}(?: (?:{_BARE}|{_QUOTED})(?![^ ;]))*+(?: (?:{_QUIET})(?![^ ;]))*+"
_TEXT = re.compile(rf"{_COMMAND}(?:(?: (?:\||&&|\|\|)|;) {_COMMAND})*+")
_PART = re.compile(rf"{_QUIET}|{_QUOTED}|[^ ;'\"]+|;")
_SEPARATORS = frozenset({"|", "&&", "||", ";"})
# The grammar knows more about these than that they are programs.
_SPECIAL = RESERVED | word_set("declare typeset export readonly local unset unsetenv")

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
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNTOLD_REDIRECT = "it cannot be told what a redirection is for"
_STANDARD = re.compile(r"[012-]")
# Conditions that never change.
_CONSTANT = re.compile(
    r"(?:true|false|:|\[\[? *(?:-n )?[\w\"']+ *\]\]?|\(\( *\d+ *\)\)|test \w+|! *(?:false|true))"
    r"[ \t\n;]*"
)
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
NOWHERE = "/dev/null"


def read_script(text: str) -> Script:
    """Return what a text runs under bash; it never raises, and its cost is bounded."""
    return _remembered(text) if len(text) <= MAX_TEXT else _Survey(text).script()


def forget_scripts() -> None:
    """Forget what was read, as measurements need."""
    _remembered.cache_clear()


@lru_cache(maxsize=64)
def _remembered(text: str) -> Script:
    # One decision looks at the same text several times.
    return _Survey(text).script()


class _Survey:
    """Reads a text and what is nested in it, until nothing new is found or it is too much."""

    def __init__(self, text: str) -> None:
        self._deadline: float | None = None  # from the first text on that needs the grammar
        self._text = text
        self._texts = [text]
        self._seen = {text}
        self._size = 0
        self._words = 0
        self._commands: list[Command] = []
        self._hungry: list[Command] = []  # shells that run what comes in
        self._curious: list[Command] = []  # interpreters that may do so
        self._opaque: list[str] = []
        self._unresolved: str | None = None
        self._doubtful: str | None = None
        self._readings: list[Reading] = []
        self._latent: list[str] = []  # what runs if values of variables are expanded again

    def script(self) -> Script:
        while self._texts:
            self._read(self._texts.pop())
            if not self._texts and self._hungry:
                self._feed()
            if not self._texts and self._latent and self._is_expanded_again():
                self._add(self._latent)
        readings = self._readings
        if self._curious:
            self._note_foreign()
        if any(reading.substitutes for reading in readings):
            self._note_substituted()
        is_read = bool(readings) and self._text not in self._opaque
        return Script(
            tuple(self._commands),
            len(readings[0].commands) if is_read else 0,
            plain=is_read and readings[0].plain and len(self._text) <= MAX_PLAIN,
            unresolved=self._unresolved,
            opaque=tuple(self._opaque),
            functions=frozenset[str]().union(*(reading.functions for reading in readings)),
            variables=frozenset[str]().union(*(reading.variables for reading in readings)),
            evaluates=any(reading.evaluates for reading in readings),
            doubtful=self._doubtful,
            text=readings[0].text if is_read else None,
            endless=any(reading.endless for reading in readings),
        )

    def _read(self, text: str) -> None:
        self._size += len(text)
        try:
            reading = read_plain(text) or self._read_tree(text)
            self._readings.append(reading)
            self._latent += reading.latent
            self._open(reading.commands)
        except RefusedError as error:
            self._opaque.append(text)
            self._unresolved = self._unresolved or str(error)

    def _read_tree(self, text: str) -> Reading:
        now = time.thread_time()
        if self._deadline is None:
            self._deadline = now + grammar.MAX_SECONDS
        if self._size > 2 * MAX_TEXT or now > self._deadline:
            raise RefusedError("too much is nested in it")
        return read_tree(text, self._deadline)

    def _is_expanded_again(self) -> bool:
        assigned = {each.name for command in self._commands for each in command.assigned}
        return (
            any(reading.computes for reading in self._readings)
            or not EVALUATED.isdisjoint(assigned)
            or not EVALUATES.isdisjoint(command.name for command in self._commands)
        )

    def _open(self, found: tuple[Command, ...]) -> None:
        self._commands += found
        rest = list(found)
        while rest:
            command = rest.pop()
            nested = find_nested(command)
            self._commands += nested.commands
            rest += nested.commands
            self._words += sum(len(inner.words) for inner in nested.commands)
            is_bounded = len(self._commands) <= MAX_COMMANDS and self._words <= MAX_WORDS
            require(is_bounded, "it runs too many commands to be told")
            self._add(nested.codes)
            self._opaque += nested.opaque
            self._unresolved = self._unresolved or nested.unresolved
            self._doubtful = self._doubtful or nested.doubtful
            if nested.reads_input:
                (self._curious if nested.interprets else self._hungry).append(command)

    def _add(self, texts: list[str]) -> None:
        for text in texts:
            if text not in self._seen and text.strip():
                self._seen.add(text)
                self._texts.append(text)

    def _feed(self) -> None:
        """Read what may come in to a shell: heredocs, and what is said upstream."""
        for command in self._commands:
            for word in command.feeds:
                self._take(word.text, is_exact=word.exact)
            if command.name == "exec" and command.reads:
                self._take("", is_exact=False)  # from now on that comes in
        if any(command.piped or _reads_unknown(command) for command in self._hungry):
            hungry = {id(command) for command in self._hungry}
            for command in self._commands:
                is_inner = bool(command.via) and command.name not in _TELLERS
                if command.piped and not is_inner and id(command) not in hungry:
                    self._take_said(command)
        self._hungry.clear()

    def _note_foreign(self) -> None:
        """Note what comes in to interpreters and may start programs."""
        if not any(command.piped or command.feeds for command in self._curious):
            return
        texts = [word.text for command in self._commands for word in command.feeds]
        texts += [
            " ".join(command.texts[1:])
            for command in self._commands
            if command.piped and command.name in _TELLERS
        ]
        shells = {command.name for command in self._curious} & DATA_SHELLS
        words = [Word(text) for text in texts] if shells else ()
        self._opaque += [act.text for name in shells for act in acts_of(name, (), words)]
        self._opaque += [text for text in texts if CALLS.search(text)]

    def _note_substituted(self) -> None:
        """Note that an interpreter may read what a command writes."""
        if any(
            not word.exact and not word.text
            for command in self._commands
            if bare_name(command.name) in INTERPRETERS or command.name in _RUN_FILES
            for word in command.words[1:]
        ):
            self._unresolved = self._unresolved or "it runs what another command writes"

    def _take_said(self, command: Command) -> None:
        words = command.words[1:]
        while command.name == "echo" and words and _ECHO_OPTION.fullmatch(words[0].text):
            words = words[1:]
        text = " ".join(word.text for word in words)
        is_said = command.name in _TELLERS and all(word.known for word in command.words)
        is_said = is_said and (command.name not in {"cat", "tee"} or bool(command.feeds))
        if command.name == "printf":  # its format may put any of them first
            self._add([word.text for word in words])
        self._take(text, is_exact=is_said and "\\" not in text and "%" not in text)

    def _take(self, text: str, *, is_exact: bool) -> None:
        if not is_exact:
            self._unresolved = self._unresolved or "a shell runs what is only known when it runs"
        self._add([text])


def _reads_unknown(command: Command) -> bool:
    """Return whether what a command reads, or takes for a file, may be what another one writes."""
    words = (*command.words[1:], *command.reads, *(each.value for each in command.assigned))
    return any(not word.exact for word in words)


def read_plain(text: str) -> Reading | None:
    """Return what a text says, None unless it is of the plainest kind."""
    if len(text) > _MAX_LENGTH or not _TEXT.fullmatch(text):
        return None
    commands: list[Command] = []
    words: list[Word] = []
    is_piped = False
    for part in _PART.findall(text):
        if part in _SEPARATORS:
            is_pipe = part == "|"
            commands.append(Command(tuple(words), piped=is_piped or is_pipe, behind=is_piped))
            words, is_piped = [], is_pipe
        elif part[0] in "'\"":
            words.append(Word(part[1:-1]))
        elif ">" not in part:
            words.append(Word(part))
    commands.append(Command(tuple(words), piped=is_piped, behind=is_piped))
    if any(command.words[0].text in _SPECIAL for command in commands):
        return None
    return Reading(tuple(commands), plain=True)


@dataclass(slots=True)
class _Draft:
    """A command that is being read: in a pipeline or in what is, beside a pipe, behind one."""

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
            reading = _Reader(grammar.parse(text, deadline), data).read(ends)
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
        require(_BETWEEN.fullmatch(self._data, self._end), "a part of it belongs to nothing")
        unknown = " ".join(sorted(self._kinds - grammar.KNOWN_KINDS))
        require(not unknown, f"it holds what is not understood: {unknown}")
        is_ended = ends <= self._semicolons and "c_style_for_statement" not in self._kinds
        require(not ends or is_ended, "it cannot be told where a line ends")
        plain = self._plain and self._kinds <= grammar.PLAIN_KINDS
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
        if parts[0].kind == "[" and any(
            not part.node.is_named and not _META.isdisjoint(part.kind) for part in parts
        ):
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
        if not _VARIABLE_NAME.fullmatch(name.removesuffix("+")):
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
        require(all(node.is_named for node in rest), _UNTOLD_REDIRECT)
        self._check_edges(number, operator)
        if number is not None and not _STANDARD.fullmatch(self._literals.text(number)):
            self._plain = False
        words = self._literals.words(map(Part.of, rest))
        if operator.type not in {">&-", "<&-"}:
            require(words, "a redirection leads nowhere")
            self._point(operator.type, words.pop(0), draft)
        draft.words += words

    def _check_edges(self, number: Node | None, operator: Node) -> None:
        """Refuse a redirection that may begin or end elsewhere: at a number, behind a dash."""
        start, end = operator.start_byte, operator.end_byte
        before = self._data[start - 1 : start] if start and number is None else b""
        is_closing = operator.type in {">&-", "<&-"}
        is_number = before.isdigit() or before == b"}"
        ends = not is_closing or _EDGE.match(self._data, end)
        require(ends and not is_number, _UNTOLD_REDIRECT)

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
            raise RefusedError(UNTOLD_HEREDOC)
        strips_tabs = "<<-" in by_kind
        is_literal = self._literals.check_heredoc(start, body, end, strips_tabs=strips_tabs)
        if body is not None:
            is_exact = is_literal or not body.children
            draft.feeds.append(Word(self._literals.text(body), exact=is_exact))
            if is_literal and (parent := body.parent) is not None:
                self._taken.add(parent.id)
        draft.words += [self._literals.word(child) for child in children if child.type in WORDS]
        self._grouped.update(child.id for child in children)
        self._push(children)


def _is_literal(command: Command) -> bool:
    words = (*command.words, *command.reads, *(each.value for each in command.assigned))
    return bool(command.words) and all(word.exact for word in words)


def _parts(kind: str, children: Sequence[Node]) -> Iterator[Node]:
    """Yield the words of a command one by one, and its redirections."""
    if kind == "command":
        for child in children:
            yield from child.children if child.type == "command_name" else (child,)
        return
    stack = list(reversed(children))
    while stack:
        node = stack.pop()
        if kind == "test_command" and node.type in _EXPRESSIONS:
            stack.extend(reversed(node.children))
        else:
            yield node

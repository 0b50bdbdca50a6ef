"""Lists and pipelines as bash groups them, whatever the tree says; and the nodes in a node.

The tree makes of `a | b | c && d` a pipeline of `a` and the list `b | c && d`, bash a list of the
pipeline `a | b | c` and of `d`. A redirection behind a list belongs to all of it there, for bash to
its last command. What follows the marker of a heredoc in its line stands inside the redirection.
In every such tree commands and operators have the order of the text. That order is read here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.grammar import RefusedError, require

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node

LISTS = word_set("list pipeline redirected_statement negated_command")
REDIRECTS = word_set("file_redirect herestring_redirect heredoc_redirect")
WORDS = word_set(
    "word number string raw_string ansi_c_string translated_string concatenation expansion"
    " simple_expansion command_substitution arithmetic_expansion process_substitution"
    " brace_expression"
)
PIPES = frozenset({"|", "|&"})
_OPERATORS = PIPES | {"&&", "||"}
_SKIPPED = frozenset({"comment", "\n", "!"})  # a negation changes a status and nothing else
_OF_HEREDOC = word_set("<< <<- heredoc_start heredoc_body heredoc_end") | WORDS


@dataclass(slots=True)
class Member:
    """A command of a list, of any kind, with the redirections behind it.

    `node` is the statement if there is nothing else. `operator` stands before it, if anything.
    """

    node: Node
    operator: str = ""
    redirects: list[Node] = field(default_factory=list)

    @property
    def is_bare(self) -> bool:
        """Whether it is nothing but redirections."""
        return self.node.type == "redirected_statement"


def pipelines(root: Node) -> list[list[Member]]:
    """Return the pipelines of a list, or of one command; RefusedError if they cannot be told."""
    found: list[list[Member]] = []
    operator: str | None = ""
    stack = [(root, root)]
    while stack:
        node, outer = stack.pop()
        kind = node.type
        if kind in REDIRECTS:
            if operator is not None:
                _add(found, Member(outer, operator))
                operator = None
            found[-1][-1].redirects.append(node)
            if kind == "heredoc_redirect":
                rest = [child for child in node.children if child.type not in _OF_HEREDOC]
                stack += [(child, node) for child in reversed(rest)]
        elif kind in LISTS:
            stack += [(child, node) for child in reversed(node.children)]
        elif kind in _OPERATORS and operator is None:
            operator = kind
        elif kind not in _SKIPPED:
            if operator is None or kind in _OPERATORS:
                raise RefusedError("a list cannot be followed")
            _add(found, Member(node, operator))
            operator = None
    if operator is not None:
        raise RefusedError("a list cannot be followed")
    return found


def _add(found: list[list[Member]], member: Member) -> None:
    if member.operator in PIPES:
        found[-1].append(member)
    else:
        found.append([member])


def only(node: Node, count: int) -> list[Node]:
    """Return the children of a node that mean something, if it has so many; else refuse it."""
    children = [child for child in node.children if child.type not in {"comment", "\n"}]
    require(len(children) == count, f"{node.type} cannot be followed")
    return children


def between(node: Node, begin: str, end: str) -> list[Node]:
    """Return what stands between two marks; RefusedError without them."""
    children = node.children
    is_between = children[0].type == begin and children[-1].type == end
    require(is_between, f"{node.type} cannot be followed")
    return children[1:-1]


def below(node: Node) -> Iterable[Node]:
    """Yield a node and all below it."""
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        stack += each.children

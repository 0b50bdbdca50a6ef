"""The children of nodes, as the structure of a text needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_policy.shell.grammar import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node


def only(node: Node, count: int) -> list[Node]:
    """Return the children of a node that has so many; RefusedError for any other."""
    children = solid(node)
    if len(children) != count:
        raise RefusedError(f"{node.type} cannot be followed")
    return children


def solid(node: Node) -> list[Node]:
    """Return the children of a node that mean something."""
    return [child for child in node.children if child.type not in {"comment", "\n"}]


def between(node: Node, begin: str, end: str) -> list[Node]:
    """Return what stands between two marks; RefusedError without them."""
    children = node.children
    if children[0].type != begin or children[-1].type != end:
        raise RefusedError(f"{node.type} cannot be followed")
    return children[1:-1]


def below(node: Node) -> Iterable[Node]:
    """Yield a node and all below it."""
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        stack += each.children

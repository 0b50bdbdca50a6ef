"""Parses shell text by the grammar of tree-sitter, within limits, and says what it must not hold.

Where that grammar and bash read a text differently, nothing may be told from the tree. Such texts
are refused: before parsing by their characters, after it by the kinds of nodes and their text.
"""

from __future__ import annotations

import re
import time
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_TEXT = 65_536  # characters that are parsed at all
MAX_NODES = 1_500
MAX_SECONDS = 0.008  # of CPU for a text and all that is nested in it: errors can cost quadratically
_MAX_AMBIGUOUS = 50  # beginnings of arrays or of heredocs, which cost the most
_SHORT = 128  # bytes that cost nothing, whatever they are
_CHUNK = 512

# Shown or read as something else: control characters but tab and newline, and what is invisible.
_CONTROL = re.compile(r"[^\t\n -~\u00a1-\U0010ffff]")
_INVISIBLE = frozenset({"Cf", "Zs", "Zl", "Zp", "Cn", "Co", "Cs"})
# A backslash before a newline joins words, which the grammar does not see.
_JOINS = re.compile(r"(?:(?<![ \t\n])|\\[ \t])\\\n")

PLAIN_KINDS = word_set(
    "program list pipeline command redirected_statement test_command comment"
    " command_name word number concatenation string string_content raw_string"
    " variable_assignment variable_name file_redirect file_descriptor"
    " unary_expression binary_expression test_operator"
    ' && || | ; [ ] " = == != ! < > >> >| &> &>> >& >&- { }'
) | {"\n"}
KNOWN_KINDS = PLAIN_KINDS | word_set(
    "ansi_c_string translated_string regex special_variable_name heredoc_start heredoc_body"
    " heredoc_content heredoc_end extglob_pattern for_statement c_style_for_statement"
    " postfix_expression parenthesized_expression while_statement do_group if_statement"
    " elif_clause else_clause case_statement case_item function_definition compound_statement"
    " subshell negated_command declaration_command unset_command variable_assignments subscript"
    " heredoc_redirect herestring_redirect ternary_expression arithmetic_expansion"
    " brace_expression array simple_expansion expansion command_substitution process_substitution"
    " for select in (( )) ++ -- += -= *= /= %= **= <<= >>= &= ^= |= -o -a ^ & <= >= << + - * / %"
    " ** ( ) while until do done if then fi elif else case esac ;; ;& ;;& function |& [[ ]]"
    " declare typeset export readonly local unset unsetenv =~ <& <&- <<- <<< ? : ~ $(( $[ .. $ # ${"
    " @ := :- :+ :? %% // /# /% ^^ , ,, U u L Q E P A K a k $( ` <( >( ##"
)

# The grammar takes these for names of programs where bash does not.
RESERVED = word_set("if then elif else fi do done case esac while until for select function in")
RESERVED |= {"{", "}", "!", "]]", "(", ")"}


class RefusedError(Exception):
    """The text cannot be read; the message says why."""


def require(holds: object, why: str) -> None:
    """Raise RefusedError, which says why, unless a condition holds."""
    if not holds:
        raise RefusedError(why)


def parse(text: str, deadline: float) -> Node:
    """Return the root of the syntax tree; give up at `deadline`, in CPU seconds of this thread.

    Raises RefusedError where the text is too much, or holds what bash may read differently.
    """
    if len(text) > MAX_TEXT:
        raise RefusedError("it is too long")
    data = text.encode("utf-8", "surrogatepass")
    if max(data.count(b"=("), data.count(b"<<")) > _MAX_AMBIGUOUS:
        raise RefusedError("it is too long")
    kinds = () if text.isascii() else map(unicodedata.category, set(text) - {" "})
    if _CONTROL.search(text) or not _INVISIBLE.isdisjoint(kinds):
        raise RefusedError("it holds control or invisible characters")
    if _JOINS.search(text):
        raise RefusedError("a backslash at the end of a line joins two words")
    root = _parse(data, deadline)
    if root.has_error:
        raise RefusedError("it is not the shell's syntax as far as that is understood")
    if root.descendant_count > MAX_NODES:
        raise RefusedError("it is too long")
    return root


def _parse(data: bytes, deadline: float) -> Node:
    from tree_sitter import Parser

    if len(data) <= _SHORT:
        return Parser(_bash()).parse(data).root_node
    try:
        tree = Parser(_bash()).parse(
            lambda offset, _point: data[offset : offset + _CHUNK],
            progress_callback=lambda _offset, has_error: has_error or time.thread_time() > deadline,
        )
    except ValueError as error:  # that is how it says that it was stopped
        raise RefusedError("it is too long, or not the shell's syntax") from error
    return tree.root_node


@cache
def _bash() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())

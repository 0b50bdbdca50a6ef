"""A patch as lines, and in two columns: no line is lost, none is taken for another."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st
from prsm_tui.model.patches import ABOUT, ADDED, HUNK, REMOVED, SAME, beside, differing, read_patch
from prsm_tui.model.spoken import MOST
from prsm_tui.screen.diff import SIDE_BY_SIDE, draw_item, height_of, items_of

from prsm_core.kit import escape_prose

# What could be taken for something else, or acts on a terminal.
ODD = ("", "a", "b", "-- x", "++ y", "@@ -1 +1 @@", "diff --git a b", "\\ No newline", "[bold]x[/]")
HOSTILE = ("\x1b[2J", "\u202etxt", "\t.", "日本語", "e\u0301", "x" * 300, "\r")
FILES = st.lists(st.sampled_from(ODD + HOSTILE), max_size=40)


def patch_of(before, after):
    """Return a patch as the core makes one."""
    body = difflib.unified_diff(before, after, "a/f", "b/f", lineterm="")
    return "\n".join(["diff --git a/f b/f", *body, ""])


@given(FILES, FILES)
def test_each_line_has_the_number_that_it_has_in_its_file(before, after):
    lines = read_patch(patch_of(before, after))
    for line in lines:
        assert line.kind in {ADDED, REMOVED, SAME, HUNK}
        if line.old is not None:
            assert line.text == escape_prose(f"-{before[line.old - 1]}")[1:]
        if line.new is not None:
            assert line.text == escape_prose(f"-{after[line.new - 1]}")[1:]
    came = [after[line.new - 1] for line in lines if line.kind == ADDED and line.new]
    went = [before[line.old - 1] for line in lines if line.kind == REMOVED and line.old]
    told = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert len(came) - len(went) == len(after) - len(before)
    assert bool(told) == bool(came or went)


@given(FILES, FILES)
def test_two_columns_have_every_line_once_and_in_order(before, after):
    lines = read_patch(patch_of(before, after))
    pairs = beside(lines)
    left = [pair.left for pair in pairs if pair.left is not None]
    right = [pair.right for pair in pairs if pair.right is not None]
    assert left == [line for line in lines if line.kind != ADDED]
    assert right == [line for line in lines if line.kind != REMOVED]
    for pair in pairs:
        if pair.left is not None and pair.right is not None and pair.left is not pair.right:
            assert (pair.left.kind, pair.right.kind) == (REMOVED, ADDED)


@given(st.text(max_size=12), st.text(max_size=12))
def test_what_differs_is_what_stands_between_what_is_the_same(before, after):
    (start, end), (begin, stop) = differing(before, after)
    assert before[:start] == after[:begin]
    assert before[end:] == after[stop:]
    assert 0 <= start <= end <= len(before)
    assert 0 <= begin <= stop <= len(after)


@given(FILES, FILES, st.sampled_from([20, 40, 79, SIDE_BY_SIDE - 1, SIDE_BY_SIDE, 200]))
def test_rows_fit_the_screen_and_leave_out_nothing(before, after, width):
    lines = read_patch(patch_of(before, after))
    sheet, items = items_of(lines, width)
    drawn = ""
    for item in items:
        rows = draw_item(item, sheet)
        for cursor in ("", "left", "right"):
            rows = draw_item(item, sheet, cursor)
            assert len(rows) == height_of(item, sheet)
            assert all(sum(part.cell_length for part in row) <= width for row in rows)
            assert all(part.text.isprintable() for row in rows for part in row)
        drawn += "".join(part.text for row in rows for part in row)
    seen = drawn.replace(" ", "")
    for line in lines:
        if not sheet.is_wide and line.kind in {ADDED, REMOVED}:
            wanted = f"{line.kind}{line.text}".expandtabs(4).replace(" ", "")
            assert wanted in seen


def test_what_is_no_line_is_told_and_a_long_patch_is_cut():
    patch = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\nBinary files differ\n"
    assert [(line.kind, line.text) for line in read_patch(patch)] == [
        (ABOUT, "old mode 100644"),
        (ABOUT, "new mode 100755"),
        (ABOUT, "Binary files differ"),
    ]
    gone = "diff --git a/x b/x\n# its content is not kept: too large\n"
    assert [line.text for line in read_patch(gone)] == ["its content is not kept: too large"]
    no_end = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    assert [line.kind for line in read_patch(no_end)] == [HUNK, REMOVED, ABOUT, ADDED]
    long = read_patch("@@ -0,0 +1 @@\n+" + "x" * (MOST * 2))
    assert len(long[1].text) < MOST
    assert "more characters" in long[-1].text
    assert read_patch("") == []

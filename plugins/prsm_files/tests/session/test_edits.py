"""What a call says it does to files is read from its arguments as each vendor tells them."""

from __future__ import annotations

import pytest
from prsm_files.changes.attribution import Cell, Edit, Replacement
from prsm_files.changes.splitting import split
from prsm_files.session.changes import edits_of

CODEX = """\
*** Begin Patch
*** Update File: a
@@ def f():
 one
-two
+2
*** Add File: b
+new
*** Delete File: c
*** Update File: d
*** Move to: e
@@
-x
+y
*** End Patch
"""
UNIFIED = """\
--- /work/a
+++ /work/a
@@ -1,2 +1,2 @@
 one
--- two
+2
\\ No newline at end of file
--- /work/b
+++ /work/b
@@ -0,0 +1 @@
+new
"""


@pytest.mark.requirement("D21")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"file_path": "a", "old_string": "1", "new_string": "2"},
            [Edit(path="a", replacements=(Replacement("1", "2"),))],
        ),
        (
            {"file_path": "a", "old_string": "1", "new_string": "2", "replace_all": True},
            [Edit(path="a", replacements=(Replacement("1", "2", is_everywhere=True),))],
        ),
        (
            {"file_path": "a", "old_string": "1", "new_string": "2", "expected_replacements": 3},
            [Edit(path="a", replacements=(Replacement("1", "2", is_everywhere=True),))],
        ),
        (
            {"file_path": "a", "edits": [{"old_string": "1", "new_string": "2"}, {}, "odd"]},
            [Edit(path="a", replacements=(Replacement("1", "2"),))],
        ),
        ({"file_path": "a", "content": "text"}, [Edit(path="a", content="text")]),
        (
            {"notebook_path": "n", "new_source": "x", "cell_id": "c"},
            [Edit(path="n", cell=Cell("x"))],
        ),
        (
            {"notebook_path": "n", "new_source": "", "edit_mode": "delete"},
            [Edit(path="n", cell=Cell(None))],
        ),
        (
            {"paths": ["a"], "diff": CODEX},
            [
                Edit(
                    path="a",
                    replacements=(Replacement("one\ntwo\n", "one\n2\n", is_lines=True),),
                ),
                Edit(path="b", content="new\n"),
                Edit(path="c", is_removed=True),
                Edit(path="d", is_removed=True),
                Edit(
                    path="e", source="d", replacements=(Replacement("x\n", "y\n", is_lines=True),)
                ),
            ],
        ),
        (
            {"paths": ["a"], "diff": UNIFIED},
            [
                Edit(
                    path="/work/a",
                    replacements=(Replacement("one\n-- two\n", "one\n2\n", is_lines=True),),
                ),
                Edit(path="/work/b", replacements=(Replacement("", "new\n", is_lines=True),)),
            ],
        ),
        ({"paths": ["a"], "diff": "a: 300000 characters become 300001\n"}, []),
        ({"file_path": "a"}, []),
        ({"content": "nowhere"}, []),
    ],
)
def test_edits_are_read_as_vendors_tell_them(arguments, expected):
    assert list(edits_of("Edit", arguments)) == expected


def test_the_one_file_of_a_call_is_the_one_that_is_meant_where_its_arguments_name_none():
    assert edits_of("Write", {"content": "x"}, ["a"]) == (Edit(path="a", content="x"),)
    assert edits_of("Write", {"content": "x"}, ["a", "b"]) == ()


def test_a_command_says_nothing_of_files():
    assert edits_of("Bash", {"file_path": "a", "content": "x"}) == ()


def test_a_unified_diff_of_a_new_file_explains_it():
    [_, new] = edits_of("Edit", {"diff": UNIFIED})
    assert [one.is_explained for one in split(None, b"new\n", new)] == [True]

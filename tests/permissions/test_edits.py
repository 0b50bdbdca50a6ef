"""What an edit changes is told of the arguments of every vendor's tool."""

import pytest

from prsm_core.permissions.edits import Change, find_change

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n+more\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "arguments", "counts"),
    [
        ("Edit", {"file_path": "a", "old_string": "one\ntwo", "new_string": "one\n2\n3"}, "+2 -1"),
        ("Edit", {"path": "a", "find": "x", "replace": ""}, "+0 -1"),
        ("Edit", {"file_path": "a", "old_string": "", "new_string": "x\ny"}, "+2 -0"),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b"}] * 2}, "+2 -2"),
        ("Edit", {"edits": '[{"old_string": "a", "new_string": "b"}]'}, "+1 -1"),
        ("Edit", {"paths": ["a.py"], "diff": PATCH}, "+2 -1"),
        ("Edit", {"diff": "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"}, "+1 -1"),
        ("Edit", {"paths": ["new.txt"], "diff": "hello\nyou\n"}, "+2, the whole file"),
        ("Write", {"file_path": "a", "content": "one\n--- two\n"}, "+2, the whole file"),
        ("NotebookEdit", {"notebook_path": "n", "new_source": "x"}, "+1 -0"),
    ],
)
def test_an_edit_is_counted(tool, arguments, counts):
    change = find_change(tool, arguments)
    assert change is not None
    assert change.counts == counts
    assert Change.from_dict(change.to_dict()) == change


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "x", "content": "y"}),
        ("Edit", {}),
        ("Edit", {"edits": "no json", "diff": " "}),
        ("Edit", {"edits": [1, {}]}),
        ("Write", {"content": 5}),
    ],
)
def test_what_says_nothing_of_a_change_tells_none(tool, arguments):
    assert find_change(tool, arguments) is None


def test_lines_are_kept_to_a_limit_and_all_are_counted():
    change = find_change("Write", {"content": "\n".join("x" * 5000 for _ in range(1000))})
    assert change is not None
    assert (change.added, len(change.lines), change.more) == (1000, 400, 600)
    assert max(map(len, change.lines)) == 1000

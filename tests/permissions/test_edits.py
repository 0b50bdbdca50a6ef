"""What an edit changes is told of the arguments of every vendor's tool."""

from pathlib import Path

import pytest

from prsm_core.permissions.changes import Change
from prsm_core.permissions.edits import LARGEST, WorkspaceFiles, find_change

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


def test_lines_that_look_like_the_head_of_a_diff_are_counted():
    change = find_change("Edit", {"old_string": "-- a\nb", "new_string": "++ c\nb"})
    assert change is not None
    assert (change.counts, change.lines) == ("+1 -1", ("--- a", "+++ c", " b"))
    sections = "*** Add File: a\n+x\n*** Delete File: b\n-y\n-z"
    told = find_change("Edit", {"diff": sections})
    assert told is not None
    assert told.counts == "+1 -2"


@pytest.fixture
def files(tmp_path):
    """A workspace with a file of four lines, and one beside the workspace."""
    workspace = tmp_path / "work"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "sub" / "a.py").write_text("one\ntwo\ntwo\nfour\n")
    (tmp_path / "outside.py").write_text("x\n")
    return WorkspaceFiles(str(workspace / "sub"), str(workspace))


PATCHED = "*** Begin Patch\n{}\n*** End Patch"


@pytest.mark.requirement("U16")
@pytest.mark.parametrize(
    ("tool", "arguments", "counts"),
    [
        ("Write", {"file_path": "a.py", "content": "one\n2\ntwo\nfour\n5\n"}, "+2 -1"),
        ("Write", {"file_path": "a.py", "content": ""}, "+0 -4"),
        ("Write", {"file_path": "new.py", "content": "x\ny"}, "+2 -0"),
        ("Write", {"file_path": "../../outside.py", "content": "y"}, "+1, replaces a file"),
        ("Write", {"file_path": "no\0name", "content": "y"}, "+1, replaces a file"),
        ("Write", {"content": "y"}, "+1, the whole file"),
        ("Edit", {"file_path": "a.py", "old_string": "two", "new_string": "2"}, "+1 -1"),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "two", "new_string": "2", "replace_all": True},
            "+2 -2",
        ),
        (
            "MultiEdit",
            {
                "file_path": "a.py",
                "edits": [
                    {"old_string": "one", "new_string": "1"},
                    {"old_string": "1\ntwo", "new_string": "1"},
                ],
            },
            "+1 -2",
        ),
        ("Edit", {"file_path": "a.py", "old_string": "gone", "new_string": "x\ny"}, "+2 -1"),
        ("Edit", {"paths": ["a.py"], "diff": "one\ntwo\n"}, "+0 -2"),
        ("Edit", {"diff": PATCHED.format("*** Delete File: a.py")}, "+0 -4"),
        ("Edit", {"diff": PATCHED.format("*** Delete File: a.py\n-one\n-two")}, "+0 -2"),
        ("Edit", {"diff": PATCHED.format("*** Add File: a.py\n+one\n+2")}, "+1 -3"),
        ("Edit", {"diff": PATCHED.format("*** Delete File: /etc/hosts")}, "+0 -0 and a whole file"),
        ("Edit", {"diff": PATCHED.format("*** Update File: a.py\n@@\n-one\n+1")}, "+1 -1"),
    ],
)
def test_an_edit_of_a_file_that_is_there_counts_what_it_replaces(files, tool, arguments, counts):
    change = find_change(tool, arguments, files)
    assert change is not None
    assert change.counts == counts
    assert Change.from_dict(change.to_dict()) == change


@pytest.mark.requirement("U16")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("large.txt", b"x\n" * (LARGEST // 2 + 1)),
        ("binary", b"\xff\xfe\x00"),
        (".env", b"TOKEN=abc\n"),
    ],
)
def test_a_file_that_is_not_looked_at_is_said_to_be_replaced(files, name, content):
    Path(files.cwd, name).write_bytes(content)
    change = find_change("Write", {"file_path": name, "content": "y"}, files)
    assert change is not None
    assert (change.counts, change.lines) == ("+1, replaces a file", ("+y",))


def test_a_link_that_leads_outside_is_not_followed_and_a_folder_is_no_text(files, tmp_path):
    Path(files.cwd, "link").symlink_to(tmp_path / "outside.py")
    assert (files.text("link"), files.text("."), files.text("missing")) == (None, None, "")


def test_files_that_differ_much_are_not_compared_line_by_line(files):
    Path(files.cwd, "a.py").write_text("\n".join(map(str, range(20_000))))
    content = "\n".join(["0", *(f"x{number}" for number in range(20_000))])
    change = find_change("Write", {"file_path": "a.py", "content": content}, files)
    assert change is not None
    assert change.counts == "+20000 -19999"

"""A line is followed back to the change that made it, whatever came after."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prsm_files.changes.merging import Wanted
from prsm_files.changes.tracing import Origin, find_origin
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, wanted
from prsm_core.errors import ConfigError


@pytest.fixture
def scene(tmp_path):
    return Tracked(tmp_path)


def origins(scene, changes, count):
    return [find_origin(scene.shadow(), changes, line) for line in range(1, count + 1)]


EDITS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 4), st.integers(0, 3)),
    min_size=1,
    max_size=5,
)


@given(EDITS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_each_line_is_of_the_change_that_wrote_it(tmp_path_factory, edits):
    """Lines say who wrote them: edits by calls, and by a person between runs."""
    scene = Tracked(tmp_path_factory.mktemp("lines"))
    text = [f"old {n}\n" for n in range(8)]
    scene.write("a", "".join(text))
    tracker = scene.begin()
    found: list[Any] = []
    for number, (is_call, at, gone, new) in enumerate(edits):
        who = f"c{len(found)}" if is_call else "person"
        text[at : at + gone] = [f"{who} {number} {n}\n" for n in range(new)]
        scene.write("a", "".join(text))
        if is_call:
            found += found_by(tracker).found
        else:
            tracker.begin()
    if not found:
        return
    expected = [
        Origin(None, is_older=True)
        if line.startswith("old")
        else Origin(None)
        if line.startswith("person")
        else Origin(line.split()[0])
        for line in text
    ]
    told = origins(scene, wanted(found), len(text))
    # What a person wrote before the first change, between the last look and it, is older.
    assert [one.change for one in told] == [one.change for one in expected]
    for one, line in zip(told, text, strict=True):
        assert one.is_older == (line.startswith("old")) or line.startswith("person")


def test_a_line_that_there_is_not_and_one_that_was_not_kept_are_refused(scene):
    scene.write("a", "one\n")
    tracker = scene.begin()
    scene.write("a", "one\ntwo")
    [change] = wanted(found_by(tracker).found)
    assert find_origin(scene.shadow(), [change], 2) == Origin("c0")
    for line in (0, 3):
        with pytest.raises(ConfigError) as refused:
            find_origin(scene.shadow(), [change], line)
        assert refused.value.code == "no_such_line"
    large = Wanted(id="c9", path="a", root="", before=None, after=Entry("100644", "", "large"))
    with pytest.raises(ConfigError) as unknown:
        find_origin(scene.shadow(), [large], 1)
    assert unknown.value.code == "unknown_content"


def test_lines_of_a_file_that_is_gone_or_was_made_again_are_nobodys(scene):
    scene.write("a", "one\n")
    tracker = scene.begin()
    (scene.folder / "a").unlink()
    changes = wanted(found_by(tracker).found)
    with pytest.raises(ConfigError) as gone:
        find_origin(scene.shadow(), changes, 1)
    assert gone.value.code == "no_such_line"
    scene.write("a", "one\n")
    assert find_origin(scene.shadow(), changes, 1) == Origin(None)

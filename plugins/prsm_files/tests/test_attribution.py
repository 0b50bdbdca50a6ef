"""Whose a change is: nobody is named who could not have made it, and nobody who could is hidden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prsm_files.changes.attribution import NOBODY, Found, Hands, attribute, could_make
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.changes_scene import call, whose

FILE = Entry("100644", "b" * 40)


def found(path="src/a", since=10, until=20):
    return Found(path=path, root="", before=None, after=FILE, since=since, until=until)


@pytest.mark.parametrize(
    ("calls", "how", "agents"),
    [
        ([], "outside", ()),
        ([call("ann", 12)], "possible", ("ann",)),
        ([call("ann", 1, 9)], "outside", ()),
        ([call("ann", 21)], "outside", ()),
        ([call("ann", 1, 10)], "possible", ("ann",)),
        ([call("ann", 20)], "possible", ("ann",)),
        ([call("ann", 12, paths=frozenset({"src/a"}))], "possible", ("ann",)),
        ([call("ann", 12, paths=frozenset({"src/b"}))], "outside", ()),
        (
            [call("ann", 12), call("bob", 13, paths=frozenset({"src/a"}))],
            "possible",
            ("bob", "ann"),
        ),
        ([call("ann", 12), call("bob", 13)], "possible", ("bob", "ann")),
        ([call("ann", 12), call("ann", 13)], "possible", ("ann",)),
        ([call("ann", 12, leased=("src",)), call("bob", 13)], "region", ("ann",)),
        ([call("ann", 12), call("bob", 13, region=("docs",))], "possible", ("ann",)),
        ([call("ann", 12, leased=("src",)), call("bob", 13, barred=("src",))], "region", ("ann",)),
        ([call("ann", 12, region=("src",)), call("bob", 1, region=("sr",))], "possible", ("ann",)),
        ([call("ann", 12, is_apart=True, region=("src/a",)), call("bob", 13)], "sole", ("ann",)),
    ],
)
def test_a_change_is_of_those_who_could_have_made_it(calls, how, agents):
    assert whose([found()], calls) == {"src/a": (how, agents)}


@pytest.mark.parametrize(
    ("others", "how"), [((), "named"), (("ann",), "named"), (("bob",), "shared")]
)
def test_what_calls_explain_is_theirs_whoever_else_could_have_made_it(others, how):
    by = tuple(call(agent, 12) for agent in ("ann", *others))
    one = replace(found(), by=by, written_at=99.0)
    (told,) = attribute([one], [*by, call("cy", 13)])
    assert (told.how, told.calls) == (how, by)


@pytest.mark.requirement("U27")
def test_the_time_of_a_file_takes_it_from_a_call_and_gives_it_to_none():
    first, second = call("ann", 11, 12, span=(5.0, 6.0)), call("bob", 13, 14, span=(7.0, 8.0))
    for written_at, agents in ((5.5, ("ann", "bob")), (7.5, ("bob", "ann")), (8.5, ())):
        one = replace(found(), written_at=written_at)
        assert whose([one], [first, second])["src/a"][1] == agents
    early = replace(found(since=1, until=10), written_at=5.5)
    assert whose([early], [first, second]) == {"src/a": ("outside", ())}


def test_of_calls_of_one_agent_that_comes_first_which_ran_when_the_file_was_written():
    first, second = call("ann", 11, 12, span=(5.0, 9.0)), call("ann", 13, 14, span=(7.0, 9.0))
    one = replace(found(), written_at=5.5)
    (told,) = attribute([one], [first, second])
    assert (told.how, told.calls) == ("possible", (first, second))
    for written_at, calls in ((8.5, (second, first)), (None, (second, first))):
        (told,) = attribute([replace(one, written_at=written_at)], [first, second])
        assert told.calls == calls


def test_two_agents_on_one_file_and_a_person_inside_are_beside_each_other():
    calls = [call("ann", 1, 12), call("bob", 15)]
    first, second, third = attribute(
        [found(since=1, until=12), found(since=13, until=14), found(since=15, until=20)], calls
    )
    assert [one.how for one in (first, second, third)] == ["possible", "outside", "possible"]
    assert first.beside == (NOBODY, "bob")
    assert second.beside == ("ann", "bob")
    assert third.beside == (NOBODY, "ann")


def test_who_was_on_a_file_before_and_is_still_at_work_is_beside():
    at_work = {"bob"}
    hands = Hands(lambda agent: agent in at_work)

    def change(calls):
        (one,) = attribute([found()], calls, hands=hands)
        return one.beside

    assert change([call("bob", 12)]) == ()
    assert change([call("ann", 12)]) == ("bob",)
    assert change([call("ann", 12)]) == ()  # which knows of it by now
    assert change([]) == ("bob",)
    assert change([call("bob", 12)]) == (NOBODY,)
    at_work.clear()
    assert change([call("cy", 12)]) == ()


def test_agents_that_work_together_are_not_in_each_others_way():
    calls = [call("ann", 1, 12), call("bob", 15)]
    changes = attribute(
        [found(since=1, until=12), found(since=15, until=20)], calls, are_one=lambda *_: True
    )
    assert [one.beside for one in changes] == [(), ()]


names = st.sampled_from(["ann", "bob", "cy"])
places = st.sampled_from(["", "src", "src/a", "docs", "d/x"])
folders = st.lists(places, max_size=2).map(tuple)
calls = st.builds(
    lambda agent, began, ran, paths, region, barred: call(
        agent,
        began,
        None if ran is None else began + ran,
        paths=frozenset(paths),
        region=region,
        barred=barred,
    ),
    names,
    st.integers(0, 30),
    st.one_of(st.none(), st.integers(0, 30)),
    st.lists(st.sampled_from(["src/a", "docs/b"]), max_size=2),
    st.one_of(st.none(), folders),
    folders,
)
changes = st.builds(
    lambda path, since, took: found(path, since, since + took),
    st.sampled_from(["src/a", "docs/b", "d/x/y"]),
    st.integers(0, 30),
    st.integers(0, 9),
)


@given(st.lists(changes, max_size=6), st.lists(calls, max_size=6))
def test_each_change_is_attributed_once_and_to_none_who_could_not(found_ones, made):
    told = attribute(found_ones, made)
    assert [one.found for one in told] == found_ones
    for one in told:
        able = [each for each in made if could_make(each, one.found)]
        assert all(each in able for each in one.calls)
        assert (one.how == "outside") is (not able)
        agents = {each.agent for each in one.calls}
        assert one.how not in {"named", "shared", "sole"}, "no call explains it"
        if one.how == "possible":
            assert agents == {each.agent for each in able}, "nobody who could is hidden"
        assert not agents & set(one.beside)

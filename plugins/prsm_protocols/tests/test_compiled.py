"""Pages compile to one machine, known by its hash; what is odd about it is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_protocols.compiled import WITHIN, compile_pages
from prsm_protocols.page import Page, State, Transition, printed
from prsm_protocols.problems import ProtocolError
from prsm_protocols.reading import read_page

from plugins.prsm_protocols.tests.test_reading import EXAMPLE
from prsm_core import InvalidTransitionError, Machine
from tests.sources import ROOT

IDLE = (
    "# Protocol: idle\n## States\n- idle: Waits\n## Transitions\n- idle -> inbox: When mail comes\n"
)


def compiled(pages, *, strict=False):
    """Compile pages by name, and return the set and its problems as texts."""
    sources = []
    for name, text in pages.items():
        source, problems = read_page(text, f"{name}.md")
        assert source is not None, problems
        sources.append(source)
    found, problems = compile_pages(sources, strict=strict)
    return found, [str(problem) for problem in problems]


@pytest.mark.requirement("A3", "F8")
def test_the_example_is_a_machine_and_what_is_odd_about_it_is_told():
    found, problems = compiled({"inbox": EXAMPLE})
    assert problems == [
        "inbox.md:6: note: the state distill is an end: no transition leaves it",
        "inbox.md:10: warning: the state idle is declared nowhere",
    ]
    inbox = found.get("inbox")
    assert inbox.start.page.initial == "inbox"
    machine = inbox.start.machine
    assert isinstance(machine, Machine)
    assert machine.targets("inbox") == {"deep_work", "idle"}
    with pytest.raises(InvalidTransitionError, match="protocol inbox: no transition from inbox to"):
        inbox.start.find("inbox", "distill")


@pytest.mark.requirement("F8")
def test_where_it_is_to_be_strict_a_warning_is_an_error_and_a_note_is_none():
    with pytest.raises(ProtocolError) as caught:
        compiled({"inbox": EXAMPLE}, strict=True)
    assert caught.value.message == "inbox.md:10: warning: the state idle is declared nowhere"
    compiled({"inbox": EXAMPLE, "idle": IDLE}, strict=True)


@pytest.mark.requirement("A12", "F8")
def test_a_target_on_another_page_leads_there():
    found, _ = compiled({"inbox": EXAMPLE, "idle": IDLE})
    inbox = found.get("inbox")
    assert set(inbox.pages) == {"inbox", "idle"}
    (move,) = [move for move in inbox.start.moves("inbox") if move.transition.target == "idle"]
    assert move.page == "idle"
    assert inbox.led_to("idle").start.page.name == "idle"
    assert inbox.led_to("idle").id == found.get("idle").id


def test_a_protocol_is_of_the_pages_that_it_leads_to_and_no_others():
    lone = "# Protocol: lone\n## States\n- lone: x\n"
    found, _ = compiled({"inbox": EXAMPLE, "idle": IDLE, "lone": lone})
    alone, _ = compiled({"inbox": EXAMPLE, "idle": IDLE})
    assert found.get("inbox").hash == alone.get("inbox").hash
    assert set(found.get("lone").pages) == {"lone"}


@pytest.mark.requirement("F8")
def test_the_hash_is_of_what_is_said_and_not_of_how():
    prose = EXAMPLE.replace("## States", "Some prose.\n\n## States\n").replace("→", "->")
    same, _ = compiled({"inbox": prose.replace("- inbox:", "- **inbox**:").replace("\n", "\r\n")})
    first, _ = compiled({"inbox": EXAMPLE})
    assert same.get("inbox").hash == first.get("inbox").hash
    other, _ = compiled({"inbox": EXAMPLE.replace("distill", "condense")})
    assert other.get("inbox").hash != first.get("inbox").hash
    assert first.get("inbox").id == "inbox@1b1abb595ece"  # it is on disk, and in labels


ODD = [
    ({"a": "# Protocol: a\n## States\n- a: x\n- b: y\n"}, "a.md:4: warning: nothing leads to the "
                                                         "state b"),
    ({"a": "# Protocol: a\n## States\n- a: x\n- work: y\n## Transitions\n- a -> wrok\n- work -> a"},
     "a.md:6: warning: the state wrok is declared nowhere; did you mean work?"),
    ({"b": "# Protocol: a\n## States\n- a: x\n"}, "b.md:1: warning: the protocol a is looked for in"
                                                  " a.md"),
    ({"a": "# Protocol: a\n## States\n- a: x\n  - within: 5m -> gone\n"}, "a.md:4: warning: the "
     "state gone is declared nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("pages", "told"), ODD, ids=range(len(ODD)))
def test_what_is_odd_is_told_with_its_line(pages, told):
    _, problems = compiled(pages)
    assert any(problem.startswith(told) for problem in problems), problems


WRONG = [
    ({"a": "# Protocol: x\n## States\n- x: x\n", "b": "# Protocol: x\n## States\n- x: x\n"},
     "b.md:1: a second protocol x; the first is in a.md"),
    ({"a": "# Protocol: a\n## States\n- a: x\n## Transitions\n- a -> t\n",
      "b": "# Protocol: b\n## States\n- t: x\n", "c": "# Protocol: c\n## States\n- t: x\n"},
     "a.md:5: the state t stands on several pages: b and c"),
    ({"a": "# Protocol: a\n## States\n- a: x\n## Transitions\n- idle -> a\n", "idle": IDLE},
     "a.md:5: the transitions of idle stand on its own page, that of idle"),
]  # fmt: skip


@pytest.mark.parametrize(("pages", "told"), WRONG, ids=range(len(WRONG)))
def test_pages_that_contradict_each_other_are_refused(pages, told):
    with pytest.raises(ProtocolError) as caught:
        compiled(pages)
    assert told in caught.value.message
    assert caught.value.hint


def test_a_state_that_several_pages_have_is_found_on_that_of_its_name():
    other = "# Protocol: b\n## States\n- idle: x\n"
    found, _ = compiled({"inbox": EXAMPLE, "idle": IDLE, "b": other})
    assert found.get("inbox").start.home("idle") == "idle"


STATES = st.integers(1, 5).map(lambda count: tuple(f"s{n}" for n in range(count)))


@st.composite
def graphs(draw):
    states = draw(STATES)
    pairs = [(a, b) for a in states for b in states if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=8)) if pairs else []
    return states, set(chosen), draw(st.lists(st.sampled_from(states), max_size=10))


@pytest.mark.requirement("F8")
@settings(max_examples=60)
@given(graphs())
def test_the_machine_allows_what_a_set_of_pairs_does(graph):
    states, pairs, walk = graph
    page = Page(
        name="p",
        states=tuple(State(name=name) for name in states),
        transitions=tuple(Transition(source=a, target=b) for a, b in sorted(pairs)),
    )
    source, _ = read_page(printed(page), "p.md")
    assert source is not None
    found, problems = compile_pages([source])
    protocol = found.get("p")
    assert protocol is not None
    machine = protocol.start.machine
    reached, todo = {states[0]}, [states[0]]
    while todo:
        at = todo.pop()
        new = {b for a, b in pairs if a == at} - reached
        reached |= new
        todo += new
    unreached = {each.text.rpartition(" ")[2] for each in problems if "nothing leads" in each.text}
    assert unreached == set(states) - reached
    at = states[0]
    for target in walk:
        allowed = (at, target) in pairs
        assert (target in machine.targets(at)) == allowed
        assert target not in machine.targets(at, trigger=WITHIN)
        if allowed:
            at = target


def test_the_page_of_the_guide_compiles():
    guide = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    page = guide.partition("```text\n")[2].partition("```")[0]
    _, problems = compiled({"inbox": page})
    assert problems == ["inbox.md:16: warning: the state idle is declared nowhere"]

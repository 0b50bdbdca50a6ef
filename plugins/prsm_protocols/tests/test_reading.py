"""A page of markdown is read as people see it, or refused with all that is wrong with it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_protocols.page import (
    Guard,
    Page,
    SessionRule,
    State,
    Transition,
    Within,
    duration,
    printed,
)
from prsm_protocols.reading import MAX_BYTES, MAX_STATES, read_page

# The example of the specification, word for word.
EXAMPLE = """# Protocol: inbox

## States
- inbox: Processing messages and requests
- deep_work: Focused task execution  
- distill: Context compression

## Transitions
- inbox → deep_work: When focused task identified
- inbox → idle: When no actionable items
- deep_work → distill: When context pressure high
"""  # noqa: W291
FULL = """# Protocol: review
Prose, with a list that is none of it:

- one: two

## States
1. review: Reads
   - tools: Read, Grep
   - message: Read **all** of it.
   - a remark without a key
2. fix: Mends
   - within: 30m -> review

## Transitions
- review -> fix: When something is wrong
  - guard: context >= 80%
- fix → review

## Messages
- boss
- inbox: agents of that protocol

## Session
Restart: each state begins anew

## Master
Solo.

## Upgrades
- reading -> review

## Remarks
- not -> read
"""


def read(text, file="inbox.md"):
    source, problems = read_page(text, file)
    return None if source is None else source.page, [str(problem) for problem in problems]


@pytest.mark.requirement("A3")
def test_the_example_of_the_specification_is_read_as_it_stands():
    page, problems = read(EXAMPLE)
    assert problems == []
    assert page == Page(
        name="inbox",
        states=(
            State(name="inbox", description="Processing messages and requests"),
            State(name="deep_work", description="Focused task execution"),
            State(name="distill", description="Context compression"),
        ),
        transitions=(
            Transition(source="inbox", target="deep_work", when="When focused task identified"),
            Transition(source="inbox", target="idle", when="When no actionable items"),
            Transition(source="deep_work", target="distill", when="When context pressure high"),
        ),
    )


@pytest.mark.requirement("A2", "F8")
def test_whatever_a_page_can_say_is_read_and_prose_is_left_out():
    page, problems = read(FULL, "review.md")
    assert problems == []
    assert page == Page(
        name="review",
        states=(
            State(name="review", description="Reads", tools=("Grep", "Read"),
                  message="Read all of it."),
            State(name="fix", description="Mends", within=Within(seconds=1800, to="review")),
        ),
        transitions=(
            Transition(source="review", target="fix", when="When something is wrong",
                       guard=Guard(sign=">=", share=0.8)),
            Transition(source="fix", target="review"),
        ),
        messages=("boss", "inbox"),
        session=SessionRule.RESTART,
        solo=True,
        upgrades=(("reading", "review"),),
    )  # fmt: skip


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_line_ends_and_a_mark_of_the_encoding_change_nothing(ends):
    data = b"\xef\xbb\xbf" + EXAMPLE.replace("\n", ends).encode()
    assert read(data) == read(EXAMPLE)


def page_with(states="- a: b", moves="", title="# Protocol: inbox", more=""):
    return (
        f"{title}\n\n## States\n{states}\n\n## Transitions\n{moves or '- a -> b: When so'}\n{more}"
    )


ATTACKS = [
    ("", "inbox.md:1: there is no title"),
    ("# Inbox\n", "inbox.md:1: 'Inbox' is no title; write `# Protocol: NAME`"),
    (page_with(more="# Protocol: other\n"), "inbox.md:8: a second title"),
    (page_with(title="```\n# Protocol: x\n```"), "inbox.md:1: there is no title"),
    (page_with(title="<h1>Protocol: x</h1>\n"), "inbox.md:1: there is no title"),
    (page_with(title="> # Protocol: x\n"), "inbox.md:1: there is no title"),
    (page_with(more="## States\n- x: y\n"), "inbox.md:8: a second section States"),
    (page_with(more="## Upgrade\n- x -> y\n"), "inbox.md:8: 'Upgrade' is no section; did you mean "
                                               "Upgrades?"),
    ("# Protocol: x\n\n## States\n\n\t- a: b\n", "inbox.md:3: nothing is listed here; write "
     "`- name: description`; what is indented by four spaces or a tab is code"),
    (page_with("<!--\n- a: b\n-->"), "inbox.md:3: nothing is listed here"),
    (page_with("```\n- a: b\n```"), "inbox.md:3: nothing is listed here"),
    (page_with("- a: b\n- c: d\n- a: e"), "inbox.md:6: a second state a; the first is in line 4"),
    (page_with("- two words: b"), "inbox.md:4: 'two words: b' is no state"),
    (page_with("- a: b\n  - tool: Read"), "inbox.md:5: tool is nothing that can be said of it; did "
                                          "you mean tools?"),
    (page_with("- a: b\n  - tools: Read; Grep"), "inbox.md:5: 'Read; Grep' is no name of a tool"),
    (page_with("- a: b\n  - tools: Read\n  - tools: Grep"), "inbox.md:6: tools is said twice"),
    (page_with("- a: b\n  - within: soon -> b"), "inbox.md:5: 'soon -> b' is no time limit"),
    (page_with("- a: b\n  - within: 0s -> b"), "inbox.md:5: '0s -> b' is no time limit"),
    (page_with(moves="- a => b: When so"), "inbox.md:7: 'a => b: When so' is not a transition; "
                                           "write `- a -> b: When …`; the arrow is → or ->"),
    (page_with(moves="- a -> a"), "inbox.md:7: a -> a is no move"),
    (page_with(moves="- a -> b\n- a → b"), "inbox.md:8: a -> b is said twice; first in line 7"),
    (page_with(moves="- a -> b\n  - guard: context"), "inbox.md:8: 'context' is no guard"),
    (page_with(moves="- a -> b\n  - guard: context > 1"), "inbox.md:8: context > 1 can never hold"),
    (page_with(moves="- a -> b\n  - guard: context >= 80"), "inbox.md:8: 'context >= 80': the "
                                                            "share of the context is from 0 to 1"),
    (page_with(more="## Session\nsometimes\n"), "inbox.md:9: a session is one of: continue, "),
    (page_with(more="## Master\nwho\n"), "inbox.md:9: a master is one of: delegate, solo"),
    (page_with(more="## Messages\n- nobody\n- boss\n"), "inbox.md:8: nobody stands beside others"),
    (page_with("- a: b\0"), "inbox.md:4: there is a control character, U+0000; remove it"),
    (page_with("- a: \u202eb"), "inbox.md:4: there is a direction character, U+202E; remove it"),
    (b"# Protocol: x\n\xff\n", "inbox.md:2: byte 14 is no UTF-8"),
    (page_with(f"- {'a' * 65}: b"), "is too long; 64 letters are fine"),
    (page_with(f"- a: {'b' * 2001}"), "inbox.md:4: this has 2001 characters; 2000 are the most"),
    ("# Protocol: x\n" + "a" * 10_000_000, "inbox.md:1: the page has 10000014 bytes"),
]  # fmt: skip


@pytest.mark.requirement("F8")
@pytest.mark.parametrize(("text", "told"), ATTACKS, ids=range(len(ATTACKS)))
def test_what_is_wrong_with_a_page_is_told_with_its_line_and_the_cure(text, told):
    page, problems = read(text)
    assert page is None
    assert any(told in problem for problem in problems), problems


def test_all_that_is_wrong_is_told_at_once():
    _, problems = read("# Protocol: x\n## States\n- a b\n- c\n- c\n## Transitions\n- a\n")
    assert [problem.split(": ")[0] for problem in problems] == [
        "inbox.md:3", "inbox.md:5", "inbox.md:7",
    ]  # fmt: skip


def test_an_unknown_tool_is_odd_and_the_nearest_name_is_told():
    page, problems = read(page_with("- a: b\n  - tools: read, Greb, mcp__git__log"))
    assert page.states[0].tools == ("Greb", "mcp__git__log", "read")
    assert problems == [
        "inbox.md:5: warning: no tool read is known; did you mean Read?",
        "inbox.md:5: warning: no tool Greb is known; did you mean Grep?",
    ]


def test_names_of_any_script_are_read_and_no_others():
    page, _ = read(
        "# Protocol: תיבה\n## States\n- תיבה: א\n- عمل: ب\n## Transitions\n- תיבה -> عمل\n"
    )
    assert page.transitions == (Transition(source="תיבה", target="عمل"),)
    decomposed = unicodedata.normalize("NFD", "# Protocol: é\n## States\n- é: a\n")
    assert read(decomposed)[0].name == "é"


def test_many_states_are_read_and_too_many_are_not():
    def listed(count):
        return page_with("\n".join(f"- s{n}: x" for n in range(count)), moves="- s0 -> s1")

    assert len(read(listed(MAX_STATES))[0].states) == MAX_STATES
    assert "1001 states; 1000 are the most" in read(listed(MAX_STATES + 1))[1][0]


NAMES = st.one_of(
    st.from_regex(r"[a-z](?:[a-z0-9_.\-]{0,8}[a-z0-9])?", fullmatch=True),
    st.sampled_from(["a_b", "a__b", "a._b_.c", "x-y", "é", "תיבה", "a.b", "A1"]),
)
LETTERS = st.characters(
    codec="utf-8",
    exclude_categories=("Cc", "Cs"),
    exclude_characters="\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
)
TEXTS = st.text(LETTERS, max_size=40).map(
    lambda text: " ".join(unicodedata.normalize("NFC", text).split())
)
WITHINS = st.builds(lambda n, to: Within(seconds=n, to=to), st.integers(1, 999_999), NAMES)
STATES = st.builds(
    lambda name, description, tools, message, within: State(
        name=name, description=description, message=message, within=within,
        tools=None if tools is None else tuple(sorted(tools)),
    ),
    NAMES, TEXTS,
    st.none() | st.sets(st.sampled_from(["Read", "Bash", "spawn_child", "mcp__a__b"])),
    TEXTS, st.none() | WITHINS,
)  # fmt: skip
GUARDS = st.builds(
    lambda sign, per: Guard(sign=sign, share=per / 100), st.sampled_from([">=", "<="]),
    st.integers(0, 100),
)  # fmt: skip
MOVES = st.builds(
    lambda source, target, when, guard: Transition(
        source=source, target=target, when=when, guard=guard
    ),
    NAMES, NAMES, TEXTS, st.none() | GUARDS,
).filter(lambda move: move.source != move.target)  # fmt: skip
PAGES = st.builds(
    lambda name, states, moves, messages, session, upgrades, solo: Page(
        name=name, states=tuple(states), transitions=tuple(moves), session=session, solo=solo,
        messages=None if messages is None else tuple(messages), upgrades=tuple(upgrades.items()),
    ),
    NAMES,
    st.lists(STATES, min_size=1, max_size=5, unique_by=lambda state: state.name),
    st.lists(MOVES, max_size=5, unique_by=lambda move: (move.source, move.target)),
    st.none() | st.lists(NAMES.filter(lambda name: name != "nobody"), max_size=3, unique=True),
    st.sampled_from(SessionRule), st.dictionaries(NAMES, NAMES, max_size=2), st.booleans(),
)  # fmt: skip


@pytest.mark.requirement("A3", "F8")
@settings(max_examples=40)
@given(PAGES)
def test_what_is_printed_is_read_as_the_same_page(page):
    text = printed(page)
    found, problems = read(text, f"{page.name}.md")
    assert found == page, (text, problems)
    assert printed(found) == text


@settings(max_examples=100)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_a_page_or_has_a_problem(text):
    page, problems = read(text)
    assert page is not None or problems


@settings(max_examples=60)
@given(st.lists(st.sampled_from(FULL.splitlines()), max_size=30))
def test_any_order_of_lines_is_a_page_or_has_a_problem(lines):
    text = "\n".join(lines)
    page, problems = read(text)
    assert page is not None or all(problem.startswith("inbox.md:") for problem in problems)
    assert page is not None or problems


@given(st.integers(1, 10_000_000))
def test_a_duration_is_said_in_its_largest_whole_unit(seconds):
    text = duration(seconds)
    sizes = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    assert int(text[:-1]) * sizes[text[-1]] == seconds


def test_a_page_at_its_limit_is_read():
    text = page_with(more="```\n" + "x\n" * ((MAX_BYTES - 200) // 2))
    assert read(text)[0] is not None

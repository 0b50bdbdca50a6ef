"""The compiler: what a planner may write, and what becomes of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_regions.drafts import MAX_TEXT, PlanError
from prsm_regions.execution import ReadyQueue
from prsm_regions.ground import Ground, touch
from prsm_regions.plan import Limits, Override, compile_plan, read_overrides

GROUND = Ground("/w", real=lambda path: path)


def row(name, region=None, *needs, **more):
    return {
        "name": name,
        "description": "do it",
        "region": region or name,
        "depends_on": needs,
    } | more


def text(*rows):
    return json.dumps({"subtasks": rows})


def compiled(*rows, overrides=(), **limits):
    return compile_plan(text(*rows), GROUND, overrides, Limits(**limits))


def problems(written, **given_):
    with pytest.raises(PlanError) as caught:
        compile_plan(written, given_.pop("ground", GROUND), limits=Limits(**given_))
    return caught.value.problems


def tried(written):
    try:
        return compile_plan(written, GROUND)
    except PlanError as error:
        return error


def batches(plan):
    return [[one.name for one in batch] for batch in plan.batches()]


@pytest.mark.requirement("R7")
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("a")], [["a"]]),
        ([row("a"), row("b"), row("c")], [["a", "b", "c"]]),
        ([row("a"), row("b", None, "a"), row("c", None, "b")], [["a"], ["b"], ["c"]]),
        (
            [row("a"), row("b", None, "a"), row("c", None, "a"), row("d", None, "b", "c")],
            [["a"], ["b", "c"], ["d"]],
        ),
        (
            [row("d", None, 1, "c"), row("b"), row("c", None, "b"), row("e")],
            [["b", "e"], ["c"], ["d"]],
        ),
        ([row("a", None, "b"), row("b", None, "a")], [["b"], ["a"]]),
    ],
    ids=["one", "none-depends", "linear", "diamond", "mixed", "circular"],
)
def test_a_batch_depends_on_those_before_it_only(rows, expected):
    assert batches(compiled(*rows)) == expected


@pytest.mark.parametrize(
    "written",
    [
        "{plan}",
        "Here is my plan:\n\n```json\n{plan}\n```\nShall I begin?",
        "I looked at {{src}} and {{}}: {plan} That is all.",
        "```\n{{}}\n```\nrather\n```\n{plan}\n```",
    ],
)
def test_a_plan_is_found_by_itself_in_a_fence_and_amid_prose(written):
    plan = compile_plan(written.format(plan=text(row("a"), row("b"))), GROUND)
    assert [one.name for one in plan.subtasks] == ["a", "b"]


def test_a_bare_list_is_a_plan():
    assert len(compile_plan(json.dumps([row("a")]), GROUND).subtasks) == 1


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("I would begin with the parser, then the pages.", "no plan was found"),
        ("", "no plan was found"),
        ("{" * 50_000, "no plan was found"),
        ('{"a":' * 20_000, "no plan was found"),
        ('{"subtasks": []}', "at least one"),
        ('{"subtasks": 7}', "at least one"),
        ("x" * (MAX_TEXT + 1), "at most 262144"),
        (text(*(row(f"s{n}") for n in range(51))), "at most 50"),
        (text(*(row(f"s{n}", description="x" * 100_000) for n in range(10))), "at most 262144"),
    ],
    ids=["prose", "blank", "braces", "deep", "empty", "no-list", "long", "many", "a-megabyte"],
)
def test_what_is_no_plan_is_refused_and_says_what_to_write(written, why):
    assert why in problems(written)[0]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row("a", "../b")], "goes up"),
        ([row("a", "b/../..")], "goes up"),
        ([row("a", "/etc")], "is absolute"),
        ([row("a", " ")], "region is blank"),
        ([row("a", "x\0y")], "region is blank"),
        ([row("a", ".git/hooks")], "git's own"),
        ([row("a", "src"), row("b", "src/ui")], "would write 'src' and 'src/ui'"),
        ([row("a", "src/"), row("b", "./src/**")], "'src' both"),
        ([row("a", "."), row("b")], "would write '.' and 'b'"),
        ([row("a", None, "zap"), row("zip")], "did you mean 'zip'"),
        ([row("a", None, 5)], "which is none: there are a"),
        ([row("a", None, -1)], "depends on -1"),
        ([row("a"), row("a", "b")], "subtasks 0, 1 are all named 'a'"),
        ([row("  ")], "`name` is blank"),
        ([{"name": "a", "description": "b"}], "missing required field `region`"),
        ([row("a", 7)], "Expected `str`"),
        (["a"], "Expected `object`"),
    ],
)
@pytest.mark.requirement("R5")
def test_each_problem_is_named_with_its_cure(rows, why):
    assert any(why in problem for problem in problems(text(*rows)))


def test_all_that_is_wrong_is_told_at_once():
    rows = [row("a", "../x"), row("a", "/y"), row("c", None, "d"), row("e", "f"), row("g", "f/h")]
    assert len(problems(text(*rows))) == 5


def test_a_region_that_a_link_leads_out_of_the_workspace_is_refused(tmp_path):
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    (root / "also").symlink_to(root / "src")
    ground = Ground(str(root))
    assert "leads out" in problems(text(row("a", "out/x")), ground=ground)[0]
    assert "would write" in problems(text(row("a", "also"), row("b", "src")), ground=ground)[0]
    assert compile_plan(text(row("a", "also")), ground).subtasks[0].region == "src"


@pytest.mark.requirement("R5")
def test_a_region_is_a_file_or_a_folder_as_it_is_there_else_by_its_name(tmp_path):
    root = tmp_path / "work"
    (root / "conf.d").mkdir(parents=True)
    (root / "run").touch()
    ground = Ground(str(root))
    named = ("Makefile", "conf.d", "conf.d/", "run", "src", "src/**", "new.py", ".gitignore", ".")
    are_files = [ground.holds_file(ground.place(region)) for region in named]
    assert are_files == [True, False, False, True, False, False, True, True, False]
    (one,) = compile_plan(text(row("a", "Makefile")), ground).subtasks
    assert (one.region, one.is_file) == ("Makefile", True)
    for wrong in ("Makefile/", "new.d/**", "run/"):
        assert "name the folder above it" in problems(text(row("a", wrong)), ground=ground)[0]


def test_a_model_that_nobody_has_is_a_problem_and_so_is_a_budget_that_is_too_small():
    def wrong(name):
        return None if name == "codex" else f"there is no model {name!r}"

    assert (
        "there is no model 'codx'"
        in problems(text(row("a", model="codx"), row("b", model="codex")), model_problem=wrong)[0]
    )
    assert (
        "2 subtasks take about 20 tokens, and 19 are left"
        in problems(text(row("a"), row("b")), tokens_left=19, tokens_each=10)[0]
    )
    assert compiled(row("a"), row("b"), tokens_left=20, tokens_each=10).subtasks


@pytest.mark.parametrize(
    ("intent", "expected"),
    [
        ("Build auth, use claude for /ui", [("ui", "claude")]),
        ("Use codex/gpt-5.5 for /src/core/. Begin.", [("src/core", "codex/gpt-5.5")]),
        ("use claude for /ui and codex for /core, gemini for /lib", 3),
        ("use redis for caching", []),
        ("use tabs for indentation and 4 for /x", []),
        ("because I use claude for /", [(".", "claude")]),
    ],
)
@pytest.mark.requirement("R4")
def test_what_an_intent_says_of_models(intent, expected):
    found = [(one.region, one.model) for one in read_overrides(intent)]
    assert len(found) == expected if isinstance(expected, int) else found == expected


@pytest.mark.requirement("R4")
def test_the_word_of_a_person_goes_before_the_planners():
    overrides = read_overrides("use claude for /ui and gemini for /ui/deep, codex for /none")
    plan = compiled(
        row("a", "ui/page", model="x"),
        row("b", "ui/deep/er"),
        row("c", model="x"),
        row("d"),
        overrides=overrides,
    )
    assert [one.model for one in plan.subtasks] == ["claude", "gemini", "x", None]
    assert plan.warnings == ("no subtask has its region in none: nothing uses codex for it",)
    assert Override("none", "codex") in overrides


names = st.integers(min_value=1, max_value=8).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size
    )
)


@given(names)
def test_any_dependencies_become_batches_and_only_those_that_close_a_circle_are_lost(needs):
    rows = [row(f"s{place}", None, *wanted) for place, wanted in enumerate(needs)]
    plan = compiled(*rows)
    assert compiled(*rows) == plan
    place = {one.index: n for n, batch in enumerate(plan.batches()) for one in batch}
    assert sorted(place) == list(range(len(rows)))
    for one in plan.subtasks:
        assert all(place[need] < place[one.index] for need in one.depends_on)
        assert one.index == 0 or place[one.index] == 0 or one.depends_on
    kept = sum(len(one.depends_on) for one in plan.subtasks)
    assert kept + len(plan.warnings) == sum(len(set(wanted)) for wanted in needs)
    if all(need < place for place, wanted in enumerate(needs) for need in wanted):
        assert not plan.warnings


parts = st.lists(st.sampled_from(["a", "b", "c", "..", ".", ""]), min_size=1, max_size=4)


@given(st.lists(parts.map("/".join), min_size=1, max_size=5, unique=True))
def test_regions_of_a_plan_never_touch_and_never_leave_the_workspace(regions):
    rows = [row(f"s{place}", region or " ") for place, region in enumerate(regions)]
    plan = tried(text(*rows))
    if isinstance(plan, PlanError):
        assert plan.problems
        return
    found = [one.region for one in plan.subtasks]
    assert not any(part == ".." for region in found for part in region.split("/"))
    assert not any(touch(a, b) for n, a in enumerate(found) for b in found[:n])


@given(
    st.text(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["subtasks", "name", "region", "depends_on"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    ).map(json.dumps)
)
def test_whatever_a_planner_writes_is_a_plan_or_a_list_of_problems(written):
    found = tried(written)
    if isinstance(found, PlanError):
        assert all(problem.strip() for problem in found.problems)
    else:
        assert found.subtasks


@given(names, st.data())
def test_the_queue_begins_each_subtask_once_and_never_before_what_it_depends_on(needs, data):
    rows = [row(f"s{place}", None, *wanted) for place, wanted in enumerate(needs)]
    plan = compiled(*rows)
    queue = ReadyQueue(plan)
    begun: list[int] = []
    done: set[int] = set()
    lost: set[int] = set()
    while (one := queue.pop()) is not None:
        assert done.issuperset(one.depends_on)
        begun.append(one.index)
        if data.draw(st.booleans()):
            queue.completed(one.index)
            done.add(one.index)
        else:
            lost.add(one.index)
    assert len(begun) == len(set(begun))
    for one in plan.subtasks:
        assert one.index in begun or not done.issuperset(one.depends_on)
    lost = set(range(len(rows))) - done
    again = ReadyQueue(plan, only=lost, done=done)
    first = [again.pop() for _ in range(1 if lost else 0)]
    assert all(one is not None and one.index in lost for one in first)

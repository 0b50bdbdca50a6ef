"""What models write is read as they mean it, and never as less of a restriction than they wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.engine.tools.mending import find_similar, mend
from prsm_core.engine.tools.table import TOOLS
from prsm_core.errors import ToolInputError
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.test_tools_table import VALID

THREADS = ProviderCapabilities(enforcement="pre_tool", resume="native")
BY_NAME = {tool.spec.name: tool for tool in TOOLS}
CHILD = BY_NAME["spawn_child"].schema
RESTRICTING = sorted(CHILD["properties"].keys() - {"prompt", "wait", "name"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def mended(tool, arguments):
    return BY_NAME[tool].mend(arguments)


def as_text(draw, value):
    """Return a value of a list, an object, a number or a flag, maybe as text, at any depth."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, list):
        value = [as_text(draw, item) for item in value]
    elif isinstance(value, dict):
        value = {name: as_text(draw, item) for name, item in value.items()}
    return json.dumps(value) if draw(st.booleans()) else value


@pytest.mark.parametrize("tool", VALID)
def test_what_is_right_is_left_as_it_is(tool):
    assert mended(tool, VALID[tool]).arguments is VALID[tool]
    assert mend(tool, BY_NAME[tool].schema, VALID[tool]).arguments == VALID[tool]


@given(st.data(), st.sampled_from(sorted(VALID)))
def test_lists_objects_numbers_and_flags_may_be_json_text(data, tool):
    written = {name: as_text(data.draw, value) for name, value in VALID[tool].items()}
    read = mended(tool, written)
    assert (read.arguments, read.notice) == (VALID[tool], None)
    BY_NAME[tool].check(read.arguments)


@given(
    st.sampled_from(sorted(VALID)),
    st.dictionaries(st.sampled_from([*CHILD["properties"], "task", "x"]) | st.text(), JSON),
)
def test_nothing_that_is_written_is_lost_without_a_note_and_what_is_read_stays_so(tool, arguments):
    read = mended(tool, arguments)
    schema = BY_NAME[tool].schema
    assert mend(tool, schema, read.arguments) == type(read)(read.arguments)
    lost = arguments.keys() - read.arguments.keys() - {"wait_for_previous"}
    assert bool(lost) <= (read.notice is not None)
    assert not lost & schema["properties"].keys()
    for name, value in arguments.items():
        if name in schema["properties"] and not isinstance(value, str | list | dict):
            assert read.arguments[name] is value


@given(JSON)
def test_a_text_stays_a_text(value):
    written = json.dumps(value)
    assert mended("ask_parent", {"question": written}).arguments == {"question": written}


@pytest.mark.parametrize(
    ("tool", "written", "read"),
    [
        ("wait_for_message", {"timeout": " 5 "}, {"timeout": 5}),
        ("spawn_child", {"prompt": "x", "wait": "True"}, {"prompt": "x", "wait": True}),
        (
            "spawn_children_parallel",
            {"children": '[{"prompt": "x", "tools": "[\\"Read\\"]"}]'},
            {"children": [{"prompt": "x", "tools": ["Read"]}]},
        ),
        (
            "spawn_child",
            {"prompt": "x", "budget": '{"usd": "0.5"}'},
            {"prompt": "x", "budget": {"usd": 0.5}},
        ),
    ],
)
def test_what_a_model_writes_as_text_is_read(tool, written, read):
    assert mended(tool, written).arguments == read


@pytest.mark.parametrize(
    ("tool", "written"),
    [
        ("wait_for_message", {"timeout": "soon"}),
        ("wait_for_message", {"timeout": "NaN"}),
        ("wait_for_message", {"timeout": "1e999"}),
        ("wait_for_message", {"timeout": "9" * 5000}),
        ("wait_for_message", {"timeout": "[" * 100_000}),
        ("spawn_child", {"prompt": "x", "depth": "1.5"}),
        ("spawn_child", {"prompt": "x", "tools": "Read"}),
        ("spawn_child", {"prompt": "x", "wait": "yes, please"}),
        ("spawn_child", {"prompt": "x", "wait": 1}),
    ],
)
def test_what_can_be_read_several_ways_is_refused(tool, written):
    with pytest.raises(ToolInputError):
        BY_NAME[tool].check(mended(tool, written).arguments)


@pytest.mark.parametrize(
    ("written", "read", "told"),
    [
        ({"description": "do it"}, {"prompt": "do it"}, '"description" was taken as "prompt"'),
        (
            {"description": "short", "prompt": "all of it"},
            {"prompt": "all of it"},
            '"description" was left out',
        ),
        (
            {"prompt": "x", "subagent_type": "general-purpose"},
            {"prompt": "x"},
            '"subagent_type" "general-purpose" was left out',
        ),
        (
            {"prompt": "x", "subagent_type": "reviewer"},
            {"prompt": "x", "role": "reviewer"},
            '"subagent_type" was taken as "role"',
        ),
        (
            {"prompt": "x", "subagent_type": "Explore"},
            {"prompt": "x", "profile": "Explore"},
            '"subagent_type" was taken as "profile"',
        ),
        ({"message": "x", "agent_type": "worker"}, {"prompt": "x", "role": "worker"}, "agent_type"),
        ({"prompt": "x", "emoji": "!"}, {"prompt": "x"}, 'no argument "emoji", it was left out'),
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_the_words_of_other_tools_are_understood(written, read, told, many):
    tool = "spawn_children_parallel" if many else "spawn_child"
    given_, wanted = ({"children": [one]} if many else one for one in (written, read))
    answer = mended(tool, given_)
    assert answer.arguments == wanted
    assert (told if not many else "children.0.") in str(answer.notice)
    BY_NAME[tool].check(answer.arguments)


@pytest.mark.parametrize(
    "written",
    [
        {"prompt": "x", "role": "reviewer", "subagent_type": "worker"},
        {"prompt": "x", "profile": "tester", "subagent_type": "Explore"},
        {"prompt": "x", "message": "y"},
        {"prompt": "x", "labels": {"a": "b"}},
        {"prompt": "x", "continues": "w1"},
    ],
)
def test_what_contradicts_or_is_not_for_models_stays_an_error(written):
    with pytest.raises(ToolInputError):
        BY_NAME["spawn_child"].check(mended("spawn_child", written).arguments)


@pytest.mark.parametrize("tool", VALID)
def test_what_gemini_adds_to_every_tool_for_itself_is_no_argument(tool):
    read = mended(tool, {**VALID[tool], "wait_for_previous": True})
    assert (read.arguments, read.notice) == (VALID[tool], None)


def misspellings():
    """Return names that resemble one that restricts a child: each with the name that is meant."""
    for name in RESTRICTING:
        yield name, name.upper()
        yield name, name.replace("_", "-") + ("" if name.endswith("s") else "s")
        yield name, name.removesuffix("s") if name.endswith("s") else f"{name}_"
        yield name, f"allowed_{name}"
        yield name, f"{name}List"
        for at in range(len(name) - 1):
            yield name, name[:at] + name[at + 1] + name[at] + name[at + 2 :]


@pytest.mark.parametrize(("name", "written"), sorted(set(misspellings())))
def test_a_misspelt_restriction_never_gives_a_child_everything(name, written):
    arguments = {"prompt": "x", written: VALID["spawn_child"].get(name, ["x"])}
    read = mended("spawn_child", arguments)
    assert written in read.arguments
    if written not in CHILD["properties"]:
        with pytest.raises(ToolInputError):
            BY_NAME["spawn_child"].check(read.arguments)


def test_who_misspells_is_told_what_is_meant():
    with pytest.raises(ToolInputError) as refused:
        BY_NAME["spawn_child"].check({"prompt": "x", "tool": ["Read"]})
    assert "did you mean tools?" in str(refused.value.hint)
    assert find_similar("emoji", CHILD["properties"]) is None


async def test_a_child_has_what_its_parent_wrote_as_text_and_the_ledger_what_was_meant(team):
    async def master(agent):
        assert await agent.refused("spawn_child", prompt="x", tool=["Read"]) == "invalid_arguments"
        written = {"description": "work", "tools": '["Read"]', "wait": "true", "emoji": "!"}
        answer = await agent.call("spawn_child", **written)
        assert answer["result"]["success"]
        assert '"description" was taken as "prompt"' in answer["notice"]
        assert '"emoji"' in answer["notice"]
        await agent.complete()

    result = await team.run("do it", master=master)
    assert result.status == "completed"
    assert team["w1"].descriptor.tools == {"Read"}
    params = team.ledger.rows("SELECT params FROM tool_calls WHERE status = 'completed' LIMIT 1")
    assert json.loads(params[0][0]) == {"prompt": "work", "tools": ["Read"], "wait": True}
    assert len([one for one in team.ledger.events("agent_spawned") if one["parent"]]) == 1


async def test_a_call_whose_answer_comes_later_is_mended_as_well(team):
    async def master(agent):
        answer = await agent.call_within(60, "wait_for_message", timeout="0.01", emoji="!")
        assert "notice" in answer
        await agent.complete()

    assert (await team.run("do it", master=master)).status == "completed"


async def test_a_resume_knows_a_call_again_that_was_mended(opened):
    written = {"prompt": "work", "tools": '["Read"]', "emoji": "!"}

    async def spawns(agent):
        await agent.use(input_tokens=1)  # the thread is in the ledger with the next step
        await agent.call("spawn_child", **written)
        await agent.hang()

    async def spawns_again(agent):
        await agent.call("spawn_child", **written)
        await agent.complete()

    async with opened(gives_tokens=True, capabilities=THREADS, check=False) as team:
        running = team.start("do it", master=spawns)
        await team.seen("tool_call_finished", "master")
        await team.engine.shutdown()
        await running
    nothing: frozenset[str] = frozenset()
    async with opened(gives_tokens=True, capabilities=THREADS, taken=nothing, check=False) as team:
        team.provider.behaviours.update(master=spawns_again)
        result = await team.engine.resume()
    assert result.status == "completed"
    assert len([one for one in team.ledger.events("agent_spawned") if one["parent"]]) == 1

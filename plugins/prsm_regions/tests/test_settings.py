"""What each setting of a run changes: what agents are told, by whom, and how often they try."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from prsm_regions.config import MAX_RETRIES
from prsm_regions.judging import BOUNDARY
from prsm_regions.provider import build
from prsm_testing import only, open_services, run_turn, session_request

from plugins.prsm_regions.tests.conftest import AUTH
from plugins.prsm_regions.tests.test_contract import Engine, told
from prsm_core import Notice, StopReason, ToolOutcome, TurnEnded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_core import ProviderEvent

PLAN = [
    {"name": "core", "description": "the parser", "region": "core", "checks": ["pytest core"]},
    {"name": "ui", "description": "the page", "region": "ui", "depends_on": ["core"]},
]
NAMES = ("core", "ui")
DEFAULT, OTHER, JUDGE = "codex/m", "codex/other", "codex/judge"
OUTLINE, BUILDS_UPON = "What your region holds now:", "What you build upon, as it is:"
CHECKS = "It is done when these pass:"
CHOOSES, WRITES = "Choose the model for a subtask", "Write the prompt for the agent"


class Script(Engine):
    """An engine that keeps what is spawned; its subtasks all fail, or all succeed.

    `answers` are what judges say, by what they are asked to do.
    """

    def __init__(self, *, fails: bool = False, answers: dict[str, str] | None = None) -> None:
        super().__init__()
        self.spawned: list[tuple[str, dict[str, Any]]] = []
        self.attempts = 0
        self._fails = fails
        self._answers = answers or {}

    async def recommend_model(self, **_: Any) -> ToolOutcome:
        models = [{"model": DEFAULT}, {"model": OTHER}]
        return told(usable=models, models=models)

    async def spawn_child(self, **given: Any) -> ToolOutcome:
        agent, labels = self.add_child(given["labels"])
        role = labels["regions/role"]
        self.spawned.append((labels.get("regions/name", role), given))
        if role == "subtask":
            self._attempt(agent)
        elif role == "planner":
            self.ends(agent, summary=json.dumps(PLAN))
        else:
            (said,) = [text for task, text in self._answers.items() if task in given["prompt"]]
            self.ends(agent, summary=said)
        return told(agent_id=agent)

    async def restart_child(self, **given: Any) -> ToolOutcome:
        self._attempt(given["child_id"])
        return told(agent_id=given["child_id"])

    def _attempt(self, agent: str) -> None:
        self.attempts += 1
        self.ends(agent, success=not self._fails, error="it broke")

    def given(self, name: str, argument: str) -> list[Any]:
        """Return an argument of each spawn of a subtask, by its name, or of the judges."""
        return [arguments[argument] for called, arguments in self.spawned if called == name]

    @property
    def prompts(self) -> list[str]:
        """What the agents of the two subtasks are told."""
        return [self.given(name, "prompt")[0] for name in NAMES]


async def play(
    tmp_path: Path, engine: Script, labels: dict[str, str] | None = None, **section: Any
) -> Sequence[ProviderEvent]:
    """Carry the plan out in a small workspace, and return what the provider told."""
    # An outline is short beside its file, and left out where it would not be.
    files = {"core/auth.py": AUTH + "#" * 500, "ui/page.py": "def page(): pass\n" + "#" * 500}
    for path, text in files.items():
        (tmp_path / "work" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / path).write_text(text)
    async with open_services(tmp_path / "state") as services:
        provider = build(section, services)
        request = session_request(tmp_path / "work", model="default", labels=labels or {})
        async with provider.open_session(request, engine.host) as session:
            events = await run_turn(session, "build auth")
    (ended,) = only(TurnEnded, events)
    assert ended.stop_reason is StopReason.END_TURN, ended
    return events


# What the agents of `core` and of `ui`, which depends on it, are told beside their tasks.
RICH: dict[str, list[set[str]]] = {
    "low": [set(), set()],
    "medium": [{OUTLINE}, {OUTLINE}],
    "high": [{OUTLINE, CHECKS}, {OUTLINE, BUILDS_UPON}],
}


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("by", ["setting", "label"])
@pytest.mark.parametrize("effort", RICH)
async def test_the_effort_sets_how_much_each_agent_is_told(tmp_path, effort, by):
    engine = Script()
    if by == "setting":
        await play(tmp_path, engine, effort=effort)
    else:  # that of a run goes before that of the configuration
        other = "high" if effort == "low" else "low"
        await play(tmp_path, engine, {"effort": effort}, effort=other)
    parts = (OUTLINE, BUILDS_UPON, CHECKS)
    assert [{one for one in parts if one in prompt} for prompt in engine.prompts] == RICH[effort]
    is_told = [["validate(self" in prompt, "def page" in prompt] for prompt in engine.prompts]
    assert is_told == [[effort != "low", False], [effort == "high", effort != "low"]]


@pytest.mark.requirement("R5")
async def test_each_subtask_has_an_agent_that_holds_its_region_alone(tmp_path):
    engine = Script()
    await play(tmp_path, engine)
    assert [engine.given(name, "region") for name in NAMES] == [[["core"]], [["ui"]]]


@pytest.mark.requirement("R28")
async def test_the_model_that_select_names_chooses_the_model_of_each_subtask(tmp_path):
    engine = Script(answers={CHOOSES: json.dumps({"model": OTHER})})
    await play(tmp_path, engine, select=JUDGE, model=DEFAULT)
    assert engine.given("judge", "model") == [JUDGE, JUDGE]
    assert [engine.given(name, "model") for name in NAMES] == [[OTHER], [OTHER]]
    by_rules = Script()
    await play(tmp_path, by_rules, model=DEFAULT)
    assert [by_rules.given(name, "model") for name in ("judge", *NAMES)] == [
        *([], [DEFAULT], [DEFAULT])
    ]


@pytest.mark.requirement("R15", "R28")
async def test_the_model_that_build_names_writes_the_prompts_and_the_region_ends_all_the_same(
    tmp_path,
):
    engine = Script(answers={WRITES: json.dumps({"prompt": "Make it well."})})
    await play(tmp_path, engine, build=JUDGE)
    assert engine.given("judge", "model") == [JUDGE, JUDGE]
    for name, prompt in zip(NAMES, engine.prompts, strict=True):
        assert prompt.startswith("Make it well.")
        assert prompt.count(BOUNDARY.format(region=f"/{name}/**")) == 1


@pytest.mark.requirement("R15")
async def test_a_prompt_that_says_where_its_region_ends_is_left_as_its_model_wrote_it(tmp_path):
    said = f"Make it. {BOUNDARY.format(region='/core/**')}"
    engine = Script(answers={WRITES: json.dumps({"prompt": said})})
    await play(tmp_path, engine, build=JUDGE)
    (core, ui) = engine.prompts
    assert core == said
    assert BOUNDARY.format(region="/ui/**") in ui, "it was told of another region alone"


@pytest.mark.requirement("R28")
@pytest.mark.parametrize("setting", ["select", "build"])
async def test_where_a_model_says_nothing_of_use_the_rules_decide_and_it_is_told(tmp_path, setting):
    engine, by_rules = Script(answers={CHOOSES: "the best", WRITES: "{}"}), Script()
    events = await play(tmp_path, engine, None, **{setting: JUDGE})
    await play(tmp_path, by_rules)
    for name in NAMES:
        for argument in ("prompt", "model"):
            assert engine.given(name, argument) == by_rules.given(name, argument)
    assert [one.level for one in only(Notice, events)].count("warning") == 2


@pytest.mark.requirement("R7", "R29")
@pytest.mark.parametrize("retries", range(MAX_RETRIES + 1))
async def test_what_fails_is_tried_again_no_more_often_than_the_cap_though_a_person_says_yes(
    tmp_path, retries
):
    engine = Script(fails=True)
    await play(tmp_path, engine, **({} if retries == MAX_RETRIES else {"retries": retries}))
    assert engine.attempts == 1 + retries, "of `core`; `ui` depends on it, and never begins"
    asked = [(question.data or {})["type"] for question in engine.host.questions]
    assert asked == ["plan", *["retry"] * retries]

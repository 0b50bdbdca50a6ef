"""The contracts of sinks, checks and scorers find out each way to break them."""

import asyncio
import time

import pytest
from msgspec.structs import replace
from prsm_testing import EventSinkContract, ModelScorerContract, PermissionCheckContract

from prsm_core import Ask, Deny, EventSink, ModelScorerSpec, PermissionCheckSpec, RunInfo

pytestmark = pytest.mark.requirement("F12")


class MemorySink(EventSink):
    """Keeps the contract, in memory."""

    kept: dict

    def __init__(self, run, kept):
        self.events = kept.setdefault(run.run_id, [])

    async def write(self, batch):
        self.events.extend(event.seq for event in batch)


class Strict(MemorySink):
    async def write(self, batch):
        for event in batch:
            if event.type == "weather_changed" or not event.data:
                raise ValueError(event.type)


class Forgets(MemorySink):
    async def write(self, batch):
        self.events.extend(event.seq for event in batch[:50])


class Backwards(MemorySink):
    async def write(self, batch):
        self.events.extend(event.seq for event in reversed(batch))


class Mixes(MemorySink):
    def __init__(self, run, kept):
        super().__init__(replace(run, run_id="one"), kept)


class Changes(MemorySink):
    async def write(self, batch):
        for event in batch:
            event.data.update(seen=True)


class ClosesOnce(MemorySink):
    closed = False

    async def aclose(self):
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True


class CountsFromTheFirst(MemorySink):
    async def aclose(self):
        self.events[0]


class Swallows(MemorySink):
    """Says nothing of what it could not write."""

    async def write(self, batch):
        return


def sink_contract(sink):
    class Contract(EventSinkContract):
        def __init__(self):
            self.stored = {}

        def open_sink(self, run: RunInfo, tmp_path):
            return sink(run, self.stored)

        def kept(self, run, tmp_path):
            return self.stored.get(run.run_id, [])

        def open_failing_sink(self, run, tmp_path):
            return Swallows(run, {})

    return Contract()


SINKS = [
    (Strict, "it_takes_every_type_of_event"),
    (Strict, "it_takes_what_a_later_version_tells"),
    (Forgets, "batches_of_any_size_arrive_in_order"),
    (Backwards, "batches_of_any_size_arrive_in_order"),
    (Mixes, "sinks_of_two_runs_do_not_mix"),
    (Changes, "it_changes_no_event"),
    (ClosesOnce, "it_closes_in_time_and_twice"),
    (CountsFromTheFirst, "it_closes_without_an_event"),
]


@pytest.mark.parametrize(("sink", "test"), SINKS)
async def test_a_sink_that_breaks_the_rule_fails_its_test(sink, test, tmp_path):
    await getattr(sink_contract(MemorySink), f"test_{test}")(tmp_path)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the sink does wrong
        await getattr(sink_contract(sink), f"test_{test}")(tmp_path)
    assert not isinstance(caught.value, TimeoutError)


async def test_a_sink_that_swallows_what_it_cannot_write_fails_its_test(tmp_path):
    contract = sink_contract(MemorySink)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await contract.test_a_batch_that_could_not_be_written_is_told(tmp_path)


async def abstains(request, context):
    return None


async def gives_a_word(request, context):
    return "deny"


async def needs_a_command(request, context):
    return Deny("no") if request.command.startswith("rm") else None


async def needs_text(request, context):
    (request.command or "").encode()


async def blocks(request, context):
    until = time.monotonic() + 0.2
    while time.monotonic() < until:  # holds the loop, as a check that computes would
        pass


async def is_silent(request, context):
    return Deny(" ")


async def offers_no_refusal(request, context):
    return Ask("why not", options=("once",))


class Fickle:
    def __init__(self):
        self.asked = 0

    async def __call__(self, request, context):
        self.asked += 1
        return Deny("every seventh") if self.asked % 7 == 0 else None


async def writes_down(request, context):
    request.arguments["seen"] = True


def check_contract(check):
    class Contract(PermissionCheckContract):
        spec = PermissionCheckSpec(name="x", summary="", priority=1, check=check, timeout=0.1)

    return Contract()


CHECKS = [
    (gives_a_word, "it_gives_a_verdict_or_none_and_never_raises"),
    (needs_a_command, "it_gives_a_verdict_or_none_and_never_raises"),
    (needs_text, "it_gives_a_verdict_or_none_and_never_raises"),
    (blocks, "it_answers_in_time"),
    (is_silent, "it_says_why"),
    (offers_no_refusal, "it_says_why"),
    (Fickle(), "the_same_request_gets_the_same_verdict"),
    (writes_down, "it_changes_nothing_of_what_it_is_asked"),
]


@pytest.mark.parametrize(("check", "test"), CHECKS)
async def test_a_check_that_breaks_the_rule_fails_its_test(check, test):
    await getattr(check_contract(abstains), f"test_{test}")()
    with pytest.raises((AssertionError, AttributeError, UnicodeError, TimeoutError)):
        await getattr(check_contract(check), f"test_{test}")()


async def test_an_author_asks_the_check_about_a_command():
    async def check(request, context):
        return Deny(f"{request.tool} {request.cwd} {context.mode}") if request.command else None

    assert await check_contract(check).ask("ls") == Deny("Bash /work default")
    assert await check_contract(check).ask(tool="Read", paths=("a",)) is None


def scorer_contract(score, weight=1.0):
    class Contract(ModelScorerContract):
        spec = ModelScorerSpec(name="x", summary="", weight=weight, score=score)

    return Contract()


class Moody:
    def __init__(self):
        self.asked = 0

    def __call__(self, model, task):
        self.asked += 1
        return 1.0 / self.asked


SCORERS = [
    (lambda model, task: model.cost_factor, "a_score_is_none_or_between_0_and_1"),
    (lambda model, task: float("nan"), "a_score_is_none_or_between_0_and_1"),
    (lambda model, task: "best", "a_score_is_none_or_between_0_and_1"),
    (lambda model, task: model.affinities[task.category], "a_score_is_none_or_between_0_and_1"),
    (Moody(), "the_same_question_gets_the_same_score"),
    (
        lambda model, task: model.affinities.clear(),
        "it_changes_nothing_of_what_it_is_asked",
    ),
]


@pytest.mark.parametrize(("score", "test"), SCORERS)
def test_a_scorer_that_breaks_the_rule_fails_its_test(score, test):
    getattr(scorer_contract(lambda model, task: None), f"test_{test}")()
    with pytest.raises((AssertionError, KeyError)):
        getattr(scorer_contract(score), f"test_{test}")()


@pytest.mark.parametrize("weight", [0, -1, float("inf"), float("nan")])
def test_a_weight_that_makes_no_mean_fails_its_test(weight):
    with pytest.raises(AssertionError):
        scorer_contract(lambda model, task: 0.5, weight).test_its_weight_is_a_positive_number()


async def test_a_sink_that_ignores_cancellation_is_found_out(tmp_path):
    class Deaf(MemorySink):
        async def write(self, batch):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.Event().wait()

    class Contract(EventSinkContract):
        deadline_s = 0.2

        def open_sink(self, run, tmp_path):
            return Deaf(run, {})

    with pytest.raises(TimeoutError):
        await Contract().test_a_write_that_is_cancelled_ends(tmp_path)

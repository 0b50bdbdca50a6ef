"""The contract of frontends finds out each way to break it."""

import asyncio
import sys
import tty
from contextlib import aclosing

import pytest
from prsm_testing import FrontendContract

from prsm_core import Frontend, PrsmError

pytestmark = pytest.mark.requirement("F12")


class Plain(Frontend):
    """Keeps the contract: shows the summary in printable characters."""

    def __init__(self, settings):
        self.settings = settings

    async def run(self, app):
        run = await app.runs.start(app.options.task)
        result = await run.result()
        print("".join(c for c in result.summary if c.isprintable()), flush=True)  # noqa: T201
        return result.exit_code


class AlwaysHappy(Plain):
    async def run(self, app):
        await super().run(app)
        return 0


class Silent(Plain):
    async def run(self, app):
        return (await (await app.runs.start("x")).result()).exit_code


class Raw(Plain):
    async def run(self, app):
        result = await (await app.runs.start("x")).result()
        print(result.summary, flush=True)  # noqa: T201
        return result.exit_code


class Reader(Plain):
    """Reads events up to the end of its run, and minds a run that ends without one."""

    def take(self, event, app):
        return event.type == "run_finished" and event.run == app.run.run_id

    async def read(self, app):
        async with aclosing(app.events()) as events:
            async for event in events:
                if self.take(event, app):
                    break

    async def run(self, app):
        run = await app.runs.start("x")
        async with asyncio.TaskGroup() as group:
            group.create_task(self.read(app))
            result = await run.result()
        return result.exit_code


class FirstEnd(Reader):
    def take(self, event, app):
        return event.type == "run_finished"

    async def run(self, app):
        run = await app.runs.start("x")
        await self.read(app)
        return 0 if run.ended.done() else 9


class Strict(Reader):
    def take(self, event, app):
        if event.type not in {"run_started", "agent_spawned", "run_finished"}:
            raise ValueError(event.type)
        return super().take(event, app)


class Swallows(Plain):
    async def run(self, app):
        try:
            return await super().run(app)
        except (PrsmError, RuntimeError):
            return 0


class Stubborn(Plain):
    async def run(self, app):
        try:
            return await super().run(app)
        except OSError:
            await asyncio.Event().wait()


class SaysYes(Plain):
    async def run(self, app):
        run = await app.runs.start("x")
        async for event in app.events():
            if event.type == "permission_requested":
                await app.requests.resolve(event.data["request"], "once")
            if event.type == "run_finished":
                return (await run.result()).exit_code
        return 1


class Leaves(Plain):
    async def run(self, app):
        self.task = asyncio.ensure_future(asyncio.Event().wait())
        return await super().run(app)


class HidesTheCursor(Plain):
    async def run(self, app):
        print("\x1b[?25l", end="", flush=True)  # noqa: T201
        return await super().run(app)


class TakesTheTerminal(Plain):
    async def run(self, app):
        tty.setraw(sys.stdin.fileno())
        return await super().run(app)


def contract(frontend):
    class Contract(FrontendContract):
        deadline_s = 2.0
        shows_summary = not issubclass(frontend, Reader | SaysYes)

        def build(self, settings):
            return frontend(settings)

    return Contract()


class TestPlain(FrontendContract):
    def build(self, settings):
        return Plain(settings)


class TestReader(FrontendContract):
    shows_summary = False

    def build(self, settings):
        return Reader(settings)


@pytest.mark.parametrize(
    ("frontend", "test", "arguments"),
    [
        (AlwaysHappy, "its_exit_code_is_that_of_the_run", ("failed", 1)),
        (Silent, "the_summary_is_shown", ()),
        (Raw, "what_an_agent_writes_cannot_steer_the_terminal", ()),
        (FirstEnd, "the_end_of_an_earlier_run_is_not_its_end", ()),
        (Strict, "every_event_of_the_contract_is_taken", ()),
        (Strict, "what_a_later_version_tells_is_taken", ()),
        (Swallows, "a_run_that_cannot_start_is_no_success", ()),
        (Swallows, "a_run_that_breaks_is_no_success", ()),
        (Stubborn, "a_closed_stdout_ends_it_and_does_not_hang_it", ()),
        (SaysYes, "without_a_person_it_answers_nothing", ()),
        (SaysYes, "the_end_of_stdin_allows_nothing", ()),
        (Leaves, "cancelling_it_leaves_nothing_behind", ()),
        (HidesTheCursor, "cancelling_it_leaves_nothing_behind", ()),
        (HidesTheCursor, "the_terminal_is_left_as_it_was", ()),
        (TakesTheTerminal, "the_terminal_is_left_as_it_was", ()),
    ],
)
async def test_a_frontend_that_breaks_the_rule_fails_its_test(frontend, test, arguments):
    tasks = asyncio.all_tasks()
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - groups, assertions, pytest.fail
        await getattr(contract(frontend), f"test_{test}")(*arguments)
    assert not isinstance(caught.value, asyncio.CancelledError | KeyboardInterrupt)
    for task in asyncio.all_tasks() - tasks:
        task.cancel()

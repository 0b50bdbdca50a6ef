"""The contract of every Provider that is a program, as a pytest class to subclass.

    class TestMyProgram(ProgramProviderContract):
        def build(self, settings, services):
            return build(settings, services)

        def host(self):
            return MyHost(spawn_child=..., wait_for_message=...)

`host` gives what the program's one turn is played on: a ProgramHost whose handlers answer so that
the turn comes to its end. No model of a vendor's is there, so that `ProviderContract` has nothing
to play; what it asks of any turn is asked here too. A provider that runs other people's programs
gives its calls the ids that those choose: by `acts` it says what a turn has done instead.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.domain.turns import StopReason, TurnEnded, UsageReported
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import Carried
from prsm_testing.bound import bounded
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    only,
    open_services,
    run_turn,
    session_request,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.interfaces.provider import Provider, ProviderServices, ProviderSession
    from prsm_testing.doubles import Handler, LocalServices

INTERRUPT_SECONDS = 5.0  # two by the contract, and what a busy machine adds


class ProgramHost(RecordingHost):
    """A RecordingHost that knows what it has answered, as the engine does after a crash.

    A call that is made again by its id gets the answer that it had; the handler runs once. With
    `dies_at` the engine dies at that call of the turn, from 1: before it acts, or `behind` it.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.dies_at: int | None = None
        self.behind = False
        self.died = asyncio.Event()
        self.known_answers: dict[str, tuple[str, Mapping[str, Any], ToolOutcome]] = {}
        self.again: list[str] = []  # ids that were asked for again
        self._count = 0

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Answer as before, or let the handler answer."""
        assert call_id is not None, f"{name}: a program names each of its calls"
        if (before := self.known_answers.get(call_id)) is not None:
            assert before[:2] == (name, arguments), f"call {call_id} is another one by now"
            self.again.append(call_id)
            return before[2]
        self._count += 1
        is_last = self._count == self.dies_at
        if is_last and not self.behind:
            await self._die()
        outcome = await super().call_tool(name, arguments, call_id=call_id)
        self.known_answers[call_id] = (name, dict(arguments), outcome)
        if is_last:
            await self._die()
        return outcome

    def refuse(self, handler: Handler) -> None:
        """Have every tool be answered by one handler."""
        self._handlers = dict.fromkeys(self._handlers, handler)

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()


@bounded
class ProgramProviderContract(ABC):
    """What every Provider that is a program does; each test's docstring is the rule."""

    bound_s: ClassVar[float] = 120.0  # for a test in all; one that hangs fails, and says where
    settings: ClassVar[Mapping[str, Any]] = {}
    task: ClassVar[str] = "Do it."
    kill_every: ClassVar[int] = 1  # at how many of the calls of a turn it is killed: each, each 2nd
    # Of the labels that it may set: the name of its provider, with a slash; blank: it sets none.
    prefix: ClassVar[str]

    @abstractmethod
    def build(self, settings: Mapping[str, Any], services: ProviderServices) -> Provider:
        """Build the provider as its factory does."""

    @abstractmethod
    def host(self) -> ProgramHost:
        """Return a new host on which a turn with `task` comes to its end."""

    def request(self, folder: Path) -> dict[str, Any]:
        """Return what the session request has beside what each has."""
        return {}

    def acts(self, host: ProgramHost) -> Sequence[tuple[Any, str, Mapping[str, Any]]]:
        """Return what the turn on a host has done: what each is known by, its name, its details.

        It is every call by its id, unless overridden for one whose calls have ids of others, or
        some of which only ask.
        """
        return [(call.call_id, call.name, call.arguments) for call in host.calls]

    @asynccontextmanager
    async def opened(
        self, services: LocalServices, folder: Path, host: RecordingHost, **more: Any
    ) -> AsyncIterator[ProviderSession]:
        """Open a session of a new provider; leaving closes both."""
        (folder / "work").mkdir(exist_ok=True)
        given = {"model": "default", **self.request(folder), **more}
        async with (
            aclosing(self.build(self.settings, services)) as provider,
            provider.open_session(session_request(folder / "work", **given), host) as session,
        ):
            yield session
        assert services.live == [], "aclose leaves no process"

    async def played(self, folder: Path, host: ProgramHost) -> list[Any]:
        """Play a whole turn; return its events."""
        async with (
            open_services(folder / "state") as services,
            self.opened(services, folder, host) as session,
        ):
            return await run_turn(session, self.task)

    async def test_a_turn_ends_once_and_uses_no_token(self, tmp_path: Path) -> None:
        """It ends by itself, and says of each turn that it took none: what it cost is known."""
        events = await self.played(tmp_path, host := self.host())
        assert events[-1] == TurnEnded(StopReason.END_TURN)
        used = only(UsageReported, events)
        assert used
        assert {(one.usage.known_total, one.cost_usd) for one in used} == {(0, 0.0)}
        assert host.calls

    async def test_what_it_calls_is_the_same_each_time(self, tmp_path: Path) -> None:
        """Given the same answers it does the same in the same order, and each call has an id."""
        told = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            await self.played(tmp_path / name, host := self.host())
            told.append([(known_by, name) for known_by, name, _ in self.acts(host)])
            ids = {call.call_id for call in host.calls}
            assert len(ids) == len(host.calls)
        assert told[0]
        assert told[0] == told[1]
        assert len({known_by for known_by, _ in told[0]}) == len(told[0])

    async def test_it_sets_its_own_labels_alone(self, tmp_path: Path) -> None:
        """Those that it changes, and those that its children are born with."""
        host, said = self.host(), set[str]()
        relabel = host.relabel

        async def watched(
            changes: Mapping[str, str | None], agent: str | None = None
        ) -> Mapping[str, str]:
            said.update(changes)
            return await relabel(changes, agent)

        host.relabel = watched  # type: ignore[method-assign]
        await self.played(tmp_path, host)
        for call in host.calls:
            said.update(call.arguments.get("labels") or {})
        assert bool(said) == bool(self.prefix)
        assert [name for name in said if not name.startswith(self.prefix)] == []

    @pytest.mark.parametrize("behind", [False, True])
    async def test_killed_at_any_call_it_goes_on_and_acts_once(
        self, tmp_path: Path, behind: bool
    ) -> None:
        """A turn that is run again does nothing a second time, and goes on behind what it did."""
        await self.played(tmp_path, whole := self.host())
        wanted = self.acts(whole)
        for number in range(1, len(whole.calls) + 1, self.kill_every):
            folder = tmp_path / f"{number}"
            folder.mkdir()
            host = self.host()
            host.dies_at, host.behind = number, behind
            async with open_services(folder / "state") as services:
                token = await self._until_death(services, folder, host)
                host.dies_at = None
                carried = Carried(turn_id="t")
                again = self.opened(services, folder, host, resume_token=token, carried=carried)
                async with again as session:
                    events = await run_turn(session, None)
            assert events[-1] == TurnEnded(StopReason.END_TURN), f"killed at call {number}"
            done = self.acts(host)
            assert len(done) == len(wanted), f"killed at call {number}"
            by_key = [{known_by: told for known_by, *told in acts} for acts in (done, wanted)]
            assert by_key[0] == by_key[1], f"killed at call {number}"

    async def _until_death(
        self, services: LocalServices, folder: Path, host: ProgramHost
    ) -> str | None:
        """Play a turn until the engine dies; return the token of its session."""
        async with self.opened(services, folder, host) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(run_turn(session, self.task))
            await host.died.wait()
            token = session.resume_token
            turn.cancel()
            await asyncio.wait({turn})
        return token

    async def test_a_call_that_fails_ends_the_turn_with_the_cure(self, tmp_path: Path) -> None:
        """The first of its calls is refused: the turn fails once, and says what was refused."""
        host = self.host()
        refused = "that cannot be (do something else)"
        host.refuse(answers(refused, is_error=True))
        async with (
            open_services(tmp_path / "state") as services,
            self.opened(services, tmp_path, host) as session,
        ):
            events = await run_turn(session, self.task)
            assert session.reusable
        (ended,) = only(TurnEnded, events)
        assert (events[-1], ended.stop_reason) == (ended, StopReason.ERROR)
        assert ended.error is not None
        assert refused in ended.error.message

    async def test_an_interrupt_ends_a_call_that_waits(self, tmp_path: Path) -> None:
        """The turn ends as aborted, and the session takes another one."""
        host = self.host()
        host.dies_at = 1
        async with (
            open_services(tmp_path / "state") as services,
            self.opened(services, tmp_path, host) as session,
            asyncio.TaskGroup() as group,
        ):
            turn = group.create_task(run_turn(session, self.task))
            await host.died.wait()
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await session.interrupt()
                events = await turn
            assert session.reusable
            host.dies_at = None
            assert (await run_turn(session, self.task))[-1] == TurnEnded(StopReason.END_TURN)
        assert events[-1] == TurnEnded(StopReason.ABORTED)

    async def test_a_conversation_that_it_does_not_know_is_not_gone_on_with(
        self, tmp_path: Path
    ) -> None:
        """It says so by the code `resume_failed`, and calls nothing."""
        host = self.host()
        async with open_services(tmp_path / "state") as services:
            with pytest.raises(ProviderNotAvailableError) as caught:
                async with self.opened(services, tmp_path, host, resume_token="b" * 32):
                    raise AssertionError("it was opened")
        assert caught.value.code == "resume_failed"
        assert host.calls == []

    async def test_it_is_probed_without_a_session(self, tmp_path: Path) -> None:
        """It is available: what it needs of others it asks for in its turn."""
        async with (
            open_services(tmp_path / "state") as services,
            aclosing(self.build(self.settings, services)) as provider,
        ):
            status = await provider.probe()
        assert status.available, status.reason

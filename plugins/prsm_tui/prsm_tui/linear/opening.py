"""The linear mode on a session, or on many: readers, acts and a person, until they leave."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TextIO

from prsm_tui.acts import Acts
from prsm_tui.hub_acts import HubActs
from prsm_tui.leaving import owns_runs
from prsm_tui.linear.keyboard import Keyboard, columns_of
from prsm_tui.linear.many import Hands, Many
from prsm_tui.linear.page import Page
from prsm_tui.linear.person import Person
from prsm_tui.model.session import Session
from prsm_tui.model.sessions import Sessions
from prsm_tui.pump import Pump
from prsm_tui.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core import AppHandle, Hub

PAUSE_SECONDS = 5.0  # without a key, after which what comes is written though a line is begun


async def tell(
    app: AppHandle,
    *,
    switch: str,
    terminal: TextIO,
    keyboard: int,
    answers: bool,
) -> tuple[Session, bool, Sequence[str]]:
    """Tell a session until its person leaves.

    Return it, whether its runs end with this process, and what was typed and not sent.
    """
    session = Session.of_view(await app.view(), time.time())
    owns = await owns_runs(app, session.id)
    page = Page(terminal, columns_of(terminal.fileno()))
    person = Person(session, page, time.time, answers=answers, owns=owns)
    person.acts = acts = Acts(app, session, person)
    acts.looks.owns = owns
    person.keyboard = Keyboard(keyboard, person, terminal)
    pump, left = Pump(app, session, person.changed), asyncio.Event()
    person.leave = left.set
    person.begin(switch)
    acts.begin()

    async def follow() -> None:
        await pump.follow()
        person.over(pump.why_over or "")

    works = [follow, pump.keep_spent, pump.keep_name, acts.serve, person.keyboard.serve]
    works += [pump.attend] if answers else []
    try:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(work()) for work in works]
            helpers.append(group.create_task(flush_in_pauses(page, person.keyboard)))
            helpers.append(group.create_task(every_second(person.tick)))
            await left.wait()
            for helper in helpers:
                helper.cancel()
    except ExceptionGroup as errors:
        if len(errors.exceptions) > 1:
            raise
        raise errors.exceptions[0] from None
    return session, owns, person.drafts()


async def tell_many(
    hub: Hub, *, switch: str, terminal: TextIO, keyboard: int, answers: bool
) -> Sequence[str]:
    """Tell many sessions until their person leaves; return what was typed and not sent."""
    page = Page(terminal, columns_of(terminal.fileno()))
    many, rounds = compose_many(hub, page, answers=answers)
    many.keyboard = Keyboard(keyboard, Hands(many, page), terminal)
    left = asyncio.Event()
    many.leave = left.set
    many.begin(switch)
    acts = many.acts
    assert acts is not None  # noqa: S101 - it was composed
    works = [rounds.follow, acts.serve, many.keyboard.serve]
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(work()) for work in works]
        helpers.append(group.create_task(flush_in_pauses(page, many.keyboard)))
        helpers.append(group.create_task(every_second(many.tick)))
        await left.wait()
        for helper in helpers:
            helper.cancel()
    return many.drafts()


def compose_many(hub: Hub, page: Page, *, answers: bool) -> tuple[Many, Rounds]:
    """Return what tells many sessions on a page, and what reads the list of them."""
    sessions = Sessions()
    many = Many(sessions, page, time.time, workspace=hub.options.workspace, answers=answers)
    many.acts = HubActs(hub, many, answers=answers)
    many.rounds = rounds = Rounds(hub, sessions, many.looked, answers=answers)
    return many, rounds


async def flush_in_pauses(page: Page, keyboard: Keyboard) -> None:
    """Write what is held while nobody goes on with the line that is begun."""
    before = ""
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        if keyboard.draft and keyboard.draft == before:
            page.flush()
        before = keyboard.draft


async def every_second(do: Callable[[], None]) -> None:
    """Do something every second, until cancelled."""
    while True:
        await asyncio.sleep(1.0)
        do()

"""The linear mode on a session: its reader, its acts and its person, until they leave."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TextIO

from prsm_tui.acts import Acts
from prsm_tui.leaving import owns_runs
from prsm_tui.linear.keyboard import Keyboard, columns_of
from prsm_tui.linear.page import Page
from prsm_tui.linear.person import Person
from prsm_tui.model.session import Session
from prsm_tui.pump import Pump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core import AppHandle

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
    person.keyboard = Keyboard(keyboard, person)
    pump, left = Pump(app, session, person.changed), asyncio.Event()
    person.leave = left.set
    person.begin(switch)
    acts.begin()

    async def follow() -> None:
        await pump.follow()
        person.over(pump.why_over or "")

    works = [follow, pump.keep_spent, acts.serve, person.keyboard.serve]
    works += [pump.attend] if answers else []
    try:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(work()) for work in works]
            helpers.append(group.create_task(_flush_in_pauses(page, person.keyboard)))
            await left.wait()
            for helper in helpers:
                helper.cancel()
    except ExceptionGroup as errors:
        if len(errors.exceptions) > 1:
            raise
        raise errors.exceptions[0] from None
    return session, owns, person.drafts()


async def _flush_in_pauses(page: Page, keyboard: Keyboard) -> None:
    """Write what is held while nobody goes on with the line that is begun."""
    before = ""
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        if keyboard.draft and keyboard.draft == before:
            page.flush()
        before = keyboard.draft

"""Commits of accepted changes: one for each agent or task; what a person may have made is apart."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core import ConfigError
from prsm_core.door import AgentName, ChangeHeld, ChangeLeft, CommitReport, NewCommit
from prsm_core.files import COMMITTED, ChangeRow, Decision
from prsm_core.kit import escape_exact, first_line
from prsm_files.commits import Asked
from prsm_files.session.deciding import wanted
from prsm_files.session.reasons import Reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.door import Reason
    from prsm_files.commits import Outcome

BY_AGENT, BY_TASK = "agent", "task"
WAYS = (BY_AGENT, BY_TASK)
SUBJECT = 72  # characters
LISTED = 30  # changes that a message names
_UNSURE = "No call explains these changes: a person may have made them while the agent ran one."
_OUTSIDE = "Changes that came from outside of the agents' calls"


class Wording(Struct, frozen=True, kw_only=True):
    """How changes are put into commits; `message` takes the place of all but the trailers."""

    by: str = BY_AGENT
    message: str | None = None

    def check(self) -> None:
        """Raise ConfigError for a way that there is not, and for a blank message."""
        if self.by not in WAYS:
            raise ConfigError(
                f"there is no commit for each {self.by!r}", hint=f"use one of {', '.join(WAYS)}"
            )
        if self.message is not None and not self.message.strip():
            raise ConfigError("the message of the commits is blank", hint="say what they do")


async def commits_of(
    store: Store, session: str, rows: Sequence[ChangeRow], wording: Wording
) -> Sequence[Asked]:
    """Return the commits that hold accepted changes, in the order of their first ones."""
    wording.check()
    if not rows:
        return ()
    agents = {row.descriptor.agent_id: row for row in await store.agents(session)}
    tasks = await _tasks(store, session) if wording.by == BY_TASK else {}
    groups = defaultdict[tuple[str, bool], list[ChangeRow]](list)
    for row in rows:
        author = row.change.author
        key = "" if author is None else author.agent
        if wording.by == BY_TASK:
            key = tasks.get(row.change.id, ("", ""))[0]
        groups[key, row.change.is_unsure].append(row)
    reasons = Reasons(store, session)
    made = []
    for mine in groups.values():
        task = tasks.get(mine[0].change.id, ("", ""))[1]
        said = [await reasons.of(row) for row in mine]
        own = list(dict.fromkeys(one.agent for row in mine for one in row.change.authors))
        known = [agents[agent] for agent in own if agent in agents]
        first = known[0].descriptor.prompt if known else _OUTSIDE
        text = wording.message or _text(mine, said, task or first)
        trailers = [
            f"PRSM-{label}: {escape_exact(getattr(row.descriptor, name))}"
            for row in known
            for label, name in (("Agent", "name"), ("Provider", "provider"), ("Model", "model"))
        ]
        end = "\n".join([*trailers, f"PRSM-Session: {session}"])
        message = f"{text.strip()}\n\n{end}\n"
        changes = tuple(wanted(mine))[::-1]
        made.append(Asked(message=message, changes=changes, agents=tuple(own)))
    return made


async def _tasks(store: Store, session: str) -> Mapping[str, tuple[str, str]]:
    """Return of each change the run that it was found in, and that run's task."""
    tasks: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}
    async for event in store.events(session):
        if event.type == "run_started":
            tasks[event.run or ""] = str(event.data["task"])
        elif event.type == "file_changed" and "change" in event.data:
            run = event.run or ""
            found[event.data["change"]] = run, tasks.get(run, "")
    return found


def _text(rows: Sequence[ChangeRow], said: Sequence[Reason | None], task: str) -> str:
    reasons = [one for one in said if one is not None]
    best = max(reasons, key=lambda one: one.score).text if reasons else task
    subject = first_line(best, 10 * SUBJECT).removesuffix("…").rstrip(" .:;,")
    if len(subject) > SUBJECT:
        subject = subject[: SUBJECT - 1].rsplit(" ", 1)[0].rstrip(" .:;,") + "…"
    lines = [
        f"- {escape_exact(row.change.path)}" + (f": {first_line(why.text, 200)}" if why else "")
        for row, why in list(zip(rows, said, strict=True))[:LISTED]
    ]
    if len(rows) > LISTED:
        lines.append(f"- and {len(rows) - LISTED} more")
    if rows[0].change.is_unsure:
        lines = [*dict.fromkeys(lines), "", _UNSURE]
    return "\n".join([subject or "Changes of agents", "", *lines])


def committed(rows: Iterable[ChangeRow], outcome: Outcome) -> Sequence[Decision]:
    """Return what is decided about changes once they are committed."""
    commits = {change: one.id for one in outcome.commits for change in one.changes}
    commits |= {one.id: one.commit for one in outcome.held}
    return tuple(
        Decision(row.change.id, row.change.path, COMMITTED, commits[row.change.id] or None)
        for row in rows
        if row.change.id in commits
    )


def told_outcome(
    outcome: Outcome, rows: Iterable[ChangeRow], names: Mapping[str, str]
) -> CommitReport:
    """Return what was committed, or would be, as `Changes.commit` tells it."""
    known = {row.change.id: row.change for row in rows}
    return CommitReport(
        commits=tuple(
            NewCommit(
                commit=one.id or None,
                repository=one.root,
                subject=one.message.partition("\n")[0],
                message=one.message,
                agents=tuple(AgentName(agent=id_, name=names.get(id_)) for id_ in one.agents),
                possible=any(known[change].is_unsure for change in one.changes),
                changes=one.changes,
                files=tuple(sorted({known[change].path for change in one.changes})),
            )
            for one in outcome.commits
        ),
        left=tuple(
            ChangeLeft(change=one.id, path=known[one.id].path, why=one.why) for one in outcome.left
        ),
        held=tuple(
            ChangeHeld(change=one.id, path=known[one.id].path, commit=one.commit or None)
            for one in outcome.held
        ),
    )

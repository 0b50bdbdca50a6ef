"""What is looked up to be read: a part of the acts; no answer waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core import PrsmError
from prsm_core.kit import escape_exact
from prsm_tui.model import boards
from prsm_tui.pump import said

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core import AppHandle
    from prsm_tui.file_acts import Do, FileListening
    from prsm_tui.model.boards import Board
    from prsm_tui.model.session import Session


class Looks:
    """Makes the pages of what a session has around it, and chooses the next model."""

    def __init__(self, app: AppHandle, session: Session, listener: FileListening, do: Do) -> None:
        self._app = app
        self._session = session
        self._tell = listener
        self._do = do
        session.asked_model = escape_exact(app.options.model or "")
        self.owns = True  # whether runs end with this process
        self._makers: Mapping[str, Callable[[], Awaitable[Board]]] = {
            boards.MODELS: self._models,
            boards.PROVIDERS: self._providers,
            boards.BUDGET: self._budget,
            boards.POLICY: self._policy,
            boards.SETTINGS: self._settings,
        }

    def turn_to(self, app: AppHandle) -> None:
        """Go by another handle of the session from now on."""
        self._app = app

    def load(self, name: str) -> None:
        """Make a page again."""
        self._do(lambda: self._load(name))

    def choose_model(self, wanted: str, agent: str | None) -> None:
        """Let an agent, else the newest master, go on with a model; without one the first task."""
        self._do(lambda: self._choose_model(wanted, agent))

    async def _load(self, name: str) -> None:
        try:
            board = await self._makers[name]()
        except PrsmError as error:
            board = boards.failed(name, said(error))
        self._session.boards.put(name, board)
        self._tell.changed()

    async def _models(self) -> Board:
        return boards.models_board(await self._app.models(), self._session)

    async def _providers(self) -> Board:
        return boards.providers_board(await self._app.providers())

    async def _budget(self) -> Board:
        return boards.budget_board(await self._app.budget(), self._session)

    async def _policy(self) -> Board:
        return boards.policy_board(await self._app.policy(), self._session)

    async def _settings(self) -> Board:
        return boards.settings_board(self._app.options, self._session, owns=self.owns)

    async def _choose_model(self, wanted: str, chosen: str | None) -> None:
        agent = self._session.agents.get(chosen or "") or self._session.master()
        if agent is None:
            await self._choose_first(wanted)
        else:
            name = escape_exact(await self._app.set_model(agent.id, wanted))
            agent.next_model = "" if name == agent.label else name
            when = "from its next turn on" if agent.is_live else "in its next life"
            told = f"goes on with {name} {when}" if agent.next_model else f"keeps {name}"
            self._tell.told("info", f"{agent.name} {told}")
        self._tell.changed()

    async def _choose_first(self, wanted: str) -> None:
        """Let the first task begin with a master of a model; `default`: as it would be."""
        if wanted == "default":
            self._session.next_model = ""
            self._tell.told("info", "the task begins as if none had been chosen")
            return
        fitting = [row for row in await self._app.models() if wanted in _names(row)]
        if len(fitting) != 1:
            how = "no model is called" if not fitting else "several models are called"
            hint = "/model shows them; name one as PROVIDER/MODEL"
            self._tell.told("warning", f"{how} {escape_exact(wanted)}: {hint}")
            return
        chosen = f"{fitting[0]['provider']}/{fitting[0]['model']}"
        self._session.next_model = chosen
        what = f"the task begins with a master of {escape_exact(chosen)}"
        self._tell.told("info", f"{what}; /model default takes it back")


def _names(row: Mapping[str, Any]) -> set[str]:
    return {str(row["model"]), f"{row['provider']}/{row['model']}", *row.get("aliases", ())}

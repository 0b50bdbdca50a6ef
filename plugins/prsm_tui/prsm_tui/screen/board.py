"""A page to be read; where something on it can be picked, Enter picks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style

from prsm_tui.keys import PAGE
from prsm_tui.model.board import DIM, HEAD, PLAIN, WARNING
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.messages import ActWanted
from prsm_tui.screen.place import Place
from prsm_tui.screen.wrapping import hanging

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual import events

    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session

_STYLES: Mapping[str, Style] = {
    HEAD: Style(bold=True),
    PLAIN: Style(),
    DIM: Style(dim=True),
    WARNING: Style(color="yellow"),
}


class BoardScreen(Place):
    """Shows a page of the model."""

    BINDINGS = bindings(PAGE)
    KEYS = (PAGE,)
    HINTS = (
        ("page.again", "again", "screen.again"),
        ("app.help", "keys", "app.help"),
        ("page.back", "back", "screen.leave"),
    )
    DEFAULT_CSS = """
    BoardScreen #board { height: 1fr; }
    """

    def __init__(
        self, session: Session, name: str, chosen: Callable[[], str | None], keymap: Keymap
    ) -> None:
        """`chosen` tells the id of the agent that a model is picked for."""
        super().__init__(session, keymap)
        self.named = name
        self._chosen = chosen
        self._rows: Sequence[tuple[Line, str]] = ()
        self._drawn: tuple[object, ...] = ()
        self._shown = Lines(id="board")
        self.body = (self._shown,)

    def on_mount(self) -> None:
        self._shown.focus()
        self.is_built = True
        self.action_again()
        self.sync(0.0)

    def on_resize(self, _: events.Resize) -> None:
        self.sync(0.0)

    def sync(self, now: float) -> None:
        """Follow the model."""
        width = self._shown.size.width or self.app.size.width
        drawn = self.session.boards.version, width
        if not self.is_built or drawn == self._drawn:
            return
        self._drawn = drawn
        page = self.session.boards.pages.get(self.named)
        if page is None:
            self.titled.update(f" {self.named}: on its way, which may take seconds")
            return
        self.titled.update(" " + " · ".join(filter(None, [page.title, page.hint])))
        self._rows = [
            ((row, _STYLES[line.look]), line.pick)
            for line in page.lines
            for row in hanging(line.text, width)
        ]
        self._shown.provide(len(self._rows), lambda index, _width: self._rows[index][0])
        picks = self._picks
        if picks and self._shown.cursor not in picks:
            self._shown.put_cursor(picks[0])

    @property
    def _picks(self) -> Sequence[int]:
        return [place for place, (_, pick) in enumerate(self._rows) if pick]

    def action_move(self, step: int) -> None:
        """Go to another line that can be picked; where there is none, scroll."""
        picks, at = self._picks, self._shown.cursor
        found = [place for place in picks[::step] if (place - at) * step > 0]
        if found:
            self._shown.put_cursor(found[0])
        elif not picks:
            self._shown.scroll_relative(y=step, animate=False)

    def action_page(self, step: int) -> None:
        rows = step * max(1, self._shown.size.height - 1)
        picks = self._picks
        if not picks:
            self._shown.scroll_relative(y=rows, animate=False)
            return
        wanted = self._shown.cursor + rows
        self._shown.put_cursor(min(picks, key=lambda place: abs(place - wanted)))

    def action_pick(self) -> None:
        at = self._shown.cursor
        if 0 <= at < len(self._rows) and self._rows[at][1]:
            model, agent = self._rows[at][1], self._chosen()
            self.post_message(ActWanted(lambda acts: acts.looks.choose_model(model, agent)))

    def action_again(self) -> None:
        self.post_message(ActWanted(lambda acts: acts.looks.load(self.named)))

    def on_click(self, event: events.Click) -> None:
        """Go to the line that was clicked; a second click picks it."""
        place = round(self._shown.scroll_y) + event.y
        if event.widget is self._shown and place in self._picks:
            self._shown.put_cursor(place)
            if event.chain > 1:
                self.action_pick()

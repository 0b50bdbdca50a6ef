"""What each screen looks like, as a text: its rows, and below them which style each cell has.

`python -m plugins.prsm_tui.tests.pictures` writes all anew; with a folder it also draws them there
as SVG, to be looked at. To add a screen, add a line to SCENES: how its events come, and which keys
lead to it.

In a text a difference is read where it is, and a file is small: so there is one of each state that
a screen can be in. Of the screens themselves there are SVGs, too, as pytest-textual-snapshot keeps
them: `pytest plugins/prsm_tui/tests/test_pictures.py -m "long or not long" --snapshot-update`.
"""

from __future__ import annotations

import asyncio
import os
import string
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_testing import ScriptedApp, ScriptedHub

from prsm_core.door import ChangedFile, ModelRow
from prsm_core.interfaces.frontend import RunOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from plugins.prsm_tui.tests.scenes import Eyes

FOLDER = Path(__file__).with_name("data") / "pictures"
NOW = 200.0  # by the clock of all of them; the events were before that
_MOST = "."  # marks the style that most cells of a row have


class Scene(NamedTuple):
    """A screen: events that an application tells, the keys that lead there, and what is seen then.

    A key that begins with `!` is a text that is typed, one with `?` a text that is waited for.
    """

    tell: Callable[[ScriptedApp], None]
    keys: Sequence[str]
    sees: str


class HubScene(NamedTuple):
    """A screen of many sessions: which there are, and the rest as of a Scene."""

    tell: Callable[[ScriptedHub], Awaitable[None]]
    keys: Sequence[str]
    sees: str


class Variant(NamedTuple):
    """Where a screen is shown: its columns and rows, without colours or not, and its theme."""

    size: tuple[int, int]
    theme: str = "dark"
    has_colours: bool = True


VARIANTS = {
    "80x24": Variant((80, 24)),
    "160x48": Variant((160, 48)),
    "no-color": Variant((100, 30), has_colours=False),
    "high-contrast": Variant((100, 30), theme="high-contrast"),
}


def nothing(_: ScriptedApp) -> None:
    """Nothing has begun."""


def team(app: ScriptedApp) -> None:
    """Tell of a team at work, in which each kind of block is to be seen."""
    app.say("run_started", task="Orders of exactly 50.00 pay shipping. Mend it.", workspace="/shop")
    app.spawn(prompt="Orders of exactly 50.00 pay shipping. Mend it.")
    app.say("agent_state_changed", "m", to="running", reason="turn started")
    app.say("turn_started", "m", turn="t", n=1)
    _says(app, "m", "First I read what the shop *promises*.", thinking="Where is that?\nIn README.")
    _calls(
        app, "m", "c1", "Bash", {"command": "cat README.md"}, result="# Shop\n\nFree from 50.00."
    )
    app.say("tool_call_started", "m", call="c2", tool="spawn_child", arguments={"name": "fixer"})
    app.say("agent_spawned", "f", **_child("fixer", "c2"))
    app.say("agent_state_changed", "f", to="running", reason="turn started")
    app.say("turn_started", "f", turn="u", n=1)
    app.say("agent_spawned", "w", **_child("writer", "c3"))
    app.say("agent_state_changed", "w", to="failed", reason="the tests fail", evidence="refuted")
    app.say("plan_updated", "m", entries=PLAN)
    app.say(
        "file_changed", "m", path="basket.py", kind="modified", added=1, removed=1, beside=["f"]
    )
    app.say("notice", "m", level="warning", text="the model is slow today")
    _says(
        app,
        "m",
        "## Two parts\n\n- the **code**\n- the change log\n\n| file | who |\n|--|--|\n"
        "| basket.py | fixer |\n",
        message=2,
    )
    app.say("tool_call_started", "f", call="c4", tool="Bash", arguments={"command": COMMAND})


def asking(app: ScriptedApp) -> None:
    """Tell of a team of which two wait for a person."""
    team(app)
    rules = {"allow": ["python3 -m unittest"], "deny": ["python3 -m unittest"]}
    told: dict[str, Any] = {"tool": "Bash", "command": COMMAND, "paths": [], "cwd": "/shop"}
    told |= {"reason": "it is not known to be safe", "call": "c4", "rules": rules}
    options = ["once", "always", "allow_project", "deny_project", "deny"]
    app.say("permission_requested", "f", request="r1", options=options, expires_at=NOW + 90, **told)
    change = {"added": 2, "removed": 1, "lines": ["-return SHIPPING", "+if free:", "+    return 0"]}
    edit: dict[str, Any] = {"tool": "Edit", "paths": ["/shop/basket.py"], "change": change}
    app.say(
        "permission_requested", "m", request="r2", options=options, reason="a rule asks", **edit
    )


def questioning(app: ScriptedApp) -> None:
    """Tell of a question."""
    team(app)
    choices = ["from 50.00 on", "only above 50.00"]
    app.say("question_asked", "f", request="q1", question="Which one is meant?", options=choices)


def streaming(app: ScriptedApp) -> None:
    """Tell of what is being said and written right now."""
    team(app)
    pieces = ("thinking_delta", "I weigh one thing"), ("text_delta", "Half of a sentence that")
    for kind, text in pieces:
        app.say(kind, "m", live=True, turn="t", message=3, at=0, text=text)
    app.say("tool_output_delta", "f", live=True, call="c4", at=0, text="....\nRan 4 tests")


def hostile(app: ScriptedApp) -> None:
    """Tell of an agent that would like to be more than text."""
    app.spawn("m", "[bold]boss\x1b[2J", prompt="\x1b]0;owned\x07")
    _says(
        app,
        "m",
        "\x1b[31mred[/] [bold]not bold[/bold] \u202egnp.exe 文字 e\u0301 👩‍👩‍👧 \x07\r\nnext",
    )
    _calls(app, "m", "c1", "Ba\x1b[1msh", {"command": "echo '\x1b[2J'"}, result="\x1b[0;0Hhome")


def ended(app: ScriptedApp) -> None:
    """Tell of a run that is over."""
    team(app)
    for agent in ("f", "m"):
        app.say("agent_state_changed", agent, to="completed", reason="done", evidence="checked")
    told: dict[str, Any] = {"status": "completed", "summary": "Sent free **from 50.00 on**."}
    app.say("run_finished", evidence="checked", duration_s=74.0, usage={}, **told)


def crowd(app: ScriptedApp) -> None:
    """Tell of many agents, on several levels."""
    app.spawn()
    for number in range(40):
        parent = "m" if number % 4 == 0 else f"w{number - 1}"
        app.spawn(f"w{number}", f"worker-{number}", parent)
        if number % 3 == 0:
            app.say("agent_state_changed", f"w{number}", to="running", reason="turn started")


def changed(app: ScriptedApp) -> None:
    """Tell of a team that has changed files: one of them another program changed, too."""
    team(app)
    app.find_change("c1", "CHANGES.md", "w", diff=ADDED, kind="added", call="c8", turn="t1")
    app.find_change("c2", "shop/basket.py", "f", diff=MENDED, call="c9", turn="t2", beside=("",))
    app.find_change("c3", "notes/of the day [draft].txt", None, diff="@@ -1 +0,0 @@\n-gone")


def kept(app: ScriptedApp) -> None:
    """Tell of files that can be kept."""
    team(app)
    app.keeps_files = True
    app.restore_changes = [
        ChangedFile(path="shop/basket.py", change="modified"),
        ChangedFile(path="CHANGES.md", change="deleted"),
    ]


def offering(app: ScriptedApp) -> None:
    """Tell of models."""
    team(app)
    names = (("claude", "opus-9", ("big",)), ("claude", "haiku-9", ()), ("codex", "gpt-x", ()))
    app.model_rows = [
        ModelRow(provider=provider, model=model, aliases=aliases, context_window=200_000)
        for provider, model, aliases in names
    ]


async def many(hub: ScriptedHub) -> None:
    """Tell of three sessions: one that waits for a person, one at work, one that is done."""
    for task in ("Mend the roof", "Paint the cellar", "Hang the door"):
        told = await hub.start(RunOptions(workspace="/work", task=task))
        app = next(app for app in hub.apps if app.session == told.session)
        app.spawn(prompt=task)
        _says(app, "m", f"I begin: {task.lower()}.")
        if task == "Mend the roof":
            over: dict[str, Any] = {"from": "running", "to": "completed"}
            app.say("agent_state_changed", "m", **over)
            app.finish()
        if task == "Hang the door":
            choices = ["inwards", "outwards"]
            app.say("question_asked", "m", request="q", question="Which way?", options=choices)


async def none(_: ScriptedHub) -> None:
    """There is no session."""


ADDED = "--- /dev/null\n+++ b/CHANGES.md\n@@ -0,0 +1,2 @@\n+# Changes\n+- Free from 50.00 on."
MENDED = """--- a/shop/basket.py
+++ b/shop/basket.py
@@ -4,6 +4,6 @@ def total(prices):
     whole = sum(prices)
-    if whole > FREE_FROM:
+    if whole >= FREE_FROM:  # exactly that much pays nothing, as the README promises
         return whole
     return whole + SHIPPING

@@ -20,2 +20,3 @@ def shown(price):
 def shown(price):
+    assert price >= 0
     return f"{price:.2f}"
"""
COMMAND = "python3 -m unittest && echo 'a long line of what is to be run, which has no end here'"
PLAN = [
    {"status": "completed", "text": "read the README"},
    {"status": "in_progress", "text": "mend the comparison"},
    {"status": "pending", "text": "run the tests"},
]

SCENES: Mapping[str, Scene | HubScene] = {
    "empty": Scene(nothing, [], "a task, with which a run begins"),
    "team": Scene(team, [], "basket.py"),
    "tree": Scene(team, ["tab"], "fixer"),
    "filter": Scene(team, ["tab", "/", "!fix"], "filter: fix"),
    "sifted": Scene(team, ["shift+tab", "/", "!:calls bash"], "filter: :calls bash"),
    "streaming": Scene(streaming, [], "Half of a sentence"),
    "unfolded": Scene(team, ["shift+tab", "N", "n", "enter"], "arguments:"),
    "session": Scene(ended, ["!/open session\n"], "a run begins"),
    "ended": Scene(ended, [], "the run is completed"),
    "crowd": Scene(crowd, ["tab", "end"], "worker-39"),
    "hostile": Scene(hostile, [], "next"),
    "draft": Scene(team, ["!one line,", "ctrl+j", "!another one", "ctrl+t"], "queue"),
    "wrong": Scene(team, ["!/kil\n"], "did you mean"),
    "needs-you": Scene(asking, ["f2"], "time left"),
    "second-request": Scene(asking, ["f2", "?time left", "down"], "+if free:"),
    "question": Scene(questioning, ["f2"], "2. only above"),
    "nothing-waits": Scene(team, ["f2"], "Nothing waits"),
    "help": Scene(team, ["f1"], "keys and commands"),
    "sure": Scene(team, ["tab", "K"], "Kill master"),
    "changes": Scene(changed, ["f3", "?basket.py"], "pending: 3"),
    "changes-by-agent": Scene(changed, ["f3", "?basket.py", "b"], "changes by agent"),
    "change": Scene(changed, ["f3", "?basket.py", "enter", "?FREE_FROM", "n", "down"], "assert"),
    "comment": Scene(
        changed, ["f3", "?basket.py", "enter", "?FREE_FROM", "c", "!why"], "a comment on line"
    ),
    "region": Scene(
        changed,
        ["f3", "?basket.py", "enter", "?FREE_FROM", "J", "J", "c", "!both,", "ctrl+j", "!and why"],
        "a comment on lines",
    ),
    "kept": Scene(
        changed,
        ["f3", "?basket.py", "enter", "?FREE_FROM", "c", "!why", "escape", "?kept", "S"],
        "Send the comment",
    ),
    "elsewhere": HubScene(many, ["?NEEDS YOU (1)", "down", "enter", "?to master"], "elsewhere: 1"),
    "reject": Scene(changed, ["f3", "?basket.py", "x"], "Take back"),
    "no-changes": Scene(team, ["f3"], "nothing is pending"),
    "snapshots": Scene(
        kept, ["f4", "n", "!before the fix\n", "?before the fix", "enter"], "CHANGES.md"
    ),
    "palette": Scene(team, ["ctrl+p", "!mo"], "/model"),
    "models": Scene(offering, ["!/models\n", "?opus-9", "down"], "haiku-9"),
    "budget": Scene(team, ["!/budget\n"], "budget of the newest run"),
    "sessions": HubScene(many, ["?NEEDS YOU (1)"], "Which way?"),
    "sessions-none": HubScene(none, [], "none yet"),
    "new-session": HubScene(none, ["n", "!Build a shed"], "Build a shed"),
    "rename": HubScene(many, ["?NEEDS YOU (1)", "R"], "to be called"),
    "leaving": Scene(team, ["ctrl+c"], "Ctrl+C again leaves"),
}

# One scene of each screen and of each box that asks: what an SVG is made of.
SCREENS = (
    *("empty", "team", "ended", "needs-you", "question", "help", "sure", "changes", "change"),
    *("comment", "reject", "snapshots", "palette", "models", "budget"),
    *("sessions", "sessions-none", "new-session", "rename", "elsewhere"),
)


def _says(app: ScriptedApp, agent: str, text: str, message: int = 1, **more: Any) -> None:
    told: dict[str, Any] = {"turn": "t", "role": "assistant", "message": message, **more}
    app.say("message_completed", agent, text=text, **told)


def _calls(
    app: ScriptedApp, agent: str, call: str, tool: str, arguments: dict[str, Any], result: str
) -> None:
    app.say("tool_call_started", agent, call=call, tool=tool, arguments=arguments)
    done: dict[str, Any] = {"status": "completed", "duration_s": 0.4}
    app.say("tool_call_finished", agent, call=call, result=result, **done)


def _child(name: str, call: str) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name, "parent": "m", "role": "worker", "depth": 1}
    return {**told, "provider": "codex", "model": "gpt-x", "prompt": "mend it", "call": call}


@asynccontextmanager
async def shown(scene: Scene | HubScene, variant: Variant) -> AsyncIterator[Eyes]:
    """Show a scene; the environment says whether there are colours, and which time it is where."""
    from prsm_tui.screen.themes import THEMES

    told = {"TZ": "UTC", "NO_COLOR": None if variant.has_colours else "1"}
    with _environment(told):
        async with _opened(scene, variant) as eyes:
            eyes.tui.theme = THEMES[variant.theme]
            for key in scene.keys:
                await _do(eyes, key)
            await eyes.sees(scene.sees)
            await _still(eyes)
            yield eyes


@asynccontextmanager
async def _opened(scene: Scene | HubScene, variant: Variant) -> AsyncIterator[Eyes]:
    """Open the screen of a scene, with all that it tells on it."""
    from plugins.prsm_tui.tests.hub_scenes import watching_hub
    from plugins.prsm_tui.tests.scenes import watching

    if isinstance(scene, HubScene):
        hub = ScriptedHub(RunOptions(workspace="/work"))
        await scene.tell(hub)
        async with watching_hub(hub, size=variant.size, clock=lambda: NOW) as eyes:
            yield eyes
        await hub.aclose()
        return
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app, size=variant.size, clock=lambda: NOW) as eyes:
        scene.tell(app)
        await eyes.until(lambda: eyes.session.seq == app._seq, "all events")
        yield eyes


@contextmanager
def _environment(told: Mapping[str, str | None]) -> Iterator[None]:
    """Let variables have these values meanwhile; None: they are not there."""
    before = {name: os.environ.get(name) for name in told}

    def put(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        time.tzset()

    put(told)
    try:
        yield
    finally:
        put(before)


async def _do(eyes, key: str) -> None:
    doing = {"!": eyes.type, "?": eyes.sees}.get(key[0])
    await (eyes.press(key) if doing is None else doing(key[1:]))


async def _still(eyes) -> None:
    """Wait until two frames are alike."""
    before = None
    while (now := picture_of(eyes)) != before:
        before = now
        eyes.tui._draw()
        await eyes.pilot.pause(0.1)


def picture_of(eyes) -> str:
    """Return a screen as a text."""
    strips = eyes.tui.screen._compositor.render_strips()
    names: dict[str, str] = {}
    letters = iter(string.ascii_letters + string.digits)
    marks = []
    for strip in strips:
        marked = ""
        for segment in strip:
            style = str(segment.style or "")
            if style not in names:
                names[style] = next(letters)
            marked += names[style] * segment.cell_length
        marks.append(marked)
    width = max(map(len, marks), default=0)
    rows = [f"|{strip.text}|" for strip in strips]
    legend = [f"{letter}: {style}" for style, letter in names.items()]
    return "\n".join(["-" * (width + 2), *rows, "-" * (width + 2), *marks, *legend]) + "\n"


def _write(name: str, picture: str, svg: str) -> None:
    (FOLDER / f"{name}.txt").write_text(picture, encoding="utf-8")
    if sys.argv[1:]:
        Path(sys.argv[1], f"{name}.svg").write_text(svg, encoding="utf-8")


async def main() -> None:
    """Write all pictures; in a folder that is named, also as SVG."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, scene in SCENES.items():
        for kind, variant in VARIANTS.items():
            async with shown(scene, variant) as eyes:
                _write(f"{name}-{kind}", picture_of(eyes), eyes.tui.export_screenshot())


if __name__ == "__main__":
    asyncio.run(main())

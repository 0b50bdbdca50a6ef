"""What stands at the edges of the screen is seen: no bar covers it."""

from __future__ import annotations

import string

from prsm_testing import ScriptedApp

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.interfaces.frontend import RunOptions


async def test_the_last_sign_of_a_row_is_not_behind_the_bar():
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app, size=(80, 24)) as eyes:
        app.spawn()
        text = (string.ascii_letters + string.digits) * 20
        app.say("message_completed", "m", turn="t", role="assistant", text=text, message=1)
        await eyes.sees("* abc")
        rows = [line[2:].rstrip(" ▁▂▃▄▅▆▇█▎") for line in eyes.text.splitlines()]
        begin = next(n for n, line in enumerate(eyes.text.splitlines()) if line.startswith("* "))
        assert text.startswith("".join(rows[begin : begin + 10]))


async def test_the_last_sign_of_a_list_is_not_behind_its_bar():
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app, size=(120, 12)) as eyes:
        app.spawn()
        for number in range(30):
            app.spawn(f"w{number}", f"worker-{number}", "m")
        await eyes.sees("worker-5")
        width = eyes.tui.panes.agents.region.width
        rows = [line[:width] for line in eyes.text.splitlines() if "worker-" in line]
        assert all(row.rstrip(" ▁▂▃▄▅▆▇█▎│").endswith("? ?") for row in rows), rows

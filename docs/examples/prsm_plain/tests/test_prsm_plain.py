"""The frontend keeps the contract, and names who speaks."""

import asyncio

from prsm_plain import PlainFrontend
from prsm_testing import FrontendContract


class TestPlain(FrontendContract):
    def build(self, settings):
        return PlainFrontend(settings)

    async def test_a_message_has_the_name_of_its_agent(self, prsm_app, capsys):
        async with asyncio.TaskGroup() as group:
            group.create_task(self.build({}).run(prsm_app))
            await prsm_app.started()
            prsm_app.spawn("w", "w1")
            prsm_app.say("message_completed", "w", turn="t", role="assistant", text="three")
            prsm_app.finish()
        assert capsys.readouterr().out == "w1: three\nAll done.\n"

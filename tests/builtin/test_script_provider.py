"""The script provider: the contract of every provider, and what its own steps do."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prsm_core.builtin.script.playback import Conversation, Player
from prsm_core.builtin.script.reading import SCRIPT_KEYS
from prsm_core.builtin.script.scenario import Scenario
from prsm_core.builtin.script_provider import ScriptProvider, build
from prsm_core.testing.harmless_contract import HarmlessContract
from prsm_core.testing.provider_contract import Stage


@dataclass(frozen=True)
class Request:
    conversation: Conversation


class WatchedPlayer(Player):
    """A player that keeps what it is asked."""

    def __init__(self, scenario):
        super().__init__(scenario)
        self.requests = []
        self._asked = asyncio.Event()

    def answer(self, conversation):
        self.requests.append(Request(conversation))
        self._asked.set()
        return super().answer(conversation)

    async def wait_for_requests(self, count):
        async with asyncio.timeout(10):
            while len(self.requests) < count:
                self._asked.clear()
                await self._asked.wait()


QUESTION = {"ask_user": {"question": "A or B?", "options": ["A", "B"]}}


class TestScriptProvider(HarmlessContract):
    question_step = QUESTION

    def build(self, settings, services):
        if "player" in settings:
            return ScriptProvider(lambda: settings["player"], services)
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        player = WatchedPlayer(Scenario.from_mapping(scenario, keys=SCRIPT_KEYS))
        yield Stage(model=player, settings={"player": player})

    def without_program(self, settings):
        return {"scenario": "no-such-scenario.yaml"}

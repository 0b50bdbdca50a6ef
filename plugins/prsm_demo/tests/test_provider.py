"""The script provider: the contract of every provider, and what its own steps do."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prsm_demo.provider import ScriptProvider, build
from prsm_demo.script.playback import Conversation, Player
from prsm_demo.script.reading import SCRIPT_KEYS
from prsm_demo.script.scenario import Scenario
from prsm_testing.provider_contract import HarmlessContract, Stage


@dataclass(frozen=True)
class Request:
    conversation: Conversation


class Watch:
    """A model made of players, one for each provider: what all of them are asked."""

    def __init__(self, scenario):
        self._scenario = Scenario.from_mapping(scenario, keys=SCRIPT_KEYS)
        self._players = []
        self._asked = asyncio.Event()
        self.requests = []

    @property
    def failures(self):
        return [failure for player in self._players for failure in player.failures]

    def player(self):
        """Return a player that knows of no other, as in a process of its own."""
        player = WatchedPlayer(self._scenario, self)
        self._players.append(player)
        return player

    def ask(self, conversation):
        self.requests.append(Request(conversation))
        self._asked.set()

    async def wait_for_requests(self, count):
        async with asyncio.timeout(10):
            while len(self.requests) < count:
                self._asked.clear()
                await self._asked.wait()


class WatchedPlayer(Player):
    def __init__(self, scenario, watch):
        super().__init__(scenario)
        self._watch = watch

    def answer(self, conversation):
        self._watch.ask(conversation)
        return super().answer(conversation)


QUESTION = {"ask_user": {"question": "A or B?", "options": ["A", "B"]}}


class TestScriptProvider(HarmlessContract):
    question_step = QUESTION
    gives_again = True
    resume = "call"

    def build(self, settings, services):
        if "watch" in settings:
            return ScriptProvider(settings["watch"].player, services, resume=self.resume)
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        watch = Watch(scenario)
        yield Stage(model=watch, settings={"watch": watch})

    def without_program(self, settings):
        return {"scenario": "no-such-scenario.yaml"}


class TestScriptThatKeepsItsThread(TestScriptProvider):
    """… and nothing else: what its calls were answered is told by a prompt."""

    resume = "native"

"""Does what a command says, or says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_tui.commands import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_tui.acts import Acts
    from prsm_tui.commands import Typed
    from prsm_tui.hub_acts import HubActs
    from prsm_tui.model.agents import Agent
    from prsm_tui.screen.app import Tui


class Commanding:
    """Knows what each command is; each returns why it was not done, blank if it was."""

    def __init__(self, tui: Tui, acts: Acts) -> None:
        self._tui = tui
        self._acts = acts
        self._doing: Mapping[str, Callable[[str], str]] = {
            "help": self._help,
            "open": self._open,
            "kill": self._kill_named,
            "restart": self._restart,
            "stop": self._stop,
            "budget": lambda _: self._go("budget"),
            "model": self._model,
            "models": lambda _: self._go("models"),
            "providers": lambda _: self._go("providers"),
            "policy": lambda _: self._go("policy"),
            "settings": lambda _: self._go("settings"),
            "mode": self._mode,
            "attach": self._attach,
            "fork": self._fork,
            "changes": lambda _: self._go("changes"),
            "snapshot": self._snapshot,
            "quit": self._quit,
            "sessions": self._many(lambda many, _: many.leave()),
            "new": self._many(lambda _, folder: self._tui.begin_new(folder)),
            "resume": self._many(lambda many, _: many.resume(self._tui.session.id)),
            "rename": self._many(lambda many, name: many.rename(self._tui.session.id, name)),
            "export": self._export,
        }

    def do(self, command: Typed) -> str:
        """Do what a command says."""
        doing = self._doing.get(command.name)
        return unknown(command.name) if doing is None else doing(command.rest)

    def kill(self, agent_id: str) -> str:
        """Kill an agent and all below it, once the person is sure."""
        session = self._tui.session
        agent = session.agents[agent_id]
        if not agent.is_live:
            return f"{agent.name} has ended already"
        below = sum(one.is_live for one in session.below(agent_id))
        others = f" and the {below} below it" if below else ""
        self._tui.ask(f"Kill {agent.name}{others}?", lambda: self._acts.kill(agent_id))
        return ""

    def _help(self, _: str) -> str:
        self._tui.action_help()
        return ""

    def _open(self, name: str) -> str:
        if name == "session":
            self._tui.choose(None)
            return ""
        agent = self._named(name)
        if agent is None or not name:
            return f"there is no agent {name}" if name else "which agent? /open AGENT"
        self._tui.choose(agent.id)
        return ""

    def _kill_named(self, name: str) -> str:
        agent = self._named(name)
        if agent is None:
            return f"there is no agent {name}" if name else "no agent is chosen"
        return self.kill(agent.id)

    def _restart(self, prompt: str) -> str:
        agent = self._named("")
        if agent is None or agent.is_live or not prompt:
            return "choose an agent that has ended, then: /restart TEXT"
        self._acts.restart(agent.id, prompt)
        return ""

    def _stop(self, _: str) -> str:
        self._tui.ask("End the run as interrupted? Its agents are killed.", self._acts.stop)
        return ""

    def _model(self, name: str) -> str:
        if not name:
            return self._go("models")
        self._acts.looks.choose_model(name, self._tui.chosen)
        return ""

    def _mode(self, name: str) -> str:
        self._acts.mode(name)
        return ""

    def _attach(self, image: str) -> str:
        self._acts.attach(image)
        return ""

    def _fork(self, _: str) -> str:
        self._acts.fork()
        return ""

    def _export(self, output: str) -> str:
        many, session = self._tui.many, self._tui.session.id
        if many is None:
            return f"from here nothing is exported: `prsm export {session}` writes it"
        if not output:
            return "to which file? /export FILE"
        many.export(session, output)
        return ""

    def _many(self, act: Callable[[HubActs, str], None]) -> Callable[[str], str]:
        """Return what does something with whole sessions, where there are many."""

        def do(rest: str) -> str:
            if self._tui.many is None:
                return "this shows one session: `prsm` alone shows all, and can do that"
            act(self._tui.many, rest)
            return ""

        return do

    def _go(self, place: str) -> str:
        self._tui.action_place(place)
        return ""

    def _snapshot(self, description: str) -> str:
        if description:
            self._acts.files.take_snapshot(description)
            return ""
        return self._go("snapshots")

    def _quit(self, _: str) -> str:
        self._tui.action_leave()
        return ""

    def _named(self, name: str) -> Agent | None:
        """Return the agent of a name, the newest of several; without one, the chosen one."""
        agents = self._tui.session.agents
        if not name:
            return agents.get(self._tui.chosen or "")
        fitting = [agent for agent in agents.values() if agent.name == name.removeprefix("@")]
        return fitting[-1] if fitting else None

"""The user's own Claude Code asks its user: forms of `prsm mcp` in the real terminal of the CLI."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.test_claude_master import TASK, call, claude, ended, master, place, server_entry

__all__ = ["claude", "place"]  # fixtures
pytestmark = pytest.mark.live

AT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"  # before what is chosen
IDLE = "manual mode on"  # below the line to type in
TAKEN_S = 6.0  # within which a key that was taken has its effect on the screen of a busy machine
DEADLINE_S = 120.0  # for the CLI to draw what is waited for, on a busy machine
SHELL = {"shell": {"id": "made", "cmd": "make it"}}
REFUSED = [SHELL, {"say": "no: ${made.reason}"}]
QUESTION = [
    {"call": {"id": "said", "tool": "ask_user", "arguments": {"question": "Which colour?"}}},
    {"say": "it is ${said.text}"},
]
# So that the CLI asks its user for no theme, no trust and no leave to use the key.
ONBOARDED = {
    "hasCompletedOnboarding": True,
    "customApiKeyResponses": {"approved": ["loopback"], "rejected": []},
}


class Screen:
    """Claude Code in a terminal of tmux, 80 columns wide."""

    def __init__(self, place, argv, env):
        self._place, self._env = place, env
        self._head = ("tmux", "-S", str(place.home.parent / "tmux"), "-f", "/dev/null")
        self._argv = argv

    async def __aenter__(self):
        size = ("-x", "80", "-y", "40")
        await self._tmux("new-session", "-d", *size, shlex.join(self._argv))
        return self

    async def __aexit__(self, *error):
        await self._tmux("kill-server")

    async def press(self, *keys):
        """Press keys, by the names that tmux has for them."""
        await self._tmux("send-keys", *keys)

    async def text(self):
        """Return what is on the screen."""
        return (await self._tmux("capture-pane", "-p")).replace("\N{NO-BREAK SPACE}", " ")

    async def shows(self, *texts, key=None, over=""):
        """Wait until the screen shows all of these.

        With a `key` it is pressed until then: what has just been drawn takes none yet. With
        `over` it is pressed only while that is shown: after it the key means something else.
        """
        text, loop = "", asyncio.get_running_loop()
        pressed = loop.time() - TAKEN_S
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not all(each in text for each in texts):
                    is_due = key is not None and loop.time() - pressed >= TAKEN_S
                    if is_due and over in await self.text():
                        await self.press(key)
                        pressed = loop.time()
                    text = await self.text()
        except TimeoutError:
            pytest.fail(f"not shown: {texts}\n{text}")

    async def _tmux(self, *words):
        process = await asyncio.create_subprocess_exec(
            *self._head,
            *words,
            cwd=self._place.workspace,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return out.decode(errors="replace")


@pytest.fixture
def asked(claude, place):
    """Open Claude Code on a task whose one child asks; the model says what the child says."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    projects = {str(place.workspace): {"hasTrustDialogAccepted": True}}
    folder = place.home.parent / "claude" / "config"
    folder.mkdir()
    folder.joinpath(".claude.json").write_text(json.dumps({**ONBOARDED, "projects": projects}))

    def opened(server, steps, *args):
        place.script(maker=steps)
        script = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
        servers = {"mcpServers": {"prsm": server_entry(place, *script, *args)}}
        argv = (
            *(claude, "--model", "scripted-1", "--permission-mode", "default"),
            *("--mcp-config", json.dumps(servers), "--strict-mcp-config"),
            *("--allowedTools", "mcp__prsm"),
        )
        kept = {name: text for name, text in place.env.items() if not name.startswith("ANTHROPIC")}
        own = {"ANTHROPIC_BASE_URL": server.root_url, "ANTHROPIC_API_KEY": "loopback"}
        return Screen(place, argv, {**kept, **own, "TERM": "xterm-256color"})

    return opened


SCENARIO = master(
    {"call": call("spawn_child", name="maker", prompt="Make.")},
    {"call": call("wait_for_message")},
    {"say": "The child says <${wait_for_message.summary}>"},
)


async def begin(screen):
    """Give the task once the CLI has its tools: before that it works without them."""
    await screen.shows(AT, IDLE)
    await screen.press("-l", "/mcp")
    await screen.shows("Manage MCP servers")
    await screen.press("Enter")
    await screen.shows("\N{HEAVY CHECK MARK} prsm", "Esc to close")
    await screen.press("Escape")
    await screen.shows(AT, IDLE)
    await screen.press("-l", TASK)
    await screen.shows(f"{AT} {TASK}")
    await screen.press("Enter")


@pytest.mark.requirement("D9", "D7")
@pytest.mark.parametrize(("choices", "verdict"), [(0, "once"), (1, "always"), (2, "deny")])
async def test_a_permission_that_the_user_accepts_in_claude_code_is_what_they_chose(
    asked, place, choices, verdict
):
    async with ModelServer(SCENARIO) as server, asked(server, [SHELL, {"say": "over"}]) as screen:
        await begin(screen)
        await screen.shows("requests your input", "maker asks permission for Bash", "| make it")
        await screen.press("Right")
        await screen.shows("allow once", "always allow, in this run", "deny")
        await screen.press(*["Down"] * choices, "Enter")
        await screen.shows("✔ May it?", f"{AT} Accept")
        await screen.shows("The child says <over>", key="Enter")
        assert server.failures == []
    await ended(place)
    [resolved] = await place.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == (verdict, "user")
    assert resolved["via"] == "elicitation, claude-code"


async def test_what_the_user_declines_in_claude_code_is_refused(asked, place):
    async with ModelServer(SCENARIO) as server, asked(server, REFUSED) as screen:
        await begin(screen)
        await screen.shows("| make it", f"{AT} * May it?")
        await screen.press("Down", "Right")
        await screen.shows(f"{AT} Decline")
        await screen.shows("The child says <no: the user refused it>", key="Enter")
    await ended(place)
    [resolved] = await place.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "user")
    assert resolved["via"] == "elicitation, claude-code"


async def test_what_the_user_dismisses_in_claude_code_stays_open_and_is_not_put_again(asked, place):
    """Here nobody else comes, so that it is refused after a while."""
    alone = ("--unattended", "3")
    async with ModelServer(SCENARIO) as server, asked(server, REFUSED, *alone) as screen:
        await begin(screen)
        await screen.shows("| make it", "Esc to cancel")
        await screen.shows(
            "The child says <no:", "nobody was attached", key="Escape", over="| make it"
        )
    await ended(place)
    [resolved] = await place.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "unattended")


@pytest.mark.requirement("D10")
async def test_a_question_is_answered_in_claude_code(asked, place):
    async with ModelServer(SCENARIO) as server, asked(server, QUESTION) as screen:
        await begin(screen)
        await screen.shows("requests your input", "Which colour?")
        await screen.press("-l", "a warm red")
        await screen.shows("a warm red")
        await screen.press("Down")
        await screen.shows(f"{AT} Accept")
        await screen.shows("The child says <it is a warm red>", key="Enter")
    await ended(place)
    [answered] = await place.events("question_answered")
    assert (answered["answer"]["text"], answered["via"]) == (
        "a warm red",
        "elicitation, claude-code",
    )

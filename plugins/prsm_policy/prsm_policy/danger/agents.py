"""Programs that start agents outside the tree, however they are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_policy.shell import Command

# They are agents, or hand a prompt to one, whatever they are told.
AGENTS = word_set(
    "claude codex gemini aider opencode goose amp cursor-agent crush qwen qwen-code droid auggie"
    " copilot kimi kiro-cli kiro q openhands plandex pi llm interpreter open-interpreter"
    " gptme mods aichat sgpt shell_gpt tgpt fabric codebuff vibe grok iflow kode trae-cli"
    " rovodev sweagent swe-agent mini-swe-agent mini gpte gpt-engineer gpt-pilot metagpt autogpt"
    " crewai letta hermes openclaw clawdbot moltbot nanobot ccr claude-code claude-squad gemini-cli"
    " cagent jules devin ra-aid cody tabnine kilocode kilo cline cn octofriend nanocoder deepagents"
    " smolagent smol-developer chatgpt ask-gpt chatblade butterfish oterm elia rawdog codel"
    " opencommit bolt-cli cosine zencoder qodo qodo-gen refact commandcode letta-code"
    " vtcode groq-code-cli mistral-vibe gpt-cli tenere parllama open-codex codexai auto-gpt"
    " junie kimi-cli grok-cli fast-agent pdx"
)
_INFORM = word_set("--version -v -V --help -h help version doctor")
# Modules of Python that are such programs.
_MODULES = word_set(
    "aider openhands llm interpreter gptme sweagent minisweagent autogpt metagpt crewai smolagents"
    " gpt_engineer pilot sgpt shell_gpt letta ra_aid mentat claude_agent_sdk open_interpreter"
    " opendevin devika agentless plandex codel swe_agent openinterpreter"
)
# Programs that start one behind these words, of which each line is a beginning.
_BEHIND: Mapping[str, frozenset[str]] = {
    "ollama": word_set("launch"),
    "cursor": word_set("agent"),
    "gh": word_set("copilot agent-task agent models"),
    "docker": word_set("ai agent model-agent sandbox"),
    "warp": word_set("agent"),
    "oz": word_set("agent"),
    "warp-cli": word_set("agent"),
    "acli": word_set("rovodev"),
    "code": word_set("chat"),
    "lms": word_set("agent"),
    "zed": word_set("--agent"),
    "hf": word_set("agents"),
    "tiny-agents": word_set("run"),
    "langgraph": word_set("dev up"),
    "az": word_set("ai"),
}
# In the path of a script of node, say.
_PACKAGE = re.compile(
    r"(?:^|/)(?:claude-code|@openai/codex|@google/gemini-cli|opencode-ai|@sourcegraph/amp"
    r"|@qwen-code/qwen-code|@charmland/crush|@github/copilot|@anthropic-ai/claude-agent-sdk"
    r"|@augmentcode/auggie|@kilocode/cli|@continuedev/cli|@factory/cli|cline|openclaw)(?:/|$)"
)
_RUN_SCRIPTS = re.compile(r"(?:node|nodejs|bun|deno|tsx|ts-node|python|pypy)[0-9.]*")
# Bridges and variants of the best known.
_KIN = re.compile(r"(?:claude|codex|gemini|opencode|openhands|aider|cursor-agent|qwen)-[\w.-]+")
_PROMPTS = word_set("-p --print --prompt -x --execute")


def agent_danger(command: Command) -> str | None:
    """Return why a command starts an agent that PRSM does not see."""
    return "starts an agent outside the tree" if _starts(command) else None


def _starts(command: Command) -> bool:
    name, arguments = command.name, command.texts[1:]
    if name in AGENTS or _KIN.fullmatch(name):
        return not (len(arguments) == 1 and arguments[0] in _INFORM)
    if name in {"agent", "forge"}:  # of Cursor and ForgeCode, or programs of other makers
        return not _PROMPTS.isdisjoint(arguments)
    if name in _BEHIND:
        return any(text in _BEHIND[name] for text in arguments[:1])
    if not _RUN_SCRIPTS.fullmatch(name):
        return False
    for before, text in zip(("", *arguments[:5]), arguments[:5], strict=False):
        module = text if before == "-m" else text[2:] if text[:2] == "-m" else ""
        if module.partition(".")[0] in _MODULES or _PACKAGE.search(text):
            return True
        if "/" in text and text.rpartition("/")[2] in AGENTS:
            return True
    return False

"""The settings: every key that a configuration may hold, its type, default and meaning.

Where the values of settings stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    StrictBool,
    model_validator,
)

from prsm_core.config.limits import BoxSettings, BudgetSettings, ContextSettings, StuckSettings
from prsm_core.config.provider_section import ProviderSection
from prsm_core.config.values import (
    AllowRule,
    Count,
    CountOrZero,
    Factor,
    InnerPath,
    Rule,
    Score,
    Seconds,
    Section,
    TaskCategory,
    Temperature,
    Text,
    ToolName,
    ToolVerdict,
    VariableName,
    VariableNames,
    Words,
    none_is_empty,
    off_as_text,
)
from prsm_core.domain.agents import AgentRole, ExpertProfile, PermissionMode
from prsm_core.domain.models import ModelTier
from prsm_core.domain.record import Labelled
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS, McpServer

if TYPE_CHECKING:
    from prsm_core.config.document import KeyPath


class Places(Labelled, frozen=True, eq=False):
    """Where values stand; that two settings were written in different files makes no difference."""

    origin: Callable[[KeyPath], str] = lambda _: ""

    _labels: ClassVar[frozenset[str]] = frozenset({"origin"})


class EngineSettings(Section):
    """Limits and clocks of the engine."""

    master: Literal["delegate", "solo"] = Field(
        default="delegate",
        description="delegate: the master only reads, and spawns agents for all else; solo: it "
        "edits files and runs commands itself, in the run's mode, and may still spawn agents. A "
        "protocol may ask for solo, too.",
    )
    max_agent_depth: CountOrZero = Field(
        default=5, description="How deep the tree may grow below the master."
    )
    max_concurrent_agents: Count = Field(
        default=10, description="Agents that may be active at one time."
    )
    max_agents_per_run: Count = Field(default=200, description="Agents that one run may spawn.")
    max_resident_processes: Count = Field(
        default=32,
        description="Vendor processes alive at one time. Above it, agents that wait are parked.",
    )
    agent_timeout_seconds: Seconds = Field(
        default=7200, description="Reasoning time of an agent; time in tools does not count."
    )
    tool_timeout_seconds: Seconds = Field(
        default=7200, description="Wall clock of a single tool call."
    )
    idle_timeout_seconds: Seconds = Field(
        default=900,
        description="Silence of a provider while no tool runs, after which the agent fails. It is "
        "told before: a turn without an answer after 10 seconds, later silence after 30.",
    )
    open_timeout_seconds: Seconds = Field(
        default=300,
        description="How long a provider may take to open a session, until its program and the "
        "program's tools are there; then the agent fails.",
    )
    human_timeout_seconds: Seconds = Field(
        default=3600,
        description="How long a question to a person stays open; then the answer is no.",
    )
    retry_attempts: CountOrZero = Field(
        default=5,
        description="How often a turn is tried again after a transient failure of its provider; "
        "0 is never.",
    )
    limits: Literal["ask", "wait", "end"] = Field(
        default="ask",
        description="What is done when a login has expired, or a usage limit or a quota is reached "
        "and no other login and no fallback is left. ask: a person is asked to log in or to wait; "
        "wait: the agent waits until the time that the vendor tells, or tries again after a minute "
        "and then less and less often; end: the run ends, and can be resumed. It also ends where "
        "nobody is there to be asked.",
    )
    gate_refusals: CountOrZero = Field(
        default=2,
        description="How often a failing gate sends an agent back before its result is taken.",
    )


class GateSettings(Section):
    """A command that must succeed before an agent's result counts as verified."""

    command: Text = Field(description="The command, run by bash without asking anyone.")
    cwd: Text | None = Field(
        default=None, description="Where it runs, if not in the workspace; relative to that."
    )
    timeout_seconds: Seconds = Field(default=600, description="How long it may take.")
    roles: tuple[AgentRole, ...] = Field(
        default=(), description="The roles it is for; empty: all of them."
    )
    required: bool = Field(
        default=True,
        description="Whether a failure counts. Otherwise it is told, and changes nothing.",
    )


class ModelAlias(Section):
    """A short name for a provider's model."""

    provider: Text = Field(description="Name of the provider.")
    model_id: Text = Field(description="The model's id at that provider.")
    reasoning_effort: Text | None = Field(
        default=None, description="How hard the model thinks, in the provider's own words."
    )
    max_response_tokens: Count | None = Field(
        default=None, description="Tokens that one answer of the model may have."
    )
    temperature: Temperature | None = Field(
        default=None, description="How freely the model chooses its words."
    )
    description: str = Field(
        default="", description="What it is for, in a few words that agents are told."
    )


def _parameters_agree(aliases: Mapping[str, ModelAlias]) -> Mapping[str, ModelAlias]:
    """Refuse two aliases that want different parameters of one model: they are the model's."""
    wanted: dict[tuple[str, str, str], tuple[object, str]] = {}
    for alias, model in aliases.items():
        for name in ("max_response_tokens", "temperature"):
            value = getattr(model, name)
            if value is None:
                continue
            other = wanted.setdefault((model.provider, model.model_id, name), (value, alias))
            if other[0] != value:
                raise ValueError(
                    f"{other[1]} and {alias} are the same model with another {name} each"
                )
    return aliases


class DefaultSettings(Section):
    """What holds when a run says nothing else."""

    model: Text | None = Field(
        default=None, description="Model: an alias, provider/model, or an id."
    )
    cwd: Text | None = Field(
        default=None,
        description="Folder that the master and its agents work in, relative to the workspace.",
    )
    provider: Text | None = Field(default=None, description="Provider of the master.")
    peer_model: Text | None = Field(
        default=None, description="The one model that agents may consult."
    )
    peer_models: tuple[Text, ...] = Field(
        default=(), description="Models that agents may consult or use."
    )
    master_model: Text | None = Field(
        default=None, description="Model of the master, instead of `model`."
    )
    fallbacks: tuple[Text, ...] = Field(
        default=(), description="Models that take over, in order, from one that keeps failing."
    )
    mode: PermissionMode = Field(
        default=PermissionMode.DEFAULT, description="How much a run does without asking."
    )

    @property
    def peers(self) -> tuple[str, ...]:
        """All peer models, each once; `peer_model` first."""
        first = (self.peer_model,) if self.peer_model else ()
        return tuple(dict.fromkeys((*first, *self.peer_models)))


class SessionSettings(Section):
    """What sessions are called that nobody has named."""

    auto_name: Literal["task", "model"] = Field(
        default="task",
        description="task: by the first words of its task; model: a model is asked once for a few "
        "words, which costs tokens, and the task is what it is called by until then.",
    )
    name_model: Text | None = Field(
        default=None,
        description="The model that is asked, a cheap one, say: an alias, provider/model, or an "
        "id; that of the run if it is left out.",
    )


class McpServerSettings(Section):
    """An MCP server that agents may use: a command over stdio, or a URL."""

    command: Text | None = Field(
        default=None, description="Program that speaks MCP on stdin and stdout."
    )
    args: tuple[str, ...] = Field(default=(), description="Arguments of the program.")
    env: Mapping[VariableName, str] = Field(
        default_factory=dict, description="Variables added to the program's environment."
    )
    url: Text | None = Field(default=None, description="Address of a server reached by HTTP.")
    headers: Mapping[Text, str] = Field(
        default_factory=dict, description="Headers sent to that server."
    )
    tags: tuple[Text, ...] = Field(
        default=(), description="Words in a prompt, or roles, for which an agent gets this server."
    )

    required: StrictBool = Field(
        default=False,
        description="Whether an agent fails without it; else it is named and left out.",
    )
    start_seconds: Seconds = Field(default=60.0, description="How long it may take to begin.")

    @model_validator(mode="after")
    def _has_one_transport(self) -> McpServerSettings:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either command or url")
        return self

    def to_server(self) -> McpServer:
        """Return the server as the engine passes it on."""
        return McpServer(
            command=self.command,
            args=self.args,
            env=dict(self.env),
            url=self.url,
            headers=dict(self.headers),
            required=self.required,
            start_seconds=self.start_seconds,
        )


class ExpertSettings(Section):
    """An agent that others may have: an expert to consult, a worker or a reviewer to spawn."""

    role: Literal["expert", "worker", "reviewer"] = Field(
        default="expert",
        description="expert: asked by consult_expert; worker, reviewer: spawned by spawn_child "
        "with its id as the profile.",
    )
    name: Text | None = Field(
        default=None, description="Its name for people; the key if it has none."
    )
    description: str = Field(default="", description="What it is good at, told to the agents.")
    system_prompt: Text = Field(description="Its system prompt.")
    tools: tuple[ToolName, ...] | None = Field(
        default=None,
        description="Native tools that it may use; else a worker all, others Glob, Grep, Read.",
    )
    model: Text | None = Field(
        default=None, description="Model: an alias, provider/model, or an id."
    )
    mcp_servers: Mapping[Text, McpServerSettings] = Field(
        default_factory=dict, description="MCP servers of this expert alone."
    )
    worktree: StrictBool | None = Field(
        default=None,
        description="Whether one that is spawned has a git worktree and a branch of its own, "
        "merged at its end; else as `workspace.worktrees` has it.",
    )

    @model_validator(mode="after")
    def _is_spawned(self) -> ExpertSettings:
        if self.worktree is not None and self.role == "expert":
            raise ValueError("worktree is of a worker or a reviewer; an expert writes nothing")
        return self

    def to_profile(self, expert_id: str) -> ExpertProfile:
        """Return the expert as the engine knows it; `model` may still be an alias."""
        role = AgentRole(self.role)
        preset = NATIVE_TOOLS if role is AgentRole.WORKER else READ_TOOLS
        return ExpertProfile(
            expert_id=expert_id,
            role=role,
            name=self.name or expert_id,
            system_prompt=self.system_prompt,
            description=self.description,
            tools=preset if self.tools is None else frozenset(self.tools),
            model=self.model,
            mcp_servers={name: server.to_server() for name, server in self.mcp_servers.items()},
            worktree=self.worktree,
        )


class PluginSettings(Section):
    """Which plugins stay off."""

    disabled: tuple[Text, ...] = Field(
        default=(), description="Names of plugins that are not loaded."
    )


class ModelOverride(Section):
    """What is known better of a model than the built-in registry does."""

    provider: Text | None = Field(default=None, description="The provider that offers the model.")
    tier: ModelTier | None = Field(default=None, description="Its rough strength.")
    affinities: Mapping[TaskCategory, Score] = Field(
        default_factory=dict, description="How well it does by task category, 0 to 1."
    )
    cost_factor: Factor | None = Field(default=None, description="Its cost; 1 is a typical model.")
    speed_factor: Factor | None = Field(
        default=None, description="Its speed; 1 is a typical model."
    )
    max_context: Count | None = Field(default=None, description="Its context window in tokens.")


class PermissionSettings(Section):
    """Who may do what. A rule is the first words of a command; deny beats ask beats allow."""

    allow: tuple[AllowRule, ...] = Field(
        default=(), description="Commands that run without asking."
    )
    ask: tuple[Rule, ...] = Field(default=(), description="Commands that always ask.")
    deny: tuple[Rule, ...] = Field(default=(), description="Commands that never run, in any mode.")
    command_policy: Text = Field(
        default="bash", description="The command policy that judges shell commands."
    )
    edits: Literal["allow", "ask"] = Field(
        default="allow", description="What becomes of edits inside the workspace in default mode."
    )
    tools: Mapping[ToolName, ToolVerdict] = Field(
        default_factory=dict, description="Verdicts on whole tools."
    )
    trusted: tuple[Text, ...] = Field(
        default=(), description="Permission checks of plugins whose Allow counts."
    )
    required: tuple[Text, ...] = Field(
        default=(), description="Permission checks of plugins without which no run starts."
    )
    require: Literal["sandbox", "approval", "pre_tool"] | None = Field(
        default=None,
        description="How far a provider must enforce the policy, or no agent is started on it.",
    )


class SandboxSettings(Section):
    """The sandbox of shell commands and gates."""

    mode: Literal["auto", "off", "require"] = Field(
        default="auto", description="auto: where it works; require: nothing runs without it."
    )
    executor: Text = Field(
        default="sandbox",
        description="The executor that shuts in commands, and programs in boxes.",
    )
    network: StrictBool = Field(default=False, description="Whether commands reach the network.")
    writable: tuple[Text, ...] = Field(
        default=(),
        description="Further paths that commands may write and reach; also .git or a socket.",
    )


class WorkspaceSettings(Section):
    """What is kept of the files that agents work on."""

    files: Text | None = Field(
        default=None,
        description="What keeps them, where more than one installed package does.",
    )
    snapshots: Annotated[Literal["auto", "off"], BeforeValidator(off_as_text)] = Field(
        default="auto",
        description="auto: the files are kept as they are before each of your prompts, by git.",
    )
    worktrees: Annotated[Literal["off", "writers"], BeforeValidator(off_as_text)] = Field(
        default="off",
        description="writers: workers that may write have a git worktree and a branch each, merged "
        "at their end; off: those that are spawned with `worktree`.",
    )
    worktree_copy: tuple[InnerPath, ...] = Field(
        default=(),
        description="Files and folders that git ignores, such as `.env`: each worktree gets a copy "
        "of what its parent has. Paths from the workspace.",
    )
    worktree_setup: Text | None = Field(
        default=None,
        description="A command, run by bash in each new worktree before its agent begins, without "
        "asking anyone; in a trusted workspace only. If it fails there is no agent.",
    )
    worktree_setup_seconds: Seconds = Field(default=300, description="How long that may take.")
    keep_snapshots: Count = Field(
        default=200, description="How many of these are kept of a folder, beside a session's own."
    )
    keep_days: Factor = Field(default=30, description="How long they are kept.")
    keep_mib: Count = Field(
        default=2048, description="MiB on the disk beyond which the older half goes."
    )


def _mode_alone(value: Any) -> Any:
    """Take `sandbox: auto` for its mode; YAML reads a plain off as false."""
    if value is False:
        value = "off"
    return {"mode": value} if isinstance(value, str) else none_is_empty(value)


# Read by the model of whatever plugin brings the entry: see plugin_settings.
PluginEntry = Annotated[Mapping[str, Any], BeforeValidator(none_is_empty)]


class JsonlSettings(Section):
    """The file to which the sink `jsonl` appends each event, a line of JSON."""

    path: Text | None = Field(
        default=None,
        description="The file, or a folder that gets a file for each run; nothing if not set.",
    )


class NotifySettings(Section):
    """How you are told, away from the terminal, that a run needs you. Read from your own files."""

    desktop: StrictBool = Field(
        default=False,
        description="By notify-send where there is a desktop, else by the terminal (OSC 9).",
    )
    command: Words | None = Field(
        default=None,
        description="By this program, run without a shell; PRSM_NOTIFY_KIND, _SESSION and _AGENT "
        "tell it what.",
    )
    webhook: Annotated[str, Field(pattern=r"^https?://")] | None = Field(
        default=None,
        description="By a POST of JSON to this address, which is hidden as secrets are.",
    )
    about: tuple[Literal["needs_you", "ended", "held"], ...] = Field(
        default=("needs_you", "ended", "held"), description="What you are told of."
    )


class Settings(Section):
    """The whole configuration."""

    engine: EngineSettings = Field(default=EngineSettings.unset(), description="Limits and clocks.")
    providers: Mapping[Text, ProviderSection] = Field(
        default_factory=dict, description="Settings of providers, by name."
    )
    models: Annotated[Mapping[Text, ModelAlias], AfterValidator(_parameters_agree)] = Field(
        default_factory=dict, description="Short names for models."
    )
    defaults: DefaultSettings = Field(
        default=DefaultSettings.unset(), description="What holds when a run says nothing else."
    )
    experts: Mapping[Text, ExpertSettings] = Field(
        default_factory=dict, description="Experts, workers and reviewers, by id."
    )
    mcp_servers: Mapping[Text, McpServerSettings] = Field(
        default_factory=dict, description="MCP servers, by name."
    )
    pass_env: tuple[VariableNames, ...] = Field(
        default=("JAVA_HOME", "GOPATH", "CARGO_HOME", "NVM_DIR", "PYENV_ROOT"),
        description="Variables of your environment that shells, MCP servers and gates have, by "
        "name or by a beginning such as CONDA_*.",
    )
    plugins: PluginSettings = Field(
        default=PluginSettings.unset(), description="Plugins that stay off."
    )
    sinks: Mapping[Text, PluginEntry] = Field(
        default_factory=dict, description="Settings of event sinks, by name."
    )
    checks: Mapping[Text, PluginEntry] = Field(
        default_factory=dict, description="Settings of permission checks of plugins, by name."
    )
    scorers: Mapping[Text, PluginEntry] = Field(
        default_factory=dict, description="Settings of model scorers, by name."
    )
    frontends: Mapping[Text, PluginEntry] = Field(
        default_factory=dict, description="Settings of frontends, by name."
    )
    tools: Mapping[Text, PluginEntry] = Field(
        default_factory=dict, description="Settings of tools of plugins, by name."
    )
    model_registry: Mapping[Text, ModelOverride] = Field(
        default_factory=dict, description="What is known of models, by model id."
    )
    permissions: PermissionSettings = Field(
        default=PermissionSettings.unset(), description="Rules on commands and tools."
    )
    sandbox: Annotated[SandboxSettings, BeforeValidator(_mode_alone)] = Field(
        default=SandboxSettings.unset(), description="What shell commands and gates can reach."
    )
    box: BoxSettings = Field(
        default=BoxSettings.unset(), description="What the processes of agents may use and see."
    )
    workspace: WorkspaceSettings = Field(
        default=WorkspaceSettings.unset(), description="What is kept of the files."
    )
    stuck: StuckSettings = Field(
        default=StuckSettings.unset(), description="When an agent counts as stuck."
    )
    context: ContextSettings = Field(
        default=ContextSettings.unset(), description="How much of a model's window is filled."
    )
    sessions: SessionSettings = Field(
        default=SessionSettings.unset(), description="What sessions are called."
    )
    gates: Mapping[Text, GateSettings] = Field(
        default_factory=dict, description="Commands that results have to pass, by name."
    )
    budgets: BudgetSettings = Field(
        default=BudgetSettings.unset(),
        description="What one run may use up; each run of a session has all of it.",
    )
    notify: NotifySettings = Field(
        default=NotifySettings.unset(), description="How you are told that a run needs you."
    )

    # What the models of plugins call secret; PRSM's own names of secrets are known by others.
    _plugin_secrets: tuple[str, ...] = PrivateAttr(default=())
    _places: Places = PrivateAttr(default=Places())

    @property
    def plugin_secrets(self) -> tuple[str, ...]:
        """The values in the sections of plugins that their own models call secret."""
        return self._plugin_secrets

    def place_of(self, path: KeyPath) -> str:
        """Return the file and line that set a value, a variable or an option; "" if not known."""
        return self._places.origin(path)

    def keep_places(self, origin: Callable[[KeyPath], str]) -> None:
        """Take from now on the places of values from this function."""
        self._places = Places(origin)

    def keep_secret(self, values: Iterable[str]) -> None:
        """Count these values as secret from now on."""
        self._plugin_secrets = tuple({*self._plugin_secrets, *values})

    def provider_settings(self, name: str) -> dict[str, Any]:
        """Return what is set for a provider as plain JSON values; empty if nothing is.

        Keys that the core does not know are in it as they were written: they are the plugin's.
        """
        section = self.providers.get(name)
        if section is None:
            return {}
        return section.model_dump(mode="json", exclude_unset=True, exclude={"kind"})

    def expert_profiles(self) -> dict[str, ExpertProfile]:
        """Return the experts by id."""
        return {name: expert.to_profile(name) for name, expert in self.experts.items()}

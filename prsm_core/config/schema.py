"""The settings: every key that a configuration may hold, its type, default and meaning."""

# Annotations are values here, not texts: msgspec would have to evaluate each of these.
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, field, json, to_builtins
from msgspec.structs import asdict, replace

from prsm_core.config.document import KeyPath
from prsm_core.config.limits import BoxSettings, BudgetSettings, ContextSettings, StuckSettings
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
    ToolVerdict,
    VariableName,
    VariableNames,
    WebAddress,
    Words,
    check_tool_names,
)
from prsm_core.domain.agents import AgentRole, ExpertProfile, PermissionMode
from prsm_core.domain.models import ModelTier
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS, McpServer


class EngineSettings(Section, frozen=True, kw_only=True):
    """Limits and clocks of the engine.

    Attributes:
        master: delegate: the master only reads, and spawns agents for all else; solo: it edits
            files and runs commands itself, in the run's mode, and may still spawn agents. A
            protocol may ask for solo, too.
        max_agent_depth: How deep the tree may grow below the master.
        max_concurrent_agents: Agents that may be active at one time.
        max_agents_per_run: Agents that one run may spawn.
        max_resident_processes: Vendor processes alive at one time. Above it, agents that wait are
            parked.
        agent_timeout_seconds: Reasoning time of an agent; time in tools does not count.
        tool_timeout_seconds: Wall clock of a single tool call.
        idle_timeout_seconds: Silence of a provider while no tool runs, after which the agent fails.
            It is told before: a turn without an answer after 10 seconds, later silence after 30.
        open_timeout_seconds: How long a provider may take to open a session, until its program and
            the program's tools are there; then the agent fails.
        human_timeout_seconds: How long a question to a person stays open; then the answer is no.
        retry_attempts: How often a turn is tried again after a transient failure of its provider; 0
            is never.
        limits: What is done when a login has expired, or a usage limit or a quota is reached and no
            other login and no fallback is left. ask: a person is asked to log in or to wait; wait:
            the agent waits until the time that the vendor tells, or tries again after a minute and
            then less and less often; end: the run ends, and can be resumed. It also ends where
            nobody is there to be asked.
        gate_refusals: How often a failing gate sends an agent back before its result is taken.
    """

    master: Literal["delegate", "solo"] = "delegate"
    max_agent_depth: CountOrZero = 5
    max_concurrent_agents: Count = 10
    max_agents_per_run: Count = 200
    max_resident_processes: Count = 32
    agent_timeout_seconds: Seconds = 7200.0
    tool_timeout_seconds: Seconds = 7200.0
    idle_timeout_seconds: Seconds = 900.0
    open_timeout_seconds: Seconds = 300.0
    human_timeout_seconds: Seconds = 3600.0
    retry_attempts: CountOrZero = 5
    limits: Literal["ask", "wait", "end"] = "ask"
    gate_refusals: CountOrZero = 2


class GateSettings(Section, frozen=True, kw_only=True):
    """A command that must succeed before an agent's result counts as verified.

    Attributes:
        command: The command, run by bash without asking anyone.
        cwd: Where it runs, if not in the workspace; relative to that.
        timeout_seconds: How long it may take.
        roles: The roles it is for; empty: all of them.
        required: Whether a failure counts. Otherwise it is told, and changes nothing.
    """

    command: Text
    cwd: Text | None = None
    timeout_seconds: Seconds = 600.0
    roles: tuple[AgentRole, ...] = ()
    required: bool = True


class ModelAlias(Section, frozen=True, kw_only=True):
    """A short name for a provider's model.

    Attributes:
        provider: Name of the provider.
        model_id: The model's id at that provider.
        reasoning_effort: How hard the model thinks, in the provider's own words.
        max_response_tokens: Tokens that one answer of the model may have.
        temperature: How freely the model chooses its words.
        description: What it is for, in a few words that agents are told.
    """

    provider: Text
    model_id: Text
    reasoning_effort: Text | None = None
    max_response_tokens: Count | None = None
    temperature: Temperature | None = None
    description: str = ""


class DefaultSettings(Section, frozen=True, kw_only=True):
    """What holds when a run says nothing else.

    Attributes:
        model: Model: an alias, provider/model, or an id.
        cwd: Folder that the master and its agents work in, relative to the workspace.
        provider: Provider of the master.
        peer_model: The one model that agents may consult.
        peer_models: Models that agents may consult or use.
        master_model: Model of the master, instead of `model`.
        fallbacks: Models that take over, in order, from one that keeps failing.
        mode: How much a run does without asking.
    """

    model: Text | None = None
    cwd: Text | None = None
    provider: Text | None = None
    peer_model: Text | None = None
    peer_models: tuple[Text, ...] = ()
    master_model: Text | None = None
    fallbacks: tuple[Text, ...] = ()
    mode: PermissionMode = PermissionMode.DEFAULT

    @property
    def peers(self) -> tuple[str, ...]:
        """All peer models, each once; `peer_model` first."""
        first = (self.peer_model,) if self.peer_model else ()
        return tuple(dict.fromkeys((*first, *self.peer_models)))


class SessionSettings(Section, frozen=True, kw_only=True):
    """What sessions are called that nobody has named.

    Attributes:
        auto_name: task: by the first words of its task; model: a model is asked once for a few
            words, which costs tokens, and the task is what it is called by until then.
        name_model: The model that is asked, a cheap one, say: an alias, provider/model, or an id;
            that of the run if it is left out.
    """

    auto_name: Literal["task", "model"] = "task"
    name_model: Text | None = None


class McpServerSettings(Section, frozen=True, kw_only=True):
    """An MCP server that agents may use: a command over stdio, or a URL.

    Attributes:
        command: Program that speaks MCP on stdin and stdout.
        args: Arguments of the program.
        env: Variables added to the program's environment.
        url: Address of a server reached by HTTP.
        headers: Headers sent to that server.
        tags: Words in a prompt, or roles, for which an agent gets this server.
        required: Whether an agent fails without it; else it is named and left out.
        start_seconds: How long it may take to begin.
    """

    command: Text | None = None
    args: tuple[str, ...] = ()
    env: Mapping[VariableName, str] = field(default_factory=dict)
    url: Text | None = None
    headers: Mapping[Text, str] = field(default_factory=dict)
    tags: tuple[Text, ...] = ()

    required: bool = False
    start_seconds: Seconds = 60.0

    def __post_init__(self) -> None:
        """Refuse a server without a transport, and one with two."""
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either command or url")

    def to_server(self) -> McpServer:
        """Return the server as the engine passes it on."""
        return McpServer(**{name: getattr(self, name) for name in McpServer.__struct_fields__})


class ExpertSettings(Section, frozen=True, kw_only=True):
    """An agent that others may have: an expert to consult, a worker or a reviewer to spawn.

    Attributes:
        role: expert: asked by consult_expert; worker, reviewer: spawned by spawn_child with its id
            as the profile.
        name: Its name for people; the key if it has none.
        description: What it is good at, told to the agents.
        system_prompt: Its system prompt.
        tools: Native tools that it may use; else a worker all, others Glob, Grep, Read.
        model: Model: an alias, provider/model, or an id.
        mcp_servers: MCP servers of this expert alone.
        worktree: Whether one that is spawned has a git worktree and a branch of its own, merged at
            its end; else as `workspace.worktrees` has it.
    """

    role: Literal["expert", "worker", "reviewer"] = "expert"
    name: Text | None = None
    description: str = ""
    system_prompt: Text
    tools: tuple[Text, ...] | None = None
    model: Text | None = None
    mcp_servers: Mapping[Text, McpServerSettings] = field(default_factory=dict)
    worktree: bool | None = None

    def __post_init__(self) -> None:
        """Refuse an expert that writes, and tools by names that they do not have."""
        if self.worktree is not None and self.role == "expert":
            raise ValueError("worktree is of a worker or a reviewer; an expert writes nothing")
        check_tool_names(enumerate(self.tools or ()), "tools")

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


class PluginSettings(Section, frozen=True, kw_only=True):
    """Which plugins stay off.

    Attributes:
        disabled: Names of plugins that are not loaded.
    """

    disabled: tuple[Text, ...] = ()


class ModelOverride(Section, frozen=True, kw_only=True):
    """What is known better of a model than the built-in registry does.

    Attributes:
        provider: The provider that offers the model.
        tier: Its rough strength.
        affinities: How well it does by task category, 0 to 1.
        cost_factor: Its cost; 1 is a typical model.
        speed_factor: Its speed; 1 is a typical model.
        max_context: Its context window in tokens.
    """

    provider: Text | None = None
    tier: ModelTier | None = None
    affinities: Annotated[
        Mapping[TaskCategory, Score],
        Meta(extra_json_schema={"propertyNames": {"enum": list(get_args(TaskCategory))}}),
    ] = field(default_factory=dict)
    cost_factor: Factor | None = None
    speed_factor: Factor | None = None
    max_context: Count | None = None


class PermissionSettings(Section, frozen=True, kw_only=True):
    """Who may do what. A rule is the first words of a command; deny beats ask beats allow.

    Attributes:
        allow: Commands that run without asking.
        ask: Commands that always ask.
        deny: Commands that never run, in any mode.
        command_policy: The command policy that judges shell commands.
        edits: What becomes of edits inside the workspace in default mode.
        tools: Verdicts on whole tools.
        trusted: Permission checks of plugins whose Allow counts.
        required: Permission checks of plugins without which no run starts.
        require: How far a provider must enforce the policy, or no agent is started on it.
    """

    allow: tuple[AllowRule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    command_policy: Text = "bash"
    edits: Literal["allow", "ask"] = "allow"
    tools: Mapping[Text, ToolVerdict] = field(default_factory=dict)
    trusted: tuple[Text, ...] = ()
    required: tuple[Text, ...] = ()
    require: Literal["sandbox", "approval", "pre_tool"] | None = None

    def __post_init__(self) -> None:
        """Refuse tools by names that they do not have."""
        check_tool_names(((name, name) for name in self.tools), "tools")


class SandboxSettings(Section, frozen=True, kw_only=True):
    """The sandbox of shell commands and gates.

    Attributes:
        mode: auto: where it works; require: nothing runs without it.
        executor: The executor that shuts in commands, and programs in boxes.
        network: Whether commands reach the network.
        writable: Further paths that commands may write and reach; also .git or a socket.
    """

    mode: Literal["auto", "off", "require"] = "auto"
    executor: Text = "sandbox"
    network: bool = False
    writable: tuple[Text, ...] = ()

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Take `sandbox: auto` for its mode."""
        return {"mode": value} if isinstance(value, str) or value is False else value


class WorkspaceSettings(Section, frozen=True, kw_only=True):
    """What is kept of the files that agents work on.

    Attributes:
        files: What keeps them, where more than one installed package does.
        snapshots: auto: the files are kept as they are before each of your prompts, by git.
        worktrees: writers: workers that may write have a git worktree and a branch each, merged at
            their end; off: those that are spawned with `worktree`.
        worktree_copy: Files and folders that git ignores, such as `.env`: each worktree gets a copy
            of what its parent has. Paths from the workspace.
        worktree_setup: A command, run by bash in each new worktree before its agent begins, without
            asking anyone; in a trusted workspace only. If it fails there is no agent.
        worktree_setup_seconds: How long that may take.
        keep_snapshots: How many of these are kept of a folder, beside a session's own.
        keep_days: How long they are kept.
        keep_mib: MiB on the disk beyond which the older half goes.
    """

    files: Text | None = None
    snapshots: Literal["auto", "off"] = "auto"
    worktrees: Literal["off", "writers"] = "off"
    worktree_copy: tuple[InnerPath, ...] = ()
    worktree_setup: Text | None = None
    worktree_setup_seconds: Seconds = 300.0
    keep_snapshots: Count = 200
    keep_days: Factor = 30.0
    keep_mib: Count = 2048


# Read by the struct of whatever plugin brings the entry: see plugin_settings.
PluginEntry = Mapping[str, Any]


class JsonlSettings(Section, frozen=True, kw_only=True):
    """The file to which the sink `jsonl` appends each event, a line of JSON.

    Attributes:
        path: The file, or a folder that gets a file for each run; nothing if not set.
    """

    path: Text | None = None


class NotifySettings(Section, frozen=True, kw_only=True):
    """How you are told, away from the terminal, that a run needs you. Read from your own files.

    Attributes:
        desktop: By notify-send where there is a desktop, else by the terminal (OSC 9).
        command: By this program, run without a shell; PRSM_NOTIFY_KIND, _SESSION and _AGENT tell it
            what.
        webhook: By a POST of JSON to this address, which is hidden as secrets are.
        about: What you are told of.
    """

    desktop: bool = False
    command: Words | None = None
    webhook: WebAddress | None = None
    about: tuple[Literal["needs_you", "ended", "held"], ...] = ("needs_you", "ended", "held")


class AuthProfile(Section, frozen=True, kw_only=True):
    """One of several logins of a provider, taken in turn when another one is exhausted.

    Attributes:
        name: What the profile is called in messages.
        env: Variable that the vendor's program reads: variable that holds the value.
        home: Home directory that holds the vendor's login.
    """

    name: Text
    env: Mapping[VariableName, VariableName] = field(default_factory=dict)
    home: Text | None = None

    def __post_init__(self) -> None:
        """Refuse a profile that says nothing of a login."""
        if not self.env and self.home is None:
            raise ValueError("needs env or home")


class ProviderSettings(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A provider's section: what all providers share, and keys of the plugin's own.

    Attributes:
        kind: The installed provider that the section is of, where its own name is none.
        command: The vendor's program with its first arguments, instead of the default.
        base_url: Where the vendor's API is found.
        api_key_env: Name of the environment variable that holds the API key.
        env: Variables added to the vendor program's environment.
        models: Ids of the models that may be used.
        profiles: Logins, in order of preference.
        own: Keys of the plugin's own, as they were written.
    """

    kind: Text | None = None
    command: Words | None = None
    base_url: Text | None = None
    api_key_env: VariableName | None = None
    env: Mapping[VariableName, str] = field(default_factory=dict)
    models: tuple[Text, ...] = ()
    profiles: tuple[AuthProfile, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Put the plugin's own keys, which stand beside the others, into `own`."""
        if not isinstance(value, Mapping):
            return value
        shared = {key: value[key] for key in _SHARED if key in value}
        return {**shared, "own": {key: item for key, item in value.items() if key not in shared}}

    def as_written(self) -> dict[str, Any]:
        """Return what is set as plain JSON values, with the plugin's own keys beside the others."""
        return {**json.decode(json.encode(replace(self, own={}))), **self.own}


_SHARED = tuple(key for key in ProviderSettings.__struct_fields__ if key != "own")


class Settings(Section, frozen=True, kw_only=True, dict=True):
    """The whole configuration.

    Attributes:
        engine: Limits and clocks.
        providers: Settings of providers, by name.
        models: Short names for models.
        defaults: What holds when a run says nothing else.
        experts: Experts, workers and reviewers, by id.
        mcp_servers: MCP servers, by name.
        pass_env: Variables of your environment that shells, MCP servers and gates have, by name or
            by a beginning such as CONDA_*.
        plugins: Plugins that stay off.
        sinks: Settings of event sinks, by name.
        checks: Settings of permission checks of plugins, by name.
        scorers: Settings of model scorers, by name.
        frontends: Settings of frontends, by name.
        tools: Settings of tools of plugins, by name.
        model_registry: What is known of models, by model id.
        permissions: Rules on commands and tools.
        sandbox: What shell commands and gates can reach.
        box: What the processes of agents may use and see.
        workspace: What is kept of the files.
        stuck: When an agent counts as stuck.
        context: How much of a model's window is filled.
        sessions: What sessions are called.
        gates: Commands that results have to pass, by name.
        budgets: What one run may use up; each run of a session has all of it.
        notify: How you are told that a run needs you.
    """

    engine: EngineSettings = EngineSettings()
    providers: Mapping[Text, ProviderSettings] = field(default_factory=dict)
    models: Mapping[Text, ModelAlias] = field(default_factory=dict)
    defaults: DefaultSettings = DefaultSettings()
    experts: Mapping[Text, ExpertSettings] = field(default_factory=dict)
    mcp_servers: Mapping[Text, McpServerSettings] = field(default_factory=dict)
    pass_env: tuple[VariableNames, ...] = (
        "JAVA_HOME",
        "GOPATH",
        "CARGO_HOME",
        "NVM_DIR",
        "PYENV_ROOT",
    )
    plugins: PluginSettings = PluginSettings()
    sinks: Mapping[Text, PluginEntry] = field(default_factory=dict)
    checks: Mapping[Text, PluginEntry] = field(default_factory=dict)
    scorers: Mapping[Text, PluginEntry] = field(default_factory=dict)
    frontends: Mapping[Text, PluginEntry] = field(default_factory=dict)
    tools: Mapping[Text, PluginEntry] = field(default_factory=dict)
    model_registry: Mapping[Text, ModelOverride] = field(default_factory=dict)
    permissions: PermissionSettings = PermissionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    box: BoxSettings = BoxSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    stuck: StuckSettings = StuckSettings()
    context: ContextSettings = ContextSettings()
    sessions: SessionSettings = SessionSettings()
    gates: Mapping[Text, GateSettings] = field(default_factory=dict)
    budgets: BudgetSettings = BudgetSettings()
    notify: NotifySettings = NotifySettings()

    def __post_init__(self) -> None:
        """Refuse two aliases that want different parameters of one model: they are the model's."""
        wanted: dict[tuple[str, str, str], tuple[object, str]] = {}
        for alias, model in self.models.items():
            for name in ("max_response_tokens", "temperature"):
                value = getattr(model, name)
                if value is None:
                    continue
                key = (model.provider, model.model_id, name)
                other, first = wanted.setdefault(key, (value, alias))
                if other != value:
                    text = f"{first} and {alias} are the same model with another {name} each"
                    raise ValueError(text, "models")

    @property
    def plugin_secrets(self) -> tuple[str, ...]:
        """The values in the sections of plugins that their own structs call secret."""
        secrets: tuple[str, ...] = vars(self).get("secrets", ())
        return secrets

    def place_of(self, path: KeyPath) -> str:
        """Return the file and line that set a value, a variable or an option; "" if not known."""
        origin: Callable[[KeyPath], str] | None = vars(self).get("origin")
        return "" if origin is None else origin(path)

    def keep(self, origin: Callable[[KeyPath], str], secrets: Iterable[str]) -> None:
        """Keep where values stand, and which of them plugins call secret."""
        # In no field: no file says it, and settings are equal that stand in different places.
        vars(self).update(origin=origin, secrets=tuple(secrets))

    def provider_settings(self, name: str) -> dict[str, Any]:
        """Return a provider's settings as JSON values, with keys that only its plugin knows."""
        section = self.providers.get(name)
        if section is None:
            return {}
        return {key: value for key, value in section.as_written().items() if key != "kind"}

    def as_json(self) -> dict[str, Any]:
        """Return all settings as plain values, defaults included."""
        unset = {key: value for key, value in asdict(ProviderSettings()).items() if key != "own"}
        providers = {name: unset | each.as_written() for name, each in self.providers.items()}
        return {**to_builtins(self), "providers": providers}

    def expert_profiles(self) -> dict[str, ExpertProfile]:
        """Return the experts by id."""
        return {name: expert.to_profile(name) for name, expert in self.experts.items()}

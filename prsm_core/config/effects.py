"""What a workspace's `.prism` would do if trusted, a line for every value that is set."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_core.config.layers import ALWAYS_HELD, Layers, dotted
from prsm_core.config.loader import workspace_layers
from prsm_core.config.policy_file import workspace_policy
from prsm_core.config.secrets import SECRET_NAME
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.config.document import KeyPath
    from prsm_core.config.snapshot import Snapshot

SHOWN = 300  # characters of one value

PROGRAMS = "programs that run, and their environment"
ADDRESSES = "addresses that are reached"
ALLOWED = "what is allowed"
STRICTER = "what is asked about or denied"
TOLD = "what agents are told"
OF_PLUGINS = "what plugins are set to, and which stay off"
OTHERS = "other settings"
FILES = "other files, which a command may use"
PROBLEMS = "what cannot be used"
GROUPS = (PROGRAMS, ADDRESSES, ALLOWED, STRICTER, TOLD, OF_PLUGINS, OTHERS, FILES, PROBLEMS)

# By key path; the first that fits.
_GROUP_OF = (
    (re.compile(r".*\.(?:base_url|url|headers)\b.*"), ADDRESSES),
    (re.compile(r"pass_env|gates\..*|(?:.*\.)?mcp_servers\..*|providers\..*"), PROGRAMS),
    (re.compile(r"workspace\.worktree_(?:copy|setup).*"), PROGRAMS),
    (re.compile(r"permissions\.(?:ask|deny|require|required)\b.*"), STRICTER),
    (re.compile(r"permissions\..*|sandbox\b.*|box\b.*|defaults\.mode"), ALLOWED),
    (re.compile(r"experts\..*"), TOLD),
    (re.compile(r"(?:plugins|sinks|checks|scorers|frontends|tools)\b.*"), OF_PLUGINS),
)
_STRICTER_VALUES = {dotted(path): value for path, value in ALWAYS_HELD.items()}


@dataclass(frozen=True, slots=True, order=True)
class Effect:
    """One thing that a workspace sets, allows or brings, and the group it is told in."""

    group: str
    text: str


def effects_of(snapshot: Snapshot) -> tuple[Effect, ...]:
    """Return what a snapshot, read whole, does; never raises for what is wrong in it."""
    effects = [*_settings(snapshot), *_policy(snapshot), *_files(snapshot)]
    return tuple(sorted(effects, key=lambda effect: (GROUPS.index(effect.group), effect.text)))


def _settings(snapshot: Snapshot) -> Iterator[Effect]:
    layers = Layers()
    try:
        for layer in workspace_layers(snapshot):
            layers.add(layer)
    except ConfigError as error:
        yield Effect(PROBLEMS, error.message)
    for path, value in _leaves(layers.values, ()):
        name = dotted(path)
        group = next((group for shape, group in _GROUP_OF if shape.fullmatch(name)), OTHERS)
        if value is not None and value == _STRICTER_VALUES.get(name):
            group = STRICTER
        yield Effect(group, f"{name} = {_value(path, value)}")


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    elif path:
        yield path, value


def _value(path: KeyPath, value: Any) -> str:
    """Return a value in JSON; one that may be secret, or is long, by its hash."""
    told = json.dumps(value)
    digest = hashlib.sha256(told.encode()).hexdigest()[:12]
    if isinstance(value, str) and SECRET_NAME.search(str(path[-1])):
        return f"(hidden, sha256 {digest})"
    if len(told) <= SHOWN:
        return told
    return f"{told[:SHOWN]}… ({len(told)} characters, sha256 {digest})"


def _policy(snapshot: Snapshot) -> Iterator[Effect]:
    policy = workspace_policy(snapshot.folder.parent, snapshot)
    for rule in policy.rules:
        group = ALLOWED if rule.verdict == "allow" else STRICTER
        yield Effect(group, f"rule {rule.verdict} {json.dumps(list(rule.words))}")
    for problem in policy.problems:
        yield Effect(PROBLEMS, problem)


def _files(snapshot: Snapshot) -> Iterator[Effect]:
    for name, why in snapshot.refused.items():
        yield Effect(PROBLEMS, f"{snapshot.path(name)}: {why}")
    for name, entry in snapshot.entries.items():
        if name not in snapshot.files and entry.kind != "folder":
            size = f", {entry.size} bytes" if entry.kind == "file" else ""
            text = f"{name} ({entry.kind}{size}, sha256 {entry.digest[:12]})"
            yield Effect(FILES, text)

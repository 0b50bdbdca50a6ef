"""The provider's section of the configuration, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prsm_core import ConfigError, ModelNotAvailableError
from prsm_core.kit import (
    Key,
    Parser,
    model_of_keys,
    parse_argv,
    parse_choice,
    parse_environment,
    parse_flag,
    parse_text,
    read_section,
)

DEFAULT = "default"  # the model's name where none is meant: the program of `command`
_SECTION = "providers.program"
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SCHEMES = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramConfig:
    """Which programs there are, and how they are run.

    Attributes:
        command: The program that is run where no other is named.
        programs: Others, by the name that a run gives as its model.
        env: Variables added to the environment of all of them.
        protocols: The folder that they see as /protocols; None: that of the workspace.
        box: Whether they run in a box; the four after it are the box's limits.
        mounts: What they see of the machine besides, read-only: its path by the one inside.
        redis: The URL of the Redis by which they ask; None: a socket, and no server.
        silence: Seconds without a sign of life after which one is started again.
        restarts: How often one is started again in a state before its agent fails.
        session: Whether one goes on after a move, or is started anew in each state.
    """

    command: tuple[str, ...] | None = None
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    protocols: str | None = None
    box: bool = True
    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None
    network: bool = False
    mounts: Mapping[str, str] = field(default_factory=dict)
    redis: str | None = None
    silence: float = 300.0
    restarts: int = 3
    session: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> ProgramConfig:
        """Check the section. Raises ConfigError for an unknown key or a wrong value."""
        return cls(**read_section(_SECTION, settings, KEYS))

    @property
    def socket_of_redis(self) -> Path:
        """The socket of a Redis that is reached by one."""
        return Path(urlsplit(self.redis or "").path)

    def argv_of(self, model: str) -> tuple[str, ...]:
        """Return the program of a model's name. Raises ModelNotAvailableError without one."""
        argv = self.programs.get(model, self.command if model == DEFAULT else None)
        if argv is None:
            names = ", ".join(sorted(self.programs)) or "none"
            raise ModelNotAvailableError(
                f"program: no program is called {model!r}; there are: {names}",
                hint="set `providers.program.programs`, or `providers.program.command`",
            )
        return argv


def _programs(where: str, value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: programs by name are needed, not {value!r}")
    return {
        parse_text(where, name): parse_argv(f"{where}.{name}", argv) for name, argv in value.items()
    }


def _mounts(where: str, value: Any) -> dict[str, str]:
    mounts = parse_environment(where, value)
    for place in (*mounts, *mounts.values()):
        if not place.startswith("/"):
            raise ConfigError(f"{where}: whole paths are needed, not {place!r}")
    return mounts


def _size(where: str, value: Any) -> int:
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        value = int(found[1]) << (10 * _UNITS[found[2].lower()])
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConfigError(f"{where}: a size such as 512M is needed, not {value!r}")
    return value


def _more_than_0(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ConfigError(f"{where}: a number above 0 is needed, not {value!r}")
    return float(value)


def _whole(low: int, description: str) -> Key:
    def parse(where: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise ConfigError(f"{where}: a whole number from {low} on is needed, not {value!r}")
        return value

    return Key(parse, description, {"type": "integer", "minimum": low})


def _redis(where: str, value: Any) -> str:
    url = parse_text(where, value)
    if not url.startswith(_SCHEMES):
        raise ConfigError(
            f"{where}: the URL of a Redis is needed, not {value!r}",
            hint="such as redis://localhost:6379 or unix:///run/redis/redis.sock",
        )
    return url


_NUMBER: Mapping[str, Any] = {"type": "number", "exclusiveMinimum": 0}
KEYS: dict[str, Parser] = {
    "box": Key(parse_flag, "Whether programs run in a box; see the limits below."),
    "command": parse_argv,
    "cpus": Key(_more_than_0, "Processors that one may keep busy, such as 1.5.", _NUMBER),
    "env": parse_environment,
    "memory": Key(_size, "Bytes that one may hold, such as 512M.", {"type": ["string", "integer"]}),
    "mounts": Key(
        _mounts, "What it sees of the machine, by its path inside; read-only.", {"type": "object"}
    ),
    "network": Key(parse_flag, "Whether it has the machine's network."),
    "pids": _whole(1, "Processes that it may have at a time."),
    "programs": Key(
        _programs, "Programs with their arguments, by the name a run gives.", {"type": "object"}
    ),
    "protocols": Key(parse_text, "The folder that they see as /protocols.", {"type": "string"}),
    "redis": Key(_redis, "The Redis by which they ask, instead of a socket.", {"type": "string"}),
    "restarts": _whole(0, "How often one is started again in a state."),
    "session": Key(
        parse_choice("continued", "restarted"),
        "Whether one goes on after a move, or is started anew, its stdin closed after the prompt.",
        {"enum": ["continued", "restarted"]},
    ),
    "silence": Key(
        _more_than_0, "Seconds without a sign of life until one is started again.", _NUMBER
    ),
}

SETTINGS = model_of_keys("ProgramSettings", KEYS, ProgramConfig.from_settings)

"""Auth profiles: the logins of one provider, taken in turn while one of them rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.turns import ErrorKind
from prsm_core.errors import ProviderNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.domain.turns import AgentError
    from prsm_core.interfaces.clock import Clock

LIMITED_SECONDS = 60.0  # how long a login rests that was rate limited and was told no time
REFUSED_SECONDS = 3600.0  # … that the vendor did not accept: it does not mend by itself
NOT_LOGGED_IN = "not_logged_in"  # the code of a session that its login keeps from being opened
EXHAUSTED = frozenset({ErrorKind.AUTH_FAILURE, ErrorKind.RATE_LIMIT})


class AuthProfiles:
    """Which login of a provider is used now; all its agents share it.

    Args:
        clock: Tells how long a login has rested.
        names: The logins in order of preference; none where the provider has only its own.
    """

    def __init__(self, clock: Clock, names: Sequence[str] = ()) -> None:
        self._clock = clock
        self._rests_until = dict.fromkeys(names, 0.0)  # monotonic seconds

    @property
    def current(self) -> str | None:
        """The first login that does not rest, else the one that rests the shortest."""
        if not self._rests_until:  # the provider has only its own
            return None
        now = self._clock.now()
        rests = {name: max(until - now, 0.0) for name, until in self._rests_until.items()}
        return min(rests, key=rests.__getitem__, default=None)

    @property
    def has_fresh(self) -> bool:
        """Whether there is a login that does not rest."""
        now = self._clock.now()
        return any(until <= now for until in self._rests_until.values())

    @property
    def fresh_in(self) -> float | None:
        """Seconds until a login does not rest any more; None where there are none."""
        if not self._rests_until:
            return None
        return max(min(self._rests_until.values()) - self._clock.now(), 0.0)

    def retire(self, name: str | None, error: AgentError) -> bool:
        """Let a login rest after such an error; return whether another one can take over."""
        if name not in self._rests_until or error.kind not in EXHAUSTED:
            return False
        least = REFUSED_SECONDS if error.kind is ErrorKind.AUTH_FAILURE else LIMITED_SECONDS
        until = self._clock.now() + max(least, error.retry_after_s or 0.0)
        self._rests_until[name] = max(until, self._rests_until[name])
        return self.has_fresh


def profile_names(section: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a provider section's profiles, in order of preference."""
    return tuple(str(profile["name"]) for profile in section.get("profiles", ()))


def with_profile(
    section: Mapping[str, Any], name: str | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return a provider section as one of its profiles makes it; the others are left out.

    A profile names for each variable that the vendor's program reads the one that holds its
    value. The one named by `api_key_env` changes its name only, so that the value stays where it
    is; any other value goes into `env`.

    Raises ProviderNotAvailableError when a variable that holds a value is not set.
    """
    settings = {key: value for key, value in section.items() if key != "profiles"}
    for profile in section.get("profiles", ()):
        if profile["name"] == name:
            _apply(settings, profile, environ)
    return settings


def _apply(
    settings: dict[str, Any], profile: Mapping[str, Any], environ: Mapping[str, str]
) -> None:
    env = dict(settings.get("env") or {})
    for read, held in (profile.get("env") or {}).items():
        if not environ.get(held):
            raise ProviderNotAvailableError(
                f"auth profile {profile['name']!r}: the variable {held} is not set",
                hint=f"set {held}, or take the profile out of the configuration",
                code=NOT_LOGGED_IN,
            )
        if settings.get("api_key_env") == read:
            settings["api_key_env"] = held
        else:
            env[read] = environ[held]
    if env:
        settings["env"] = env
    if profile.get("home"):
        settings["home"] = profile["home"]
        if not profile.get("env"):
            settings.pop("api_key_env", None)  # a key would be used instead of the login there

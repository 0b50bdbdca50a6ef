"""What `frontends.tui` of the configuration may hold, and whether lines are written, not drawn."""

# Annotations are values here, not texts: msgspec would have to evaluate each of these.
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from prsm_core import ConfigError
from prsm_tui.keys import Keymap

VARIABLE = "PRSM_LINEAR"
_Keys = Mapping[str, str | tuple[str, ...]]


class TuiSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `frontends.tui`.

    Attributes:
        keys: Keys of one's own, by what they do: a key, or several; [] for none.
        linear: Write line by line and draw nothing: for screen readers. PRSM_LINEAR=1 or 0 in the
            environment stands above it.
        notify: Ring, and tell the terminal, where something waits or a run ends while its window is
            not in front.
        theme: How the screen is coloured.
    """

    keys: _Keys = field(default_factory=dict)
    linear: bool = False
    notify: bool = True
    theme: Literal["dark", "light", "high-contrast"] = "dark"

    def __post_init__(self) -> None:
        """Refuse keys that are none, and two meanings of one."""
        try:
            _ = self.keymap
        except ValueError as error:
            raise ValueError(str(error), "keys") from None

    @property
    def keymap(self) -> Keymap:
        """The keys as they are set."""
        keys = self.keys.items()
        return Keymap({name: (key,) if isinstance(key, str) else key for name, key in keys})


def switched_on_by(environ: Mapping[str, str], *, setting: bool) -> str | None:
    """Return what turned the linear mode on, None where it is off; the environment comes first.

    Raises ConfigError for a value of the variable that is neither 1 nor 0.
    """
    value = environ.get(VARIABLE, "").strip()
    if value not in {"", "0", "1"}:
        raise ConfigError(f"{VARIABLE} is {value!r}", hint="1 turns the linear mode on, 0 off")
    if value:
        return f"{VARIABLE}=1" if value == "1" else None
    return "frontends.tui.linear: true" if setting else None

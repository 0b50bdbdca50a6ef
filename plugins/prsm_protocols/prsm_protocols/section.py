"""The settings of this plugin, as they are checked and shown by `prsm config`."""

from __future__ import annotations

from typing import Any

from prsm_core import ConfigError, Key, parse_choice, parse_text
from prsm_core import model_of_keys as _model

DAYS = 30  # that measurements are kept


def _days(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 3650:
        raise ConfigError(f"{where}: a number of days from 1 to 3650 is needed, not {value!r}")
    return value


MEASUREMENTS = _model(
    "MeasurementSettings",
    {
        "path": Key(
            parse_text,
            "The folder of the measurements; not set: `_measurements` among PRSM's state.",
            {"type": "string", "minLength": 1},
        ),
        "detail": Key(
            parse_choice("event", "turn"),
            "A record for each event as it happens, or one for each turn.",
            {"enum": ["event", "turn"]},
        ),
        "days": Key(
            _days,
            f"How long measurements are kept; {DAYS} if not set.",
            {"type": "integer", "minimum": 1, "maximum": 3650},
        ),
    },
)
"""The section `sinks.measurements`, checked."""

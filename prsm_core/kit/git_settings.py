"""What git is told in each shell: a second wall behind the policy on commands.

None of it keeps git from doing what a person has allowed. A folder that only looks like a bare
repository configures nothing (git 2.38 and newer ignore it, older ones do not know the setting);
a look starts no monitor, and looks into no submodule that only the history knows.
"""

from __future__ import annotations

_SETTINGS = (
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
)
GIT_SETTINGS = {
    "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(_SETTINGS)},
}
"""The settings as variables of the environment, which git 2.31 and newer read."""

"""Checks of skills: which agents are told of, and what is wrong with the others."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import ok, warning
from prsm_core.config.paths import SkillPlaces, user_home
from prsm_core.engine.context.skills import section, skills_in
from prsm_core.permissions.skills import find_skills

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.cli.checkup.setup import CheckedSetup
    from prsm_core.config import Paths

_MOST = 10  # mistakes that are told one by one


def check_skills(setup: CheckedSetup, paths: Paths) -> Iterator[Finding]:
    """Yield which skills agents are told of, and a line for each that does not count."""
    if not setup.settings.context.skills:
        yield ok("skills", "agents are told of none: context.skills is false")
        return
    places = SkillPlaces(workspace=str(paths.workspace), home=user_home(), trusted=setup.trusted)
    found = find_skills(places)
    for mistake in islice(found.mistakes, _MOST):
        yield warning("skills", mistake, "mend it or move it away; agents are not told of it")
    if (more := len(found.mistakes) - _MOST) > 0:
        yield warning("skills", f"{more} more do not count", "mend those above first")
    names = [skill.name for skill in skills_in(section(found.skills))]
    if (left_out := len(found.skills) - len(names)) > 0:
        text = f"there is no room to tell agents of {left_out} of {len(found.skills)} skills"
        yield warning("skills", text, "move away what nobody uses, or shorten descriptions")
    of = "" if setup.trusted else "; those of the workspace count once it is trusted"
    yield ok("skills", f"{', '.join(names) or 'there are none'}{of}")

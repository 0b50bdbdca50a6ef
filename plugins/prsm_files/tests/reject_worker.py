"""A process that takes changes back and is killed before one of its changes of a file."""

import json
import sys
from pathlib import Path

from prsm_files.changes.merging import Wanted
from prsm_files.shadow.records import Entry
from prsm_files.shadow.root import Limits

from plugins.prsm_files.tests.changes_scene import Tracked
from plugins.prsm_files.tests.dying import Death
from plugins.prsm_files.tests.shadow_scene import DirectGit


def entry(given):
    return None if given is None else Entry(*given)


def main():
    base, step, asked = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    scene = Tracked.__new__(Tracked)
    scene.folder, scene.home, scene.state = base / "work", base / "home", base / "state"
    scene.limits, scene.run = Limits(), DirectGit()
    scene.start_numbers(1000)
    scene.start_moments()
    rejecter = scene.rejecter()
    death = Death(step)
    sys.addaudithook(death.heed)
    death.is_armed = True
    rejecter.reject(
        "s",
        [
            Wanted(id=id_, path=path, root=root, before=entry(before), after=entry(after))
            for id_, path, root, before, after in asked
        ],
    )
    death.is_armed = False


main()

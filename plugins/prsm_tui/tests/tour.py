"""The pictures of docs/tui.md, made by a run of the demo: run it to take them anew.

Times differ from one run to the next, what they leave room for, and whether tokens were counted by
then: `alike` leaves that out, so that a test can say whether they show what the screen does.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from plugins.prsm_tui.tests.reference import DOCUMENTS
from plugins.prsm_tui.tests.scenes import engine, watching
from plugins.prsm_tui.tests.test_demo import SHOP, TASK

DOCUMENT = DOCUMENTS[1]
SIZE = (100, 26)
BEGIN, END = "<!-- begin pictures -->", "<!-- end pictures -->"
_SHOP = "/home/you/sample-shop"
_TIME = re.compile(r"\b[\d.]+ ?(?:ms|s|m|h)\b|\b\d\d:\d\d:\d\d\b|(?<=cpython-)\d+")
_CUT = re.compile(r"\S*…")
_COUNT = re.compile(r"\b(tokens|below:) [0?]")


async def take(folder):
    """Play the demo on the screen; return what is to be seen on the way, by what it shows."""
    pictures: dict[str, str] = {}

    def show(title):
        text = eyes.text.replace(str(folder / "workspace"), _SHOP)
        pictures[title] = "\n".join(line.rstrip() for line in text.splitlines())

    async with (
        engine(folder, "builtin:demo", TASK, files=SHOP) as app,
        watching(app, size=SIZE) as eyes,
    ):
        await eyes.sees("writer  done", "NEEDS YOU: 1", "wait_for_message  [runs]")
        await eyes.until(lambda: eyes.text.count("wait_for_message") == 2, "a second wait")
        show("The tree, and the transcript of its master. A child waits for an answer.")
        await eyes.press("f2")
        await eyes.sees("[o]nce", "[d]eny", "time left")
        show("What it asks, after F2: the whole command, and what an answer would allow.")
        await eyes.type("o\n")
        await eyes.sees("Nothing waits for you")
        await eyes.press("escape")
        await eyes.sees("the run is completed")
        await eyes.until(lambda: not eyes.session.run.is_open, "the end of the run")
        show("The run has come to its end.")
        await eyes.press("f3")
        await eyes.sees("changes by file", "pending: 5")
        while "basket.py by fixer (named)" not in eyes.text:  # two agents wrote at one time
            await eyes.press("down")
        show(
            "What was changed, after F3. A `?` behind an agent marks what you may have made: a"
            " command ran, and no\ncall explains the change. `X` leaves such changes and says how"
            " many; `x` takes one back."
        )
        await eyes.press("enter")
        await eyes.sees("@@")
        show("One change, after Enter; `c` comments on a line.")
    return pictures


def written(pictures):
    """Return the pictures as a part of the document."""
    return "\n\n".join(f"{title}\n\n```text\n{text}\n```" for title, text in pictures.items())


def alike(text):
    """Return the lines of pictures as they are however long their run took, in one order.

    What two agents write at one time is listed as it came.
    """
    text = _CUT.sub("…", _COUNT.sub(r"\1 #", _TIME.sub("#", text)))
    return sorted(" ".join(line.split()) for line in text.splitlines())


def parts(document):
    """Return what is before the pictures in a document, they themselves, and what is behind."""
    before, rest = document.split(BEGIN)
    pictures, after = rest.split(END)
    return before + BEGIN, pictures.strip(), END + after


def main():
    """Write the pictures into the document."""
    with tempfile.TemporaryDirectory() as folder:
        pictures = asyncio.run(take(Path(folder)))
    before, _, after = parts(DOCUMENT.read_text(encoding="utf-8"))
    DOCUMENT.write_text(f"{before}\n\n{written(pictures)}\n\n{after}", encoding="utf-8")
    sys.stdout.write(f"written: {DOCUMENT}\n")


if __name__ == "__main__":
    main()

"""Images of a prompt: kept once, cited in its text, shown wherever that text goes to a model."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from prsm_core.engine.context.images import (
    LARGEST,
    MOST,
    cited_images,
    keep_images,
    remove_images,
)
from prsm_core.engine.context.tokens import IMAGE_TOKENS
from prsm_core.errors import ConfigError
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.test_compaction import settings as small_window
from tests.engine.test_compaction import spoken, summarise

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(100, 200))
GIF = b"GIF89a" + bytes(50)
WEBP = b"RIFF\0\0\0\0WEBP" + bytes(50)
SEES = ProviderCapabilities(enforcement="pre_tool", images=True)
URL = "data:image/jpeg;base64," + base64.b64encode(JPEG).decode()


@pytest.fixture
def png(tmp_path):
    path = tmp_path / "my (1) screen[shot].png"
    path.write_bytes(PNG)
    return str(path)


@pytest.fixture
def held():
    with ExitStack() as stack:
        yield stack


def shown(context):
    return [(image.media_type, Path(image.path).read_bytes()) for image in context.images]


async def test_the_images_of_a_task_are_shown_and_no_event_holds_them(opened, png):
    async def master(agent):
        cited = agent.context.images[0].mark
        await agent.spawn(f"look at {cited}")
        await agent.spawn("look at " + cited.replace("prsm-image", "some-image"))
        await agent.collect(2)
        await agent.complete("seen")

    async with opened(capabilities=SEES) as team:
        result = await team.run("what is it?", {"images": [png, URL]}, master=master)
        contexts = team.provider.contexts
        [of_master], [of_child], [of_other] = (contexts[name] for name in ("master", "w1", "w2"))
    assert result.status == "completed"
    assert shown(of_master) == [("image/png", PNG), ("image/jpeg", JPEG)]
    assert [image.name for image in of_master.images] == ["my _1_ screen_shot_.png", "image"]
    text = of_master.current_message.content
    assert text == "\n".join(("what is it?", "", *(image.mark for image in of_master.images)))
    assert shown(of_child) == [("image/png", PNG)]
    assert of_other.images == ()
    assert of_child.token_budget.used - of_other.token_budget.used == IMAGE_TOKENS
    assert max(len(json.dumps(event)) for event in team.ledger.events()) < 3000


async def test_a_conversation_that_is_told_again_shows_its_images_again(opened, png):
    async with opened(capabilities=SEES, settings=small_window()) as team:
        behaviours = {"master": spoken(20), "master-summary": summarise}
        result = await team.run("what is it?", {"images": [png]}, **behaviours)
        first, second = team.provider.contexts["master"]
    assert result.summary == "all done"
    assert second.current_message is None
    assert second.images[0].mark in second.history[0].content
    assert shown(first) == shown(second) == [("image/png", PNG)]


async def test_a_master_that_is_shown_none_is_not_begun(opened, png):
    async with opened() as team:
        with pytest.raises(ConfigError, match="script takes no images") as refused:
            await team.run("what is it?", {"images": [png]})
    assert refused.value.code == "no_images"
    assert team.ledger.events() == []


@pytest.mark.parametrize("sees", [True, False])
async def test_what_a_model_is_not_shown_is_told_by_name(opened, png, tmp_path, sees, held):
    [mark] = keep_images([png], tmp_path / "state" / "images", held)
    if sees:
        why = "is there no more"
        [kept] = (tmp_path / "state" / "images").iterdir()
        kept.unlink()
    else:
        why = "is not shown to its model: script takes no images"
    capabilities = SEES if sees else ProviderCapabilities(enforcement="pre_tool")
    async with opened(capabilities=capabilities) as team:
        await team.run(f"what is {mark}")
        [context] = team.provider.contexts["master"]
    assert context.images == ()
    [told] = team.ledger.events("notice", "master")
    assert (told["level"], told["text"]) == ("warning", f"the image my _1_ screen_shot_.png {why}")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nowhere.png", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("data:image/png;base64,????", "is not base64"),
        ("data:text/plain,hello", "a data URL of an image is"),
        (URL.replace("jpeg", "png"), "is said to be image/png and is image/jpeg"),
        ("data:image/png;base64,aGVsbG8=", "no image of a kind"),
        ("data:image/png;base64," + "A" * (LARGEST * 2), "MiB: 5 are the most"),
    ],
)
def test_what_is_no_image_is_refused_with_its_reason(tmp_path, given, why, held):
    with pytest.raises(ConfigError, match=why) as refused:
        keep_images([URL, given], tmp_path / "images", held)
    assert refused.value.code == "unfit_image"
    assert not (tmp_path / "images").exists(), "none is kept"


def test_a_file_that_is_too_large_and_too_many_images_are_refused(tmp_path, held):
    large = tmp_path / "large.png"
    large.write_bytes(PNG + bytes(LARGEST))
    with pytest.raises(ConfigError, match="5 are the most"):
        keep_images([str(large)], tmp_path / "images", held)
    with pytest.raises(ConfigError, match=f"{MOST} are the most"):
        keep_images([URL] * (MOST + 1), tmp_path / "images", held)


def test_an_image_is_kept_once_privately_and_found_by_what_cites_it(tmp_path, held):
    folder = tmp_path / "images"
    urls = [
        f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
        for kind, data in (("png", PNG), ("jpeg", JPEG), ("gif", GIF), ("webp", WEBP))
    ]
    marks = keep_images([*urls, urls[0]], folder, held)
    assert marks[0] == marks[-1]
    files = sorted(folder.iterdir())
    assert len(files) == 4
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    texts = [f"> {marks[2]} and {marks[0]}", "no image ![x](prsm-image:1.png)", *marks]
    found = cited_images(texts, folder)
    kinds = [image.media_type for image in found]
    assert kinds == ["image/gif", "image/png", "image/jpeg", "image/webp"]
    assert [Path(image.path).read_bytes() for image in found] == [GIF, PNG, JPEG, WEBP]


async def test_none_is_removed_that_a_run_is_about_to_cite(tmp_path):
    folder = tmp_path / "images"
    cited: set[str] = set()
    with ExitStack() as held:
        keep_images([URL], folder, held)
        [path] = folder.iterdir()
        removing = asyncio.ensure_future(
            asyncio.to_thread(remove_images, folder, [path.name], lambda: frozenset(cited))
        )
        await asyncio.to_thread(cited.add, path.name)  # its first step is committed
    assert await removing == 0
    assert path.exists()
    cited.clear()
    assert remove_images(folder, [path.name, path.name.replace("jpg", "png")], lambda: cited) == 1
    assert not path.exists()

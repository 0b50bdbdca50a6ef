"""Images of a prompt: kept once, cited in its text, shown wherever that text goes to a model."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.door.local import LocalApp
from prsm_core.engine.turns.context import IMAGE_TOKENS
from prsm_core.errors import ConfigError, MessageRoutingError
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.interfaces.provider import ProviderCapabilities
from prsm_core.workspace.images import (
    LARGEST,
    MOST,
    cited_images,
    holding_images,
    keep_images,
    remove_images,
)
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.harness import SESSION
from tests.engine.residents import open_residents
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


def content(image):
    return Path(image.path).read_bytes()


def forget(path):
    Path(path).unlink()


def shown(context):
    return [(image.media_type, content(image)) for image in context.images]


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
async def test_what_a_model_is_not_shown_is_told_by_name(opened, png, tmp_path, sees):
    folder = tmp_path / "state" / "images"
    async with holding_images(folder):
        [mark] = keep_images([png], folder)
    if sees:
        why = "is there no more"
        [kept] = folder.iterdir()
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


def prompt(team, agent, text, images, delivery="inject"):
    return team.engine.prompting.prompt(agent.id, text, delivery, images)


async def test_an_image_goes_with_a_prompt_into_the_running_turn(opened, png):
    async with opened(capabilities=SEES, steers=True) as team:

        async def master(agent):
            assert await prompt(team, agent, "look", [png]) == "injected"
            heard = await agent.steered.get()
            [image] = agent.shown
            assert image.mark in heard
            assert content(image) == PNG
            await agent.step_ended()  # the next response knows it
            await agent.complete(heard)

        result = await team.run("do it", master=master)
    assert result.summary.startswith("The user writes:\n> look\n> \n> ![my _1_")


@pytest.mark.parametrize("waits", [True, False])
async def test_a_call_that_waits_is_answered_with_the_image_of_a_prompt(opened, png, waits):
    async with opened(capabilities=SEES) as team:

        async def master(agent):
            assert await prompt(team, agent, "look", [png]) == "queued"
            outcome = await agent.outcome("wait_for_message", {})
            assert outcome.data["text"].startswith("look\n\n![")
            assert shown(outcome) == [("image/png", PNG)]
            late = await agent.outcome("wait_for_message", {})
            assert late.images == ()
            await agent.complete()

        async def next_turn(agent):
            if agent.turn == 1:
                assert await prompt(team, agent, "look", [png]) == "queued"
                return
            assert shown(agent.context) == [("image/png", PNG)]
            await agent.complete()

        result = await team.run("do it", master=master if waits else next_turn)
    assert result.status == "completed"


async def test_an_answer_that_its_client_did_not_wait_for_has_the_image_each_time(opened, png):
    async with opened(capabilities=SEES, clock=FakeClock()) as team:

        async def master(agent):
            await agent.spawn(name="idle")
            pending = await agent.call_within(1.0, "wait_for_message")
            assert pending["type"] == "pending"
            await prompt(team, agent, "look", [png])
            again = {"token": pending["token"]}
            for _ in range(2):
                outcome = await agent.outcome("wait_for_message", again, patience_s=5.0)
                assert shown(outcome) == [("image/png", PNG)]
            told.set()
            await agent.collect()
            await agent.complete()

        async def idle(agent):
            await told.wait()
            await agent.complete()

        told = asyncio.Event()
        assert (await team.run("do it", master=master, idle=idle)).status == "completed"


async def test_what_cannot_be_shown_is_told_before_anything_is_sent(opened, png, tmp_path):
    async with opened() as team:

        async def master(agent):
            with pytest.raises(ConfigError, match="script takes no images") as refused:
                await prompt(team, agent, "look", [png])
            assert refused.value.code == "no_images"
            vars(team.provider)["capabilities"] = SEES
            (tmp_path / "text.png").write_text("no image")
            os.mkfifo(tmp_path / "pipe.png")
            for name in ("nowhere.png", "text.png", "pipe.png"):
                with pytest.raises(ConfigError, match=name) as refused:
                    await prompt(team, agent, "look", [png, str(tmp_path / name)])
                assert refused.value.code == "unfit_image"
            await agent.complete()

        assert (await team.run("do it", master=master)).status == "completed"
        assert team.ledger.events("message_routed") == []
        with pytest.raises(MessageRoutingError, match="has ended"):
            await team.engine.prompting.prompt(team["master"].agent_id, "look", "queue", [png])
    assert list((tmp_path / "state" / "images").iterdir()) == []


async def test_a_prompt_that_nobody_has_read_is_shown_with_its_image_after_a_death(opened, png):
    async with opened(check=False, capabilities=SEES) as team:

        async def dies(agent):
            await prompt(team, agent, "look", [png])
            forget(png)
            await die(team)

        await run_to_death(team, master=dies)

    async def reads(agent):
        outcome = await agent.outcome("wait_for_message", {})
        assert shown(outcome) == [("image/png", PNG)]
        await agent.complete(outcome.data["text"])

    async with opened(capabilities=SEES) as again:
        result = await go_on(again, master=reads)
    assert result.summary.startswith("look\n\n![my _1_")


async def test_an_answer_that_its_model_may_lack_is_carried_with_its_image(opened, png):
    fields = {"capabilities": replace(SEES, resume="call"), "gives_tokens": True}
    async with opened(check=False, **fields) as team:

        async def dies(agent):
            await prompt(team, agent, "look", [png])
            await agent.use(input_tokens=1)  # the thread is in the ledger with the next step
            await agent.call("wait_for_message")
            await die(team)

        await run_to_death(team, master=dies)
    async with opened(**fields) as again:
        assert (await go_on(again)).status == "completed"
        [request] = again.provider.requests["master"]
    [answer] = request.answers.values()
    assert shown(answer) == [("image/png", PNG)]


async def test_a_fork_keeps_the_image_of_a_prompt_that_nobody_has_read(opened, png, tmp_path):
    async with opened(check=False, capabilities=SEES) as team:

        async def dies(agent):
            await prompt(team, agent, "look", [png])
            forked.append(await team.engine.fork())
            await die(team)

        forked: list[str] = []
        await run_to_death(team, master=dies)
        state = await team.store.state(forked[0])
    [unread] = state.unread
    assert unread.payload["text"].startswith("look\n\n![my _1_")
    [image] = cited_images([unread.payload["text"]], tmp_path / "state" / "images")
    assert content(image) == PNG


async def test_a_follow_up_shows_its_image_also_to_a_master_of_an_earlier_process(opened, png):
    async def master(agent):
        await agent.complete("first")

    async with opened(capabilities=SEES) as first:
        await first.run("begin", master=master)
    async with opened(capabilities=SEES) as second:
        options = RunOptions(provider="script")
        app = LocalApp(second.engine, options, second.store, SESSION)
        run = await app.runs.follow_up("look", [png])
        assert (await run.result()).status == "completed"
        [context] = second.provider.contexts["master"]
        said = [getattr(entry, "text", "") for entry in await app.agents.history("master")]
    assert shown(context) == [("image/png", PNG)]
    assert any(text.startswith("look\n\n![my _1_ screen_shot_.png](prsm-image:") for text in said)


@pytest.mark.parametrize("level", ["call", "native", "rebuild"])
async def test_what_a_person_shows_a_parked_agent_reaches_its_model(tmp_path, png, level):
    async def listens(agent):
        if agent.turn == 1:
            await agent.spawn("work", name="w1")
            await agent.outcome("wait_for_message", {}, call_id="said")
        await agent.complete("heard")

    async def works_on(agent):
        await may_end.wait()
        await agent.complete("it")

    may_end = asyncio.Event()
    async with open_residents(tmp_path, 1, level=level, steers=True) as team:
        run = team.start(master=listens, w1=works_on)
        await team.seen("notice", "master", level="info")
        assert team.provider.parked == ["master"]
        prompting = team.engine.prompting.prompt
        assert await prompting(team["master"].agent_id, "look", "inject", [png]) == "queued"
        await team.seen("tool_call_finished", "master", call="said")
        may_end.set()
        assert (await run).summary == "heard"
        again, request = team.provider.contexts["master"][1], team.provider.requests["master"][1]
    if level == "call":
        assert shown(request.answers["said"]) == [("image/png", PNG)]
        assert shown(again) == []
    else:
        assert shown(again) == [("image/png", PNG)]


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
def test_what_is_no_image_is_refused_with_its_reason(tmp_path, given, why):
    with pytest.raises(ConfigError, match=why) as refused:
        keep_images([URL, given], tmp_path / "images")
    assert refused.value.code == "unfit_image"
    assert list(tmp_path.glob("images/*")) == [], "none is kept"


def test_a_file_that_is_too_large_and_too_many_images_are_refused(tmp_path):
    large = tmp_path / "large.png"
    large.write_bytes(PNG + bytes(LARGEST))
    with pytest.raises(ConfigError, match="5 are the most"):
        keep_images([str(large)], tmp_path / "images")
    with pytest.raises(ConfigError, match=f"{MOST} are the most"):
        keep_images([URL] * (MOST + 1), tmp_path / "images")


async def test_an_image_is_kept_once_privately_and_found_by_what_cites_it(tmp_path):
    folder = tmp_path / "images"
    urls = [
        f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
        for kind, data in (("png", PNG), ("jpeg", JPEG), ("gif", GIF), ("webp", WEBP))
    ]
    async with holding_images(folder):
        marks = keep_images([*urls, urls[0]], folder)
    assert marks[0] == marks[-1]
    files = sorted(folder.iterdir())
    assert len(files) == 4
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    texts = [f"> {marks[2]} and {marks[0]}", "no image ![x](prsm-image:1.png)", *marks]
    found = cited_images(texts, folder)
    kinds = [image.media_type for image in found]
    assert kinds == ["image/gif", "image/png", "image/jpeg", "image/webp"]
    assert [content(image) for image in found] == [GIF, PNG, JPEG, WEBP]


async def test_none_is_removed_that_somebody_is_about_to_cite(tmp_path):
    folder = tmp_path / "images"
    cited: set[str] = set()
    async with holding_images(folder), holding_images(folder):
        keep_images([URL], folder)
        [path] = folder.iterdir()
        removing = asyncio.ensure_future(
            asyncio.to_thread(remove_images, folder, [path.name], lambda: frozenset(cited))
        )
        await asyncio.to_thread(cited.add, path.name)  # the step that cites it is committed
    assert await removing == 0
    assert path.exists()
    cited.clear()
    assert remove_images(folder, [path.name, path.name.replace("jpg", "png")], lambda: cited) == 1
    assert not path.exists()

"""The router: cache, oracle, owner, near names, in this order, and each within its time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from prsm_regions.router import OWNER_TOKENS, A2ARouter, Limits, OwnerReply, owner_of, symbols_in
from prsm_regions.symbols.files import SETTLING_NS
from prsm_regions.symbols.oracle import Oracle
from prsm_testing import FakeClock

from prsm_core.errors import ProviderNotAvailableError

if TYPE_CHECKING:
    from pathlib import Path


DEADLINE = 20.0  # seconds; a test that needs them has failed


class Timed:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock


class Owner:
    def __init__(self, text: str = "struct Later { x: u8 }") -> None:
        self.text, self.gate = text, asyncio.Event()
        self.asked: list[tuple[str, int]] = []
        self.gate.set()
        self.begun = asyncio.Event()
        self.given_up: list[str] = []
        self.used: int | None = 70

    async def give_up(self, owner: str) -> int | None:
        self.given_up.append(owner)
        return self.used

    async def __call__(self, owner: str, question: str, max_tokens: int) -> OwnerReply:
        self.asked.append((owner, max_tokens))
        self.begun.set()
        await self.gate.wait()
        return OwnerReply(self.text, 200)


class Scene:
    def __init__(self, folder: Path, oracle: Oracle, clock: FakeClock) -> None:
        self.root, self.oracle = folder, oracle
        self.services: Any = Timed(clock)  # all that a deadline needs
        self.owner = Owner()
        self.write("core/src/auth.rs", "pub struct AuthValidator { pub key: String }\n")
        self.router = self.make()

    def make(self, **limits: int) -> A2ARouter:
        router = A2ARouter(
            str(self.root), self.oracle, services=self.services, ask_owner=self.owner,
            limits=Limits(**limits),
        )  # fmt: skip
        router.register_agent("/ui/**", "a")
        router.register_agent("core", "b")
        return router

    def write(self, path: str, text: str, root: Path | None = None) -> None:
        whole = (root or self.root) / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(text, encoding="utf-8")


@pytest.fixture
async def scene(tmp_path):
    async with Oracle(tmp_path / "state/index") as oracle:
        scene = Scene(tmp_path / "tree", oracle, FakeClock(autojump=False))
        settle(scene.root / "core/src/auth.rs")
        yield scene


def settle(path: Path) -> None:
    """Return once a change of the file would be seen: an index trusts no file before that."""
    late = time.monotonic() + DEADLINE
    while time.time_ns() - path.stat().st_ctime_ns <= SETTLING_NS:
        assert time.monotonic() < late


ASKED = "import { AuthValidator } from '../../core/src/auth'"
LATER = "from core.src.auth import Later"


@pytest.mark.requirement("F7", "R9", "R10")
async def test_a_symbol_of_the_tree_costs_no_token(scene):
    text = await scene.router.resolve("a", "AuthValidator", ASKED)
    assert text.splitlines()[0] == "struct AuthValidator (core/src/auth.rs:1-1)"
    assert "pub key: String" in text
    assert (scene.router.tokens, scene.owner.asked) == (0, [])


@pytest.mark.requirement("R13")
async def test_the_second_look_is_answered_by_the_cache_until_the_file_changes(scene, monkeypatch):
    first = await scene.router.resolve("a", "AuthValidator", ASKED)
    with monkeypatch.context() as without:
        without.setattr(scene.oracle, "find", None)
        assert await scene.router.resolve("a", "AuthValidator", ASKED) == first
    scene.write("core/src/auth.rs", "pub struct AuthValidator { pub other: u64 }\n")
    assert "other" in await scene.router.resolve("a", "AuthValidator", ASKED)
    scene.write("core/src/auth.rs", "")
    assert "not found" in await scene.router.resolve("a", "AuthValidator", "")


@pytest.mark.requirement("R11", "R29")
async def test_who_owns_the_region_is_asked_once_with_capped_tokens(scene):
    assert await scene.router.resolve("a", "Later", LATER) == "struct Later { x: u8 }"
    assert await scene.router.resolve("a", "Later", LATER) == "struct Later { x: u8 }"
    assert scene.owner.asked == [("b", OWNER_TOKENS)]
    assert scene.router.tokens == 200


@pytest.mark.requirement("R11")
async def test_the_asker_is_never_asked(scene):
    assert "not found" in await scene.router.resolve("b", "Later", LATER)
    assert scene.owner.asked == []


async def test_an_owners_answer_goes_with_a_change_of_its_region(scene):
    await scene.router.resolve("a", "Later", LATER)
    scene.write("core/src/auth.rs", "pub struct Later { pub y: u8 }\n")
    assert "pub y: u8" in await scene.router.resolve("a", "Later", LATER)
    assert len(scene.owner.asked) == 1


async def test_two_who_ask_for_one_symbol_at_once_ask_its_owner_once(scene):
    scene.owner.gate.clear()
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(scene.router.resolve(who, "Later", LATER)) for who in "ac"]
        await scene.owner.begun.wait()
        scene.owner.gate.set()
    assert [one.result() for one in both] == ["struct Later { x: u8 }"] * 2
    assert len(scene.owner.asked) == 1


async def test_one_who_gives_up_does_not_take_the_answer_from_the_other(scene):
    scene.owner.gate.clear()
    async with asyncio.TaskGroup() as group:
        one = group.create_task(scene.router.resolve("a", "Later", LATER))
        await scene.owner.begun.wait()
        other = group.create_task(scene.router.resolve("c", "Later", LATER))
        await asyncio.sleep(0)
        one.cancel()
        scene.owner.gate.set()
    assert other.result() == "struct Later { x: u8 }"


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("used", [70, None])
async def test_an_owner_that_is_silent_is_waited_for_no_longer_and_ends(tmp_path, used):
    async with Oracle(tmp_path / "state/index") as oracle:
        clock = FakeClock(autojump=False)
        scene = Scene(tmp_path / "tree", oracle, clock)
        scene.owner.gate.clear()
        scene.owner.used = used
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(scene.router.resolve("a", "Later", LATER))
            await scene.owner.begun.wait()
            await clock.advance(121)
        assert "b was not heard: it did not answer in time" in asked.result()
        assert scene.owner.given_up == ["b"]
        assert scene.router.tokens == (OWNER_TOKENS if used is None else used)


async def test_tokens_for_owners_are_limited_over_all_questions(scene):
    router = scene.make(tokens=250)
    await router.resolve("a", "Later", LATER)
    await router.resolve("a", "Other", "from core import Other")
    assert "the 250 tokens for owners are used up" in await router.resolve(
        "a", "Third", "from core import Third"
    )
    assert scene.owner.asked == [("b", 250), ("b", 50)]


async def test_an_owner_that_cannot_be_asked_is_told(scene):
    class Fails(Owner):
        async def __call__(self, owner: str, question: str, max_tokens: int) -> OwnerReply:
            raise ProviderNotAvailableError("it has no thread")

    router = A2ARouter(str(scene.root), scene.oracle, services=scene.services, ask_owner=Fails())
    router.register_agent("core", "b")
    assert "b was not heard: it has no thread" in await router.resolve("a", "Later", LATER)


@pytest.mark.requirement("R12")
async def test_what_nobody_knows_is_told_with_near_names(scene):
    text = await scene.router.resolve("a", "AuthValidatr", "")
    assert text == (
        "Symbol 'AuthValidatr' not found in workspace symbol tree or active agents."
        " Near names: AuthValidator."
    )


async def test_what_the_owner_has_made_in_its_worktree_stands_for_the_tree(scene, tmp_path):
    scene.write("core/src/auth.rs", "pub struct AuthValidator { pub newer: u8 }\n", tmp_path / "wt")
    scene.write("ui/stray.rs", "pub struct Stray;\n", tmp_path / "wt")
    router = A2ARouter(str(scene.root), scene.oracle, services=scene.services)
    router.register_agent("core", "b", str(tmp_path / "wt"))
    assert "newer" in await router.resolve("a", "AuthValidator", ASKED)
    assert "not found" in await router.resolve("a", "Stray", "")


@pytest.mark.requirement("R9")
async def test_an_agent_that_is_gone_is_asked_no_more(scene):
    scene.router.unregister_agent("b")
    assert "not found" in await scene.router.resolve("a", "Later", LATER)
    assert scene.owner.asked == []


async def test_a_question_in_plain_words_is_answered_for_each_symbol(scene):
    scene.write("core/src/claims.py", "def read_claims(token: str) -> dict: ...\n")
    text = await scene.router.answer(
        "a", "What are the signatures of AuthValidator and `read_claims` from core/src?"
    )
    assert text.index("AuthValidator") < text.index("def read_claims(token: str) -> dict")
    assert await scene.router.answer("a", "Which colour should the button have?") is None


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(
    ("context", "owner"),
    [
        ("from core.parser import X", "b"),
        ("import { X } from '../../core/src/auth'", "b"),
        ("import X from './ui/button.tsx'", "a"),
        ("use crate::core::auth::X;", "b"),
        ('import "example.com/mod/core/auth"', "b"),
        ("import com.acme.store.Cart;", "j"),
        ("the one in lib/score/x.py", None),
        ("encore un core", None),
        ("", None),
    ],
)
def test_the_owner_is_told_by_an_import_path(context, owner):
    regions = {"core": "b", "ui": "a", "src/main/java/com/acme/store": "j"}
    assert owner_of(regions, context) == owner


@pytest.mark.parametrize(
    ("question", "symbols"),
    [
        ("What is the signature of AuthValidator from core/auth?", ["AuthValidator"]),
        ("I need the type signature of AuthValidator from /core/src/auth", ["AuthValidator"]),
        ("import { A1, Claims } from '../../core/src/auth'", ["A1", "Claims"]),
        ("from core.parser import parse, Token as T", ["parse", "Token"]),
        ("what is the parse function?", ["parse"]),
        ("What does auth.validate() return?", ["auth.validate"]),
        ("Should I use React or Vue?", []),
        ("May I write to src/ui/app.ts?", []),
        ("", []),
    ],
)
def test_the_symbols_of_a_question_are_found(question, symbols):
    assert sorted(symbols_in(question)) == sorted(symbols)


@pytest.mark.requirement("R29")
async def test_what_an_owner_that_failed_has_used_is_counted(scene):
    class Fails(Owner):
        async def __call__(self, owner: str, question: str, max_tokens: int) -> OwnerReply:
            return OwnerReply("", max_tokens, "its budget is used up")

    router = A2ARouter(
        str(scene.root), scene.oracle, services=scene.services, ask_owner=Fails(),
        limits=Limits(tokens=50),
    )  # fmt: skip
    router.register_agent("core", "b")
    assert "b was not heard: its budget is used up" in await router.resolve("a", "Later", LATER)
    assert router.tokens == 50
    assert "the 50 tokens for owners are used up" in await router.resolve("a", "Later", LATER)

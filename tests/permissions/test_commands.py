"""The command policy of a plugin: absent, failing, slow and odd ones allow nothing."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.domain.tools import READ_TOOLS
from prsm_core.permissions import build_policy
from prsm_core.permissions.commands import GuestPolicy
from prsm_core.permissions.own_state import own_state
from prsm_core.policies import (
    CommandPart,
    CommandPolicy,
    CommandPolicySpec,
    CommandRules,
    CommandSetting,
    Judgement,
    UnaskedError,
    Written,
)
from tests.permissions.brokers import broker, check, make_context, shell, uses

pytestmark = pytest.mark.requirement("E24")

COMMANDS = ["ls", "cat x", "echo hi", "git status", "make", "rm -rf /", "", "\0", "(", "a && b"]
SETTING = CommandSetting(
    mode=PermissionMode.DEFAULT, cwd=".", workspace="/nowhere", trusted=True, waits=False
)


@pytest.fixture
def context(tmp_path):
    return make_context(tmp_path)


def absent(**rules):
    return build_policy({}, PermissionSettings.of(rules))


class Harmless(CommandPolicy):
    """Takes every command for harmless."""

    def judge(self, command, setting):
        return Judgement(verdict=Allow("harmless"))

    def denied(self, command):
        return None

    def trespass(self, command, setting):
        return None

    def asked(self, command, setting):
        return None

    def told(self):
        return []

    def add(self, verdict, rule):
        return None

    def safe(self, command, setting):
        return True

    def stays_inside(self, command, setting):
        return True


def plugin_policy(policy, timeout=5.0):
    spec = CommandPolicySpec(
        name="bash", summary="", factory=lambda _rules: policy, timeout=timeout
    )
    return build_policy({"bash": spec}, PermissionSettings())


def answering(method, answer):
    """Return a policy that takes all for harmless, and one of whose methods does this instead."""
    policy = Harmless()

    def give(*_given):
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    setattr(policy, method, give)
    return policy


@pytest.mark.parametrize(("command", "mode"), list(product(COMMANDS, PermissionMode)))
async def test_without_a_policy_every_command_is_asked_about_or_refused_by_its_mode(
    command, mode, context
):
    one = broker(absent(allow=["ls", "echo"]), checks=[check(Allow())], trusted_checks=["check"])
    verdict = await one.decide(shell(command), replace(context, mode=mode))
    refuses = {PermissionMode.PLAN, PermissionMode.DELEGATE}
    assert isinstance(verdict, Deny if mode in refuses else Ask)
    if isinstance(verdict, Ask):
        assert "prsm install policy" in verdict.reason
        assert "always" not in verdict.options


async def test_without_a_policy_what_was_granted_before_is_asked_about_again(context):
    one = broker(absent())
    one.grant("a", shell("make"))
    assert isinstance(await one.decide(shell("make"), context), Ask)


async def test_without_a_policy_one_who_reads_by_shell_may_not(context):
    reader = replace(context, tools=READ_TOOLS, shell_reads=True)
    assert isinstance(await broker(absent()).decide(shell("cat x"), reader), Deny)


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git  push --force",
        "/usr/bin/git -C x push",
        "ls; git push",
        "bash -c 'git push'",
        "true && $(git push)",
        "A=1 git \\\n push",
    ],
)
@pytest.mark.parametrize("mode", PermissionMode)
async def test_without_a_policy_deny_rules_still_deny(command, mode, context):
    one = broker(absent(deny=["git push"]))
    verdict = await one.decide(shell(command), replace(context, mode=mode))
    assert verdict == Deny("the rule deny 'git push' forbids it")
    assert isinstance(await one.decide(shell("git status; push"), context), Ask)


async def test_without_a_policy_a_rule_that_is_added_holds_and_is_told(context):
    one = broker(absent())
    one.add_rule("deny", ("make", "docs"))
    assert isinstance(await one.decide(shell("make docs"), context), Deny)
    rows = [{"verdict": "deny", "words": ["make", "docs"], "layer": None}]
    assert one.told()["rules"] == rows


async def test_without_a_policy_nobody_gets_at_what_no_agent_may_see(tmp_path, context):
    unseen = tmp_path / "unseen"
    hidden = replace(own_state(), unseen=(str(unseen),), roots=(str(unseen),))
    one = broker(build_policy({}, PermissionSettings(), own=lambda: hidden))
    assert isinstance(await one.decide(shell(f"cat {unseen}/x"), context), Deny)


async def test_without_a_policy_files_are_read_and_edited_as_ever(context):
    one = broker(absent())
    assert isinstance(await one.decide(uses("Read", "a.py"), context), Allow)
    assert isinstance(await one.decide(uses("Edit", ".git/config"), context), Ask)


def test_a_policy_that_is_named_and_not_there_is_told_by_its_name():
    settings = PermissionSettings(command_policy="strict")
    assert "'strict'" in build_policy({}, settings).judge("ls", SETTING).verdict.reason


async def test_the_policy_of_a_plugin_decides(context):
    one = broker(plugin_policy(Harmless()))
    assert await one.decide(shell("frob"), context) == Allow("harmless")


ASKED_OF = ["denied", "trespass", "asked", "offered"]
WRONG = [RuntimeError("no"), SystemExit(1), 1, "allow", Allow, Judgement(verdict=Allow()), [], True]


@pytest.mark.parametrize(("method", "answer"), list(product(ASKED_OF, WRONG)))
@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.BYPASS])
async def test_a_policy_that_raises_or_answers_wrongly_refuses(method, answer, mode, context):
    one = broker(plugin_policy(answering(method, lambda: _given(answer))))
    verdict = await one.decide(shell("ls"), replace(context, mode=mode))
    assert isinstance(verdict, Deny)
    assert "command policy bash" in verdict.reason


def _given(answer):
    if isinstance(answer, BaseException):
        raise answer
    return answer


@pytest.mark.parametrize("answer", [RuntimeError("no"), 1, "yes", None, Allow()])
async def test_a_policy_that_cannot_say_what_is_safe_refuses_in_plan_mode(answer, context):
    one = broker(plugin_policy(answering("safe", lambda: _given(answer))))
    planning = replace(context, mode=PermissionMode.PLAN)
    assert isinstance(await one.decide(shell("ls"), planning), Deny)


@pytest.mark.parametrize("wrong", ["asked", "denied"])
async def test_a_verdict_of_another_kind_is_no_answer(wrong, context):
    one = broker(plugin_policy(answering(wrong, Allow("yes"))))
    assert isinstance(await one.decide(shell("ls"), context), Deny)


async def test_a_policy_that_takes_too_long_refuses(context):
    now = [0.0]

    def late():
        now[0] += 2.0
        return Allow("late")

    policy = answering("offered", late)
    spec = CommandPolicySpec(name="bash", summary="", factory=lambda _rules: policy, timeout=1.0)
    rules = CommandRules(own=own_state(), written=Written())
    verdict = await broker(GuestPolicy(spec, lambda: rules, now=lambda: now[0])).decide(
        shell("ls"), context
    )
    assert isinstance(verdict, Deny)
    assert "did not end within 1 s" in verdict.reason


@pytest.mark.parametrize("factory", [lambda _rules: None, lambda: Harmless(), "no_such_module:f"])
async def test_a_policy_that_cannot_be_built_refuses(factory, context):
    spec = CommandPolicySpec(name="bash", summary="", factory=factory)
    one = broker(build_policy({"bash": spec}, PermissionSettings()))
    for _ in range(2):
        assert isinstance(await one.decide(shell("ls"), context), Deny)


async def test_a_question_of_a_policy_is_waited_for_and_its_failure_refuses(context):
    answers: list[str] = []

    class Asking(Harmless):
        def asked(self, command, setting):
            if not answers:
                raise UnaskedError(self.ask)

        def ask(self):
            answers.append("answer")
            if fails:
                raise SystemExit(1)

    fails = False
    assert isinstance(await broker(plugin_policy(Asking())).decide(shell("ls"), context), Allow)
    answers.clear()
    fails = True
    assert isinstance(await broker(plugin_policy(Asking())).decide(shell("ls"), context), Deny)


@pytest.mark.parametrize("note", ["note_command", "note_edits"])
async def test_after_a_note_that_a_policy_could_not_take_it_decides_nothing(
    note, context, tmp_path
):
    one = broker(plugin_policy(answering(note, RuntimeError("full"))))
    if note == "note_command":
        assert isinstance(await one.decide(shell("ls"), context), Allow)
    else:
        one.settle(uses("Edit", str(tmp_path / "tox.ini")), context, Allow())
    assert isinstance(await one.decide(shell("ls"), context), Deny)


@pytest.mark.parametrize("answer", [RuntimeError("no"), 1, "yes", None])
def test_a_policy_that_cannot_say_what_only_reads_says_no(answer):
    for method in ("only_reads", "looks_up"):
        policy = plugin_policy(answering(method, lambda: _given(answer)))
        assert getattr(policy, method)("ls") is False
    assert plugin_policy(answering("parts", lambda: _given(answer))).parts("ls") is None
    assert plugin_policy(answering("programs", lambda: _given(answer))).programs("ls") == ()


async def test_a_policy_that_fails_may_write(context):
    one = broker(plugin_policy(answering("safe", RuntimeError("no"))))
    assert await one.may_write(shell("ls"), context)


def test_what_a_policy_that_knows_nothing_need_not_say():
    policy = plugin_policy(Harmless())
    assert policy.parts("ls") is None
    assert policy.exact(" ls ") == "ls"
    assert policy.rules_for("ls", SETTING) == ()
    assert policy.covers(("ls",), "ls", SETTING) is False
    part = CommandPart(text="ls", program="ls")
    assert plugin_policy(answering("parts", (part,))).parts("ls") == (part,)


def test_a_policy_gets_the_rules_of_all_layers():
    seen: list[CommandRules] = []

    def build(rules):
        seen.append(rules)
        return Harmless()

    spec = CommandPolicySpec(name="own", summary="", factory=build)
    given = {"deny": ["git push"], "allow": ["make"], "command_policy": "own"}
    settings = PermissionSettings.of(given)
    policy = build_policy({"own": spec}, settings)
    assert not seen
    policy.told()
    policy.told()
    [rules] = seen
    assert (rules.deny, rules.allow) == ((("git", "push"),), (("make",),))

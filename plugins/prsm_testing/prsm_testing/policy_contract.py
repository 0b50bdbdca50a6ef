"""The contract of every command policy, as a pytest class to subclass.

class TestMyPolicy(CommandPolicyContract):
    spec = next(iter(prsm_command_policies()))
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, ClassVar

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.permissions.commands import GuestPolicy
from prsm_core.permissions.own_state import own_state
from prsm_core.policies.port import CommandRules, CommandSetting
from prsm_core.policies.written import Written

if TYPE_CHECKING:
    from prsm_core.policies.port import CommandPolicy, CommandPolicySpec, Words

# Of no program that anybody knows, and what nobody can read.
_TEXTS = ("frobnicate --all", "frob && rm -rf /", "", "(", "'", "\0", "$(", "a" * 100_000, "\ud800")


class CommandPolicyContract(ABC):
    """What every command policy does; each test's docstring is the rule."""

    spec: ClassVar[CommandPolicySpec]  # the record that the plugin registers

    def policy(self, *, deny: tuple[Words, ...] = ()) -> CommandPolicy:
        """Return the policy with these rules, as the broker has it: each answer is checked."""
        rules = CommandRules(deny=deny, own=own_state(), written=Written())
        return GuestPolicy(self.spec, lambda: rules)

    def test_what_nobody_knows_is_not_allowed(self) -> None:
        """Outside bypass mode, whatever the text is; no text makes it raise."""
        policy = self.policy()
        for mode in set(PermissionMode) - {PermissionMode.BYPASS}:
            for text in _TEXTS:
                assert not isinstance(policy.judge(text, _setting(mode)).verdict, Allow), text

    def test_a_deny_rule_denies_in_every_mode(self) -> None:
        """Also where it stands behind another command, and as soon as it is added."""
        policy = self.policy(deny=(("git", "push"),))
        policy.add("deny", ("make", "docs"))
        for text in ("git push", "git push --force", "true; git push", "make docs"):
            assert isinstance(policy.denied(text), Deny), text
            for mode in PermissionMode:
                assert isinstance(policy.judge(text, _setting(mode)).verdict, Deny), text

    def test_all_answers_are_of_their_types(self) -> None:
        """For every text."""
        policy, setting = self.policy(), _setting(PermissionMode.DEFAULT)
        for text in ("ls", *_TEXTS):
            assert isinstance(policy.offered(text, setting), Allow | Ask | Deny)
            policy.asked(text, setting)
            policy.trespass(text, setting)
            policy.note_command(text, setting)
            assert policy.safe(text, setting) in {True, False}
            assert policy.exact(text) == policy.exact(policy.exact(text))

    def test_its_rules_are_told(self) -> None:
        """People see them in `prsm policy list`, frontends in their views."""
        [row] = self.policy(deny=(("git", "push"),)).told()
        assert (row["verdict"], row["words"]) == ("deny", ["git", "push"])


def _setting(mode: PermissionMode) -> CommandSetting:
    return CommandSetting(mode=mode, cwd=".", workspace="/nowhere", trusted=False)

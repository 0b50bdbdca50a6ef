"""The policy passes the contract of every command policy."""

from prsm_policy.plugin import prsm_command_policies
from prsm_testing import CommandPolicyContract


class TestBashPolicy(CommandPolicyContract):
    spec = next(iter(prsm_command_policies()))

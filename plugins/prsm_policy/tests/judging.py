"""Judges commands in a workspace, for the tests of the command policy."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from prsm_core.domain.agents import PermissionMode
from prsm_core.permissions import CommandSetting
from tests.command_policies import make_policy

DATA = Path(__file__).parent / "data"
STRENGTH = {"allow": 0, "ask": 1, "deny": 2}


def lines(name):
    return (DATA / name).read_text().splitlines()


_policy = cache(make_policy)


def rows(name):
    return [json.loads(line) for line in lines(name)]


def setting(workspace="/nowhere", *, mode=PermissionMode.DEFAULT, trusted=True, cwd="."):
    return CommandSetting(mode=mode, cwd=str(cwd), workspace=str(workspace), trusted=trusted)


def judge(command, workspace="/nowhere", *, policy=None, **options):
    return (policy or make_policy()).judge(command, setting(workspace, **options))


def decide(command, workspace="/nowhere", **options):
    return type(judge(command, workspace, **options).verdict).__name__.lower()


def policy_of(row):
    """Return the policy of a row: one for all rows with its rules, which keeps what git says."""
    rules = {name: tuple(row["policy"].get(name, ())) for name in ("allow", "ask", "deny")}
    if row["policy_source"] == "workspace":
        rules["workspace_allow"] = rules.pop("allow")
    return _policy(**rules)


def decide_row(row, workspace):
    return decide(
        row["command"],
        workspace,
        policy=policy_of(row),
        mode=PermissionMode(row["mode"]),
        trusted=row["trusted"],
    )

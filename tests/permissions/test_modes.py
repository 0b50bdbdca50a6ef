"""The five modes as one table, by the broker that a run builds from its settings."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.engine.tools.table import ToolTable
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for
from tests.permissions.brokers import make_context, shell, uses
from tests.sources import ROOT

pytestmark = pytest.mark.requirement("E36")

RULES = {"allow": ["npm run build"], "ask": ["git commit"], "deny": ["git push"]}
MODES = ("default", "accept_edits", "bypass", "plan", "delegate")
REQUESTS = {
    "read": uses("Read", "a.py"),
    "web": uses("WebFetch", url="https://example.com"),
    "edit": uses("Edit", "a.py"),
    "write": uses("Write", "new/b.py"),
    "edit outside": uses("Edit", "/etc/hosts"),
    "edit protected": uses("Write", ".claude/settings.json"),
    "other tool": uses("mcp__files__write_file", path="a.py"),
    "safe": shell("git diff"),
    "by rule": shell("npm run build"),
    "edit by shell": shell("sed -i s/a/b/ a.py"),
    "unknown": shell("make thing"),
    "dangerous": shell("rm -rf build"),
    "ask rule": shell("git commit -m x"),
    "deny rule": shell("git push"),
    "orchestration": uses("spawn_child", prompt="x"),
    "control": uses("ExitPlanMode"),
}
_YES, _ASK, _NO = "yes", "ask", "no"
# What becomes of each in the order of MODES; edits in default mode are the setting's.
TABLE = {
    "read": (_YES, _YES, _YES, _YES, _YES),
    "web": (_YES, _YES, _YES, _YES, _NO),
    "edit": (None, _YES, _YES, _NO, _NO),
    "write": (None, _YES, _YES, _NO, _NO),
    "edit outside": (_ASK, _ASK, _ASK, _NO, _NO),
    "edit protected": (_ASK, _ASK, _ASK, _NO, _NO),
    "other tool": (_ASK, _ASK, _YES, _NO, _NO),
    "safe": (_YES, _YES, _YES, _YES, _NO),
    "by rule": (_YES, _YES, _YES, _NO, _NO),
    "edit by shell": (_ASK, _ASK, _YES, _NO, _NO),
    "unknown": (_ASK, _ASK, _YES, _NO, _NO),
    "dangerous": (_ASK, _ASK, _ASK, _NO, _NO),
    "ask rule": (_ASK, _ASK, _ASK, _NO, _NO),
    "deny rule": (_NO, _NO, _NO, _NO, _NO),
    "orchestration": (_YES, _YES, _YES, _YES, _YES),
    "control": (_YES, _YES, _YES, _YES, _YES),
}
_WORDS: dict[type, str] = {Allow: _YES, Ask: _ASK, Deny: _NO}


@pytest.fixture
def context(tmp_path):
    return make_context(tmp_path)


async def judge(context, request, mode, **settings):
    """Return what becomes of a request, and why, by a broker as a run has it."""
    permissions = PermissionSettings.of({**RULES, **settings})
    broker = PermissionBroker(
        permissions,
        checks={},
        orchestration=ToolTable().names,
        commands=policy_for(permissions),
    )
    placed = replace(request, cwd=context.workspace)
    return await broker.decide(placed, replace(context, mode=PermissionMode(mode)))


@pytest.mark.parametrize("edits", ["allow", "ask"])
@pytest.mark.parametrize("mode", MODES)
async def test_what_becomes_of_what_in_each_mode(context, mode, edits):
    found = {
        name: _WORDS[type(await judge(context, request, mode, edits=edits))]
        for name, request in REQUESTS.items()
    }
    by_setting = {"allow": _YES, "ask": _ASK}[edits]
    column = MODES.index(mode)
    assert found == {name: row[column] or by_setting for name, row in TABLE.items()}


async def test_no_two_modes_do_the_same(context):
    columns = {}
    for mode in MODES:
        verdicts = [await judge(context, r, mode, edits="ask") for r in REQUESTS.values()]
        columns[tuple(type(verdict) for verdict in verdicts)] = mode
    assert list(columns.values()) == list(MODES)


async def test_without_a_word_edits_inside_the_workspace_are_not_asked_about(context):
    assert isinstance(await judge(context, REQUESTS["edit"], "default"), Allow)


async def test_an_edit_that_is_asked_about_may_be_allowed_for_good(context):
    verdict = await judge(context, REQUESTS["edit"], "default", edits="ask")
    assert verdict == Ask("permissions.edits wants each edit asked about")
    assert "always" in verdict.options


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rule", "expected"), [("allow", Allow), ("ask", Ask), ("deny", Deny)])
async def test_a_rule_on_the_tool_goes_before_the_setting(context, mode, rule, expected):
    verdict = await judge(context, REQUESTS["edit"], mode, edits="ask", tools={"Edit": rule})
    reads_only = mode in {"plan", "delegate"}
    assert type(verdict) is (Deny if reads_only else expected)


async def test_who_delegates_reads_by_the_shell_where_the_vendor_has_no_other_reader(context):
    codex = replace(context, shell_reads=True)
    assert isinstance(await judge(codex, shell("cat a.py"), "delegate"), Allow)
    assert isinstance(await judge(codex, shell("make thing"), "delegate"), Deny)
    assert isinstance(await judge(codex, shell("npm run build"), "delegate"), Deny)


# The rows of docs/policy.md, by how they begin.
SHOWN = {
    "reads files": "read",
    "reads the web": "web",
    "**edits a file inside": "edit",
    "edits a file elsewhere": "edit outside",
    "a safe command": "safe",
    "a command that a rule allows": "by rule",
    "any other command": "unknown",
    "a dangerous command": "dangerous",
    "what a rule denies": "deny rule",
    "other tools": "other tool",
    "PRSM's own tools": "orchestration",
}
_SAID = {_YES: "runs", _ASK: "asks", _NO: "refused"}


def test_the_table_of_the_documents_says_the_same():
    text = (ROOT / "docs" / "policy.md").read_text()
    table = text[text.index("| what an agent does |") :].split("\n\n")[0].splitlines()
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert head[1:] == [f"`{mode}`" for mode in MODES]
    assert len(lines) == len(SHOWN)
    for (label, *cells), (begins, name) in zip(lines, SHOWN.items(), strict=True):
        assert label.startswith(begins)
        by_setting = "**runs**, or asks with `permissions.edits: ask`"
        assert cells == [_SAID[verdict] if verdict else by_setting for verdict in TABLE[name]]

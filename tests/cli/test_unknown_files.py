"""`run`, `doctor` and `policy check` name the files of `.prism` that PRSM does not read."""

import json

import pytest


@pytest.mark.requirement("E24")
def test_files_that_are_not_read_are_named(prsm, workspace, tmp_path):
    (workspace / ".prism").mkdir()
    (workspace / ".prism" / "policies.yaml").write_text("deny: [ls]\n")
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"lanes": {"master": {"steps": [{"say": "done"}]}}}))
    script = ("--provider", "script", "--set", f"providers.script.scenario={path}")
    named = str(workspace / ".prism" / "policies.yaml")
    assert named in prsm("policy", "check", "ls").err
    assert named in prsm("run", "x", *script).err
    rows = json.loads(prsm("doctor", "--json").out)
    found = [row for row in rows if named in row["message"]]
    assert [row["status"] for row in found] == ["warning"]


@pytest.mark.requirement("E24")
def test_two_spellings_keep_a_run_from_starting_and_doctor_names_them(prsm, workspace):
    (workspace / ".prism").mkdir()
    names = [workspace / ".prism" / f"policy.{end}" for end in ("yaml", "yml")]
    for name in names:
        name.write_text("deny: [ls]\n")
    for words in (
        ["run", "x"],
        ["policy", "check", "ls"],
        ["policy", "add", "deny", "rm", "--project"],
    ):
        done = prsm(*words)
        assert (words, done.code) == (words, 2)
        assert all(str(name) in done.err for name in names)
    rows = json.loads(prsm("doctor", "--json").out)
    found = [row for row in rows if all(str(name) in row["message"] for name in names)]
    assert {row["status"] for row in found} == {"broken"}

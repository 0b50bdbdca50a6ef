"""A key that agents get hold of is nowhere in what PRSM writes."""

from __future__ import annotations

import base64
import json

import pytest

from tests.permissions.planted import HARMLESS, KINDS, NAMED, harmless_text, named_key, planted_key

# Put together here, so that no tool that looks for keys finds one in this file.
SHAPES = {
    "anthropic": "sk-" + "ant-api03-" + "a1B2" * 10,
    "openai": "sk-" + "proj-" + "c3D4" * 10,
    "github": "ghp_" + "A1b2" * 9,
    "github fine-grained": "github_pat_" + "11ABC" * 8,
    "gitlab": "glpat-" + "aB3d" * 5,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + "Sy1" * 12,
    "slack": "xoxb-" + "123456789012-abcdef",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".SflKxwRJSMeKKF2QT4",
    "bearer": "abcdefghij" + "0123456789.tail",
    "url": "p4ss" + "-w0rd-of-url",
    "value": "a plain " + "value of my own",
}
ONLY_AFTER = {"bearer": "Authorization: Bearer {}", "url": "postgres://app:{}@db/x"}


def spoken(name: str) -> str:
    return ONLY_AFTER.get(name, "{}").format(SHAPES[name])


@pytest.mark.requirement("U19")
def test_no_byte_below_the_home_holds_one_of_twelve_planted_secrets(
    prsm_process, tmp_path, monkeypatch
):
    monkeypatch.setenv("MY_PASSWORD", SHAPES["value"])
    said = " \n".join(map(spoken, SHAPES))
    shell = "printf '%s' '" + said + "'"
    child = {"prompt": f"use {said}", "name": "w1", "wait": True}
    scenario = {
        "lanes": {
            "master": {
                "steps": [
                    {
                        "think": said,
                        "say": said,
                        "call": {"tool": "spawn_child", "arguments": child},
                    },
                    {"call": {"tool": "task_complete", "arguments": {"summary": said}}},
                ]
            },
            "w1": {
                "steps": [
                    {"say": f"I was told {said}", "shell": shell},
                    {"call": {"tool": "report_progress", "arguments": {"status": said}}},
                    {"call": {"tool": "task_complete", "arguments": {"summary": said}}},
                ]
            },
        }
    }
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(scenario))
    setting = f"providers.script.scenario={path}"
    argv = ["run", said, "--json", "--provider", "script", "--on-ask", "allow", "--set", setting]
    done = prsm_process("--debug", *argv)
    assert done.code == 0, done.err
    written = {file: file.read_bytes() for file in (tmp_path / "home").rglob("*") if file.is_file()}
    assert any(b"I was told" in data for data in written.values())
    assert any(b"[redacted]" in data for data in written.values())
    written[tmp_path / "stdout"] = done.out.encode()
    written[tmp_path / "stderr"] = done.err.encode()
    for name, secret in SHAPES.items():
        forms = (secret.encode(), base64.b64encode(secret.encode()).rstrip(b"="))
        found = [file.name for file, data in written.items() if any(f in data for f in forms)]
        assert found == [], name


@pytest.mark.requirement("U19")
def test_no_secret_is_printed_with_the_summary_nor_by_what_reads_the_ledger(
    prsm_process, tmp_path, monkeypatch
):
    monkeypatch.setenv("MY_PASSWORD", SHAPES["value"])
    said = " \n".join(map(spoken, SHAPES))
    call = {"tool": "task_complete", "arguments": {"summary": said}}
    scenario = {"lanes": {"master": {"steps": [{"call": call}]}}}
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(scenario))
    run = ("run", "--provider", "script", "--set", f"providers.script.scenario={path}", "do it")
    done = [prsm_process(*run), prsm_process(*run, "--json")]
    assert [one.code for one in done] == [0, 0], done[0].err
    assert "[redacted]" in done[0].out
    done += [prsm_process(*what) for what in (("events",), ("history", "master"), ("tree",))]
    for one in done:
        for secret in SHAPES.values():
            assert secret not in one.out
            assert secret not in one.err


@pytest.mark.requirement("U19")
def test_the_settings_and_errors_are_shown_without_secrets(prsm_process, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "hunter2-of-mine")
    config = tmp_path / "home" / "config.yaml"
    config.parent.mkdir(mode=0o700, exist_ok=True)
    keys = [SHAPES["openai"], "hunter2-of-mine"]
    config.write_text(json.dumps({"mcp_servers": {"x": {"command": "y", "args": keys}}}))
    shown = prsm_process("config", "show")
    as_json = prsm_process("config", "show", "--json")
    wrong = prsm_process("config", "show", "--set", f"{keys[0]}.{keys[1]}=1")
    assert (shown.code, as_json.code, wrong.code) == (0, 0, 2)
    for one in (shown, as_json, wrong):
        assert not [key for key in keys if key in one.out + one.err]
        assert "[redacted]" in one.out + one.err


def said_by_agents(prsm_process, tmp_path, said):
    """Have an agent think, say, read and report a text; return what was written, by its name."""
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "notes.txt").write_text(said)
    scenario = {
        "lanes": {
            "master": {
                "steps": [
                    {"think": said, "say": said, "shell": f"cat {tmp_path}/work/notes.txt"},
                    {"call": {"tool": "task_complete", "arguments": {"summary": said}}},
                ]
            }
        }
    }
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    setting = f"providers.script.scenario={path}"
    argv = ["run", "do it", "--json", "--provider", "script", "--on-ask", "allow", "--set", setting]
    done = prsm_process(*argv)
    assert done.code == 0, done.err
    exports = [prsm_process("export", *how) for how in EXPORTS]
    assert [one.code for one in exports] == [0] * len(EXPORTS), exports[0].err
    files = [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
    return {
        **{file.name: file.read_bytes().decode(errors="ignore") for file in files},
        **{" ".join(how): one.out for how, one in zip(EXPORTS, exports, strict=True)},
        "events": prsm_process("events", "--json").out,
        "stdout": done.out,
    }


EXPORTS = ((), ("--format", "jsonl"), ("--format", "html"))


@pytest.mark.requirement("U19")
def test_no_ledger_and_no_export_holds_a_key_of_any_kind(prsm_process, tmp_path):
    keys = {kind: planted_key(kind) for kind in KINDS}
    texts = [f"For {kind} use {key} now." for kind, key in keys.items()]
    for kind in NAMED:
        text, keys[kind] = named_key(kind)
        texts.append(text)
    written = said_by_agents(prsm_process, tmp_path, "\n".join(texts))
    assert len(keys) > 150
    assert all("For anthropic use [redacted] now." in written[how] for how in ("stdout", "events"))
    for name, text in written.items():
        assert [
            kind for kind, key in keys.items() if key[:16] in text or key[-16:] in text
        ] == [], name


@pytest.mark.requirement("U19")
def test_ids_digests_and_data_stay_in_the_ledger_and_in_exports(prsm_process, tmp_path):
    texts = [harmless_text(kind) for kind in HARMLESS]
    written = said_by_agents(prsm_process, tmp_path, "\n".join(texts))
    for name in ("", "--format jsonl", "events", "stdout"):
        assert "[redacted]" not in written[name]
        missing = [text for text in texts if json.dumps(text)[1:-1] not in written[name]]
        assert missing == [], name

"""What a run was given on the command line holds again when it goes on."""

from __future__ import annotations

import json
import re

import pytest

from tests.crash.trees import Home

SECRET = "sk-ant-api03-0123456789abcdefghijklmnop"  # noqa: S105 - of nobody
USED = {"input_tokens": 400, "output_tokens": 200}
SPAWN = {"call": {"tool": "spawn_child", "arguments": {"name": "c", "prompt": "x", "wait": True}}}
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}}
SPENT = {**DONE, "usage": USED}
SCENARIO = json.dumps(
    {"lanes": {"master": {"steps": [{**SPAWN, "usage": USED}, SPENT]}, "c": {"steps": [SPENT]}}}
)
RUN = ("run", "build it", "--provider", "script")
KILL_AT = 4


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path, SCENARIO)


def test_the_budget_of_a_run_is_that_of_its_resume(home):
    assert home.prsm(*RUN, "--budget-tokens", "1000", fault=f"kill:{KILL_AT}").was_killed
    ended = home.resume()
    assert "as it was started: --budget-tokens 1000" in ended.err
    assert ended.code == 1
    assert "is used up" in ended.err


def test_a_budget_that_the_resume_is_given_overrides_it(home):
    assert home.prsm(*RUN, "--budget-tokens", "1000", fault=f"kill:{KILL_AT}").was_killed
    ended = home.prsm("resume", "--budget-tokens", "50000")
    assert (ended.code, ended.out) == (0, "done\n"), ended.err


def test_a_budget_that_a_resume_was_given_is_that_of_the_next(home):
    assert home.prsm(*RUN, "--budget-tokens", "1000", fault=f"kill:{KILL_AT}").was_killed
    given = ("--budget-tokens", "50000", "--on-ask", "deny")
    for _ in range(2):  # what is given twice is kept once
        assert home.prsm("resume", *given, fault="kill:1").was_killed
    ended = home.resume()
    scenario = "--set providers.script.scenario="
    assert "as it was started: --on-ask deny --budget-tokens 50000" in ended.err
    assert ended.err.count(scenario) == 1
    assert (ended.code, ended.out) == (0, "done\n"), ended.err


def test_what_was_set_for_a_run_holds_in_its_resume(home):
    given = ("--set", "budgets.tokens=1000", "--on-ask", "deny")
    assert home.prsm(*RUN, *given, fault=f"kill:{KILL_AT}").was_killed
    ended = home.resume()
    assert "as it was started: --on-ask deny --set budgets.tokens=1000" in ended.err
    assert ended.code == 1
    assert "is used up" in ended.err


def test_a_secret_that_was_set_is_not_kept_and_its_key_is_told(home):
    server = json.dumps({"command": "true", "env": {"API_KEY": SECRET}})
    given = ("--set", f"mcp_servers.docs={server}")
    assert home.prsm(*RUN, *given, fault=f"kill:{KILL_AT}").was_killed
    [(options,)] = home.query("SELECT options FROM runs")
    assert SECRET not in str(options)
    ended = home.resume()
    assert SECRET not in ended.err
    assert "--set mcp_servers.docs held a secret, which is not kept" in ended.err
    assert (ended.code, ended.out) == (0, "done\n"), ended.err


def test_what_is_left_of_a_time_limit_is_told_and_a_new_one_takes_its_place(home):
    assert home.prsm(*RUN, "--timeout", "500", fault=f"kill:{KILL_AT}").was_killed
    ended = home.prsm("resume", fault="kill:1")
    assert re.search(r"its time limit: (4\d\d|500) s of 500 s are left", ended.err), ended.err
    ended = home.prsm("resume", "--timeout", "300", fault="kill:1")
    assert "its time limit: 300 s from here" in ended.err
    ended = home.resume()
    assert re.search(r"its time limit: (2\d\d|300) s of 300 s are left", ended.err), ended.err
    assert (ended.code, ended.out) == (0, "done\n"), ended.err


def test_a_run_whose_time_is_used_up_is_left_as_it_is(home):
    assert home.prsm(*RUN, "--timeout", "500", fault=f"kill:{KILL_AT}").was_killed
    home.query("UPDATE runs SET options = json_set(options, '$.timeout_s', 0.001)")
    for _ in range(2):
        ended = home.resume()
        assert (ended.code, ended.out) == (2, "")
        assert "the run's time limit of 0.001 s is used up" in ended.err
        assert "hint: give it more: prsm resume SESSION --timeout SECONDS" in ended.err
    ended = home.prsm("resume", "--timeout", "300")
    assert (ended.code, ended.out) == (0, "done\n"), ended.err

"""The script provider on the real engine, as a user runs it."""

import json

import pytest

SET = "providers.script.scenario={}"


@pytest.fixture
def run_script(prsm_process, tmp_path):
    """Run a task whose master follows the steps; return the exit code and the events."""

    def run(*steps, **lanes):
        path = tmp_path / "scenario.yaml"
        lanes = {"master": {"steps": list(steps)}, **{n: {"steps": s} for n, s in lanes.items()}}
        path.write_text(json.dumps({"lanes": lanes}))
        done = prsm_process(
            "run", "do it", "--json", "--provider", "script", "--set", SET.format(path)
        )
        return done.code, [json.loads(line) for line in done.out.splitlines()]

    return run


def test_an_image_of_a_task_is_shown_to_its_model(prsm_process, tmp_path):
    scenario, image = tmp_path / "scenario.yaml", tmp_path / "screen.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    step = {"expect": ["[image screen.png: image/png]"], "say": "I have seen it."}
    scenario.write_text(json.dumps({"lanes": {"master": {"steps": [step]}}}))
    chosen = ("--provider", "script", "--set", SET.format(scenario))
    done = prsm_process("run", "what is it?", "--image", str(image), *chosen)
    assert (done.code, done.out) == (0, "I have seen it.\n"), done.err


def test_what_is_no_image_is_refused_before_anything_begins(prsm_process, tmp_path):
    scenario, image = tmp_path / "scenario.yaml", tmp_path / "screen.png"
    scenario.write_text(json.dumps({"lanes": {"master": {"steps": [{"say": "never"}]}}}))
    chosen = ("--provider", "script", "--set", SET.format(scenario))
    image.write_text("no image")
    done = prsm_process("run", "what is it?", "--image", str(image), *chosen)
    assert (done.code, done.out) == (2, "")
    assert "screen.png is no image" in done.err
    done = prsm_process("run", "what is it?", "--image", "nowhere.png", *chosen)
    assert done.code == 2
    assert "nowhere.png" in done.err


def only(events, kind):
    return [event for event in events if event["type"] == kind]


def test_a_script_never_stands_in_for_a_provider_unasked(prsm_process):
    done = prsm_process("run", "do it", "--set", SET.format("builtin:demo"))
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("prsm: starts: do it\nprsm: no provider is installed\n")
    assert "prsm demo" in done.err


def test_a_script_is_listed_when_it_is_configured(prsm, tmp_path):
    assert prsm("providers", "--json").out == "[]\n"
    config = tmp_path / "home" / "config.yaml"
    config.write_text("providers: {script: {scenario: none.yaml}}\n")
    [script] = json.loads(prsm("providers", "--json").out)
    assert (script["name"], script["available"]) == ("script", False)
    assert "none.yaml" in script["reason"]


def test_without_a_scenario_the_script_says_what_to_do(prsm_process):
    done = prsm_process("run", "do it", "--provider", "script")
    assert done.code == 3
    assert "no scenario is set" in done.err
    assert "providers.script.scenario" in done.err


def test_a_failure_that_can_be_tried_again_is(run_script):
    again = {"message": "busy", "retryable": True, "retry_after_s": 0.01}
    code, events = run_script({"fail": again}, {"say": "All is well."})
    assert code == 0
    [retry] = only(events, "retry_scheduled")
    assert retry["error"]["message"] == "busy"
    assert events[-1]["summary"] == "All is well."


def test_a_provider_that_breaks_fails_the_run_with_its_reason(run_script):
    code, events = run_script({"crash": "the model exploded"})
    assert code == 1
    assert "the model exploded" in events[-1]["error"]


def test_a_refused_command_is_an_answer_for_the_script(run_script):
    spawn = {"prompt": "Remove it.", "name": "w1", "wait": True}
    code, events = run_script(
        {"call": {"tool": "spawn_child", "arguments": spawn}},
        {"say": "${spawn_child.result.summary}"},
        w1=[{"shell": "rm x"}, {"say": "rm was ${shell.status}"}],
    )
    assert code == 4, "all it asked for was refused for lack of a person"
    [finished] = [e for e in only(events, "tool_call_finished") if e["status"] == "denied"]
    assert "no person" in finished["error"]
    assert events[-1]["summary"] == "rm was denied"

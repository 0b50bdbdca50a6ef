"""What waits for a person: shown in full, listed together, answered one by one or all at once."""

import os
import pty
import unicodedata

import pytest

from prsm_core.domain.permissions import Answer

OPTIONS = ["once", "always", "deny"]


@pytest.fixture
def ask(app):
    """Let agents ask: `ask("r1", command="ls")`."""

    def say(request, **fields):
        given = {"tool": "Bash", "command": f"run {request}", "options": OPTIONS, **fields}
        app.say("permission_requested", "m", request=request, reason="not known", **given)

    return say


@pytest.fixture
async def console(app, settled, typed, running):
    """A console with a person at it: (err, type)."""
    reader, keyboard = typed
    async with running(stdin=reader) as (_, _, err):
        await settled()
        app.spawn()
        yield err, lambda keys: keyboard.write(keys.encode())
        app.finish()


@pytest.mark.requirement("D9")
async def test_requests_that_wait_together_are_listed_together_and_answered_at_once(
    app, ask, console
):
    err, type_ = console
    for request in ("r1", "r2", "r3"):
        ask(request)
    await err.shows("all 3: [oo] allow once [dd] deny: ")
    listing = err.getvalue().split("2 more to answer:")[-1]
    order = [listing.rindex(f"command: run {request}") for request in ("r2", "r3", "r1")]
    assert order == sorted(order), "the one that is asked about stands right above the prompt"
    type_("oo\n")
    await err.shows("all 3")
    for request in ("r1", "r2", "r3"):
        assert await app.answered(request) == "once"


@pytest.mark.requirement("D9")
async def test_an_answer_for_all_is_for_what_was_listed_and_takes_it(app, ask, console, settled):
    err, type_ = console
    ask("r1")
    ask("r2", options=["always"])
    await err.shows("all 2")
    app.say("question_asked", "m", request="q", question="Which?", options=[])
    await settled()
    type_("deny all\n")
    assert await app.answered("r1") == "deny"
    await err.shows("[a]lways: ")
    assert app.answers == [("r1", "deny")], "the other does not take it, and a question never"
    type_("a\nblue\n")
    assert await app.answered("r2") == "always"
    await app.answered("q")


async def test_an_answer_for_one_leaves_the_others(app, ask, console):
    err, type_ = console
    for request in ("r1", "r2", "r3"):
        ask(request)
    await err.shows("all 3")
    type_("d\n")
    await err.shows("all 2")
    type_("a\n")
    await err.shows("run r3\n  reason: not known\n[o]nce")
    type_("o\n")
    assert await app.answered("r3") == "once"
    assert app.answers == [("r1", "deny"), ("r2", "always"), ("r3", "once")]
    assert err.getvalue().count("more to answer:") <= 2


@pytest.mark.requirement("D9")
async def test_a_request_that_comes_while_one_is_asked_about_is_listed_with_it(app, ask, console):
    err, type_ = console
    ask("r1")
    await err.shows("[o]nce [a]lways [d]eny: ")
    ask("r2")
    await err.shows("1 more to answer:\nmaster asks permission for Bash\n  command: run r2")
    await err.shows("all 2: [oo] allow once [dd] deny: ")
    app.say("permission_resolved", "m", request="r2", verdict="deny", by="user", via="prsm answer")
    await err.shows(
        "dd] deny: \nBash of master: deny (by user, prsm answer)\nmaster asks permission"
    )
    assert err.getvalue().endswith("  reason: not known\n[o]nce [a]lways [d]eny: ")
    type_("o\n")
    assert await app.answered("r1") == "once"
    assert app.answers == [("r1", "once")]


async def test_the_prompt_of_a_question_that_is_answered_elsewhere_is_not_shown_again(app, console):
    err, _ = console
    app.say("question_asked", "m", request="q", question="Which colour?", options=[])
    await err.shows("answer: ")
    app.say("question_answered", "m", request="q", by="user", via="prsm attach")
    await err.shows("closed (by user, prsm attach)\n")
    assert err.getvalue().endswith(
        "answer: \nthe question of master is closed (by user, prsm attach)\n"
    )
    assert err.getvalue().count("answer: ") == 1


async def test_several_choices_where_one_is_asked_for_are_asked_again(app, console):
    err, type_ = console
    asked = {"question": "Which?", "options": ["red", "blue"]}
    app.say("question_asked", "m", request="q", multiple=False, **asked)
    await err.shows("number or text: ")
    type_("1 2\n")
    await err.shows("1 2: this question takes one choice.\nnumber or text: ")
    type_("2\n")
    assert await app.answered("q") == Answer(choices=("blue",))
    app.say("question_asked", "m", request="q2", multiple=True, **asked)
    await err.shows("numbers or text: ")
    type_("1 2\n")
    assert await app.answered("q2") == Answer(choices=("red", "blue"))


@pytest.mark.requirement("D9")
async def test_the_whole_command_is_shown_and_nothing_in_it_can_pass_for_something_else(
    app, ask, console
):
    err, type_ = console
    lines = [f"echo {number}" for number in range(300)]
    hidden = "rm -rf ~ # \x1b[1A\x1b[2K\r\u202e\u200b\u00a0\x9b\x07"
    forged = "[o]nce [d]eny: \n  reason: it is known to be safe"
    ask("r1", command="\n".join([*lines, hidden, forged]))
    await err.shows("  reason: not known\n[o]nce")
    shown = err.getvalue()
    assert all(f"  | {line}\n" in shown for line in lines), "never cut"
    assert "  | rm -rf ~ # \\x1b[1A\\x1b[2K\\x0d\\u202e\\u200b\\xa0\\x9b\\x07\n" in shown
    assert "  | [o]nce [d]eny: \n  |   reason: it is known to be safe\n" in shown
    assert not {char for char in shown if unicodedata.category(char) in {"Cc", "Cf"}} - {"\n"}
    type_("d\n")
    assert await app.answered("r1") == "deny"


@pytest.mark.requirement("D9", "U9")
async def test_the_prompt_names_the_part_the_reason_and_the_rules_that_answers_make(
    app, ask, console
):
    err, type_ = console
    ask(
        "r1",
        command="npm ci && npm run build -- --prod && ls",
        parts=["npm ci", "npm run build -- --prod"],
        options=["once", "allow_project", "allow_global", "deny", "deny_project", "deny_global"],
        rules={"allow": ["npm ci", "npm run build"], "deny": ["npm ci"]},
    )
    await err.shows(
        "  command: npm ci && npm run build -- --prod && ls\n"
        "  part: npm ci\n"
        "  part: npm run build -- --prod\n"
        "  reason: not known\n"
        "  rule to allow: npm ci\n"
        "  rule to allow: npm run build\n"
        "  rule to deny: npm ci\n"
        "[o]nce [p]roject [g]lobal [dp] deny project [dg] deny global [d]eny: "
    )
    type_("dp\n")
    assert await app.answered("r1") == "deny_project"


@pytest.mark.requirement("U1")
async def test_a_line_that_names_an_agent_is_a_prompt_though_a_permission_is_asked(
    app, ask, settled, running
):
    controller, terminal = pty.openpty()
    try:
        async with running(stdin=terminal) as (_, _, err):
            await settled()
            app.spawn()
            ask("r1")
            await err.shows("[d]eny: ")
            os.write(controller, b"@master mind the tests\n")
            await err.shows("you: @master mind the tests (it has it now)")
            os.write(controller, b"what is this about?\n")
            await err.shows("what is this about? is none of the answers.")
            os.write(controller, b"o\n")
            await err.shows("(by user)")
            app.say("question_asked", "m", request="q", question="Who?", options=[])
            await err.shows("answer: ")
            os.write(controller, b"@someone\n")
            await err.shows("is answered with @someone")
            app.finish()
    finally:
        os.close(controller)
        os.close(terminal)
    assert app.prompts == [("m", "mind the tests", "inject")]
    assert app.answers == [("r1", "once"), ("q", Answer(text="@someone"))]

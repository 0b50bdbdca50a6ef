"""Everything that an engine holds in memory is stored, derived at a resume, or rightly lost.

Who adds an attribute says here which of them it is, and why. `stored` says what tells it, `derived`
what it is made of, `lost` why nobody misses it, or what that costs.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import fields, is_dataclass

import msgspec
import pytest
from prsm_files.session.evidence.evidence import ClaimProof
from prsm_files.session.session_files import SessionFiles

from prsm_core.domain.notes import Notes
from prsm_core.engine.agents.failover import Failover
from prsm_core.engine.agents.holds import Holds
from prsm_core.engine.agents.life import AgentLife
from prsm_core.engine.agents.opening import ContextKeeper
from prsm_core.engine.agents.session import AgentSession
from prsm_core.engine.assembly import Assembly
from prsm_core.engine.engine import CurrentRun, OrchestrationEngine
from prsm_core.engine.journal.sinks import _SinkRunner
from prsm_core.engine.providers.registry import AuthProfiles
from prsm_core.engine.providers.residents import Residents
from prsm_core.engine.providers.retry import CircuitBreaker
from prsm_core.engine.requests import HumanRequests
from prsm_core.engine.spending import BudgetLedger
from prsm_core.engine.state import AgentRecord, OpenQuestion
from prsm_core.engine.turns.call import Call
from prsm_core.engine.turns.calls import TurnCalls
from prsm_core.engine.turns.fold import TurnFold
from prsm_core.engine.turns.run import TurnRun
from prsm_core.engine.turns.stuck import StuckDetector, StuckWatch

WIRED = "derived: wired anew by the assembly"
CONFIG = "derived: from the configuration of the engine that goes on"
OF_RECORD = "derived: the record of the agent"
NOTES = "stored: AgentNow.notes"
WITH_TASK = "lost: of a task that died with its process"

KEPT = {
    AgentRecord: {
        "descriptor": "stored: AgentNow.agent; MCP servers are today's, since the ledger has no"
        " secrets, and the budget is moved with that of the run",
        "agent_id": "stored: AgentNow.agent",
        "incarnation": "stored: AgentNow.agent; one more with each resume",
        "state": "stored: AgentNow.agent; a resume is no transition",
        "children": "derived: from the parents of all agents",
        "live_children": "derived: from the parents of those that have not ended",
        "waiting_on": "stored: AgentNow.waiting_on",
        "result": "stored: AgentNow.result of one that has ended",
        "has_ended": "derived: it has where the state is an end",
        "_ended": WITH_TASK,
        "claimed_result": "stored: AgentNow.result of one that has not ended, written with the end"
        " of its call; one that a budget ends claims it anew at its next turn",
        "resume_token": "stored: AgentNow.resume_token; rides in every step once it changes",
        "questions": "derived: from SessionState.questions",
        "progress": "derived: from what children have reported and the agent was told, both noted",
        "next_turn": "stored: AgentNow.next_turn",
        "head_turn_id": "stored: AgentNow.head_turn_id",
        **dict.fromkeys(
            ("context_used", "context_window"),
            "lost: told or counted anew by the next turn; until then no thread counts as full",
        ),
        "reasoning_used": "stored: AgentNow.notes; a crash loses a second of it, and what came"
        " after the agent's last step",
        "notes": NOTES,
        "is_condemned": "derived: from notes.ending, and of those below from their parents'; one"
        " without agents below it ends by one step",
        **dict.fromkeys(
            ("takes_messages", "sends_messages"), "derived: from the tools of the life that begins"
        ),
        "peers": WIRED,
        "has_profile": "derived: from the role and the system prompt",
        "wants_tree": "lost: of an agent that is not born yet; its folder tells it afterwards",
        "stand_in": "lost: told at its birth; a call that is answered again has it as its effect",
        "started_at": "lost: how long an agent took is told of the engine that ended it",
        "team": "derived: from the system prompt; news of a restart are told once more",
        "team_source": "derived: of the workforce that the engine knows",
        "skills": "derived: from the system prompt; news of a restart are told once more",
        "told": "derived: a result that is not read is among SessionState.unread",
        "birth": "derived: from the order of creation",
        "riders": "lost: they come before no act of their own; what they say is said again",
        "_steps": "derived: an incarnation numbers its steps from 1",
    },
    OpenQuestion: {
        "message": "stored: AskedQuestion.message",
        "delivered": "stored: AskedQuestion.is_read",
    },
    Notes: dict.fromkeys(Notes.__struct_fields__, NOTES),
    AgentSession: {
        "record": OF_RECORD,
        "life": "derived: a life of the new incarnation",
        "_failover": WIRED,
        "_left_turn": "derived: from AgentNow.open_turn",
        "_has_place": "derived: true of who is resumed, since its place may be taken",
        "_host": WIRED,
        "_left": "derived: AgentNow itself",
        "stuck": "derived: what the open turn did is counted again",
        "is_external": "derived: by the provider; a master outside is not gone on with",
        "_is_program": "derived: by the provider",
        "tools": WIRED,
        "_must_reopen": "lost: the first session of a life is a new one anyway",
        "_parts": WIRED,
        "_keeper": WIRED,
        **dict.fromkeys(
            ("_held_by", "_held_times"),
            "lost: it is tried again at once, and the vendor says again what holds it; whoever"
            " resumes may have logged in meanwhile",
        ),
        "_said_before": "lost: words before a compaction; the log has them",
    },
    AgentLife: {
        "record": OF_RECORD,
        "turn": "derived: the open turn",
        "_parts": WIRED,
        "is_leaving": "lost: of a session that was being closed; no session is there now",
        "_number": "derived: the incarnation",
        "_lease": "derived: those at work take their slots first",
        "_waits": "derived: open calls wait again, and so does who waited between turns",
    },
    Failover: {
        "_record": OF_RECORD,
        "_parts": WIRED,
        "_login": "derived: from the session that is opened",
        "unopened": "lost: sessions that another engine could not open are not held against it",
        "_was_cut_off": "derived: true of who is resumed",
    },
    ContextKeeper: {
        **dict.fromkeys(("_record", "_contexts", "_tools"), WIRED),
        "_trigger": "derived: a turn whose prompt was too long says so, and is dealt with again",
        "_refusal": "derived: from the error of the turn",
        "has_retried": "lost: a prompt that is still too long is compacted once more",
        "_gave_up": "lost: compacting at the budget is tried once more",
    },
    ClaimProof: {"_record": OF_RECORD, "_from": WIRED},
    StuckWatch: {
        "_life": WIRED,
        "_ends": WIRED,
        "_background": WIRED,
        "_journal": WIRED,
        "_commands": CONFIG,
        "_limits": CONFIG,
        "_prompt": "stored: in the messages of the turn",
        "_made": "derived: from the acts of the open turn",
        "_notice": "lost: a warning that no answer has carried yet; at twice the limit it fails",
    },
    StuckDetector: {
        "_limits": CONFIG,
        **dict.fromkeys(
            ("_prompt", "_last", "_before", "_text", "_repeats", "_steps", "_messages", "_texts"),
            "derived: from the acts of the open turn; what went on over several turns with the same"
            " prompt counts from the open one",
        ),
    },
    TurnRun: {
        "turn_id": "stored: TurnState.turn_id",
        "going_on": "derived: TurnState itself",
        "_prompt": "stored: in the messages of the turn; what the thread lacks is told",
        "fold": "derived: from TurnState",
        "calls": "derived: from the calls of TurnState",
        "earlier": "lost: tokens of calls that outlived a client, which is gone; the calls go on",
        "clock": "derived: goes on from the reasoning that was noted; silence counts from now",
        "stop": "lost: who asked for the turn's end asked a process that is gone",
        "limits": "lost: timers begin anew with the stream",
        "_live": "lost: text that was streamed and not completed is streamed again",
        "heard_from": "lost: a model that goes on has heard what its thread holds",
        "_phase": "derived: SETTLING until its calls are answered",
        "_provider": "derived: opened anew, by the thread that is kept",
        "is_external": "derived: by the provider; a master outside is not gone on with",
        "_parent_turn": "derived: TurnState.parent_turn_id",
        **dict.fromkeys(("_life", "_record", "_stuck", "_parts", "vendors"), WIRED),
    },
    TurnCalls: {
        "open": "derived: calls of TurnState without an answer are made again",
        "rows": "derived: calls of TurnState with one",
        "cut_off": "derived: open calls of a turn that goes on no further",
        "_unbegun": "derived: open calls of TurnState, until they are made again",
        "settled": "derived: those, once they were made again without a session",
        "_response": "lost: a response that is cut off makes no further call",
        "_ids": "lost: with it",
        "_twins": "lost: a session that is opened anew is told of each call by itself",
        "completing": "stored: AgentNow.result, in the step of the call",
        "_going_on": "derived: TurnState itself",
        "_is_over": "derived: from the phase of the turn",
        "_let_go": WITH_TASK,
        "_cut": WITH_TASK,
        "asking": "derived: the calls that ask do so again",
        **dict.fromkeys(
            ("is_left", "_left", "_taken_up"),
            "lost: of a session that was being closed; no session is there now",
        ),
        **dict.fromkeys(("turn", "life", "parts", "tools"), WIRED),
    },
    Residents: {
        **dict.fromkeys(("_running", "_clock"), WIRED),
        "_limit": CONFIG,
        **dict.fromkeys(
            ("_table", "_waiting", "_starting", "_starts", "_line", "_news"),
            "lost: of processes that have ended with their engine",
        ),
    },
    Call: {
        **dict.fromkeys(
            ("id", "name", "args", "sequence", "started_at_ms"), "stored: CallState.call"
        ),
        "calls": WIRED,
        "opened": "derived: what is in the ledger is open",
        "response": "stored: CallState.response",
        "has_acted": "derived: whether the ledger has effects of it",
        "is_again": "derived: true of calls of an earlier engine",
        "effects": "stored: CallState.effects",
        "opening": "derived: it is in the ledger",
        "task": WITH_TASK,
        "closed": "derived: from CallState.call.completed_at",
        "closed_at_ms": "derived: from CallState.call.completed_at",
        **dict.fromkeys(("wait", "is_asking"), "derived: the handler waits again"),
        "by_answer": "derived: the handler runs again, and nothing of it is written before",
        "consumed": "lost: claimed, but not answered: the messages are unread still",
        "spawned_session_label": "derived: from the effect that names the child",
        "notice": "lost: how its arguments were read, which are stored as they were meant",
        "fits": "derived: they are checked again",
        "outcome": "stored: the same bytes that the model was given, cut before either has them",
    },
    TurnFold: {
        **dict.fromkeys(("turn_id", "number", "started_at_ms"), "stored: TurnState"),
        **dict.fromkeys(("new_id", "now_ms"), WIRED),
        "price": CONFIG,
        "messages": "stored: TurnState.messages",
        "said": "derived: from TurnState.messages",
        "calls": "stored: TurnState.calls",
        "calls_begun": "derived: from TurnState.calls",
        **dict.fromkeys(("_said_at", "_called_at"), "lost: all that comes after a death is later"),
        "responses": "derived: from the responses of TurnState.calls",
        **dict.fromkeys(
            ("usage", "cost_usd", "usage_provenance", "cost_provenance"),
            "stored: TurnState.spent; what was used after the agent's last step is not known",
        ),
        **dict.fromkeys(
            ("context", "thread_used"),
            "lost: the next report of usage tells how full the window is",
        ),
        "end": "lost: a turn whose end was not written goes on",
        "compaction": "lost: told at the turn's end by the session that compacts",
        "permissions_used": "lost: of the time before; the log tells each request and its answer",
        "_partial": "lost: a response that was cut off is asked for again",
    },
    Assembly: {
        "config": CONFIG,
        "feed": WIRED,
        "budgets": "derived: from what turns have used, by Resumption",
        "requests": "derived: from SessionState.requests that a call waits for",
        "holds": "lost: who was held tries again, and is held again where nothing was mended",
        "router": "derived: mailboxes from SessionState.unread",
        "peers": "derived: who may write, from the tools of the lives that begin",
        "quiet": "lost: what ran has died with its engine",
        "skills": "derived: looked for anew; what agents were told stands in their prompts",
        "files": "derived: by its parts, below",
        "slots": "derived: those at work take theirs first",
        "_roster": "derived: from SessionState.agents",
        "_leases": "derived: from the regions in the grants",
        "_idle": "derived: from ended children and what is unread",
        "_lives": "derived: one for each agent that had not ended",
        "detector": "derived: waits are told again as calls wait again",
        "providers": "lost: logins that rested and open breakers: each is asked once more, which"
        " costs a request, and a person who resumes may have mended it",
        "listings": "derived: asked for again",
        "sandbox": "derived: prepared again",
        "abort": "lost: its signal is of a program that has died; who resumes gives another",
        **dict.fromkeys(
            (
                *(
                    "background",
                    "journal",
                    "contexts",
                    "conversations",
                    "enforcement",
                    "workforce",
                    "steps",
                ),
                *("planner", "manager", "ends", "_knots", "prompting", "user_prompts", "_standing"),
                *("_permits", "_sessions", "labelling"),
            ),
            WIRED,
        ),
    },
    SessionFiles: {
        "context": WIRED,
        "_snapshots": "derived: one that was taken and never named is named by the next",
        "keeper": "derived: the shadows on the disk; git is started anew",
        "watch": "stored: what was found; what was not, by the tracker's files and open calls",
        "trees": "stored: in the records of worktrees; what is made late is made again",
        "folders": "derived: from the folders of agents",
        "_sources": WIRED,
    },
    OrchestrationEngine: {
        **dict.fromkeys(
            (
                *("_background", "feed", "journal", "_parts", "_starting"),
                *("manager", "ends", "detector", "prompting", "user_prompts"),
                *("quiet", "files", "holds"),
                *("router", "peers", "slots", "requests", "budgets", "providers", "enforcement"),
                *("conversations", "listings", "_run", "parting"),
            ),
            WIRED,
        ),
        **dict.fromkeys(("_config", "clock", "ids", "settings", "workspace"), CONFIG),
        "_shutdown_lock": WITH_TASK,
        "_knows_names": "derived: they are read from the ledger again",
    },
    CurrentRun: {
        **dict.fromkeys(("parts", "sinks", "_starting"), WIRED),
        "account": "derived: from the events of the run",
        "_started": "lost: a run's time is told of the engine that ended it",
        **dict.fromkeys(("_broken", "_finishing", "_ends"), WITH_TASK),
    },
    Holds: {
        **dict.fromkeys(
            (
                *("roster", "steps", "requests", "detector", "journal", "background"),
                *("clock", "ids", "leads", "end_run"),
            ),
            WIRED,
        ),
        "limits": CONFIG,
        **dict.fromkeys(("_asking", "_ending", "_patience"), WITH_TASK),
    },
    CircuitBreaker: {
        "clock": WIRED,
        **dict.fromkeys(
            ("_failures", "_open_until"),
            "lost: a pause of seconds, which a restart outlasts; the next failures open it again",
        ),
    },
    AuthProfiles: {
        "_clock": WIRED,
        "_rests_until": "lost: the vendor says again that a login is used up, at the cost of one"
        " request; whoever resumes may have logged in meanwhile",
    },
    BudgetLedger: {
        "_on_alert": WIRED,
        "_is_told": "derived: true while it adopts",
        "run": "derived: from the runs of the scopes",
        "_lets_finish": CONFIG,
        "_scopes": "derived: from AgentNow.spent and turns; alerts of what was used by then were"
        " told by the engine that died",
        "_launches": "derived: reserved anew by the next turn",
        "_turns": "derived: from the open turns",
        "_ended": "stored: in the rows of closed turns",
        **dict.fromkeys(
            ("_last", "_measured", "_totals"),
            "lost: estimates begin anew with the first turn that is measured",
        ),
    },
    HumanRequests: {
        **dict.fromkeys(("clock", "journal", "steps", "rules"), WIRED),
        **dict.fromkeys(("policy", "workspace"), CONFIG),
        "_open": "derived: from SessionState.requests that a call waits for; others are ended",
        "_left": "derived: from SessionState.requests",
        "_outcomes": "lost: a second answer is told that the request is unknown, no more that it"
        " was answered",
        "_attended_at": "lost: whether somebody is there is asked of today",
        "_is_hint_told": "lost: what ends such questions is told once more",
    },
    _SinkRunner: {
        **dict.fromkeys(("_guest", "_clock", "_on_drop", "_on_fault"), WIRED),
        "_spec": CONFIG,
        "_sink": "derived: opened anew by the plugin",
        "_queue": "lost: a sink gets each event once at most; the numbers of events tell it what"
        " it lacks, and the ledger has it",
        **dict.fromkeys(
            ("_wake", "idle", "_writing", "_closing", "task"),
            WITH_TASK,
        ),
        **dict.fromkeys(
            ("_is_given_up", "_is_told"), "lost: it is tried again with what comes from now on"
        ),
        "_dropped": "lost: the numbers of events tell which are missing",
    },
}


def attributes(kind: type) -> set[str]:
    """Return the names of all that instances of a class hold."""
    if issubclass(kind, msgspec.Struct):
        return set(kind.__struct_fields__)
    if is_dataclass(kind):
        return {field.name for field in fields(kind)}
    if "__slots__" in vars(kind):
        return {slot for one in kind.__mro__ for slot in vars(one).get("__slots__", ())}
    own = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    return {
        node.attr
        for node in ast.walk(own)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


@pytest.mark.parametrize("kind", KEPT)
def test_each_attribute_is_said_to_be_stored_derived_or_rightly_lost(kind):
    said = KEPT[kind]
    assert attributes(kind) == set(said)
    for attribute, fate in said.items():
        word, _, why = fate.partition(": ")
        assert word in {"stored", "derived", "lost"}, attribute
        assert why, attribute

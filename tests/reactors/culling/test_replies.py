"""Three hours of one answer, from the reader through the ledger's fold to the verdict: which of them ever cull.

Source: docs/reliability.md and docs/wrong-input.md B: absence of evidence never culls, lying evidence is clamped.
"""

import json

import pytest

from bus.clock import SECOND_US, format_stamp
from bus.events.notebooks import NotebookSampled
from bus.notebooks import jupyter
from bus.notebooks.memory import Known, remember
from bus.notebooks.prober import ProbeResponse, Unanswered
from projections import activity
from reactors.culling.evidence import samples_of
from reactors.culling.fusion import Warned, evaluate
from reactors.culling.policy import CullingPolicy, NotebookSubject, limits_of
from tests.bus.notebooks.notebooks import peer

START_US = 1_800_000_000 * SECOND_US
MINUTE_US = 60 * SECOND_US
OLD = format_stamp(START_US + MINUTE_US)
LIMITS = limits_of(CullingPolicy(), NotebookSubject("team-a"))


def kernel(state="idle", at=OLD, **fields):
    return {"execution_state": state, "last_activity": at, "connections": 0} | fields


def ok(value):
    return ProbeResponse(200, json.dumps(value).encode())


#: What the server answers for kernels; terminals are readable and none unless a pair says otherwise.
REPLIES = {
    "idle kernels": ok([kernel()]),
    "no kernels and no terminals": ok([]),
    "no kernels, terminals switched off": (ok([]), ProbeResponse(404, b"")),
    "a kernel that nobody ever connected to": ok([kernel("starting")]),
    "stamps before the start": ok([kernel(at="2001-01-01T00:00:00Z")]),
    "stamps of the year 9999": ok([kernel(at="9999-12-31T23:59:59Z")]),
    "an old terminal and no kernels": (ok([]), ok([{"last_activity": OLD}])),
    "busy": ok([kernel("busy")]),
    "one busy of a thousand": ok([kernel()] * 999 + [kernel("busy")]),
    "an unknown state": ok([kernel("zombie")]),
    "a state of null": ok([kernel(None)]),
    "a state that is a number": ok([kernel(1)]),
    "dead": ok([kernel("dead")]),
    "starting with a client": ok([kernel("starting", connections=1)]),
    "an open notebook": ok([kernel(connections=1)]),
    "no time": ok([kernel(at="")]),
    "a time without a zone": ok([kernel(at="2001-01-01T00:00:00")]),
    "a time of null": ok([kernel(at=None)]),
    "no kernels and refused terminals": (ok([]), ProbeResponse(403, b"")),
    "no kernels and unreachable terminals": (ok([]), Unanswered("timed_out")),
    "an object": ok({}),
    "null": ok(None),
    "HTML": ProbeResponse(200, b"<html>login</html>"),
    "NaN": ProbeResponse(200, b"[NaN]"),
    "deep JSON": ProbeResponse(200, b"[" * 9_999),
    "nothing": ProbeResponse(200, b""),
    "1,001 kernels": ok([kernel()] * 1_001),
    **{f"status {s}": ProbeResponse(s, b"[]") for s in (201, 204, 301, 302, 307, 400, 401, 403, 404, 500, 503)},
    **{fault: Unanswered(fault) for fault in (
        "timed_out", "no_connection", "closed_early", "not_http", "too_large", "encoded",
        "address_refused", "request_refused")},
}  # fmt: skip

#: The only ones that say that nobody is there; a liar is one of them once it is found out.
CULLED = {
    "idle kernels", "no kernels and no terminals", "no kernels, terminals switched off",
    "a kernel that nobody ever connected to", "stamps before the start",
    "stamps of the year 9999", "an old terminal and no kernels",
}  # fmt: skip


def verdicts(reply):
    """The decision at every look of three hours; a warning is out for as long as it can be."""
    pair = reply if isinstance(reply, tuple) else (reply, ok([]))
    notebook = peer(started_us=START_US)
    known, row, decisions = Known(), None, []
    for minute in range(0, 180):
        now_us = START_US + minute * MINUTE_US
        known, said = remember(known, jupyter.reads(pair, notebook, now_us), now_us)
        if said is not None:
            fact = NotebookSampled(uid="u1", evidence=said)
            event = fact.event(cluster="c", key="u1", id=str(minute), source="", time_us=now_us)
            row = activity.fold(row, fact, event)
        warned = Warned(now_us - 20 * MINUTE_US, "idle") if minute > 60 else None
        verdict = evaluate(
            samples_of(row), running_since_us=START_US, warned=warned, limits=LIMITS, now_us=now_us
        )
        decisions.append(verdict.decision)
    return decisions


def test_there_are_forty_answers():
    assert len(REPLIES) >= 40


@pytest.mark.parametrize("name", REPLIES)
def test_three_hours_of(name):
    assert (name in CULLED) is ("cull" in verdicts(REPLIES[name]))


@pytest.mark.parametrize("name", sorted(CULLED))
def test_nothing_is_culled_before_its_limit_of(name):
    assert "cull" not in verdicts(REPLIES[name])[:61]


@pytest.mark.parametrize("name", [name for name in REPLIES if "status" in name or name == "HTML"])
def test_what_cannot_be_read_is_unknown_and_never_kept_as_idle(name):
    assert {"unknown"} == set(verdicts(REPLIES[name]))

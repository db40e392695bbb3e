"""`bursar verify --decisions` on what queues released, and what questions read of decisions that were stored together."""

import asyncio
import json

import msgspec
import pytest

from bus.events.admissions import AdmissionsGrouped
from deploy.cli.program.exits import Exit
from reactors.queue import releasing
from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import quiet, until
from tests.simulation.loop import simulate


@pytest.fixture(scope="module")
def events():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releasing, "APART_SECONDS", 0.0)
        return simulate(lived())


async def lived():
    """Six of one core share four cores, two by two decisions at a time; one is left waiting."""
    async with Jobs() as cluster:
        await cluster.see_team(4)
        await asyncio.gather(*(cluster.create(f"j{n}") for n in range(6)))
        await until(lambda: len(cluster.running()) == 4)
        await cluster.delete(cluster.running()[0])
        await until(lambda: len(cluster.running()) == 4)
        await quiet(cluster)
        return list(cluster.transport.events)


def verified(capsys, data):
    code = bursar("verify", "--decisions", "--data", data, "-o", "json")
    return code, json.loads(capsys.readouterr().out)


def test_every_release_is_derived_again_and_counted(capsys, events, tmp_path):
    code, row = verified(capsys, make_ledger(tmp_path, events))

    assert (Exit.OK, True, 5, []) == (
        code,
        row["ok"],
        row["releases"],
        row["releases_different"],
    )


def test_a_release_that_was_tampered_with_is_named(capsys, events, tmp_path):
    place = next(n for n, e in enumerate(events) if b'"released"' in e.body)
    group = AdmissionsGrouped.read(events[place])
    first = msgspec.structs.replace(group.decisions[0], charge={"limits.cpu": 1})
    forged = msgspec.structs.replace(group, decisions=(first, *group.decisions[1:]))
    body = msgspec.json.encode(forged)
    told = [
        *events[:place],
        msgspec.structs.replace(events[place], body=body),
        *events[place + 1 :],
    ]
    code, row = verified(capsys, make_ledger(tmp_path, told))

    assert (6, False, 4) == (code, row["ok"], row["releases"])
    named = {"what": "altered", "decision": group.ids[0], "sequence": place + 1}
    assert [named] == row["releases_different"]


def test_questions_take_decisions_that_were_stored_together_as_one(capsys, events, tmp_path):
    data = make_ledger(tmp_path, events)
    assert AdmissionsGrouped.wire_type in {event.type for event in events}
    bursar("queue", "show", "--data", data, "-o", "json")
    rows = json.loads(capsys.readouterr().out)
    bursar("quota", "show", "team", "--data", data, "-o", "json")
    shown = json.loads(capsys.readouterr().out)

    assert [("over-quota", 4000)] == [(r["reason"], r["deficits"][0]["used"]) for r in rows]
    assert 4 == len(shown["holders"])


def test_a_group_that_cannot_be_read_keeps_no_question_from_its_answer(capsys, events, tmp_path):
    """It is parked; the ledger counts it."""
    poison = AdmissionsGrouped(ids=("one",), decisions=()).event(
        cluster="c1", key="biz/team", id="poison", source="x", time_us=events[-1].time_us
    )
    data = make_ledger(tmp_path, [*events, poison])
    codes = [
        bursar(*command, "--data", data)
        for command in (("why", "ns/j0"), ("queue", "show"), ("verify", "--decisions"))
    ]

    assert [0, 0, 0] == codes

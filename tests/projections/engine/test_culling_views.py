"""What culling saved and what idles, as SQL says it, on both databases."""

import asyncio

from bus.events.decisions import RestoreAsked
from tests.factories import owner, pod_observed, pod_vanished, said, us
from tests.projections.engine.archives import fill, sequenced
from tests.reactors.culling.scene import Notebooks


async def _life():
    """nb-1 is culled at 2,700 s and runs again from 4,000 s on; nb-2 is in use until 3,000 s, nb-3 all the time."""
    at = Notebooks()
    await at.policy()
    for uid in ("nb-1", "nb-2", "nb-3"):
        await at.see(uid, kind="StatefulSet", pod={"cpu": "2", "gpu": 1})
    at.kernels = {"nb-1": {}, "nb-2": {"active_us": us(3_000)}, "nb-3": {"busy": True}}
    await at.pass_time(2_710)
    at.kernels.pop("nb-1")
    gone = pod_vanished("nb-1", version=90, at=2_720, deletion=2_720, cpu="2", gpu=1)
    await at.say(gone)
    await at.pass_time(1_290)
    (cull,) = at.decisions()
    await at.say(said(RestoreAsked(decision=cull.id, author="me"), key=cull.id, id="u", at=3_990))
    again = owner("StatefulSet-nb-1", "StatefulSet")
    await at.say(
        pod_observed("nb-1b", 91, at=4_000, created=4_000, owner=again, cpu="2", gpu=1),
    )
    await at.pass_time(100)
    return at.transport.events


EVENTS = asyncio.run(_life())


def asked(store, query):
    with store.engine.connect() as connection:
        return [dict(row._mapping) for row in connection.exec_driver_sql(query)]


def test_savings_are_what_was_held_at_the_end_until_the_workload_ran_again(store):
    fill(store, sequenced(EVENTS))
    (row,) = asked(store, "SELECT * FROM v1_savings")

    assert ("nb-1", "StatefulSet/StatefulSet-nb-1", 1) == (
        row["pod"],
        row["workload"],
        row["is_undone"],
    )
    assert (4_000 - 2_720, 2 * 1_280 / 3_600, 1_280 / 3_600) == (
        row["saved_s"], row["core_hours"], row["gpu_hours"],
    )  # fmt: skip


def test_idle_hours_are_what_is_held_since_the_last_activity_up_to_the_newest_look(store):
    fill(store, sequenced(EVENTS))
    rows = {row["pod"]: row for row in asked(store, "SELECT * FROM v1_idle_hours")}

    # Looks are every 100 s: the last one before nb-1 was stopped was at 2,700 s.
    assert {"nb-1": 2_700, "nb-2": 1_000} == {pod: row["idle_s"] for pod, row in rows.items()}
    assert 1_000 / 3_600 == rows["nb-2"]["gpu_hours"]


def test_decisions_are_rows_with_their_outcomes(store):
    fill(store, sequenced(EVENTS))
    rows = asked(store, "SELECT verb, key, result FROM v1_decisions ORDER BY decided_at")

    assert [("warn", "done"), ("cull", "done"), ("restore", "done")] == [
        (row["verb"].removeprefix("decision."), row["result"]) for row in rows
    ]

"""What must hold for every history: order, repetition and batches do not matter, and every second is counted once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import START_S, numbered
from tests.projections.ledger import dump, folded, tables
from tests.projections.worlds import DAY, HOUR, events_of, expected, worlds

#: The ci profile tries thousands of histories.
pytestmark = pytest.mark.timeout(3_000)

MEMORY = [{}, {"ended_kept": 0}, {"ended_kept": 0, "parts_kept": 1}]


@given(
    worlds(strange=True),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.sampled_from((1, 7, 1000)),
    st.sampled_from(MEMORY),
)
def test_any_order_and_repetition_gives_the_same_tables(
    world, ordered, list_versions, random, batch, memory
):
    events = events_of(world, ordered=ordered, list_versions=list_versions)
    mixed = events + random.sample(events, len(events) // 2)
    random.shuffle(mixed)

    expected = tables(numbered(events), without=("sequence",))
    actual = tables(
        numbered(mixed), batch=batch, restart_every=random.choice((0, 1)),
        without=("sequence",), **memory,
    )  # fmt: skip

    assert expected == actual


@given(
    worlds(strange=True),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.sampled_from(((1, 0), (1, 1), (7, 0), (7, 1), (7, 2))),
    st.sampled_from(MEMORY),
)
def test_any_split_into_batches_and_restarts_gives_the_same_rows_and_sequences(
    world, ordered, random, split, memory
):
    events = events_of(world, ordered=ordered)
    events += random.sample(events, len(events) // 2)
    random.shuffle(events)
    said = numbered(events)
    batch, restart_every = split

    expected = tables(said)
    actual = tables(said, batch=batch, restart_every=restart_every, **memory)

    assert expected == actual


@given(
    worlds(), st.booleans(), st.randoms(use_true_random=False), st.sampled_from((1, 7, 1000)),
    st.sampled_from(MEMORY),
)  # fmt: skip
def test_every_second_is_booked_as_a_brute_force_reading_of_the_rules_says(
    world, list_versions, random, batch, memory
):
    events = events_of(world, list_versions=list_versions)
    random.shuffle(events)
    store = folded(numbered(events), batch=batch, restart_every=random.choice((0, 1)), **memory)

    assert expected(world) == told(store)


@given(worlds(strange=True), st.randoms(use_true_random=False))
def test_hours_and_days_are_the_sums_of_the_ended_segments(world, random):
    events = events_of(world)
    random.shuffle(events)
    found = tables(numbered(events), batch=7)
    held = [s for s in found["held_segments"] if s["end_s"] is not None]
    amounts = ("cpu_milli", "memory_mib", "gpu_milli")
    sums = {f"{a}_s": sum(s[a] * (s["end_s"] - s["start_s"]) for s in held) for a in amounts}
    sums["held_s"] = sum(s["end_s"] - s["start_s"] for s in held)

    assert [sums, sums] == [
        {name: sum(row[name] for row in found[table]) for name in sums}
        for table in ("usage_hours", "usage_days")
    ]
    assert all(row["pods"] > 0 for row in (*found["usage_hours"], *found["usage_days"]))


@given(worlds(strange=True))
def test_rows_read_back_equal_the_rows_that_were_written(world):
    said = numbered(events_of(world))
    half = len(said) // 2

    assert tables(said, batch=max(half, 1), restart_every=1) == tables(said, batch=max(half, 1))


def told(store):
    """The ledger's tables in the shape of the oracle."""
    found = dump(store)
    runs = {
        row["uid"]: {
            "start_s": None if row["start_s"] is None else row["start_s"] - START_S,
            "end_s": None if row["end_s"] is None else row["end_s"] - START_S,
            "unknown_s": row["unknown_s"],
            "flags": json.loads(row["flags"]),
            "workload": row["workload"],
        }
        for row in found["pod_runs"]
    }
    segments = sorted(
        (
            s["uid"], s["start_s"] - START_S, None if s["end_s"] is None else s["end_s"] - START_S,
            s["cpu_milli"], s["team"], s["user_name"], s["node"], s["model"], s["quota"],
            s["cpu_type"],
        )
        for s in found["held_segments"]
    )  # fmt: skip
    sums = {}
    for width, name, period in ((HOUR, "usage_hours", "hour_s"), (DAY, "usage_days", "day_s")):
        sums[width] = {
            (r[period], r["team"], r["user_name"], r["namespace"], r["workload"], r["model"]): (
                r["cpu_milli_s"], r["held_s"], r["pods"],
            )
            for r in found[name]
        }  # fmt: skip
    return runs, segments, sums

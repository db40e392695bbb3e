"""What is known of a notebook's activity, whatever the order in which it was said."""

import itertools

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from bus.events.notebooks import Evidence, NotebookSampled
from projections import activity
from projections.activity import Activity
from projections.views import VIEWS
from reactors.culling.evidence import samples_of
from reactors.culling.fusion import Sample
from tests import factories as f
from tests.projections.ledger import folded, rows

K, T = "jupyter_kernels", "jupyter_terminals"


def looked(*evidence, at=0, uid="p"):
    """An event of one look."""
    fact = NotebookSampled(uid=uid, evidence=evidence)
    return f.said(fact, key=uid, id=f"{uid}/{at}/sampled/{evidence!r}", at=at)


def ok(source=K, *, active=None, **fields):
    return Evidence(source=source, active_us=None if active is None else f.us(active), **fields)


def failed(source=K, outcome="unreachable"):
    return Evidence(source=source, outcome=outcome, fault="timed_out")


def row_of(events):
    row = None
    for event in f.numbered(events):
        fact = NotebookSampled.read(event)
        row = activity.fold(row, fact, event)
    return row


def columns_of(events):
    names = [column.name for column in activity.notebook_activity.columns]
    return dict(zip(names, activity.codec.columns(row_of(events)), strict=True))


def test_the_newest_activity_of_all_sources_counts_and_never_moves_back():
    found = columns_of(
        [
            looked(ok(active=50), ok(T, active=70), at=100),
            looked(ok(active=20), ok(T, active=30), at=200),
        ]
    )

    assert (f.us(70), T, f.us(200)) == (
        found["active_us"],
        found["active_source"],
        found["observed_us"],
    )


def test_a_busy_kernel_is_active_when_it_was_seen():
    assert f.us(100) == columns_of([looked(ok(busy=True), at=100)])["active_us"]


def test_a_failed_look_moves_what_was_observed_and_not_what_is_known():
    found = columns_of([looked(ok(active=5), at=100), looked(failed(), at=200)])

    assert (f.us(200), f.us(100), f.us(5), f"{K}=unreachable") == (
        found["observed_us"],
        found["known_us"],
        found["active_us"],
        found["outcomes"],
    )


def test_a_notebook_that_was_never_readable_is_known_since_never():
    found = columns_of([looked(failed(outcome="refused"), at=100)])

    assert (None, None, f"{K}=refused") == (
        found["known_us"],
        found["active_us"],
        found["outcomes"],
    )


@pytest.mark.parametrize(
    ("looks", "since"),
    [
        ([(10, True), (20, True)], 10),
        ([(10, False), (20, True), (30, True)], 10),
        ([(10, True), (20, False), (30, True)], 20),
        ([(10, True), (20, False)], None),
    ],
    ids=["from the start", "since it was idle", "again", "not any more"],
)
def test_it_is_busy_since_it_was_last_seen_otherwise(looks, since):
    found = columns_of([looked(ok(busy=busy), at=at) for at, busy in looks])

    assert (None if since is None else f.us(since)) == found["busy_since_us"]


def test_what_was_not_believed_is_shown():
    assert "future,lying" == columns_of([looked(ok(flags=("future", "lying")))])["flags"]


def test_a_successor_inherits_nothing():
    store = folded(f.numbered([looked(ok(active=5), uid="a"), looked(failed(), uid="b", at=9)]))

    found = rows(store, activity.notebook_activity)

    assert [("a", f.us(5)), ("b", None)] == [(row["uid"], row["active_us"]) for row in found]


def test_a_row_read_back_is_the_row_that_was_stored():
    store = folded(f.numbered([looked(ok(active=5, counters={"kernels": 1}), failed(T), at=7)]))

    (columns,) = store.select(sa.select(activity.notebook_activity))

    assert activity.codec.columns(activity.codec.row(columns)) == tuple(columns)


def test_the_same_look_twice_changes_nothing():
    (event,) = f.numbered([looked(ok(active=5), at=7)])
    fact = NotebookSampled.read(event)
    row = activity.fold(None, fact, event)

    assert row is activity.fold(row, fact, event)


def test_the_view_names_the_pod_and_says_for_how_long_it_is_idle():
    seen = [f.pod_observed("p", at=1), looked(ok(active=50), at=100), looked(failed(T), at=170)]
    store = folded(f.numbered(seen))
    view = next(view for view in VIEWS if view.name == "v1_notebook_activity")

    with store.engine.connect() as connection:
        found = connection.execute(sa.text(view.sql["sqlite"])).mappings().one()

    expected = {"pod": "p", "idle_s": 120, "busy": 0, "outcomes": f"{K}=ok,{T}=unreachable"}
    assert expected == {name: found[name] for name in expected}


EVIDENCE = st.builds(
    Evidence,
    source=st.sampled_from([K, T]),
    outcome=st.sampled_from(["ok", "ok", "refused"]),
    busy=st.booleans(),
    connected=st.booleans(),
    active_us=st.none() | st.integers(0, 5).map(f.us),
)
LOOKS = st.lists(
    st.builds(lambda at, e: looked(e, at=at), st.integers(0, 5), EVIDENCE), min_size=1, max_size=5
)


@given(LOOKS)
def test_the_order_of_the_looks_changes_nothing(looks):
    told = {activity.codec.columns(row_of(order))[:-1] for order in itertools.permutations(looks)}

    assert 1 == len(told)


def test_a_row_is_judged_by_one_sample_a_source_and_its_newest_failure():
    row = row_of(
        [
            looked(ok(active=50, connected=True), ok(T, active=5), at=100),
            looked(failed(), ok(T, starting_since_us=3), at=200),
        ]
    )

    assert [
        Sample(source=K, observed_us=f.us(100), active_us=f.us(50), connected=True),
        Sample(source=K, observed_us=f.us(200), outcome="unreachable"),
        Sample(source=T, observed_us=f.us(200), active_us=f.us(5), starting_since_us=3),
    ] == samples_of(row)


def test_an_unknown_notebook_gives_no_samples():
    assert [] == samples_of(Activity("c", "p"))

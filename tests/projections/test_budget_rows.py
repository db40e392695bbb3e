"""What quotas spent, from rows: equal to the sum over the accounts of the pods, in any period, in any order of facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.accounts import accounts
from projections.attribution import attributed, names
from projections.budgets import Period, SpendPiece, committed
from projections.budgets.queries import forecast, hourly, spends
from projections.budgets.rows import budget_spends
from tests import factories as f
from tests.projections.entries import entry
from tests.projections.ledger import folded, rows
from tests.projections.worlds import events_of, worlds

HOUR, DAY = 3_600, 86_400
BIZ, KOORDINATOR = "biz.group.resource.quota", "quota.scheduling.koordinator.sh/name"
Q = {BIZ: "q"}

# whose it is


def names_of(text):
    """What ``quota cpu gpu memory`` and, of an object, ``elastic`` names, ``-`` for nothing."""
    return text and tuple("" if word == "-" else word for word in text.split())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, None),
        ({"app": "web"}, None),
        ({BIZ: ""}, None),
        ({BIZ: "q"}, "q - - - -"),
        ({KOORDINATOR: "k"}, "- - - - k"),
        ({BIZ: "q", KOORDINATOR: "k"}, "q - - - k"),
        ({BIZ: "", KOORDINATOR: "k"}, "- - - - k"),
        ({BIZ: "q", f"{BIZ}/cpu-type": "A4", f"{BIZ}/memory-type": "big"}, "q A4 - big -"),
        ({f"{BIZ}/gpu-type": "A30"}, "- - A30 - -"),
    ],
)
def test_the_labels_of_an_object_name_a_quota_and_types(labels, expected):
    assert names_of(expected) == names(labels)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], "- - - -"),
        ([None, None, None], "- - - -"),
        (["w - - - -", "p - - - -", "n - - - -"], "w - - -"),
        ([None, "p - - - -", "n - - - -"], "p - - -"),
        ([None, None, "n A4 - - -"], "n A4 - -"),
        (["- A4 - - -", None, "n - - - -"], "n A4 - -"),
        (["w - - - -", "p - A30 - -", "n A4 A40 big -"], "w A4 A30 big"),
        (["- A4 A30 big -", None, None], "- - - -"),
        (["- - - - k", "- - - - l", None], "k - - -"),
        ([None, None, "- - - - k"], "k - - -"),
    ],
)
def test_each_label_is_looked_for_on_the_workload_then_the_pod_then_the_namespace(
    sources, expected
):
    assert names_of(expected) == attributed(*map(names_of, sources))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_business_quota_wherever_it_stands_goes_before_koordinators_label(place):
    sources = ["- - - - k", "- - - - k", "- - - - k"]
    sources[place] = "q - - - k"

    assert attributed(*map(names_of, sources)) == ("q", "", "", "")


# rows


def spent(events, **options):
    """(account, hour after the start, spent, open amount, open missed, pods) of every row of cpu and gpu."""
    return sorted(
        (
            r["account"], (r["hour_s"] - f.START_S) // HOUR, r["spent"], r["open_amount"],
            r["open_missed"], r["pods"],
        )
        for r in rows(folded(f.numbered(events), **options), budget_spends)
        if r["quota"] == "q" and not r["account"].startswith("memory")
    )  # fmt: skip


END = f.pod_vanished(version=9, at=HOUR + 61, deletion=HOUR + 60, labels=Q)

ROWS = {
    "what belongs to no quota is no row": ([f.pod_vanished(at=11, deletion=10)], []),
    "what has ended is cut at the hour": (
        [END], [("cpu", 0, HOUR * 1000, 0, 0, 1), ("cpu", 1, 60_000, 0, 0, 1)]),
    "what is open stands in the hour in which it began": (
        [f.pod_observed(created=HOUR + 7, at=9000, labels=Q)], [("cpu", 1, 0, 1000, 7000, 1)]),
    "an account for each type": (
        [f.pod_vanished(at=11, deletion=10, gpu=2, labels={**Q, f"{BIZ}/gpu-type": "A30"})],
        [("cpu", 0, 10_000, 0, 0, 1), ("gpu.A30", 0, 20_000, 0, 0, 1)]),
    "a change of the label cuts": (
        [f.pod_observed(version=1, labels={BIZ: "other"}), f.pod_observed(version=2, at=50, labels=Q),
         f.pod_vanished(version=9, at=61, deletion=60, labels=Q)],
        [("cpu", 0, 10_000, 0, 0, 1)]),
    "a late label of the namespace restates": (
        [f.pod_vanished(at=11, deletion=10), f.namespace_observed(at=9000, labels=Q)],
        [("cpu", 0, 10_000, 0, 0, 1)]),
    "the label of the top workload goes before the pod's, and a change of it cuts": (
        [f.pod_vanished(at=31, deletion=30, labels={BIZ: "other"}, owner=f.owner("rs")),
         f.workload_observed("rs", owner=f.owner("d", "Deployment")),
         f.workload_observed("d", 1, 5, kind="Deployment", labels=Q),
         f.workload_observed("d", 2, 10, kind="Deployment", labels={BIZ: "third"}),
         f.workload_observed("d", 3, 25, kind="Deployment", labels=Q)],
        [("cpu", 0, 15_000, 0, 0, 1)]),
    "a link of the chain that is not its top names nothing": (
        [f.pod_vanished(at=31, deletion=30, owner=f.owner("rs")),
         f.workload_observed("rs", owner=f.owner("d", "Deployment"), labels=Q)], []),
    "an end closes what was open": (
        [f.pod_observed(labels=Q), f.pod_vanished(at=11, deletion=10, labels=Q)],
        [("cpu", 0, 10_000, 0, 0, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize(("history", "expected"), ROWS.values(), ids=list(ROWS))
def test_what_a_quota_spent_by_account_and_hour(history, expected, batch):
    assert expected == spent(history, batch=batch)
    assert expected == spent(history, batch=batch, restart_every=1, ended_kept=0)


# answers

MOMENTS = st.one_of(st.integers(-HOUR, 3 * HOUR), st.integers(-DAY, 26 * HOUR))


@given(
    worlds(strange=True), st.randoms(use_true_random=False), MOMENTS, MOMENTS,
    st.sampled_from(("q", "k")), st.sampled_from(("limits.cpu", "requests.cpu.A4", "limits.memory")),
)  # fmt: skip
def test_spending_of_any_period_is_the_sum_over_the_accounts(world, random, one, other, quota, key):
    events = events_of(world)
    random.shuffle(events)
    store = folded(f.numbered(events), batch=random.choice((1, 7, 1000)))
    from_s, to_s = sorted((f.START_S + one, f.START_S + other))

    expected = by_hand(store, quota, key, from_s, to_s)
    assert expected == spends(store.select, f.CLUSTER, quota, key, from_s, to_s)


@given(
    worlds(strange=True), st.integers(-30, 3), st.integers(0, 40),
    st.sampled_from(("q", "k")), st.sampled_from(("limits.cpu", "requests.cpu.A4", "cpu")),
)  # fmt: skip
def test_what_each_hour_spent_is_the_spending_of_that_hour(world, first, count, quota, key):
    store = folded(f.numbered(events_of(world)))
    from_s = f.START_S - f.START_S % HOUR + first * HOUR
    hours = range(from_s, from_s + count * HOUR, HOUR)
    found = hourly(store.select, f.CLUSTER, quota, key, from_s, from_s + count * HOUR)

    expected = [spends(store.select, f.CLUSTER, quota, key, one, one + HOUR) for one in hours]
    assert found == expected


def by_hand(store, quota, key, from_s, to_s):
    """The sum over every segment of every account."""
    amount = "memory_mib" if "memory" in key else "cpu_milli"
    return sum(
        getattr(held, amount) * max(0, min(held.end_s, to_s) - max(held.start_s, from_s))
        for account in accounts(store.select, as_of_s=to_s)
        for held in account.holdings
        if held.quota == quota and (key != "requests.cpu.A4" or held.cpu_type == "A4")
    )


def standing(events, key="limits.cpu", *, period=Period(0, None), hard=10**9, at=0):
    store = folded(f.numbered(events))
    return forecast(
        store.select, f.CLUSTER, "q", key, period=period, hard=hard, as_of_s=f.START_S + at
    )


@pytest.mark.parametrize(("cores", "hours"), [(1, 100), (2, 50), (100, 1)])
def test_100_core_hours_are_exhausted_at_exactly_the_second_that_the_article_says(cores, hours):
    pods = [f.pod_observed(f"p{n}", labels=Q) for n in range(cores)]
    found = standing(pods, hard=100 * HOUR * 1000)

    assert f.START_S + hours * HOUR == found.exhausts_s(f.START_S)
    assert 0 == found.left(f.START_S + hours * HOUR)


def test_c11_a_smaller_budget_charges_nothing_for_the_past():
    pods = [f.pod_observed(labels=Q)]
    large, small = (standing(pods, hard=hard, at=100) for hard in (10**9, 10))

    assert large.spend == small.spend
    assert 100_000 == small.spent(f.START_S + 100)
    assert 10 - 100_000 == small.left(f.START_S + 100)


def test_entries_of_the_period_add_to_the_budget():
    found = standing([entry(amount=100), entry("r2", amount=-30), entry("r3", quota="other")])

    assert (70, 10**9 + 70) == (found.credits, found.limit)


def test_a_key_that_the_ledger_does_not_measure_is_never_spent():
    found = standing([f.pod_observed(labels=Q)], "limits.ephemeral-storage")

    assert (10**9, None) == (found.left(f.START_S + DAY), found.exhausts_s(f.START_S))


@pytest.mark.parametrize(
    ("at", "end", "expected"), [(0, None, 100), (40, None, 60), (100, None, 0), (40, 70, 30)]
)
def test_an_open_pod_with_a_deadline_commits_its_remaining_run_time(at, end, expected):
    pods = [
        f.pod_observed("bounded", deadline_s=100, labels=Q),
        f.pod_observed("free", labels=Q),
        f.pod_observed("elsewhere", deadline_s=100),
        f.pod_vanished("ended", deadline_s=100, at=6, deletion=5, labels=Q),
    ]
    period = Period(0, None if end is None else f.START_S + end)

    assert expected * 1000 == standing(pods, period=period, at=at).committed


@pytest.mark.parametrize(
    ("own", "above", "expected"), [(None, 50, 50), (100, None, 100), (100, 50, 50), (20, 50, 20)]
)
def test_the_deadline_of_its_workload_bounds_a_pod_too(own, above, expected):
    pod = f.pod_observed(deadline_s=own, labels=Q, owner=f.owner("job", "Job"))
    job = f.workload_observed("job", kind="Job", demand={}, deadline_s=above)

    assert [expected * 1000] * 2 == [
        standing(events).committed for events in ([pod, job], [job, pod])
    ]


def test_a_deadline_that_could_be_no_stamp_commits_nothing():
    assert 0 == standing([f.pod_observed(deadline_s=2**62, labels=Q)]).committed


def test_committed_time_of_no_piece_is_nothing():
    assert 0 == committed([SpendPiece(0, None, 5)], Period(0, None), 7)

"""Reports: sums over any grouping are the sums of the segments, and whichever way they are computed they are the same."""

from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections import reports
from projections.accounts import accounts
from projections.reports import Question
from tests import factories as said
from tests.projections.ledger import folded

HOUR = 3_600
DAY = 86_400
AS_OF = said.START_S + 3 * DAY

HISTORY = [
    said.namespace_observed("ns", team="blue"),
    said.node_observed("n", model="A100"),
    said.pod_observed("bound", 1, 0, cpu="2", gpu=1, labels={"app": "x"}),
    said.pod_vanished("bound", 2, 7_200, cpu="2", gpu=1, deletion=7_200, labels={"app": "x"}),
    said.pod_observed("moved", 3, 1_800, created=1_800, scheduled=3_600, team="red", cpu="1"),
    said.pod_observed("moved", 4, 9_000, created=1_800, scheduled=3_600, team="green", cpu="1"),
    said.pod_observed("never", 5, 0, node=None, phase="Pending", labels={"app": "y"}),
    said.pod_vanished("never", 6, 60, node=None, phase="Pending", deletion=60, labels={"app": "y"}),
    said.pod_observed("brief", 7, 100, created=100, scheduled=100, cpu="8"),
    said.pod_vanished("brief", 8, 100, created=100, scheduled=100, deletion=100, cpu="8"),
]


def asked(question, events=HISTORY, how=reports.report):
    """The answer as {key: sums that are not 0}."""
    store = folded(said.numbered(events))
    with store.engine.connect() as connection:
        rows = how(connection, question)
    return {
        row.key: {n: v for n, v in msgspec.structs.asdict(row.sums).items() if v} for row in rows
    }


def test_a_pod_that_changes_its_team_is_in_both_and_waits_for_the_first():
    found = asked(Question(by=("team",), as_of_s=said.START_S + 10_800))

    assert found == {
        ("blue",): {
            "pods": 3, "held_pods": 2, "cpu_milli_s": 14_400_000, "gpu_milli_s": 7_200_000,
            "memory_mib_s": 7_372_800, "held_s": 7_200, "waiting_s": 60,
        },
        ("green",): {
            "pods": 1, "held_pods": 1, "cpu_milli_s": 1_800_000, "memory_mib_s": 1_843_200, "held_s": 1_800,
        },
        ("red",): {
            "pods": 1, "held_pods": 1, "cpu_milli_s": 5_400_000, "memory_mib_s": 5_529_600, "held_s": 5_400,
            "waiting_s": 1_800,
        },
    }  # fmt: skip


def test_a_pod_belongs_to_the_quota_that_its_labels_name_and_waits_for_it_too():
    biz = {"biz.group.resource.quota": "q"}
    mapped = said.namespace_observed("mapped", labels=biz)
    events = [
        said.pod_vanished("held", 2, 100, created=0, scheduled=10, deletion=40, labels=biz),
        said.pod_observed("waits", 3, 100, node=None, phase="Pending", namespace="mapped"),
        said.pod_vanished("free", 4, 100, deletion=5),
    ]
    found = asked(Question(by=("quota",), as_of_s=said.START_S + 100), [mapped, *events])

    told = {key: (sums.get("held_s", 0), sums.get("waiting_s", 0)) for key, sums in found.items()}
    assert {("q",): (30, 110), (None,): (5, 0)} == told
    assert [("q",)] == list(
        asked(Question(where={"quota": "q"}, by=("quota",), as_of_s=AS_OF), events)
    )


def test_what_was_never_bound_has_no_node_and_comes_last():
    found = asked(Question(by=("node", "label:app"), as_of_s=AS_OF))

    assert list(found) == [("n", "x"), ("n", None), (None, "y")]


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        pytest.param(None, None, 7_200 + 3 * DAY - 3_600, id="open ends are the moment of the question"),
        pytest.param(0, 3_600, 3_600, id="a period is half open"),
        pytest.param(3_599, 3_601, 2 + 1, id="a period cuts segments"),
        pytest.param(7_200, 7_200, 0, id="an empty period holds nothing"),
        pytest.param(-9_999, -1, 0, id="nothing was before the first pod"),
    ],
)  # fmt: skip
def test_periods_clip(start, end, seconds):
    question = Question(
        from_s=None if start is None else said.START_S + start,
        to_s=None if end is None else said.START_S + end,
        as_of_s=AS_OF,
    )

    assert asked(question)[()].get("held_s", 0) == seconds


def test_unknown_time_stands_beside_and_belongs_to_the_last_holder():
    events = [
        said.namespace_observed("ns", team="blue"),
        said.pod_observed("p", 1, 0),
        said.pods_listed([], at=500),
    ]

    found = asked(Question(by=("team",), as_of_s=AS_OF), events)[("blue",)]

    assert (found.get("held_s", 0), found["unknown_s"]) == (0, 500)


@pytest.mark.parametrize(
    ("zone", "kind", "start", "want"),
    [
        ("Europe/Berlin", "day", "2026-10-25T00:00:00+02:00", [("2026-10-25", 25 * HOUR)]),
        ("Europe/Berlin", "day", "2026-03-29T00:00:00+01:00", [("2026-03-29", 23 * HOUR)]),
        (
            "Europe/Berlin",
            "hour",
            "2026-10-25T02:00:00+02:00",
            [("2026-10-25T02:00:00+02:00", HOUR), ("2026-10-25T02:00:00+01:00", HOUR)],
        ),
        ("Asia/Kolkata", "hour", "2026-10-25T09:00:00+05:30", [("2026-10-25T09:00:00+05:30", HOUR)]),
        (
            "Australia/Lord_Howe",
            "hour",
            "2026-04-05T01:00:00+11:00",
            [("2026-04-05T01:00:00+11:00", HOUR), ("2026-04-05T01:00:00+10:30", HOUR // 2)],
        ),
        ("America/Havana", "day", "2026-11-01T00:00:00-04:00", [("2026-11-01", 25 * HOUR)]),
        ("Pacific/Apia", "day", "2011-12-29T00:00:00-10:00", [("2011-12-29", DAY), ("2011-12-31", DAY)]),
        ("UTC", "hour", "1970-01-01T00:00:00+00:00", [("1970-01-01T00:00:00Z", HOUR)]),
    ],
)  # fmt: skip
def test_days_and_hours_are_those_of_the_zone(zone, kind, start, want):
    begin = said.parse_stamp(start.replace("+00:00", "Z")) // 1_000_000

    pieces = reports.periods(kind, ZoneInfo(zone))(begin, begin + sum(s for _, s in want))

    assert [(period[1], seconds) for period, seconds in pieces] == want


@st.composite
def histories(draw):
    """A few pods of a few teams over three days, some late, some never bound, some open."""
    teams = st.sampled_from([None, "red", "blue"])
    events = [said.namespace_observed("ns", team=draw(teams)), said.node_observed("n", model="T4")]
    version = 1
    for number in range(draw(st.integers(1, 5))):
        created = draw(st.integers(0, 2 * DAY))
        scheduled = draw(st.none() | st.integers(created, created + 2 * HOUR))
        asks = {"cpu": f"{draw(st.integers(1, 4000))}m", "gpu": draw(st.integers(0, 2))}
        node = "n" if scheduled is not None else None
        fields = {"created": created, "scheduled": scheduled, "node": node, **asks}
        seen = created if scheduled is None else scheduled
        for team in draw(st.lists(teams, min_size=1, max_size=3)):
            events.append(said.pod_observed(f"p{number}", version, seen, team=team, **fields))
            version, seen = version + 1, seen + draw(st.integers(0, DAY))
        end = draw(st.none() | st.integers(seen, seen + DAY))
        if end is not None:
            events.append(said.pod_vanished(f"p{number}", version, end, deletion=end, **fields))
            version += 1
    return events


GROUPS = st.lists(st.sampled_from([*reports.DIMENSIONS, "label:app"]), max_size=3, unique=True).map(
    tuple
)
SECONDS = st.none() | st.integers(0, 80).map(lambda n: said.START_S + n * HOUR) | st.integers(
    said.START_S, AS_OF
)  # fmt: skip
QUESTIONS = st.builds(
    Question,
    by=GROUPS,
    from_s=SECONDS,
    to_s=SECONDS,
    as_of_s=st.integers(said.START_S, AS_OF),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]).map(ZoneInfo),
)


@given(histories(), QUESTIONS)
def test_the_sum_over_any_grouping_is_the_sum_of_the_segments(events, question):
    store = folded(said.numbered(events))
    with store.engine.connect() as connection:
        rows = reports.report(connection, question)
    held = [h for a in accounts(store.select, as_of_s=question.as_of_s) for h in a.holdings]
    spans = [
        (h, min(h.end_s, question.until_s) - max(h.start_s, question.from_s or h.start_s))
        for h in held
    ]
    want = [
        sum(getattr(h, n) * max(s, 0) for h, s in spans)
        for n in ("cpu_milli", "gpu_milli", "memory_mib")
    ]

    sums = [row.sums for row in rows]
    names = ("cpu_milli_s", "gpu_milli_s", "memory_mib_s")
    assert [sum(getattr(s, name) for s in sums) for name in names] == want


@given(histories(), QUESTIONS)
def test_the_kept_sums_give_the_same_amounts_as_the_segments(events, question):
    store = folded(said.numbered(events))
    with store.engine.connect() as connection:
        slow = reports.report(connection, question)
        fast = reports.sums(connection, question)

    def amounts(rows):
        names = ("cpu_milli_s", "gpu_milli_s", "memory_mib_s", "held_s")
        return [(r.key, *(getattr(r.sums, n) for n in names)) for r in rows if r.sums.held_s]

    assert amounts(fast) == amounts(slow)


@given(histories(), st.integers(said.START_S, AS_OF))
def test_without_a_period_every_pod_is_counted_once(events, as_of_s):
    store = folded(said.numbered(events))
    found = accounts(store.select, as_of_s=as_of_s)
    with store.engine.connect() as connection:
        (row,) = reports.report(connection, Question(as_of_s=as_of_s))

    sums = row.sums
    want = (len(found), sum(a.waiting_s for a in found), sum(a.unknown_s for a in found))
    assert (sums.pods, sums.waiting_s, sums.unknown_s) == want


def test_a_change_at_the_moment_of_the_question_is_not_in_its_amounts():
    events = [
        said.pod_observed("p", 1, 0, team="red"), said.pod_observed("p", 2, 3_600, team="green"),
    ]  # fmt: skip
    question = Question(by=("team",), as_of_s=said.START_S + 3_600)

    assert {("red",): 3_600} == {
        key: told["held_s"] for key, told in asked(question, events, reports.sums).items()
    }


def test_a_dimension_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="cannot group by 'label:'"):
        reports.check(["team", "label:"])

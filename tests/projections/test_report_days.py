"""Reports from the sums of days are what the pods say one by one, to the integer: amounts, times and how many pods there are."""

from zoneinfo import ZoneInfo

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from projections import reports
from projections.engine.store import LEDGER
from projections.engine.tables import checkpoints
from projections.pod_runs import derivation
from projections.pod_runs.blocks import block, blocks
from projections.reports import Question, days
from tests import factories as said
from tests.projections.ledger import folded
from tests.projections.worlds import events_of, worlds

DAY = 86_400
#: The midnight before the first event.
FIRST_S = said.START_S - said.START_S % DAY
DIMENSIONS = ("team", "user", "namespace", "quota", "model", "cluster", "node")
QUOTA = "biz.group.resource.quota"


def asked(store, question, asks=reports.report):
    """The answer as {key: sums}."""
    with store.engine.connect() as connection:
        rows = asks(connection, question)
    return {row.key: msgspec.structs.asdict(row.sums) for row in rows}


def without_sums(store):
    """The ledger, as one of an older version whose sums are not filled yet."""
    with store.engine.begin() as connection:
        is_it = checkpoints.c.name == LEDGER
        connection.execute(
            checkpoints.update()
            .where(is_it)
            .values(version=f"pod_runs={derivation.derivation.version}")
        )
    return store


_moments = st.integers(0, 12 * 24).map(lambda n: n * 3_600) | st.integers(0, 12 * DAY)
_names = st.sampled_from((None, "a", "b"))


@st.composite
def _pods(draw):
    """What a few pods did in twelve days: whose they are changes, some never hold, some do not end."""
    events, version = [], 1
    for number in range(draw(st.integers(1, 4))):
        created = draw(_moments)
        scheduled = draw(st.none() | st.integers(created, created + DAY))
        node = draw(st.sampled_from(("n", "m")))
        fields = {
            "created": created, "scheduled": scheduled, "node": None if scheduled is None else node,
            "gpu": draw(st.integers(0, 2)), "namespace": draw(st.sampled_from(("ns", "other"))),
        }  # fmt: skip
        at = created if scheduled is None else scheduled
        for _ in range(draw(st.integers(1, 5))):
            quota = draw(st.sampled_from(({}, {}, {QUOTA: "q"})))
            whose = {"team": draw(_names), "user": draw(_names), "labels": quota}
            changed = {**fields, **whose, "cpu": f"{draw(st.integers(1, 9))}"}
            events.append(said.pod_observed(f"p{number}", version, at, **changed))
            version, at = version + 1, at + draw(st.sampled_from((0, 60, 3_600, DAY, 3 * DAY)))
        if draw(st.booleans()):
            events.append(said.pod_vanished(f"p{number}", version, at, deletion=at, **changed))
            version += 1
    return events


@st.composite
def histories(draw):
    """Pods with changes of their namespaces and nodes, and lists that lack them, in any order."""
    events = draw(_pods())
    for name in ("ns", "other"):
        for version in range(1, draw(st.integers(1, 3))):
            fields = {"team": draw(_names), "labels": {QUOTA: draw(st.sampled_from(("q", "r")))}}
            events.append(said.namespace_observed(name, version, draw(_moments), **fields))
    for name in ("n", "m"):
        for version in range(1, draw(st.integers(1, 3))):
            model = draw(st.sampled_from((None, "A", "B")))
            events.append(said.node_observed(name, version, draw(_moments), model=model))
    for at in draw(st.lists(_moments, max_size=2)):
        events.append(said.pods_listed([], at=at, version="500"))
    return draw(st.permutations(events))


_seconds = st.none() | st.integers(-1, 13).map(lambda n: FIRST_S + n * DAY) | _moments.map(
    lambda s: said.START_S + s
)  # fmt: skip
_groups = st.lists(st.sampled_from((*DIMENSIONS, "day")), max_size=4, unique=True).map(tuple)
_wanted = st.sampled_from(
    (
        {},
        {},
        {"team": "a"},
        {"user": "b", "model": "A"},
        {"quota": "q"},
        {"quota": "", "model": ""},
        {"namespace": "ns"},
        {"node": "n"},
    )
)
_questions = st.builds(
    Question,
    by=_groups,
    from_s=_seconds,
    to_s=_seconds,
    where=_wanted,
    as_of_s=_moments.map(lambda s: said.START_S + s) | st.just(said.START_S + 20 * DAY),
)


@given(histories(), st.lists(_questions, min_size=3, max_size=3), st.sampled_from((1, 3, 1000)))
def test_sums_of_days_are_the_sums_of_pods(events, questions, batch):
    store = folded(said.numbered(events), batch=batch)
    kept = [asked(store, question) for question in questions]

    assert kept == [asked(without_sums(store), question) for question in questions]


@pytest.mark.parametrize("name", ["quota", "model"])
@pytest.mark.parametrize("kept", [True, False])
def test_an_empty_value_asks_for_what_has_none(name, kept):
    events = [said.pod_observed("open", 1, 0, scheduled=0, created=0)]
    for uid, start, end in (("one", 0, 2 * DAY), ("two", DAY, 9 * DAY)):
        times = {"scheduled": start, "created": start}
        events += [
            said.pod_observed(uid, 1, start, **times),
            said.pod_vanished(uid, 2, end, deletion=end, **times),
        ]
    store = folded(said.numbered(events))
    question = Question(by=("team",), where={name: ""}, as_of_s=said.START_S + 10 * DAY)
    [sums] = asked(store if kept else without_sums(store), question).values()

    assert sums["pods"] == 3


@given(worlds(strange=True), _questions, st.randoms(use_true_random=False))
def test_late_and_strange_facts_restate_the_days(world, question, random):
    events = events_of(world)
    random.shuffle(events)
    store = folded(said.numbered(events), batch=5, restart_every=2, ended_kept=1, parts_kept=1)
    kept = asked(store, question)

    assert kept == asked(without_sums(store), question)


@st.composite
def _busy_days(draw):
    """Many short pods around one midnight, and where a question's period begins and ends among them."""
    events = []
    for number in range(draw(st.integers(3, 9))):
        created = draw(st.sampled_from((0, 450, 900, 1_700, 40_000, DAY - 600, DAY, DAY + 450)))
        created += FIRST_S - said.START_S + DAY
        length = draw(st.sampled_from((0, 1, 449, 450, 900, 5_000, 50_000)))
        team = draw(st.sampled_from(("a", "b")))
        fields = {"created": created, "scheduled": created, "team": team}
        if draw(st.booleans()):
            fields |= {"scheduled": None, "node": None, "phase": "Pending"}
        events.append(said.pod_observed(f"p{number}", 1, created, **fields))
        if draw(st.booleans()):
            fields["team"] = draw(st.sampled_from(("a", "b")))
            events.append(said.pod_observed(f"p{number}", 2, created + length // 2, **fields))
        if draw(st.integers(0, 5)):
            end = created + length
            events.append(said.pod_vanished(f"p{number}", 3, end, deletion=end, **fields))
    return events


_cuts = st.integers(0, 3 * 96).map(lambda n: FIRST_S + n * 900) | st.integers(
    FIRST_S, FIRST_S + 3 * DAY
)


@given(
    _busy_days(),
    st.none() | _cuts,
    st.none() | _cuts,
    _cuts | st.just(FIRST_S + 5 * DAY),
    st.sampled_from(((), ("team",), ("team", "day"), ("day",), ("node", "model"), ("user",))),
)
def test_periods_that_begin_or_end_within_a_day_are_the_sums_of_pods(events, first, to, as_of, by):
    store = folded(said.numbered(events))
    question = Question(by=by, from_s=first, to_s=to, as_of_s=as_of)
    kept = asked(store, question)
    amounts = asked(store, question, reports.sums)

    without_sums(store)
    assert kept == asked(store, question)
    assert amounts == asked(store, question, reports.sums)


def busy_today(count=50):
    """Pods that ended today, one that is open, and one that was there at noon yesterday."""
    events = [said.pod_observed("open", 1, 60, scheduled=60, created=60)]
    lives = [(f"p{n}", DAY + n * 60, DAY + n * 60 + 300) for n in range(count)]
    lives += [(f"q{n}", n * 60, n * 60 + 300) for n in range(count)]
    lives += [("noon", 12 * 3_600 - 60, 12 * 3_600 + 60)]
    for uid, start, end in lives:
        times = {"scheduled": start, "created": start}
        events += [
            said.pod_observed(uid, 1, start, **times),
            said.pod_vanished(uid, 2, end, deletion=end, **times),
        ]
    return folded(said.numbered(events))


@pytest.mark.parametrize(
    ("from_s", "ended"),
    [
        pytest.param(None, [], id="all"),
        pytest.param(said.START_S + 12 * 3_600, ["noon"], id="from noon yesterday"),
    ],
)
def test_of_ended_pods_a_report_reads_those_at_its_cut_alone(from_s, ended):
    store = busy_today()
    question = Question(by=("team",), from_s=from_s, as_of_s=said.START_S + DAY + 20_000)
    with store.engine.connect() as connection:
        middle = days.middle(connection, question)
        assert days.beside(connection, question, middle)[:2] == (["open"], ended)


def test_the_line_of_amounts_reads_no_pod_that_has_ended(monkeypatch):
    store, read = busy_today(), []
    pieces = reports.sums.__globals__["pieces"]

    def counted(connection, question, *, uids, **options):
        read.extend(uids)
        return pieces(connection, question, uids=uids, **options)

    monkeypatch.setitem(reports.sums.__globals__, "pieces", counted)
    question = Question(by=("namespace",), from_s=said.START_S - 1, as_of_s=said.START_S + DAY + 20_000)  # fmt: skip
    asked(store, question, reports.sums)

    assert read == ["open"]


def moved(*teams, days_between=1):
    """A pod of one team after the other, that ends a day after the last."""
    fields = {"scheduled": 0}
    events = [
        said.pod_observed("p", number + 1, number * days_between * DAY, team=team, **fields)
        for number, team in enumerate(teams)
    ]
    end = len(teams) * days_between * DAY
    return [*events, said.pod_vanished("p", 99, end, deletion=end, team=teams[-1], **fields)]


@pytest.mark.parametrize(
    ("first", "by", "want"),
    [
        pytest.param(None, ("team",), {("a",): 1, ("b",): 1}, id="it was twice in one group"),
        pytest.param(None, (), {(): 1}, id="it is one pod"),
        pytest.param(2, ("team",), {("a",): 1, ("b",): 1}, id="the first time is before the period"),
        pytest.param(3, ("team",), {("a",): 1}, id="it was in the other group before the period"),
    ],
)  # fmt: skip
def test_a_pod_that_returns_to_its_team_is_counted_once(first, by, want):
    store = folded(said.numbered(moved("a", "b", "a", "a")))
    from_s = None if first is None else FIRST_S + first * DAY
    question = Question(by=by, from_s=from_s, as_of_s=said.START_S + 9 * DAY)

    with store.engine.connect() as connection:
        assert days.middle(connection, question) is not None
    assert {key: found["pods"] for key, found in asked(store, question).items()} == want


def test_days_of_another_zone_and_groups_that_are_not_kept_are_read_from_pods():
    store = folded(said.numbered(moved("a")))
    berlin = ZoneInfo("Europe/Berlin")
    with store.engine.connect() as connection:
        found = {
            name: days.middle(connection, Question(by=by, zone=zone, as_of_s=said.START_S + 9 * DAY))
            is not None
            for name, by, zone in (
                ("utc", ("day",), ZoneInfo("UTC")), ("berlin", ("day",), berlin), ("whole", (), berlin),
                ("hours", ("hour",), ZoneInfo("UTC")), ("labels", ("label:x",), ZoneInfo("UTC")),
            )
        }  # fmt: skip

    assert found == {"utc": True, "berlin": False, "whole": True, "hours": False, "labels": False}


def test_rows_of_pods_that_are_taken_back_are_gone():
    store = folded(said.numbered(moved("a", "b")))
    assert store.select(sa.text("SELECT sum(pods) FROM report_days")) == [(4,)]

    early = said.pod_vanished("p", 98, 60, deletion=60, team="a", scheduled=0)
    store = folded(said.numbered([*moved("a", "b"), early]))
    assert store.select(sa.text("SELECT team, pods FROM report_days")) == [("a", 1)]


@given(st.integers(0, 2**34), st.integers(0, 2**24), st.integers(0, 2**34), st.integers(0, 2**22))
@example(0, 2**62, 5, 0)
def test_what_was_there_is_in_a_block_around(first, length, moment, width):
    is_there = first <= moment + width and moment <= first + length

    assert not is_there or block(first, first + length) in blocks(moment, moment + width)

"""What a limit would have done with recorded looks, counted by looks alone; ends with the real duty-cycle trace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.clock import SECOND_US
from bus.events.notebooks import Evidence, NotebookSampled
from reactors.culling.policy import Limits
from reactors.culling.simulate import Cull, NotebookLook, Simulation, look_of
from tests.reactors.culling import genai
from tests.reactors.culling.looks import simulate

MINUTE = 60 * SECOND_US


def series(text, uid="u"):
    """Looks a minute apart: `x` active, `.` idle, a blank not looked."""
    return [
        NotebookLook(uid, n * MINUTE, n * MINUTE if seen == "x" else None)
        for n, seen in enumerate(text)
        if seen != " "
    ]


def played(text, *, idle_minutes=10, **limits):
    """Minutes of each cull, what it saved, and when somebody came back."""
    limits = {"warning_seconds": 0} | limits
    found = simulate(series(text), Limits(idle_seconds=idle_minutes * 60, **limits))
    return [
        (c.at_us // MINUTE, c.saved_us // MINUTE, c.again_us and c.again_us // MINUTE)
        for c in found.culls
    ]


@pytest.mark.parametrize(
    ("text", "culls"),
    [
        ("x" + "." * 9, []),
        ("x" + "." * 10, [(10, 0, None)]),
        ("." * 15, [(10, 4, None)]),
        ("x.........x.........", []),
        ("x" + "." * 14 + "x....", [(10, 5, 15)]),
        ("x" + "." * 14 + "x" + "." * 12, [(10, 5, 15), (25, 2, None)]),
    ],
    ids=["not yet", "at the limit", "never active", "active in time", "came back", "culled again"],
)
def test_a_notebook_is_culled_at_its_limit_until_it_is_touched(text, culls):
    assert culls == played(text)


def test_a_gap_makes_idleness_start_anew():
    assert [] == played("x....      .........")
    assert [(20, 2, None)] == played("x....      ............", idle_minutes=9)


def test_the_longest_span_between_two_looks_that_is_no_gap():
    assert [(10, 0, None)] == played("x.....    .")


def test_a_gap_is_never_counted_as_saved():
    assert [(10, 5, None)] == played("x" + "." * 12 + " " * 30 + "....")


def test_activity_inside_a_look_ends_what_was_saved():
    looks = [*series("x" + "." * 12), NotebookLook("u", 15 * MINUTE, 14 * MINUTE)]

    (cull,) = simulate(looks, Limits(idle_seconds=600, warning_seconds=0)).culls

    assert (4 * MINUTE, 14 * MINUTE) == (cull.saved_us, cull.again_us)


def test_a_warning_moves_the_cull_and_activity_voids_it():
    assert [(15, 0, None)] == played("x" + "." * 15, warning_seconds=300)
    assert [] == played("x" + "." * 13 + "x" + "." * 5, warning_seconds=300)


def test_a_notebook_that_is_never_idle_is_culled_by_its_age():
    assert [(12, 1, 13)] == played("x" * 14, max_age_seconds=720)


def test_a_cull_counts_as_false_when_it_was_touched_within_the_time():
    culls = tuple(
        Cull("u", 0, "idle", 0, again_us=again) for again in (None, 60 * SECOND_US, 61 * SECOND_US)
    )

    assert [0, 1, 2] == [Simulation(culls, 1, 1, 0, 0).touched_within(s) for s in (59, 60, 61)]


def test_notebooks_do_not_touch_each_other():
    both = sorted(series("x" * 20, "a") + series("x" + "." * 19, "b"), key=lambda look: look.at_us)

    found = simulate(both, Limits(idle_seconds=600, warning_seconds=0))

    assert ["b"] == [cull.uid for cull in found.culls]


@pytest.mark.parametrize(
    ("evidence", "active"),
    [
        ([Evidence(source="k", active_us=5), Evidence(source="t", active_us=7)], 7),
        ([Evidence(source="k", busy=True, active_us=5)], 100),
        ([Evidence(source="k"), Evidence(source="gpu", busy=True)], 100),
        ([Evidence(source="k")], None),
    ],
    ids=["the newest", "busy now", "a supporting source", "none named"],
)
def test_a_recorded_fact_is_a_look(evidence, active):
    limits = Limits(supporting_sources=frozenset({"gpu"}))

    look = look_of(NotebookSampled(uid="u", evidence=tuple(evidence)), 100, limits)

    assert NotebookLook("u", 100, active) == look


@pytest.mark.parametrize(
    "evidence",
    [[], [Evidence(source="k", outcome="refused")], [Evidence(source="gpu", busy=True)]],
    ids=["nothing", "refused", "only a supporting source"],
)
def test_a_fact_that_decides_nothing_is_no_look(evidence):
    limits = Limits(supporting_sources=frozenset({"gpu"}))

    assert look_of(NotebookSampled(uid="u", evidence=tuple(evidence)), 100, limits) is None


def counted(looks, idle_us, gap_us):
    """The culls by another way: cut at the gaps, and look for the longest silence after each mark."""
    found = []
    for uid in {look.uid for look in looks}:
        own = [look for look in looks if look.uid == uid]
        at = [look.at_us for look in own]
        starts = [n for n in range(len(own)) if not n or at[n] - at[n - 1] > gap_us]
        marks = sorted({*starts, *(n for n, look in enumerate(own) if look.active_us is not None)})
        free_from = 0
        for mark, following in zip(marks, [*marks[1:], len(own)], strict=True):
            if mark < free_from:
                continue
            due = [n for n in range(mark, following) if at[n] - at[mark] >= idle_us]
            if due:
                busy = [n for n in marks if n > due[0] and own[n].active_us is not None]
                free_from = busy[0] if busy else len(own)
                found.append((uid, at[due[0]], at[free_from] if busy else None))
    return sorted(found)


TEXTS = st.lists(st.sampled_from(["x", ".", "....", " ", "       "]), min_size=1, max_size=30).map(
    "".join
)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 12))
def test_another_way_of_counting_finds_the_same_culls(texts, idle_minutes):
    looks = [look for n, text in enumerate(texts) for look in series(text, f"u{n}")]
    limits = Limits(idle_seconds=idle_minutes * 60, warning_seconds=0)

    found = simulate(looks, limits)

    assert counted(looks, idle_minutes * MINUTE, 5 * MINUTE) == sorted(
        (c.uid, c.at_us, c.again_us) for c in found.culls
    )


#: Idle minutes → culls, containers, hours saved, touched again within 10 and 60 minutes.
AT_ONCE = {30: (694, 131, 473, 280, 536), 60: (206, 116, 288, 40, 104),
           120: (85, 80, 167, 6, 15), 240: (19, 19, 60, 2, 3)}  # fmt: skip
WARNED = {30: (306, 123, 351, 71, 191), 60: (136, 98, 245, 11, 57),
          120: (74, 72, 146, 2, 11), 240: (11, 11, 56, 1, 1)}  # fmt: skip


@pytest.fixture(scope="module")
def trace():
    if not genai.TRACE.exists():
        pytest.skip(f"{genai.TRACE} is not there; BURSAR_SHARED names the folder that has traces")
    return genai.looks()


@pytest.mark.parametrize(("warning_seconds", "expected"), [(0, AT_ONCE), (900, WARNED)])
@pytest.mark.parametrize("minutes", AT_ONCE)
def test_the_duty_cycle_trace_at(trace, minutes, warning_seconds, expected):
    found = simulate(trace, Limits(idle_seconds=minutes * 60, warning_seconds=warning_seconds))

    assert expected[minutes] == (
        len(found.culls), len({c.uid for c in found.culls}), round(found.saved_us / 3.6e9),
        found.touched_within(600), found.touched_within(3_600),
    )  # fmt: skip


def test_the_gaps_of_the_duty_cycle_trace(trace):
    found = simulate(trace, Limits())

    assert (157_417, 143, 20, 64_410) == (
        found.looks,
        found.notebooks,
        found.gaps,
        found.unknown_us // SECOND_US,
    )


@pytest.mark.parametrize("minutes", AT_ONCE)
def test_another_way_of_counting_finds_the_same_culls_in_the_trace(trace, minutes):
    found = simulate(trace, Limits(idle_seconds=minutes * 60, warning_seconds=0))

    assert counted_by_uid(trace, minutes) == sorted(
        (c.uid, c.at_us, c.again_us) for c in found.culls
    )


def counted_by_uid(looks, minutes):
    own = {}
    for look in looks:
        own.setdefault(look.uid, []).append(look)
    return sorted(
        cull for part in own.values() for cull in counted(part, minutes * MINUTE, 5 * MINUTE)
    )

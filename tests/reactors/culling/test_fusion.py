"""Bursar's own culling rule: what is not known is never idle, what works is never stopped."""

import itertools

import pytest

from bus.clock import SECOND_US
from reactors.culling.fusion import Warned
from reactors.culling.policy import QuietWindow
from tests.reactors.culling.samples import evaluate, sample, step, us

IDLE_SINCE_EIGHT = sample(active_us=us("08:00:00"))
WARNED = Warned(us("11:30:00"), "idle")


@pytest.mark.parametrize("outcome", ["unreachable", "refused", "malformed"])
def test_a_sample_that_is_not_readable_says_nothing(outcome):
    unread = sample(outcome=outcome, active_us=us("08:00:00"))

    assert ("unknown", "no_fresh_evidence") == step(unread, warned=WARNED)


def test_no_evidence_at_all_is_unknown():
    assert ("unknown", "no_fresh_evidence") == step(warned=WARNED)


@pytest.mark.parametrize(
    ("observed", "said"), [("11:55:00", "cull"), ("11:54:59", "unknown")], ids=["at", "past"]
)
def test_evidence_older_than_its_limit_never_culls(observed, said):
    old = sample(observed_us=us(observed), active_us=us("08:00:00"))

    assert said == evaluate(old, warned=WARNED).decision


def test_evidence_of_an_earlier_run_does_not_count():
    before = sample(observed_us=us("11:58:00"), active_us=us("11:58:00"))

    verdict = evaluate(before, since="11:59:00")

    assert ("unknown", us("11:59:00")) == (verdict.decision, verdict.last_activity_us)


@pytest.mark.parametrize("hours", [1, 24, 720])
def test_a_busy_kernel_protects_however_old_its_own_stamp(hours):
    silent = sample(busy=True, active_us=us("11:59:30") - hours * 3_600 * SECOND_US)

    assert ("keep", "active") == step(silent)


def test_one_busy_source_outweighs_idle_ones():
    others = [sample(source=f"other-{n}", active_us=us("08:00:00")) for n in range(5)]

    assert "jupyter_kernels" == evaluate(*others, sample(busy=True)).last_source


@pytest.mark.parametrize(
    ("ahead", "believed"),
    [("12:01:30", "12:01:30"), ("12:01:31", "11:59:30"), ("23:59:59", "11:59:30")],
)
def test_a_stamp_too_far_ahead_is_clamped_to_its_observation(ahead, believed):
    assert us(believed) == evaluate(sample(active_us=us(ahead))).last_activity_us


@pytest.mark.parametrize(
    ("since", "believed"), [("11:49:31", "11:59:30"), ("11:49:30", "11:49:30")], ids=["in", "after"]
)
def test_a_starting_kernel_is_active_for_a_grace_only(since, believed):
    assert us(believed) == evaluate(sample(starting_since_us=us(since))).last_activity_us


def test_an_open_connection_has_the_longer_limit_of_presence():
    tab = sample(active_us=us("08:00:00"), connected=True)

    assert ("keep", "active") == step(tab, presence_seconds=4 * 3_600 + 1)
    assert ("warn", "idle") == step(tab, presence_seconds=4 * 3_600)


def test_a_connection_that_is_not_fresh_is_no_presence():
    gone = sample(source="traffic", observed_us=us("11:00:00"), connected=True)

    assert ("warn", "idle") == step(gone, IDLE_SINCE_EIGHT)


def test_the_required_source_must_be_readable():
    traffic = sample(source="http_traffic", active_us=us("08:00:00"))

    assert "unknown" == evaluate(traffic, required_source="jupyter_kernels").decision
    assert "warn" == evaluate(traffic, required_source="http_traffic").decision


@pytest.mark.parametrize(
    ("outcome", "asked_at", "said"),
    [
        ("refused", "11:59:00", "unknown"),
        ("refused", "11:00:00", "cull"),
        ("ok", "11:59:00", "cull"),
    ],
    ids=["refused", "not asked any more", "readable"],
)
def test_a_primary_source_must_be_readable_where_it_is_asked_for(outcome, asked_at, said):
    kernels = sample(outcome=outcome, observed_us=us(asked_at))
    traffic = sample(source="http_traffic", active_us=us("08:00:00"))
    primary = frozenset({"jupyter_kernels"})

    assert said == evaluate(kernels, traffic, warned=WARNED, primary_sources=primary).decision


@pytest.mark.parametrize(("busy", "said"), [(True, "active"), (False, "no_fresh_evidence")])
def test_a_supporting_source_does_not_stop_what_is_otherwise_unknown(busy, said):
    gpu = sample(source="gpu", busy=busy)
    kernels = [] if not busy else [IDLE_SINCE_EIGHT]

    assert said == evaluate(gpu, *kernels, supporting_sources=frozenset({"gpu"})).reason


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"exempt": True}, "exempt"),
        ({"keep_until_us": us("12:00:01")}, "keep_until"),
        ({"min_running_seconds": 6 * 3_600 + 1}, "min_running"),
        ({"quiet": (QuietWindow(start="11:00", end="13:00"),)}, "quiet"),
    ],
    ids=["exempt", "promised until a day", "too young", "quiet hours"],
)
def test_a_protected_notebook_is_kept(limits, reason):
    assert ("keep", reason) == step(IDLE_SINCE_EIGHT, warned=WARNED, **limits)


@pytest.mark.parametrize(
    "limits",
    [{"keep_until_us": us("12:00:00")}, {"min_running_seconds": 6 * 3_600}],
    ids=["the day has come", "old enough"],
)
def test_a_protection_ends(limits):
    assert ("cull", "idle") == step(IDLE_SINCE_EIGHT, warned=WARNED, **limits)


@pytest.mark.parametrize(
    ("warned_at", "said"),
    [("11:45:00", ("cull", "idle")), ("11:45:01", ("keep", "warned"))],
    ids=["over", "running"],
)
def test_a_notebook_is_stopped_when_its_warning_is_over(warned_at, said):
    assert said == step(IDLE_SINCE_EIGHT, warned=Warned(us(warned_at), "idle"))


def test_activity_after_an_idle_warning_voids_it():
    once = sample(active_us=us("10:30:00"))

    assert ("warn", "idle") == step(once, warned=Warned(us("10:00:00"), "idle"))


def test_activity_does_not_void_a_warning_about_age():
    warned = Warned(us("11:30:00"), "max_age")

    assert ("cull", "max_age") == step(sample(busy=True), warned=warned, max_age_seconds=3_600)


def test_a_warning_about_age_does_not_stand_in_for_an_idle_one():
    assert ("warn", "idle") == step(IDLE_SINCE_EIGHT, warned=Warned(us("11:30:00"), "max_age"))


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("12:00:01", ("keep", "snoozed")),
        ("12:00:00", ("cull", "idle")),
        ("23:00:00", ("keep", "snoozed")),
    ],
)
def test_a_snooze_moves_the_stop(until, said):
    snoozed = Warned(us("11:30:00"), "idle", us(until))

    assert said == step(IDLE_SINCE_EIGHT, warned=snoozed)


@pytest.mark.parametrize(("cap", "said"), [(900, "cull"), (901, "keep")])
def test_a_snooze_is_capped_however_often_it_is_asked_for(cap, said):
    snoozed = Warned(us("11:30:00"), "idle", us("23:00:00"))

    assert said == evaluate(IDLE_SINCE_EIGHT, warned=snoozed, snooze_cap_seconds=cap).decision


def test_the_order_of_the_evidence_changes_nothing():
    evidence = [
        sample(source=source, active_us=us(clock), connected=source == "c")
        for source, clock in [("b", "11:00:00"), ("a", "11:00:00"), ("c", "09:00:00")]
    ]

    assert 1 == len({evaluate(*order) for order in itertools.permutations(evidence)})

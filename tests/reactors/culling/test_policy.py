"""Which limits hold for which notebook."""

import pytest
from pydantic import ValidationError

from bus.clock import SECOND_US, format_stamp, parse_stamp
from reactors.culling.policy import (
    CULL_IDLE_AFTER,
    DO_NOT_CULL,
    LONGEST_SECONDS,
    CullingPolicy,
    Limits,
    NotebookSubject,
    QuietWindow,
    limits_of,
    parse_duration,
)
from tests.factories import START_US

NB = NotebookSubject("team-a", team="vision", image="registry/jupyter-gpu:1")


def idle_seconds(subject=NB, **policy):
    return limits_of(CullingPolicy.model_validate(policy), subject).idle_seconds


def annotated(**annotations):
    return NotebookSubject("team-a", annotations=annotations)


def test_without_rules_the_limits_are_the_defaults():
    expected = Limits(
        supporting_sources=frozenset({"gpu", "jupyter_terminals", "kubeflow_kernels", "pod_cpu"}),
        primary_sources=frozenset({"code_server", "jupyter_kernels"}),
    )

    assert expected == limits_of(CullingPolicy(), NB)


@pytest.mark.parametrize("span", ["idle_seconds", "warning_seconds", "max_age_seconds"])
def test_no_span_is_longer_than_a_thousand_years_so_that_its_end_is_a_date(span):
    policy = CullingPolicy(**{span: LONGEST_SECONDS})

    assert "3026-" == format_stamp(START_US + getattr(policy, span) * SECOND_US)[:5]
    with pytest.raises(ValidationError):
        CullingPolicy(**{span: LONGEST_SECONDS + 1})


def test_evidence_lasts_two_periods():
    assert 120 == limits_of(CullingPolicy(check_period_seconds=60), NB).fresh_seconds


@pytest.mark.parametrize(
    ("pattern", "seconds"),
    [
        ({"namespace": "team-*"}, 60),
        ({"team": "vision"}, 60),
        ({"image": "*-gpu:*"}, 60),
        ({"namespace": "team-a", "team": "speech"}, 3_600),
        ({}, 60),
    ],
    ids=["namespace", "team", "image", "not all of them", "no pattern"],
)
def test_a_rule_overrides_for_the_notebooks_that_fit_all_its_patterns(pattern, seconds):
    assert seconds == idle_seconds(rules=[{"idle_seconds": 60, **pattern}])


def test_the_first_rule_that_fits_counts():
    rules = [{"team": "speech", "idle_seconds": 1}, {"idle_seconds": 2}, {"idle_seconds": 3}]

    assert 2 == idle_seconds(rules=rules)


def test_a_rule_leaves_what_it_does_not_name():
    policy = CullingPolicy.model_validate(
        {"warning_seconds": 5, "rules": [{"exempt": True, "keep_until": "2026-01-01T00:00:00Z"}]}
    )

    found = limits_of(policy, NB)

    assert (5, True, parse_stamp("2026-01-01T00:00:00Z")) == (
        found.warning_seconds,
        found.exempt,
        found.keep_until_us,
    )


@pytest.mark.parametrize(
    ("asked", "seconds"), [("2h", 7_200), ("1s", 300), ("30d", 604_800)], ids=["in", "low", "high"]
)
def test_an_owner_sets_the_idle_limit_within_bounds(asked, seconds):
    assert seconds == idle_seconds(annotated(**{CULL_IDLE_AFTER: asked}))


@pytest.mark.parametrize(("allowed", "exempt"), [(True, True), (False, False)])
def test_an_owner_exempts_a_notebook_where_the_policy_lets_them(allowed, exempt):
    found = limits_of(CullingPolicy(owners_may_exempt=allowed), annotated(**{DO_NOT_CULL: "true"}))

    assert (exempt, () if exempt else (DO_NOT_CULL,)) == (found.exempt, found.ignored)


def test_an_annotation_that_cannot_be_read_is_left_out_and_named():
    found = limits_of(
        CullingPolicy(), annotated(**{CULL_IDLE_AFTER: "soon", DO_NOT_CULL: "perhaps"})
    )

    assert (3_600, False, (CULL_IDLE_AFTER, DO_NOT_CULL)) == (
        found.idle_seconds,
        found.exempt,
        found.ignored,
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5_400), ("1h30m", 5_400), ("2d", 172_800), ("15s", 15), ("0s", 0),
        ("", None), ("90", None), ("1.5h", None), ("-1h", None), ("m", None), ("1m1h", None),
        ("99999999999999m", None), ("１h", None),
    ],
)  # fmt: skip
def test_a_duration_is_read(text, seconds):
    assert seconds == parse_duration(text)


@pytest.mark.parametrize(
    ("now", "inside"),
    [
        ("2024-08-16T17:59:59Z", False), ("2024-08-16T18:00:00Z", True),
        ("2024-08-16T21:59:59Z", True), ("2024-08-16T22:00:00Z", False),
        ("2024-08-17T19:00:00Z", False),
    ],
)  # fmt: skip
def test_a_window_holds_on_its_days_in_its_zone(now, inside):
    friday = QuietWindow(zone="Europe/Berlin", start="20:00", end="00:00", days=["fri"])

    assert inside is friday.holds(parse_stamp(now))


@pytest.mark.parametrize(
    ("now", "inside"),
    [
        ("2024-08-16T22:00:00Z", True), ("2024-08-17T05:59:59Z", True),
        ("2024-08-17T06:00:00Z", False), ("2024-08-16T05:00:00Z", False),
        ("2024-08-17T22:00:00Z", False),
    ],
)  # fmt: skip
def test_the_part_after_midnight_belongs_to_the_day_before(now, inside):
    night = QuietWindow(start="22:00", end="06:00", days=["fri"])

    assert inside is night.holds(parse_stamp(now))


@pytest.mark.parametrize(
    ("zone", "now"),
    [
        ("Asia/Tokyo", "9999-12-31T23:00:00Z"), ("America/New_York", "0001-01-01T01:00:00Z"),
        ("UTC", 2**63), ("UTC", -(2**63)), ("UTC", 10**40),
    ],
)  # fmt: skip
def test_an_instant_outside_the_local_calendar_is_in_the_window(zone, now):
    window = QuietWindow(zone=zone, start="12:00", end="12:01", days=["wed"])

    assert window.holds(parse_stamp(now) if isinstance(now, str) else now)


def test_a_window_follows_summer_time():
    morning = QuietWindow(zone="Europe/Berlin", start="08:00", end="09:00")

    assert morning.holds(parse_stamp("2024-07-01T06:30:00Z"))
    assert morning.holds(parse_stamp("2024-12-01T07:30:00Z"))

"""The text that Prometheus scrapes: names, kinds, meanings and labels as they are declared, and values that are read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.metrics import PART, Histogram, Metric, Sample, exposition, seconds_text
from tests.scraping import families, scraped


def text(*samples, kind="gauge", name="bursar_held", meaning="What is held."):
    return "".join(exposition([Metric(name, kind, meaning, samples)]))


def test_a_metric_is_told_with_its_meaning_its_kind_and_a_line_for_each_sample():
    said = text(Sample(3, {"quota": "a", "key": "limits.cpu"}), Sample(7))

    assert said == (
        "# HELP bursar_held What is held.\n# TYPE bursar_held gauge\n"
        'bursar_held{key="limits.cpu",quota="a"} 3.0\nbursar_held 7.0\n'
    )


def test_a_counter_keeps_its_name():
    said = text(Sample(2), kind="counter", name="bursar_held_total")

    assert said == (
        "# HELP bursar_held_total What is held.\n# TYPE bursar_held_total counter\n"
        "bursar_held_total 2.0\n"
    )


def test_a_metric_without_samples_is_known_all_the_same():
    assert text() == "# HELP bursar_held What is held.\n# TYPE bursar_held gauge\n"


@pytest.mark.parametrize("count", [1, PART, PART + 1, 2 * PART])
def test_a_long_metric_is_one_metric_in_parts(count):
    metrics = [Metric("bursar_held", "gauge", "Held.", [Sample(n, {"n": str(n)}) for n in range(count)])]  # fmt: skip

    assert list(scraped(metrics).values()) == list(range(count))
    assert "".join(exposition(metrics)).count("# HELP") == 1
    assert len(list(exposition(metrics))) == -(-count // PART)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ('a"b', r"a\"b"),
        ("a\\b", r"a\\b"),
        ("a\nb", r"a\nb"),
        ("a\r\nb", r"a\nb"),
        ("é{},=", "é{},="),
    ],
)
def test_label_values_are_escaped(value, want):
    assert text(Sample(1, {"q": value})).splitlines()[2] == f'bursar_held{{q="{want}"}} 1.0'


@given(st.text())
def test_no_label_value_ends_its_line_or_begins_another(value):
    said = text(Sample(1, {"q": value}))

    assert said.count("\n") == 3
    assert said.endswith('"} 1.0\n')


def test_a_meaning_stays_on_its_line():
    assert text(meaning="a\nb \\") == "# HELP bursar_held a\\nb \\\\\n# TYPE bursar_held gauge\n"


@pytest.mark.parametrize(
    ("us", "want"), [(0, "0"), (250, "0.00025"), (1_000_000, "1"), (12_345_678, "12.345678")]
)
def test_microseconds_are_seconds_with_all_their_digits(us, want):
    assert want == seconds_text(us)


def test_a_histogram_counts_in_the_first_bucket_whose_bound_is_not_below():
    times = Histogram((1_000, 5_000))
    for us in (1_000, 1_001, 5_000, 5_001, 90_000):
        times.observe(us)

    metric = Metric("bursar_held", "histogram", "Held.", [*times.samples()])

    assert families([metric])["bursar_held"].type == "histogram"
    assert scraped([metric]) == {
        'bursar_held_bucket{le="0.001"}': 1,
        'bursar_held_bucket{le="0.005"}': 3,
        'bursar_held_bucket{le="+Inf"}': 5,
        "bursar_held_sum": 0.102002,
        "bursar_held_count": 5,
    }

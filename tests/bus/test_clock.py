"""Stamps: what is read, what is refused, and that both directions agree."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus.clock import Clock, SystemClock, floor_seconds, format_stamp, parse_stamp
from bus.errors import TimestampError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AT = 1_792_999_525_000_000
MICROSECOND = timedelta(microseconds=1)
FIRST = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND
LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - EPOCH) // MICROSECOND
stamps = st.integers(FIRST, LAST)


class FixedClock:
    """A present that moves only when told."""

    def __init__(self, at_us: int = AT) -> None:
        self.at_us = at_us

    def now_us(self) -> int:
        return self.at_us


READ = [
    ("2026-10-26T07:25:25Z", AT, "whole seconds as the API server writes them"),
    ("2026-10-26T07:25:25.297030Z", AT + 297_030, "microseconds as leases have them"),
    ("2026-10-26T07:25:25.5Z", AT + 500_000, "a short fraction"),
    ("2026-10-26T07:25:25.123456999Z", AT + 123_456, "nanoseconds are cut off, never rounded up"),
    ("2026-10-26T12:55:25+05:30", AT, "an offset to the east"),
    ("2026-10-25T23:25:25.000001-08:00", AT + 1, "an offset to the west, a day earlier"),
    ("2026-10-26T07:25:25-00:00", AT, "an unknown local offset is UTC"),
    ("2026-10-26T07:25:60Z", AT + 34_999_999, "A23 a leap second stays inside its minute"),
    ("2026-10-26T07:25:60.7Z", AT + 34_999_999, "A23 a leap second with a fraction too"),
    ("1970-01-01T00:00:00Z", 0, "the epoch"),
    ("1969-12-31T23:59:59.999999Z", -1, "a microsecond before the epoch"),
    ("0001-01-01T00:00:00Z", FIRST, "the zero time of Go"),
    ("9999-12-31T23:59:59.999999Z", LAST, "the last microsecond of year 9999"),
    ("2024-02-29T00:00:00Z", 1_709_164_800_000_000, "a leap day"),
]

REFUSED = [
    ("", "A23 nothing at all"),
    ("2026-10-26T07:25:25+99:99", "A23 an offset that no clock has"),
    ("2026-10-26T07:25:25+24:00", "A23 an offset of a whole day"),
    ("2026-10-26T07:25:25+05:60", "A23 an offset of sixty minutes"),
    ("12026-10-26T07:25:25Z", "A23 a year of five digits"),
    ("+2026-10-26T07:25:25Z", "a year with a sign"),
    ("2026-10-26T07:25:25", "A23 no zone"),
    ("2026-10-26T07:25:25.123456", "A23 no zone after microseconds"),
    ("2026-10-26T07:25:61Z", "second 61"),
    ("2026-10-26T07:60:25Z", "minute 60"),
    ("2026-10-26T24:00:00Z", "hour 24"),
    ("2026-02-29T00:00:00Z", "a leap day of a common year"),
    ("2026-13-01T00:00:00Z", "month 13"),
    ("0000-01-01T00:00:00Z", "year zero"),
    ("0001-01-01T00:00:00+00:01", "an instant before year one"),
    ("9999-12-31T23:59:59-00:01", "an instant after year 9999"),
    ("2026-10-26 07:25:25Z", "a space for the T"),
    ("2026-10-26t07:25:25z", "lower case"),
    ("2026-10-26T07:25:25.Z", "a point without digits"),
    ("2026-10-26T07:25:25.+12345Z", "a sign in the fraction"),
    ("2026-10-26T07:25:25,5Z", "a comma"),
    ("2026-10-26T07:25Z", "no seconds"),
    ("20261026T072525Z", "the basic format"),
    ("2026-W44-1T07:25:25Z", "a week date"),
    (" 2026-10-26T07:25:25Z", "a space before it"),
    ("2026-10-26T07:25:25Z\n", "a line feed behind it"),
    ("2026-10-26T07:25:2５Z", "a digit of another script"),
    ("2026-10-26T07:25:25.12345６Z", "another script in the fraction"),
    ("2026-10-26T07:25:25." + "0" * 100_000 + "Z", "a hundred thousand digits"),
]


@pytest.mark.parametrize(("text", "want"), [r[:2] for r in READ], ids=[r[2] for r in READ])
def test_a_stamp_is_microseconds_since_1970(text, want):
    assert parse_stamp(text) == want


@pytest.mark.parametrize("text", [r[0] for r in REFUSED], ids=[r[1] for r in REFUSED])
def test_what_no_api_server_writes_is_refused(text):
    with pytest.raises(TimestampError) as caught:
        parse_stamp(text)

    assert caught.value.reason and len(str(caught.value)) < 200


@given(stamps)
@example(FIRST)
@example(LAST)
@example(-1)
def test_a_formatted_stamp_reads_back_the_same(us):
    assert parse_stamp(format_stamp(us)) == us


@given(stamps)
def test_a_formatted_stamp_is_what_datetime_says(us):
    whole = (EPOCH + timedelta(microseconds=us)).isoformat().replace("+00:00", "Z")

    assert format_stamp(us) == whole


@given(st.datetimes(timezones=st.timezones()).map(lambda at: at.replace(fold=0)))
def test_any_offset_reads_as_datetime_reads_it(at):
    text = at.isoformat()
    want = (datetime.fromisoformat(text) - EPOCH) // MICROSECOND
    if len(text.partition("T")[2].replace("-", "+").partition("+")[2]) != 5:
        want = None  # historic offsets with seconds are no RFC 3339

    assert read_or_none(text) == (want if want is None or FIRST <= want <= LAST else None)


@given(st.text() | st.text(alphabet="0123456789-:.TZ+", max_size=36))
def test_any_text_is_read_or_refused_and_nothing_else_happens(text):
    us = read_or_none(text)

    assert us is None or FIRST <= us <= LAST


def read_or_none(text):
    try:
        return parse_stamp(text)
    except TimestampError:
        return None


@pytest.mark.parametrize("us", [FIRST - 1, LAST + 1, 10**30, -(10**30)])
def test_an_instant_without_a_four_digit_year_is_not_formatted(us):
    with pytest.raises(TimestampError):
        format_stamp(us)


def test_a_zero_fraction_is_not_written():
    assert [format_stamp(AT), format_stamp(AT + 1)] == [
        "2026-10-26T07:25:25Z",
        "2026-10-26T07:25:25.000001Z",
    ]


def test_accounting_time_is_floored_also_before_1970():
    assert [floor_seconds(us) for us in (1_999_999, 1_000_000, -1)] == [1, 1, -1]


def test_the_system_clock_reads_the_wall_clock():
    clock: Clock = SystemClock()
    before = datetime.now(UTC)
    now = EPOCH + timedelta(microseconds=clock.now_us())

    assert abs(now - before) < timedelta(minutes=1)


def test_a_fixed_clock_is_a_clock():
    clock: Clock = FixedClock(at_us=5)

    assert clock.now_us() == 5

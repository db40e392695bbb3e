"""Quantities to nano-units, and nano-units to charged amounts."""

import re
import time
from decimal import ROUND_CEILING, Context, Decimal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus.amounts import (
    NANO,
    ContainerResources,
    PodResources,
    observed_quantity,
    parse_quantity,
)
from bus.charges import MAX_AMOUNT, Amounts, charged, charged_bytes
from bus.errors import MalformedJsonError, QuantityError

READ = [
    ("0", 0, "zero"),
    ("1", NANO, "one"),
    ("007", 7 * NANO, "leading zeros within 32 characters"),
    ("250m", NANO // 4, "milli"),
    ("1u", 1000, "micro"),
    ("3n", 3, "nano"),
    ("2k", 2_000 * NANO, "kilo is a small k"),
    ("2M", 2 * 10**6 * NANO, "mega"),
    ("2G", 2 * 10**9 * NANO, "giga"),
    ("2T", 2 * 10**12 * NANO, "tera"),
    ("2P", 2 * 10**15 * NANO, "peta"),
    ("0.002E", 2 * 10**15 * NANO, "C4 a capital E at the end is exa"),
    ("1Ki", 1024 * NANO, "kibi"),
    ("1Mi", 2**20 * NANO, "mebi"),
    ("1.5Gi", 3 * 2**29 * NANO, "gibi with a fraction"),
    ("1Ti", 2**40 * NANO, "tebi"),
    ("8Pi", 2**53 * NANO, "pebi"),
    ("0.001Ei", 2**60 * NANO // 1000, "exbi"),
    ("12e3", 12_000 * NANO, "C4 a small e with digits is an exponent"),
    ("12E3", 12_000 * NANO, "C4 a capital E with digits is an exponent"),
    ("12e+3", 12_000 * NANO, "an exponent with a plus"),
    ("12E-3", 12 * 10**6, "an exponent with a minus"),
    (".5", NANO // 2, "a point first is in the grammar of Kubernetes"),
    ("1n", 1, "C5 the smallest that Kubernetes keeps"),
    ("0.0000000001", 1, "C5 below nano is rounded up to nano"),
    ("1e-18", 1, "C5 far below nano is rounded up to nano"),
    ("0.3n", 1, "C5 a part of a nano is rounded up"),
    ("9223372036854775807m", (2**63 - 1) * 10**6, "C4 the largest of 64 bits in milli-units"),
    ("9223372036854775.807", (2**63 - 1) * 10**6, "the same written with a point"),
]

REFUSED = [
    ("-1", "C1 negative"),
    ("-250m", "C1 negative milli"),
    ("-0", "C1 minus zero"),
    ("NaN", "C1 not a number"),
    ("nan", "C1 not a number, small"),
    ("Infinity", "C1 infinity"),
    ("-inf", "C1 minus infinity"),
    ("1e3000000", "C2 an exponent of a million digits"),
    ("1e-999999", "C2 an exponent far below zero"),
    ("1e19", "C2 an exponent of 19"),
    ("1e-19", "C2 an exponent of minus 19"),
    ("9" * 10_000, "C2 ten thousand digits"),
    ("1" * 33, "C2 thirty-three characters"),
    ("１２", "C3 full-width digits"),
    ("١٢", "C3 Arabic-Indic digits"),
    ("²", "C3 a superscript"),
    ("1_000", "C3 underscores"),
    (" 1", "C3 a space first"),
    ("1 ", "C3 a space last"),
    ("1\n", "C3 a line feed last"),
    ("+1", "C3 a plus first"),
    ("5.", "C3 a point last"),
    ("5.Gi", "C3 a point before the suffix"),
    ("12e", "C4 a small e alone"),
    ("12e+", "C4 an exponent without digits"),
    ("12E", "C4 twelve exa is above 64 bits in milli-units"),
    ("1E", "C4 one exa is above 64 bits in milli-units"),
    ("9223372036854775808m", "C4 one milli-unit above 64 bits"),
    ("9223372036854775807", "C4 64 bits of units"),
    ("9Pi", "C4 nine pebi"),
    ("", "nothing"),
    (".", "a point alone"),
    ("m", "a suffix alone"),
    ("e3", "an exponent alone"),
    ("1K", "a capital K"),
    ("1ki", "a small kibi"),
    ("1mi", "a small mebi"),
    ("1g", "a small giga"),
    ("1Kim", "two suffixes"),
    ("1e3Ki", "an exponent and a suffix"),
    ("1e1.5", "a broken exponent"),
    ("1.2.3", "two points"),
    ("0x10", "hexadecimal"),
    ("1,5", "a comma"),
    ("1\x00", "NUL"),
    ("\ud800", "a lone surrogate"),
]


@pytest.mark.parametrize(("text", "want"), [r[:2] for r in READ], ids=[r[2] for r in READ])
def test_a_quantity_is_exact_nano_units(text, want):
    assert parse_quantity(text) == want


@pytest.mark.parametrize("text", [r[0] for r in REFUSED], ids=[r[1] for r in REFUSED])
def test_a_quantity_outside_the_catalogue_is_refused(text):
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    shown = str(caught.value)
    assert repr(text[:32]) in shown and shown.isprintable() and len(shown) < 300


def test_nothing_is_computed_with_a_large_exponent(monkeypatch):
    """C2: the power is taken from a table, so a value outside it could not be computed at all."""
    monkeypatch.setattr("bus.amounts._TEN_TO", [])
    with pytest.raises(QuantityError, match="exponent beyond 18"):
        parse_quantity.__wrapped__("1e3000000")


def test_nothing_is_matched_in_a_long_text(monkeypatch):
    """C2: the length is refused first; no grammar is asked."""
    monkeypatch.setattr("bus.amounts._GRAMMAR", None)
    with pytest.raises(QuantityError, match="longer than 32"):
        parse_quantity.__wrapped__("1e3" + "0" * 10_000)


EXACT = Context(prec=200)
SCALES = {letter: Decimal(10) ** power for letter, power in zip("num", (-9, -6, -3), strict=True)}
SCALES |= {letter: Decimal(10) ** (3 * n + 3) for n, letter in enumerate("kMGTPE")}
SCALES |= {f"{letter}i": Decimal(1024) ** (n + 1) for n, letter in enumerate("KMGTPE")}
SCALES[""] = Decimal(1)


def by_decimal(text):
    """The oracle: splits by another grammar and counts in Decimal; None = refused."""
    found = re.match(r"(?P<number>\d*\.?\d*)(?P<rest>.*)\Z", text, re.ASCII | re.DOTALL)
    number, rest = found["number"], found["rest"]
    if len(text) > 32 or number in ("", ".") or number.endswith("."):
        return None
    if rest in SCALES:
        scale = SCALES[rest]
    elif re.fullmatch(r"[eE][+-]?\d+", rest, re.ASCII) and abs(int(rest[1:])) <= 18:
        scale = Decimal(10) ** int(rest[1:])
    else:
        return None
    value = EXACT.multiply(EXACT.multiply(Decimal(number), scale), Decimal(NANO))
    nano = int(value.to_integral_value(ROUND_CEILING, EXACT))
    return nano if nano <= (2**63 - 1) * 10**6 else None


def read_or_none(text, read=parse_quantity):
    try:
        return read(text)
    except QuantityError:
        return None


near_quantities = st.from_regex(
    r"\A[+-]?[0-9]{0,20}(\.[0-9]{0,12})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?\Z"
)


@given(near_quantities | st.text() | st.text(alphabet="0123456789.+-eEinumkKMGTP_ "))
@example("0.000000000000000000000000000001E")
@example("1." + "9" * 30)
@example("9223372036854775807.1m")
def test_any_text_reads_as_decimal_arithmetic_says_or_is_refused(text):
    assert read_or_none(text) == by_decimal(text)


AS_WRITTEN = [
    ("+1", NANO, "a plus"),
    ("5.", 5 * NANO, "a point last"),
    ("5.Gi", 5 * 2**30 * NANO, "a point before the suffix"),
    ("+05.50", 5 * NANO + NANO // 2, "plus, zero and fraction"),
    ("0" * 5_000 + "5", 5 * NANO, "five thousand leading zeros"),
    ("1e+" + "0" * 5_000 + "3", 1_000 * NANO, "five thousand zeros in the exponent"),
    ("0" * 40, 0, "forty zeros"),
    ("+" + "0" * 40 + "e" + "0" * 40, 0, "zeros everywhere"),
    ("+.5", NANO // 2, "a plus and a point first"),
    ("250m", NANO // 4, "the canonical form"),
]


@pytest.mark.parametrize("text,want", [r[:2] for r in AS_WRITTEN], ids=[r[2] for r in AS_WRITTEN])
def test_a_pod_cannot_hide_behind_a_spelling_that_the_api_server_keeps(text, want):
    assert observed_quantity(text) == want


@pytest.mark.parametrize(
    "text", ["-1", "+", ".", "+.m", "m", "1e", "++1", "1\n", "１", "NaN", "E3"]
)
def test_what_no_api_server_sends_for_a_pod_is_refused(text):
    with pytest.raises(QuantityError):
        observed_quantity(text)


@given(near_quantities | st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=60))
def test_observed_and_strict_readings_never_contradict_each_other(text):
    strict, observed = read_or_none(text), read_or_none(text, observed_quantity)

    assert strict is None or observed == strict


def asking(**requests):
    names = {"gpu": "nvidia.com/gpu", "core": "koordinator.sh/gpu-core"}
    names["ratio"] = "koordinator.sh/gpu-memory-ratio"
    return PodResources(
        containers=(ContainerResources({names.get(k, k): v for k, v in requests.items()}),)
    )


CHARGED = [
    ({}, Amounts(), "nothing asked is nothing charged"),
    ({"cpu": "250m", "memory": "1Gi"}, Amounts(250, 1024), "milli-cores and MiB"),
    ({"cpu": "1n", "memory": "1"}, Amounts(1, 1), "C5 a trace is rounded up to one"),
    ({"gpu": "2"}, Amounts(gpu_milligpus=2000), "whole cards count 1,000"),
    ({"gpu": "1", "amd.com/gpu": "2"}, Amounts(0, 0, 3000), "cards of two vendors are added"),
    ({"core": "50", "ratio": "80"}, Amounts(0, 0, 500), "core counts before ratio"),
    ({"ratio": "80"}, Amounts(0, 0, 800), "ratio counts where there is no core"),
    ({"core": "0", "ratio": "80"}, Amounts(0, 0, 800), "zero core is no core"),
    ({"gpu": "1", "core": "100", "ratio": "100"}, Amounts(0, 0, 1000), "a card counts once"),
    ({"gpu": "0", "core": "30"}, Amounts(0, 0, 300), "zero cards are no cards"),
    ({"x.io/gpu-core": "200"}, Amounts(0, 0, 2000), "any vendor's core"),
    ({"koordinator.sh/gpu": "50"}, Amounts(0, 0, 500), "Koordinator's gpu is percent"),
    (
        {"nvidia.com/mig-1g.5gb": "2", "b.io/fpga": "1", "a.io/nic": "0"},
        Amounts(extended=(("b.io/fpga", 1), ("nvidia.com/mig-1g.5gb", 2))),
        "slices and other devices are counts under their names, sorted, without zeros",
    ),
    ({"hugepages-2Mi": "3Mi"}, Amounts(extended=(("hugepages-2Mi", 3),)), "huge pages in MiB"),
    (
        {"koordinator.sh/gpu-memory": "1128Gi"},
        Amounts(extended=(("koordinator.sh/gpu-memory", 1128 * 1024),)),
        "card memory in MiB, so that eight large cards stay in bounds",
    ),
    ({"ephemeral-storage": "9Gi", "pods": "1"}, Amounts(), "native names are not charged"),
    ({"cpu": str(2**40) + "m"}, Amounts(2**40), "F4 the bound itself is charged"),
]


@pytest.mark.parametrize("requests,want", [r[:2] for r in CHARGED], ids=[r[2] for r in CHARGED])
def test_what_a_request_is_charged(requests, want):
    assert charged(asking(**requests)) == want


def test_parts_are_rounded_up_once_at_the_total_of_the_pod():
    thirds = tuple(ContainerResources({"cpu": "0.4m", "memory": "0.4Mi"}) for _ in range(3))

    assert charged(PodResources(containers=thirds)) == Amounts(2, 2)


ABSURD = [
    ({"cpu": f"{2**40 + 1}m"}, "cpu", "F4 cpu above the bound"),
    ({"memory": "9223372036854775807Ki"}, "memory", "memory beyond any quantity"),
    ({"x.io/gpu": "8P"}, "x.io/gpu", "D3 a device count beyond all clusters"),
    ({"a.io/nic": str(2**40 + 1)}, "a.io/nic", "D3 another device"),
    ({"a.io/scratch": "2Ti"}, "a.io/scratch", "scratch space in bytes"),
    ({"a.io/gpu-core": "9P"}, "a.io/gpu-core", "percent points"),
    ({"hugepages-2Mi": "4E"}, "hugepages-2Mi", "pages"),
    ({"cpu": "9223372036854775807"}, "cpu", "D2 cpu of 64 bits is no quantity"),
    ({"a.io/nic": "nine"}, "a.io/nic", "no quantity at all"),
]


@pytest.mark.parametrize("asked,name", [r[:2] for r in ABSURD], ids=[r[2] for r in ABSURD])
def test_an_absurd_amount_is_refused_alone_and_by_name(asked, name):
    """Wherever it stands: in any container, in what was allocated, at pod level, in the overhead."""
    usual = {"cpu": "2", "memory": "3Mi", "nvidia.com/gpu": "4", "a.io/port": "5"}
    one = ContainerResources(usual)
    places = [
        PodResources(containers=(one, ContainerResources(asked))),
        PodResources(containers=(one, ContainerResources(actual=asked, allocated=asked))),
        PodResources(containers=(one,), init_containers=(ContainerResources(asked),)),
        PodResources(containers=(one,), overhead=asked),
    ]
    if not {"cpu", "memory", "hugepages-2Mi"}.isdisjoint(asked):
        places.append(PodResources(containers=(one,), requests=asked))
    without = {name: text for name, text in usual.items() if name not in asked}
    rest = charged(PodResources(containers=(ContainerResources(without),)))

    expected = [msgspec.structs.replace(rest, refused=(name,))] * len(places)

    assert expected == [charged(place) for place in places]


def test_cards_that_are_absurd_together_are_refused_largest_first():
    cards = {"nvidia.com/gpu": "8", **{f"v{n}.io/gpu": str(2**30 - 9 + n) for n in range(3)}}

    assert Amounts(gpu_milligpus=(2**30 - 9 + 8) * 1000, refused=("v1.io/gpu", "v2.io/gpu")) == (
        charged(asking(**cards))
    )


def test_many_absurd_resources_cost_time_in_proportion_to_their_number():
    many = {f"r{n}.io/x": "9E" for n in range(3_000)}
    began = time.process_time()

    amounts = charged(PodResources(containers=(ContainerResources({"cpu": "1", **many}),) * 3))

    assert (amounts.cpu_millicores, len(amounts.refused)) == (3_000, 3_000)
    assert time.process_time() - began < 2


def test_bytes_are_charged_as_what_they_hold():
    pod = asking(cpu="2", memory="3Mi", gpu="1")
    small = msgspec.json.encode(pod)
    large = small + b" " * 10_000

    assert {charged_bytes(small), charged_bytes(small), charged_bytes(large)} == {charged(pod)}


BAD_BYTES = [
    (b"", "nothing"),
    (b"null", "null"),
    (b"[]", "an array"),
    (b'{"containers":[{"requests":{"cpu":1}}]}', "a number for a text"),
    (b'{"container":[]}', "an unknown field, written by newer code"),
    (b'{"overhead":{"\xff":"1"}}', "invalid UTF-8"),
    (b'{"containers":' + b"[" * 100_000, "a deep nest"),
]


@pytest.mark.parametrize("raw", [r[0] for r in BAD_BYTES], ids=[r[1] for r in BAD_BYTES])
def test_bytes_of_another_shape_are_refused(raw):
    with pytest.raises(MalformedJsonError):
        charged_bytes(raw)


@given(st.dictionaries(st.text(max_size=20), near_quantities, max_size=4))
def test_any_request_is_charged_within_bounds_and_what_is_refused_is_named(requests):
    amounts = charged(PodResources(containers=(ContainerResources(requests),)))
    rows = [amounts.cpu_millicores, amounts.memory_mib, amounts.gpu_milligpus]
    rows += [count for _, count in amounts.extended]

    assert all(0 <= row <= MAX_AMOUNT for row in rows) and set(amounts.refused) <= set(requests)

"""``bursar capsule`` and ``bursar test``: a slice of history that is decided again elsewhere."""

import json

import msgspec
import pytest
import zstandard

from bus.clock import parse_stamp
from bus.envelope import from_line, to_line
from bus.events.decisions import Cull
from bus.sources.events import read_lines
from deploy.cli.program.exits import Exit
from reactors.lab.culling import capsule
from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.lab.worlds import World, people, policy

STRICT = """
culling:
  policy:
    idle_seconds: 600
    warning_seconds: 300
    rules:
      - {namespace: "ns[1]", idle_seconds: 1200}
      - {image: "*base", namespace: "n*0", idle_seconds: 900}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    record = World(people(5, 10_800, count=3), policy(idle_seconds=2_400)).run(10_800)
    return make_ledger(tmp_path_factory.mktemp("capsules"), record.events)


@pytest.fixture
def strict(tmp_path):
    path = tmp_path / "strict.yaml"
    path.write_text(STRICT)
    return path


def export(data, path, *arguments):
    assert bursar("capsule", "export", path, "--data", data, "--cluster", "c", *arguments) == 0
    return path


def expected(path):
    """(time, verb, reason, how often before) of what a capsule expects; and the stops alone."""
    found = [event for event in read_lines(path) if event.source == "capsule"][1:]
    return [(event.time_us, event.type, event.sequence) for event in found], [
        Cull.read(event) for event in found if event.type == Cull.wire_type
    ]


def test_a_capsule_decides_the_same_elsewhere_and_another_policy_otherwise(
    data, tmp_path, strict, capsys
):
    folder = tmp_path / "capsules"
    folder.mkdir()
    whole = export(data, folder / "whole.capsule.zst", "--policy", strict)
    export(data, folder / "late.capsule", "--policy", strict, "--from", "100", "--to", "340")
    assert len(expected(whole)[1]) > 3
    capsys.readouterr()

    assert bursar("test", folder, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["capsule"], row["result"]) for row in rows] == [
        ("late.capsule", "passed"),
        ("whole.capsule.zst", "passed"),
    ]
    assert all(row["same"] for row in rows)

    (tmp_path / "mild.yaml").write_text("culling: {policy: {idle_seconds: 5000}}")
    assert bursar("capsule", "run", whole, "--policy", tmp_path / "mild.yaml") == Exit.DIFFERENT
    assert "missing" in capsys.readouterr().out
    assert bursar("test", folder, "--policy", tmp_path / "mild.yaml") == Exit.DIFFERENT


@pytest.mark.parametrize("moment", [(), ("--from", "100")])
def test_pseudonyms_keep_every_decision_and_no_name(data, tmp_path, strict, moment, capsys):
    plain = export(data, tmp_path / "plain.capsule", "--policy", strict, *moment)
    other = export(data, tmp_path / "other.capsule", "--policy", strict, "--pseudonymise", *moment)

    assert expected(plain)[0] == expected(other)[0]
    for one, two in zip(expected(plain)[1], expected(other)[1], strict=True):
        assert (one.numbers, one.reason, one.trigger) == (two.numbers, two.reason, two.trigger)
    text = other.read_text()
    assert [] == [name for name in ("nb-u", "pod-u", '"ns0"', '"ns1"', "jupyter/base", '"u0"') if name in text]  # fmt: skip
    assert bursar("capsule", "run", other) == 0


def test_what_is_no_capsule_is_refused(data, tmp_path, capsys):
    good = export(data, tmp_path / "good.capsule")
    lines = good.read_bytes().splitlines()
    bad = tmp_path / "bad.capsule"
    event = from_line(lines[0])
    body = msgspec.json.decode(event.body)
    for content in (
        b"",
        b"no json\n",
        lines[1],
        to_line(msgspec.structs.replace(event, body=b'{"reactor":"culling"}')),
        to_line(msgspec.structs.replace(event, body=msgspec.json.encode(body | {"policy": {"idle_seconds": -1}}))),
        lines[0] + b"\n" + to_line(msgspec.structs.replace(from_line(lines[5]), source="capsule")),
        good.read_bytes()[:-40],
    ):  # fmt: skip
        bad.write_bytes(content)
        assert bursar("capsule", "run", bad) == Exit.USAGE, content[:200]
        assert str(bad) in capsys.readouterr().err
    packed = tmp_path / "bomb.capsule.zst"
    packed.write_bytes(zstandard.compress(b"\n" * (65 * 1024**2)))
    assert bursar("capsule", "run", packed) == Exit.USAGE
    assert bursar("test", tmp_path / "nowhere") == Exit.USAGE
    (tmp_path / "empty").mkdir()
    assert bursar("test", tmp_path / "empty") == Exit.USAGE
    assert bursar("capsule", "export", tmp_path / "x.txt", "--data", data) == Exit.USAGE


def test_lines_that_say_nonsense_end_no_run(data, tmp_path):
    """A capsule comes from anybody."""
    good = export(data, tmp_path / "good.capsule")
    lines = [from_line(line) for line in good.read_bytes().splitlines()]
    wrong = []
    for number, event in enumerate(lines[1:]):
        if event.source != "capsule" and number % 7 == 0:
            bodies = [b"[]", b"{}", b'{"uid":1e999}', b'{"uids":{"a":1}}', b'{"uid":"' + b"x" * 300 + b'"}']  # fmt: skip
            event = msgspec.structs.replace(event, body=bodies[number % 5])
        if event.source != "capsule" and number % 11 == 0:
            event = msgspec.structs.replace(event, time_us=-(2**60) // 1_000_000 * (number % 3))
        wrong.append(event)
    bad = tmp_path / "wrong.capsule"
    bad.write_bytes(b"\n".join(map(to_line, [lines[0], *wrong])))

    assert bursar("capsule", "run", bad) in (0, Exit.DIFFERENT, Exit.USAGE)


def test_a_capsule_at_the_end_of_the_calendar_ends_no_run(data, tmp_path):
    """A quiet window east of Greenwich is in the year 10000 by then."""
    path = tmp_path / "quiet.yaml"
    path.write_text(STRICT + "    quiet: [{zone: Asia/Tokyo, start: '01:00', end: '02:00'}]\n")
    lines = export(data, tmp_path / "good.capsule", "--policy", path).read_bytes().splitlines()
    first, *rest = map(from_line, lines)
    history = [event for event in rest if event.source != "capsule"]
    later = parse_stamp("9999-12-31T23:59:59Z") - max(event.time_us for event in history)
    bad = tmp_path / "late.capsule"
    shifted = [msgspec.structs.replace(one, time_us=one.time_us + later) for one in history]
    bad.write_bytes(b"\n".join(map(to_line, [first, *shifted])))

    assert bursar("capsule", "run", bad) in (0, Exit.DIFFERENT)


def test_a_capsule_that_expects_very_many_decisions_is_refused(data, tmp_path, monkeypatch, capsys):
    good = export(data, tmp_path / "good.capsule")
    expects = len(expected(good)[0])
    monkeypatch.setattr(capsule, "MOST_EXPECTED", expects)
    assert bursar("capsule", "run", good) == 0
    monkeypatch.setattr(capsule, "MOST_EXPECTED", expects - 1)
    assert bursar("capsule", "run", good) == Exit.USAGE

    assert "decisions" in capsys.readouterr().err

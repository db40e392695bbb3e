"""``bursar lab``: what people see of a policy that was tried on a ledger of three hours."""

import csv
import io
import json
from contextlib import contextmanager
from xml.etree import ElementTree

import pytest

from deploy.cli.program.exits import Exit
from deploy.errors import SettingsError
from deploy.queries.lab import proposed
from deploy.queries.lab_evictions import proposed_evictions
from deploy.queries.lab_placements import proposed_placements
from deploy.queries.lab_quotas import proposed_limits
from deploy.queries.lab_rebalancing import proposed_rebalancing
from tests.deploy.ledgers import bursar, make_ledger
from tests.factories import node_observed, numbered
from tests.reactors.lab.worlds import Person, World, policy

HOUR = 3_600
STRICT = "culling:\n  policy:\n    idle_seconds: 600\n    warning_seconds: 300\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    users = [
        Person("ann", "vision", [(100, 1_000), (3_000, 3_500)], cpu="4", gpu=2),
        Person("bob</text>", "speech", [(100, 2_000)], gpu=0),
    ]
    record = World(users, policy(idle_seconds=5_000)).run(3 * HOUR)
    return make_ledger(tmp_path_factory.mktemp("lab"), record.events)


def test_shared_cards_count_as_the_ledger_charges_them(capsys, data, strict, tmp_path):
    whole = json.loads(lab(capsys, data, "--policy", strict, "-o", "json").out)[-1]
    users = [Person("ann", "vision", [(100, 1_000), (3_000, 3_500)], cpu="4", gpu=2)]
    record = World(users, policy(idle_seconds=5_000)).run(3 * HOUR)
    # Labels of a node hold from the start.
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    node = node_observed(at=3 * HOUR, further_labels=labels)
    shared = make_ledger(tmp_path, numbered([*record.events, node]))
    quarters = json.loads(lab(capsys, shared, "--policy", strict, "-o", "json").out)[-1]

    assert 4 * quarters["gpu_milli_s"] == whole["gpu_milli_s"] > 0


@pytest.fixture
def strict(tmp_path):
    path = tmp_path / "strict.yaml"
    path.write_text(STRICT)
    return path


def lab(capsys, data, *arguments, code=0):
    assert bursar("lab", "--data", data, "--cluster", "c", *arguments) == code
    return capsys.readouterr()


def test_it_tells_stops_hours_and_false_culls_by_namespace(capsys, data, strict):
    out, _ = lab(capsys, data, "--policy", strict)

    assert all(len(line) <= 80 for line in out.splitlines()[:5])
    vision = next(line for line in out.splitlines() if line.startswith("vision"))
    assert vision.split()[:6] == ["vision", "1", "to", "2", "+1", "~1"]

    rows = json.loads(lab(capsys, data, "--policy", strict, "-o", "json").out)
    assert [(r["group"], r["name"], r["recorded"], r["tried"]) for r in rows] == [
        ("namespace", "speech", 1, 1),
        ("namespace", "vision", 1, 2),
        ("total", "", 2, 3),
    ]
    assert rows[-1]["gpu_milli_s"] == rows[1]["gpu_milli_s"] and not rows[0]["gpu_milli_s"]
    assert rows[1]["gpu_milli_s_low"] < rows[1]["gpu_milli_s"] < rows[1]["gpu_milli_s_high"]


def test_from_an_event_on_it_knows_what_was_known_there(capsys, data, strict):
    whole = json.loads(lab(capsys, data, "--policy", strict, "--decisions", "-o", "json").out)
    cut = lab(capsys, data, "--policy", strict, "--decisions", "--from", "100", "-o", "csv").out

    after = [row for row in csv.DictReader(io.StringIO(cut)) if row["decision"] == "cull"]
    stops = [(row["name"], row["tried_at"]) for row in whole if row["decision"] == "cull"]
    ann = [stop for stop in stops if stop[0] == "ann"]
    assert len(ann) == 2
    assert [(row["name"], row["tried_at"]) for row in after if row["name"] == "ann"] == ann[1:]


def test_the_picture_holds_every_group_and_takes_names_as_text(capsys, data, strict, tmp_path):
    lab(capsys, data, "--policy", strict, "--decisions", "--svg", tmp_path / "saved.svg")

    root = ElementTree.parse(tmp_path / "saved.svg").getroot()
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"vision", "speech", "all", "GPU-hours saved", "Core-hours saved"} <= set(texts)


def test_a_policy_file_that_cannot_be_tried_is_refused_with_its_line(capsys, data, tmp_path):
    path = tmp_path / "policy.yaml"
    for text, told in {
        "evictions: {}\n": "section culling is missing; example: culling: {",
        "culling: 5\n": "section culling is missing; example: culling: {",
        "culling:\n  policy:\n    idle: 5\n": "line 3: culling.policy.idle: there is no such setting",
        "culling:\n  policy:\n    idle_seconds: -1\n": "line 3",
        "culling:\n  kubeflow: true\n": "cull simulate --like kubeflow",
    }.items():
        path.write_text(text)
        assert told in lab(capsys, data, "--policy", path, code=Exit.USAGE).err, text


@pytest.mark.parametrize(
    ("section", "read"),
    [
        ("culling", proposed),
        ("evictions", proposed_evictions),
        ("quotas", proposed_limits),
        ("rebalancing", proposed_rebalancing),
        ("scheduling", proposed_placements),
    ],
)
def test_the_example_for_a_file_without_its_section_is_a_file_with_it(tmp_path, section, read):
    path = tmp_path / "policy.yaml"
    path.write_text("other: {}\n")
    with pytest.raises(SettingsError, match=f"policy.yaml: section {section} is missing") as found:
        read(path)

    path.write_text(str(found.value).partition("example: ")[2])
    assert read(path)


def test_moments_that_are_not_there_are_refused(capsys, data, strict):
    for arguments in (("--from", "900000"), ("--from", "50", "--to", "40"), ("--to", "1999")):
        assert lab(capsys, data, "--policy", strict, *arguments, code=Exit.USAGE).err


def test_suggest_shows_the_grid_and_which_policies_no_other_one_beats(capsys, data, strict):
    asks = ("suggest", "--data", data, "--cluster", "c", "--idle", "10m", "--idle", "2h")  # fmt: skip
    warnings = ("--warning", "5m", "--warning", "10m")
    assert bursar("lab", *asks, *warnings, "--policy", strict, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)

    assert [(row["idle_s"], row["warning_s"], row["is_front"], row["stops"]) for row in rows] == [
        (600, 300, True, 3), (600, 600, False, 3), (7_200, 300, True, 1), (7_200, 600, True, 1),
    ]  # fmt: skip
    alone = json.loads(lab(capsys, data, "--policy", strict, "-o", "json").out)[-1]
    assert alone.items() >= {k: v for k, v in rows[0].items() if k.startswith("gpu_")}.items()
    assert rows[1]["gpu_milli_s_low"] is None

    assert bursar("lab", *asks, "--goal", "core-idle-hours") == 0
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())
    assert bursar("lab", *asks, *(w for n in range(99) for w in ("--idle", f"{n}m"))) == Exit.USAGE
    assert "more than 60" in capsys.readouterr().err


def test_suggest_reports_its_progress_through_the_period(monkeypatch, data, strict):
    """Each reading of the period ends at its last event."""
    steps = []

    @contextmanager
    def bar(text):
        yield lambda done, of: steps.append((text, done, of))

    monkeypatch.setattr("deploy.cli.lab.suggest.bar", bar)
    asked = (
        "--data",
        data,
        "--cluster",
        "c",
        "--idle",
        "10m",
        "--warning",
        "5m",
        "--policy",
        strict,
    )
    assert bursar("lab", "suggest", *asked) == 0

    readings = dict.fromkeys(text for text, _, _ in steps)
    assert len(readings) == 2
    for reading in readings:
        mine = [(done, of) for text, done, of in steps if text == reading]
        assert mine == sorted(mine) and 0 < mine[-1][0] <= mine[-1][1]


def test_several_policies_are_compared_in_one_table(capsys, data, strict, tmp_path):
    off = tmp_path / "off.yaml"
    off.write_text("culling: {mode: off}")
    rows = json.loads(lab(capsys, data, "--policy", strict, "--policy", off, "-o", "json").out)

    alone = json.loads(lab(capsys, data, "--policy", strict, "-o", "json").out)[-1]
    assert [(row["group"], row["name"], row["tried"]) for row in rows] == [
        ("policy", str(strict), 3),
        ("policy", str(off), 0),
    ]
    assert alone["gpu_milli_s"] == rows[0]["gpu_milli_s"]
    both = ("--policy", strict, "--policy", off, "--decisions")
    assert "is about one" in lab(capsys, data, *both, code=Exit.USAGE).err

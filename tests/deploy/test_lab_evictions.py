"""``bursar lab evictions``: what people see of a policy of evictions that was tried on two quotas that borrow."""

import json
import random
from xml.etree import ElementTree

import pytest

from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import bursar, make_ledger
from tests.factories import node_observed, numbered
from tests.reactors.lab.eviction_worlds import cards, lived

SHARES = "evictions: {policy: {monitor_all_quotas: true, delay_evict_seconds: 20}}"
PEOPLE = cards(random.Random(4))
SPENT = ((400, "GraceOver"),)


@pytest.fixture(scope="module")
def record():
    return lived(PEOPLE, "off", {}, SPENT)


@pytest.fixture(scope="module")
def live():
    return lived(PEOPLE, "on", {"monitor_all_quotas": True, "delay_evict_seconds": 20}, SPENT)


@pytest.fixture(scope="module")
def data(tmp_path_factory, record):
    return make_ledger(tmp_path_factory.mktemp("lab"), record.events)


@pytest.fixture
def tried(data, tmp_path, capsys):
    def ask(*arguments, text=SHARES, code=0):
        path = tmp_path / "policy.yaml"
        path.write_text(text)
        found = bursar("lab", "evictions", "--policy", path, "--data", data, "--cluster", "c1", *arguments)  # fmt: skip
        out, err = capsys.readouterr()
        assert found == code, err
        return out if code == 0 else err

    return ask


def test_it_tells_who_goes_and_what_that_frees(tried, live, tmp_path):
    rows = json.loads(tried("-o", "json", "--svg", tmp_path / "freed.svg"))
    assert [row["group"] for row in rows] == ["namespace", "total"]
    total = rows[-1]
    assert total["recorded"] == 0 and total["tried"] == total["added"] >= 5
    assert 0 < total["gpu_milli_s"] < total["gpu_milli_s_high"]
    ElementTree.parse(tmp_path / "freed.svg")

    pods = json.loads(tried("--pods", "-o", "json"))
    assert {one["name"] for one in pods} == set(live.gone)
    assert {one["reason"] for one in pods} == {"quota-overused", "budget-grace-over"}
    assert {one["quota"] for one in pods} >= {"team"}


def test_shared_cards_count_as_the_ledger_charges_them(tried, record, tmp_path, capsys):
    whole = json.loads(tried("-o", "json"))[-1]
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    # A label that is absent keeps its last value.
    node = node_observed("n", 0, uid="n", cluster="c1", further_labels=labels)
    shared = make_ledger(tmp_path, numbered([node, *record.events]))
    policy = tmp_path / "policy.yaml"
    assert bursar("lab", "evictions", "--policy", policy, "--data", shared, "--cluster", "c1", "-o", "json") == 0  # fmt: skip
    quarters = json.loads(capsys.readouterr().out)[-1]

    assert 4 * quarters["gpu_milli_s"] == whole["gpu_milli_s"] > 0


def test_a_budget_alone_frees_less_and_off_nothing(tried):
    for text, reasons in {
        "evictions: {mode: on}": {"budget-grace-over"},
        "evictions: {mode: off}": set(),
    }.items():
        pods = json.loads(tried("--pods", "-o", "json", text=text))
        assert {one["reason"] for one in pods} == reasons


def test_from_an_event_on_it_knows_what_was_known_there(tried, record):
    whole = {one["name"]: one["tried_at"] for one in json.loads(tried("--pods", "-o", "json"))}
    cut = next(e.sequence for e in record.events if e.time_us > record.begin_us + 60 * 10**6)
    found = {
        one["name"]: one["tried_at"]
        for one in json.loads(tried("--pods", "-o", "json", "--from", cut))
    }
    assert found == whole


def test_the_table_fits_and_a_wrong_policy_is_refused_with_its_line(tried):
    out = tried()
    assert all(len(line) <= 90 for line in out.splitlines()[:4])
    assert "0 to" in out
    wrong = "evictions:\n  policy:\n    monitor: true"
    assert "line 3: evictions.policy.monitor: there is no such" in tried(
        text=wrong, code=Exit.USAGE
    )
    assert "section evictions is missing; example: evictions: {" in tried(
        text="culling: {}", code=Exit.USAGE
    )

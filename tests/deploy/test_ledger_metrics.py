"""What teams hold and how far the history is sealed, as metrics: right, and never more series than there may be.

Source: docs/operating.md (alerts and a dashboard).
"""

from typing import NamedTuple

import pytest

from bus.jetstream import GuardLine, Safety
from deploy.runtime.guarding import bus_metrics
from deploy.runtime.ledger_metrics import OTHERS, TEAMS, LedgerMetrics
from deploy.runtime.sealing import sealer_of
from deploy.settings.load import load
from projections.engine.store import Store, engine
from tests import factories as f
from tests.deploy.ledgers import make_ledger
from tests.projections.engine.archives import fill, ledger


class Writer(NamedTuple):
    """Whoever writes the ledger."""

    sequence: int
    unsealed: str = ""


def pods(team, count, first=0, **fields):
    return [f.pod_observed(f"{team[:20]}-{n}", team=team, **fields) for n in range(first, count)]


def looked(store, **more):
    """What is shown after a look, by name and team; without a team by name."""
    metrics = LedgerMetrics(store, Writer(7), **more)
    metrics.look()
    return {
        (one.name, sample.labels.get("team")): sample.value
        for one in metrics()
        for sample in one.samples
    }


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    made = ledger(url)
    yield made
    made.close()


def test_what_teams_hold_is_of_the_pods_that_are_open(store):
    said = [
        *pods("blue", 2, cpu="1500m", memory="1Gi", gpu=2),
        *pods("red", 1, cpu="2"),
        # One that ended, and one that waits.
        f.pod_observed("gone", 1, 0, cpu="9", team="red"),
        f.pod_vanished("gone", 2, 60, cpu="9", team="red", deletion=60),
        f.pod_observed("waits", 1, 0, cpu="9", team="red", node=None),
    ]
    fill(store, f.numbered(said), batch=100)
    found = looked(store)

    def of(what):
        return {
            team: value for (name, team), value in found.items() if name == f"bursar_team_{what}"
        }

    assert of("gpus") == {"blue": "4.000", "red": "0.000"}
    assert of("cpu_cores") == {"blue": "3.000", "red": "2.000"}
    assert of("memory_bytes") == {"blue": 2 << 30, "red": 1 << 30}
    assert of("pods") == {"blue": 2, "red": 1}


def test_a_tenant_who_invents_teams_makes_one_series_of_them_all(store):
    """Nor does one hide who holds most: that is by what is held."""
    said = [*pods("large", 1, cpu="64", gpu=8)]
    said += [one for n in range(300) for one in pods(f"made-up-{n}", 1, cpu="1m", memory="1Mi")]
    said += pods("second", 1, cpu="500m")
    fill(store, f.numbered(said), batch=1000)
    found = looked(store)
    cores = {
        team: value for (name, team), value in found.items() if name == "bursar_team_cpu_cores"
    }

    assert len(cores) == TEAMS + 1
    assert (cores["large"], cores["second"]) == ("64.000", "0.500")
    assert sum(round(1000 * float(one)) for one in cores.values()) == 64_000 + 300 + 500
    assert cores[OTHERS] == "0.282"


def test_how_far_the_history_is_sealed_is_shown_where_it_is(tmp_path, monkeypatch):
    for name, value in {"DATA": tmp_path, "HISTORY__SEGMENT_EVENTS": "2"}.items():
        monkeypatch.setenv(f"BURSAR_{name}", str(value))
    make_ledger(tmp_path, pods("blue", 7))
    store = Store(engine(f"sqlite:///{tmp_path / 'ledger.db'}"))
    before = looked(store, segment_events=2)
    sealer = sealer_of(load(), store)
    while sealer.seal():
        pass
    after = looked(store, segment_events=2)
    plain = looked(store)
    store.close()

    names = ["segments", "sealed_sequence", "segments_waiting", "sealing_trouble"]
    shown = [[one[f"bursar_history_{name}", None] for name in names] for one in (before, after)]
    assert shown == [[0, 0, 3, 0], [3, 6, 0, 0]]
    assert not [name for name, _ in plain if name.startswith("bursar_history")]


def test_why_it_is_not_sealed_is_a_trouble():
    found = LedgerMetrics(None, Writer(7, "there is no room"), segment_events=2)()

    values = {one.name: [s.value for s in one.samples] for one in found}
    assert values["bursar_history_sealing_trouble"] == [1]


def test_each_property_of_the_bus_says_how_safe_it_is():
    lines = [GuardLine(state.lower(), state, "found", "wanted", "code") for state in Safety]
    [metric] = bus_metrics(lines)

    assert {s.labels["property"]: s.value for s in metric.samples} == {
        "ok": 0, "unknown": 1, "weak": 2, "unsafe": 3,
    }  # fmt: skip

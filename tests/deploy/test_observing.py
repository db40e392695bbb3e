"""Alerts and the dashboard: every query is one of the product's own metrics, and each alert fires when it shall, and not else."""

import json
from collections import defaultdict
from typing import NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bus.jetstream import GuardLine, Safety
from bus.kube.watch.contract import ReflectorState
from bus.memory import MemoryTransport
from bus.metrics import exposition
from deploy.commands.installation import FOLDER
from deploy.runtime.admission import admitting
from deploy.runtime.guarding import bus_metrics
from deploy.runtime.ledger_metrics import LedgerMetrics
from deploy.runtime.proving import Prover
from deploy.runtime.reactors import acting
from deploy.runtime.source_metrics import source_metrics
from deploy.settings.shape import Settings
from projections.engine.store import Store, engine
from reactors.engine.figures import figures
from tests import factories as f
from tests.deploy.ledgers import make_ledger
from tests.deploy.promql import Query
from tests.scenario import Clock

ALERTS = yaml.safe_load((FOLDER / "observe" / "alerts.yaml").read_text())
RULES = {rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((FOLDER / "observe" / "dashboard.json").read_text())
QUERIES = [rule["expr"] for rule in RULES.values()]
QUERIES += [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


class Writer(NamedTuple):
    """Whoever writes the ledger."""

    sequence: int
    unsealed: str


class Cluster:
    """Takes everything."""

    def __getattr__(self, name):
        async def asked(*_, **__):
            return {}

        return asked


@pytest.fixture
async def product(tmp_path):
    """The metrics of a process that does all, by name."""
    settings = Settings(
        data=tmp_path / "data",
        admission={"mode": "shadow", "host": "127.0.0.1", "port": 0},
        scheduling={"mode": "shadow"},
        jobs={"mode": "shadow"},
    )
    make_ledger(tmp_path, [f.pod_observed("p", 1, 0, cpu="2", gpu=1, team="blue")])
    store = Store(engine(f"sqlite:///{tmp_path / 'ledger.db'}"))
    ledger = LedgerMetrics(store, Writer(7, ""), segment_events=4)
    transport, shows = MemoryTransport(), []
    quota = f.quota_observed("q", 1, 0, hard={"limits.cpu": 4000}, cluster="default")
    await transport.publish([quota])
    more = [
        lambda: source_metrics({"pods": ReflectorState()}),
        lambda: figures(runner.replica),
        ledger,
        lambda: bus_metrics([GuardLine("sync_interval", Safety.OK, "always", "always", "sync")]),
    ]
    prover = Prover(Cluster(), settings.admission, Clock(0))
    async with (
        acting(transport, Cluster(), settings.wanted, name="default") as runner,
        admitting(
            settings, transport, Cluster(), keeps=True, more=more, prover=prover, shows=shows
        ),
    ):
        ledger.look()
        found = [metric for part in shows for metric in part()]
        text = "".join(exposition(found))
        yield {one.name: (one.kind, list(one.samples)) for one in found}, text
    store.engine.dispose()


async def test_every_query_is_about_metrics_of_the_product(product):
    known, text = product
    for expr in QUERIES:
        for name, is_counted, labels in Query(expr).used:
            plain = name.removesuffix("_bucket")
            kind, samples = known[plain]
            has = {label for one in samples for label in one.labels} | {
                "instance"
            }  # Prometheus writes it.
            assert kind in ("counter", "histogram") or not is_counted, expr
            assert (kind == "histogram") == (name != plain), expr
            assert not samples or labels <= has, (expr, has)
            assert f"# TYPE {plain}" in text


async def test_every_query_is_answered_by_what_the_product_shows(product):
    """Two scrapes, a minute apart. What is there always has an answer: figures of the process, reviews, the ledger."""
    _, text = product
    scraped = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            points = [(NOW - 60, one.value), (NOW, one.value)]
            scraped[one.name][frozenset(one.labels.items())] = points
    answers = {expr: Query(expr).run(scraped, NOW) for expr in QUERIES}
    shown = {expr for expr, answer in answers.items() if answer}

    assert "sum by (allowed) (rate(bursar_admission_reviews_total[5m]))" in shown
    assert "max(bursar_admission_history_sequence) - max(bursar_ledger_sequence)" in shown
    assert "max by (quota, key) (bursar_quota_used / bursar_quota_hard)" in shown
    assert {f"max by (team) (bursar_team_{what})" for what in ("gpus", "cpu_cores", "memory_bytes", "pods")} <= shown  # fmt: skip
    assert {
        "max by (property) (bursar_bus_property)",
        "max(bursar_history_segments_waiting)",
    } <= shown
    assert not shown & {rule["expr"] for name, rule in RULES.items() if name != "BursarNoReviews"}


#: Alert: samples with which it fires, and others with which it does not. Counters: one value a minute.
NOW = 1_000_000
CASES = {
    "BursarNobodyWatches": ({"bursar_ledger_sequence": 7}, {'bursar_source_heard_timestamp_seconds{source="pods"}': 0}),
    "BursarNobodyWritesLedger": ({"bursar_effects_outstanding": 0}, {"bursar_ledger_sequence": 0}),
    "BursarNobodyActs": ({"bursar_ledger_sequence": 7}, {"bursar_effects_outstanding": 0}),
    "BursarNoReviews": ({"bursar_admission_reviews_arrive": 0}, {"bursar_admission_reviews_arrive": 1}),
    "BursarCertificateEnds": (
        {
            'bursar_webhook_certificate_end_seconds{file="a"}': NOW + 9e6,
            'bursar_webhook_certificate_end_seconds{file="b"}': NOW + 60,
        },
        {'bursar_webhook_certificate_end_seconds{file="a"}': NOW + 604_801},
    ),
    "BursarReviewsFail": (
        # Nine minutes ago.
        {"bursar_admission_failed_total": [0, 1, *[1] * 9]},
        {"bursar_admission_failed_total": [0, 9, *[9] * 11]},
    ),
    "BursarReviewsLate": (
        {"bursar_admission_late_total": [0, 0, 1]},
        {"bursar_admission_late_total": [2, 2, 2]},
    ),
    "BursarReviewsSlow": (
        {'bursar_admission_seconds_bucket{le="0.5"}': [0, 0, 90], 'bursar_admission_seconds_bucket{le="2.5"}': [0, 0, 100]},
        {'bursar_admission_seconds_bucket{le="0.5"}': [0, 0, 100], 'bursar_admission_seconds_bucket{le="2.5"}': [0, 0, 100]},
    ),
    "BursarSourceTrouble": (
        {'bursar_source_trouble{source="pods"}': 0, 'bursar_source_trouble{source="nodes"}': 1},
        {'bursar_source_trouble{source="pods"}': 0},
    ),
    "BursarSourceSilent": (
        {'bursar_source_heard_timestamp_seconds{source="pods"}': NOW - 901},
        {
            'bursar_source_heard_timestamp_seconds{source="pods"}': NOW - 60,
            # A kind that is not installed.
            'bursar_source_heard_timestamp_seconds{source="jobsets"}': 0,
        },
    ),
    "BursarLedgerLags": (
        {"bursar_admission_history_sequence": 20_000, "bursar_ledger_sequence": 9_000},
        {"bursar_admission_history_sequence": 20_000, "bursar_ledger_sequence": 19_000},
    ),
    "BursarEventsParked": (
        {"bursar_ledger_parked_events": 1, "bursar_admission_parked_total": 0},
        {"bursar_ledger_parked_events": 0, "bursar_admission_parked_total": 0},
    ),
    "BursarSealingStandsStill": (
        {"bursar_history_sealing_trouble": 0, "bursar_history_segments_waiting": 3},
        {"bursar_history_sealing_trouble": 0, "bursar_history_segments_waiting": 1},
    ),
    "BursarBusWeak": (
        {'bursar_bus_property{property="replicas"}': 2, 'bursar_bus_property{property="sync_interval"}': 0},
        {'bursar_bus_property{property="sync_interval"}': 1, 'bursar_bus_property{property="replicas"}': 0},
    ),
    "BursarBusAway": (
        {'bursar_bus_property{instance="a",property="replicas"}': 1, 'bursar_bus_property{instance="b",property="replicas"}': 0},
        {'bursar_bus_property{instance="a",property="replicas"}': 1, 'bursar_bus_property{instance="a",property="max_msgs"}': 0},
    ),
    "BursarUngoverned": (
        {'bursar_quota_ungoverned{quota="q",key="limits.cpu"}': 0, 'bursar_quota_ungoverned{quota="q",key="limits.memory"}': 1},
        {'bursar_quota_ungoverned{quota="q",key="limits.cpu"}': 0},
    ),
    "BursarBudgetNearlySpent": (
        {'bursar_budget_spent{quota="q",key="k"}': 90, 'bursar_budget_limit{quota="q",key="k"}': 100},
        {'bursar_budget_spent{quota="q",key="k"}': 0, 'bursar_budget_limit{quota="q",key="k"}': 0},
    ),
    "BursarEffectsWait": ({"bursar_effects_outstanding": 1001}, {"bursar_effects_outstanding": 10}),
    "BursarPaused": ({"bursar_reactors_paused": 1}, {"bursar_reactors_paused": 0}),
}  # fmt: skip


def samples(written):
    """As a query reads them: the newest value is of now."""
    found = defaultdict(dict)
    for one, values in written.items():
        name, _, labels = one.rstrip("}").partition("{")
        pairs = frozenset(tuple(each.replace('"', "").split("=")) for each in labels.split(",") if each)  # fmt: skip
        values = values if isinstance(values, list) else [values]
        times = (NOW - 60 * back for back in range(len(values) - 1, -1, -1))
        found[name][pairs] = [*zip(times, values, strict=True)]
    return found


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_fires_where_it_shall_and_nowhere_else(alert):
    query = Query(RULES[alert]["expr"])
    fires, rests = (bool(query.run(samples(one), NOW)) for one in CASES[alert])

    assert (fires, rests) == (True, False)
    assert {"summary", "runbook"} == RULES[alert]["annotations"].keys()
    # Only what says `absent` is about metrics that are not there.
    assert bool(query.run({}, NOW)) is ("absent(" in RULES[alert]["expr"])


@pytest.mark.parametrize("alive", ["bursar_ledger_parked_events", "bursar_admission_parked_total"])
def test_a_parked_event_is_told_of_while_the_other_process_is_gone_or_admission_is_off(alive):
    query = Query(RULES["BursarEventsParked"]["expr"])

    assert query.run(samples({alive: 1}), NOW)
    assert not query.run(samples({alive: 0}), NOW)


def test_a_segment_that_cannot_be_written_is_told_of_before_others_wait():
    told = {"bursar_history_sealing_trouble": 1, "bursar_history_segments_waiting": 0}

    assert Query(RULES["BursarSealingStandsStill"]["expr"]).run(samples(told), NOW)


#: The metrics that each process alone shows: with it, they are gone.
ALONE = {
    "watch": "bursar_source_",
    "ledger": "bursar_ledger_",
    "act": ("bursar_effects_", "bursar_admission_", "bursar_reactors_"),
}


@pytest.mark.parametrize("gone", ALONE)
def test_each_process_that_is_gone_is_told_of(gone):
    calm = {name: value for _, rests in CASES.values() for name, value in rests.items()}
    left = {name: value for name, value in calm.items() if not name.startswith(ALONE[gone])}
    told = [name for name, rule in RULES.items() if Query(rule["expr"]).run(samples(left), NOW)]

    wanted = {"watch": "BursarNobodyWatches", "ledger": "BursarNobodyWritesLedger"}
    assert told == [wanted.get(gone, "BursarNobodyActs")]


def test_panels_stand_beside_each_other_and_have_names_of_their_own():
    places = [tuple(one["gridPos"].values()) for one in DASHBOARD["panels"]]

    assert len(set(places)) == len({one["title"] for one in DASHBOARD["panels"]}) == len(places)
    assert len({one["id"] for one in DASHBOARD["panels"]}) == len(places)

"""Metrics of admission: what the journals say of decisions and quotas, and what a process answered, at GET /metrics."""

import pytest

from bus.events.admissions import AdmissionDecided, Meter, TreeMetered
from bus.metrics import Metric, Sample
from reactors.admission.metrics import figures
from reactors.webhook import Answer
from reactors.webhook.application import reviewed
from reactors.webhook.health import HealthApplication
from tests.reactors.cluster import START_US, Cluster
from tests.reactors.webhook.asking import ask
from tests.reactors.webhook.reviews import application
from tests.scraping import scraped

pytestmark = pytest.mark.simulated

START_S = START_US // 1_000_000


async def shown(cluster, at_s=START_S):
    """Every sample by its name and labels."""
    found = figures(cluster.admission.journals, cluster.admission.decisions, at_s)
    return scraped(found)


async def test_decisions_are_counted_by_verdict_and_reason():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        for uid in ("a", "b", "c"):
            await cluster.ask(uid, 3)
        await cluster.see("d", 1)
        await cluster.ask("e", 9, dry_run=True)
        await cluster.settled()

        found = await shown(cluster)

    counts = {name: n for name, n in found.items() if "decisions_total" in name}
    assert counts == {
        'bursar_admission_decisions_total{reason="fits",verdict="admitted"}': 1,
        'bursar_admission_decisions_total{reason="over-quota",verdict="refused"}': 2,
        'bursar_admission_decisions_total{reason="ungoverned",verdict="adopted"}': 1,
    }


async def test_every_key_of_every_quota_has_what_is_used_its_limit_and_what_was_never_admitted():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        await cluster.see_quota("child", {"limits.cpu": 1000}, parent="team")
        await cluster.ask("a", 2)
        await cluster.see("b", 1)

        found = await shown(cluster)

    def labels(quota):
        return f'{{key="limits.cpu",quota="{quota}",tree="biz/team"}}'

    assert found["bursar_quota_used" + labels("team")] == 4000
    assert found["bursar_quota_hard" + labels("team")] == 4000
    assert found["bursar_quota_ungoverned" + labels("team")] == 1000
    assert found["bursar_quota_used" + labels("child")] == 0
    assert "bursar_quota_ungoverned" + labels("child") not in found


async def test_budgets_are_shown_as_they_stand_at_the_second():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {}, cash={"limits.cpu": 900})
        meter = Meter("team", "limits.cpu", 100, 5, START_S)
        await cluster.say(TreeMetered(number=2, meters=(meter,)), "biz/team")

        found = await shown(cluster, START_S + 10)

    labels = '{key="limits.cpu",quota="team",tree="biz/team"}'
    assert found["bursar_budget_spent" + labels] == 150
    assert found["bursar_budget_limit" + labels] == 900


async def test_entries_that_are_none_are_counted():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        forged = AdmissionDecided(
            number=7, quota="team", uid="x", kind="Job", namespace="ns", name="x",
            verdict="admitted", reason="fits",
        )  # fmt: skip
        await cluster.say(forged, "biz/team")

        found = await shown(cluster)

    assert found["bursar_admission_parked_total"] == 1
    assert 'bursar_admission_decisions_total{reason="fits",verdict="admitted"}' not in found


async def test_a_process_shows_what_it_answered_beside_what_admission_knows():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        journals, decisions = cluster.admission.journals, cluster.admission.decisions

        async def handler(asked):
            return Answer(False, "over-quota")

        app = application(handler)
        await ask(app)
        await ask(app, b"no review")
        shown = HealthApplication(
            metrics=lambda: [*reviewed(app.state), *figures(journals, decisions, START_S)]
        )
        answer = await ask(shown, b"", path="/metrics", method="GET")

    said = answer.body.decode()
    assert (b"content-type", b"text/plain; version=0.0.4; charset=utf-8") in answer.messages[0][
        "headers"
    ]
    assert 'bursar_admission_reviews_total{allowed="false",reason="over-quota"} 1.0\n' in said
    assert 'bursar_admission_unreadable_total{status="400"} 1.0\n' in said
    assert "bursar_admission_seconds_count 2.0\n" in said
    assert 'bursar_quota_hard{key="limits.cpu",quota="team",tree="biz/team"} 4000.0\n' in said


async def test_reviews_are_answered_between_the_parts_of_long_metrics():
    many = [Sample(n, {"quota": "q" * 50}) for n in range(10_000)]
    app = HealthApplication(metrics=lambda: [Metric("m", "gauge", "M.", many)])

    answer = await ask(app, b"", path="/metrics", method="GET")

    assert max(len(message["body"]) for message in answer.messages[1:]) < 70_000
    assert answer.body.count(b"\nm{") == 10_000

"""One cluster as they are, for `BURSAR_FIELD_SECONDS`: half its namespaces have no quota, and notice nothing of Bursar.

Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, training jobs, notebooks, bare pods, server-side applies, rollouts, scales,
evictions, adoptions and deletes in each way, while `bursar up` runs in `off`, `shadow` and `enforce` by turns, with culling,
queue, scheduling and jobs on.
"""

import json
import os
import sqlite3
import time
import urllib.request
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from projections.accounts import accounts
from projections.engine.store import Store, engine
from tests.acceptance.admission_site import LABEL, Site, free_port, quota
from tests.acceptance.field import Day, PodWatch, Tenant, shown
from tests.cluster.api import eventually
from tests.cluster.training import CRDS

SECONDS = float(os.environ.get("BURSAR_FIELD_SECONDS", "600" if os.environ.get("CI") else "90"))
MODES = ("off", "shadow", "enforce")
#: How often it goes through all modes.
ROUNDS = 2 if SECONDS >= 300 else 1
#: Between two requests of one namespace: a long day is as full as a short one, and runs beside other tests.
PAUSE_SECONDS = max(0.25, SECONDS / 1000)
#: Namespace: its quota, "" for none.
NAMESPACES = {"full": "small", "queued": "lined", "free": "", "open": ""}
FREE = {name for name, quota in NAMESPACES.items() if not quota}

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(3 * SECONDS + 600),
]  # fmt: skip


class FieldSite(Site):
    """A cluster with four namespaces, and `bursar up` in one mode after the other."""

    def __init__(self, plane, folder):
        super().__init__(plane, folder)
        self.health = free_port()
        self.environment = {
            "BURSAR_JOBS__MODE": "on", "BURSAR_JOBS__POLICY__RUNS": "all", "BURSAR_SCHEDULING__MODE": "on",
            "BURSAR_CULLING__MODE": "on", "BURSAR_ADMISSION__HEALTH_PORT": str(self.health),
        }  # fmt: skip
        self.up = None

    def turn(self, mode):
        """`bursar up` in this mode, ready."""
        self.environment["BURSAR_ADMISSION__MODE"] = mode
        self.up = self.start("up")
        self.until(lambda: self.figures() is not None)
        self.until(lambda: self.status()["sources"])
        if mode != "off":
            self.until(lambda: (self.status()["admission"] or {}).get("proven_us"))

    def ends(self):
        """`bursar up` ends; gives what its figures were."""
        found = self.figures()
        self.up.terminate()
        assert self.up.wait(60) == 0, self.told()
        return found

    def status(self):
        return json.loads(self.ask("status", "-o", "json").stdout or "{}")

    def figures(self):
        """Of the webhook, by name and reason; None while no port answers."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.health}/metrics", timeout=5
            ) as got:
                text = got.read().decode()
        except OSError:
            return None
        families = text_string_to_metric_families(text)
        return Counter(
            {
                (one.name, one.labels.get("reason", "")): one.value
                for family in families
                for one in family.samples
                if one.name.startswith("bursar_admission_") and "bucket" not in one.name
            }
        )

    def open_pods(self):
        """Uids of the pods that the ledger has as not ended."""
        file = self.folder / "data" / "ledger.db"
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as ledger:
            names = ",".join("?" for _ in NAMESPACES)
            query = f"SELECT uid FROM pod_runs WHERE end_s IS NULL AND namespace IN ({names})"
            return {uid for (uid,) in ledger.execute(query, list(NAMESPACES))}


@pytest.fixture
def site(start_plane, tmp_path):
    plane = start_plane(controllers=True, scheduler=True, simulator=True, unsafe_no_fsync=True)
    for path in (CRDS.parents[1] / "training" / "jobs.yaml", CRDS):
        plane.kubectl("apply", "--server-side", "-f", str(path))
    found = FieldSite(plane, tmp_path)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    plane.create_nodes(3, gpus=0)
    for name, of in NAMESPACES.items():
        metadata = {"name": name, "labels": {LABEL: of} if of else {}}
        plane.api.request("POST", "/api/v1/namespaces", {"metadata": metadata})
    hard = {"limits.cpu": "300m"}
    found.apply(quota("small", hard), quota("lined", hard, queue={"hold": True}))
    yield found
    found.stop()


def lived(site, day, watch, mode, seconds):
    """One turn: the day goes on for so long; then everybody rests, and Bursar has seen it all. Gives its figures."""
    site.turn(mode)
    day.mode = mode
    day.goes.set()
    time.sleep(seconds)
    day.goes.clear()
    assert all(one.rests.wait(60) for one in day.tenants)

    def is_quiet():
        live, is_going = watch.live()
        return not is_going and live == site.open_pods()

    eventually(is_quiet, seconds=120, every=0.5)
    quiet_s = int(time.time())
    return site.status(), site.ends(), quiet_s


def booked(site, as_of_s):
    """What the ledger says of each pod, in the shape of the record of the watch; and those of which it lost sight."""
    store = Store(engine(f"sqlite:///{site.folder / 'data' / 'ledger.db'}"))
    found = accounts(store.select, as_of_s=as_of_s)
    store.close()
    ours = [one for one in found if one.namespace in NAMESPACES]
    rows = {
        one.uid: (
            one.namespace, sum(h.end_s - h.start_s for h in one.holdings),
            sum((h.end_s - h.start_s) * h.cpu_milli for h in one.holdings), one.is_open,
        )
        for one in ours
    }  # fmt: skip
    return rows, [(one.name, one.unknown_s, one.flags) for one in ours if one.unknown_s]


def refused_events(site):
    """What controllers could not make in the namespaces without a quota, as they say it in Events."""
    events = site.plane.api.request("GET", "/api/v1/events")["items"]
    return [
        one["message"]
        for one in events
        if one["metadata"]["namespace"] in FREE and "denied the request" in one.get("message", "")
    ]


def test_a_cluster_as_they_are_half_of_it_without_a_quota(site):
    seconds = SECONDS / (ROUNDS * len(MODES))
    watch, day = PodWatch(site.plane, NAMESPACES), Day(site.plane, PAUSE_SECONDS)
    watch.start()
    day.tenants = [Tenant(day, name, 20261128) for name in NAMESPACES]
    for tenant in day.tenants:
        tenant.start()
    failed, late, reviews = Counter(), Counter(), Counter()
    for number in range(ROUNDS):
        for mode in MODES:
            status, figures, quiet_s = lived(site, day, watch, mode, seconds)
            undecided = (status["admission"] or {}).get("undecided") or {}
            failed[mode] += figures["bursar_admission_failed_total", ""]
            late[mode] += figures["bursar_admission_late_total", ""]
            reviews[mode] += sum(
                n for (name, _), n in figures.items() if name == "bursar_admission_reviews_total"
            )
            print(number, mode, dict(figures), undecided, flush=True)
    day.is_over = True
    for tenant in day.tenants:
        tenant.join(60)
    watch.stop()
    as_of_s = int(time.time())
    rows, unknown = booked(site, as_of_s)
    for what, count in sorted(shown(day.answers).items()):
        print(*what, count)
    governed = [one for one in day.answers if one.is_refusal and one.namespace not in FREE]
    print(f"{dict(reviews)} reviews, {dict(late)} late, {len(rows)} pods, {len(governed)} refusals")

    assert [] == [one for one in day.answers if one.is_refusal and one.namespace in FREE]
    assert [] == refused_events(site)
    assert 0 == sum(failed.values())
    assert [] == unknown
    # A Job's pod may end by itself while Bursar does: its end is for the next start to see.
    unseen = watch.ended_since(quiet_s)
    held = {uid: row for uid, row in watch.held(as_of_s).items() if uid not in unseen}
    assert held == {uid: row for uid, row in rows.items() if uid not in unseen}
    # It was a day: the quotas refused, and reviews came in both modes.
    assert {one.mode for one in governed} >= {"shadow", "enforce"}
    assert min(reviews["shadow"], reviews["enforce"]) > 20 * ROUNDS

"""An upgrade and a roll-back, process by process, while Jobs come and go: no review fails, and no event is lost.

The release before is the newest tag, or what `BURSAR_UPGRADE_FROM` names; it is taken from git, and where a checkout has no history
(a shallow clone, a package) there is nothing to upgrade from, and the test says so. Old and new run side by side: first who writes
the ledger, as the others wait for its schema, then webhooks, who acts, who watches. Then back in the same order, and forward once
more: what the older version did not know is filled then.

Source: docs/operating.md, "Upgrades and roll-backs".
"""

import json
import time

import pytest

from tests.acceptance import jobs_record
from tests.acceptance.releases import checkout
from tests.acceptance.soak.churn import Churn, Truth
from tests.acceptance.soak.findings import counted, settled
from tests.acceptance.soak.site import HERE, QUOTAS, Site

#: How long both versions run side by side after each step, and each alone.
BESIDE_SECONDS, ALONE_SECONDS = 3, 10
KINDS = {"ledger": "", "webhook": "", "act": "bursar-actor", "watch": "bursar"}
#: Said when a process does its work, or waits until the other one ends.
RESERVE = "waiting in reserve"
READY = {
    "webhook": ("answering on",), "act": ("bus nats", RESERVE), "ledger": ("writing", RESERVE), "watch": ("following",),
}  # fmt: skip

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(1800)]


@pytest.fixture
def before(tmp_path):
    """A checkout of the release before."""
    return checkout(tmp_path / "before")


@pytest.fixture
def site(start_plane, postgres_url, tmp_path):
    plane = start_plane(
        controllers=True, scheduler=True, simulator=True, unsafe_no_fsync=True,
        apiserver_flags=jobs_record.FLAGS,
    )  # fmt: skip
    plane.create_nodes(4)
    with Site(plane, tmp_path, postgres_url) as site:
        yield site


def test_old_and_new_run_side_by_side_in_both_directions(site, before):
    site.begin(before)
    churn = Churn(site.plane)
    churn.start()
    time.sleep(ALONE_SECONDS)
    for tree in (HERE, before, HERE):
        roll(site, tree)
        time.sleep(ALONE_SECONDS)
    churn.stop()
    churn.clear()
    site.until(churn.drained, 120, "the pods that are left")
    site.until(lambda: [site.used(name) for name in QUOTAS] == [0, 0, 0], 240, "nothing charged")
    truth = Truth(churn.record)
    settled(site)
    ended = dict(site.parts.ended)
    # Else ticks of the clock would come between two answers.
    for kind in KINDS:
        for name in site.parts.named(kind):
            site.parts.end(name)
    rebuilt = json.loads(site.ask("replay", "-o", "json")[1])
    told = [site.ask("report", "--by", "team,namespace", "-o", "json", tree=tree) for tree in (HERE, before)]  # fmt: skip
    print(
        f"{len(truth.versions)} changes, {len(truth.pods)} pods; {dict(churn.answers)}; {ended}; {rebuilt}"
    )

    assert set(churn.answers) <= {"made", "deleted", "gone", "refused"}, churn.answers
    over = {place: peak for place, peak in truth.peaks().items() if peak[0] > QUOTAS[place[1]]}
    assert over == {}
    assert counted(site, truth) == []
    assert ended == {}
    assert rebuilt["equal"]
    assert told[0] == told[1] and told[0][0] == 0


def roll(site, tree):
    """Replace one process after the other by that of another checkout, as StatefulSets and Deployments do."""
    for kind, account in KINDS.items():
        for number in range(2):
            name = f"{kind}-{number}"
            before = len(site.log(name))
            site.drain(name)
            assert site.parts.end(name) == 0, site.log(name)[-2000:]
            site.add(kind, number, account, tree)
            wait(site, name, READY[kind], before)
            site.serve(name)
            time.sleep(BESIDE_SECONDS)


def wait(site, name, words, before):
    site.until(lambda: any(one in site.log(name)[before:] for one in words), what=name)

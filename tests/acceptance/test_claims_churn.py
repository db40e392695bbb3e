"""A churn of pods by every kind of claim on a real API server, with kills of product and server, is in the ledger to the integer.

The truth is kept apart from Bursar: a watch of the test's own, and :mod:`tests.acceptance.claims_truth`. `BURSAR_CHURN_PODS=2000`
makes 2,000 pods, not 300: 1,496 claims and 16,163 writes, in two to three minutes. No claim of one pod had more than four events.
"""

import http.client
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress

import pytest
import sqlalchemy as sa

from projections.devices.entries import of_segment
from projections.devices.shape import card_segments
from projections.engine.tables import events
from projections.inventory.shape import card_supply
from tests.acceptance.claims_cards import Cards
from tests.acceptance.claims_churn import CLAIMS, GROUP, NAMESPACE, Churn, set_up
from tests.acceptance.claims_truth import EVER, Truth, joined, reserved, told_by_uid
from tests.acceptance.up_process import Up
from tests.cluster.api import ApiError, eventually

#: Python leaves a socket open whose server was killed between the connection and the handshake (SSLSocket._create), as here.
LEFT = "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
pytestmark = [
    pytest.mark.kube, pytest.mark.nats, pytest.mark.slow, pytest.mark.filterwarnings(LEFT),
]  # fmt: skip

MANY = int(os.environ.get("BURSAR_CHURN_PODS", "300"))
#: A claim for one pod is made, allocated, reserved, and gone.
EVENTS_OF_A_LIFE = 4
#: Of the product and of the API server in turn.
KILLS = 4
#: Running pods that are deleted while the product is dead.
LOST = 3
LISTS = {"pod": "/api/v1/pods", "resourceclaim": f"{GROUP}/resourceclaims"}


class OwnWatch(threading.Thread):
    """Every version of every object below a path, as the API server tells a plain client, and when it came."""

    def __init__(self, api, path):
        super().__init__(daemon=True)
        self.told, self._api, self._path = [], api, path
        self._seen, self._over = set(), threading.Event()
        self.version = self._listed()

    def run(self):
        while not self._over.is_set():
            try:
                for event in self._api.watch(self._path, self.version, seconds=2):
                    if event["type"] == "ERROR":
                        raise ApiError(event["object"]["code"], event["object"])
                    self._take(event["type"], event["object"])
                    self.version = event["object"]["metadata"]["resourceVersion"]
            except ApiError as error:
                if error.status == 410:
                    with suppress(OSError, http.client.HTTPException, ApiError):
                        self.version = self._listed()
                time.sleep(0.05)
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.05)

    def _listed(self):
        found = self._api.request("GET", self._path)
        for one in found["items"]:
            self._take("LISTED", one)
        return found["metadata"]["resourceVersion"]

    def _take(self, change, thing):
        key = change == "DELETED", thing["metadata"]["uid"], thing["metadata"]["resourceVersion"]
        if key not in self._seen:
            self._seen.add(key)
            self.told.append((change, thing, time.time_ns() // 1000))

    def saw(self, uid):
        """Whether anything was told of an object."""
        return any(one["metadata"]["uid"] == uid for _, one, _ in reversed(self.told[-2000:]))

    def stop(self):
        """Ends the watch."""
        self._over.set()
        self.join()


class Site:
    """A control plane, `bursar up` on it, and the watches of the test's own."""

    def __init__(self, plane, folder):
        self.plane, self.up = plane, Up(plane, folder)
        self.watches = {kind: OwnWatch(plane.api, path) for kind, path in LISTS.items()}
        self._markers = 0
        for one in self.watches.values():
            one.start()

    def settled(self):
        """Returns when both saw all that was written: what was made last of each kind is in the archive and told."""
        self._markers += 1
        metadata = {"name": f"marker-{self._markers}"}
        container = {"name": "main", "image": "x"}
        bodies = {
            "/api/v1/namespaces/markers/pods": {
                "metadata": metadata,
                "spec": {"containers": [container]},
            },
            CLAIMS.replace(NAMESPACE, "markers"): {"metadata": metadata, "spec": {}},
        }
        for (kind, watch), (path, body) in zip(self.watches.items(), bodies.items(), strict=True):
            uid = self.plane.api.request("POST", path, body)["metadata"]["uid"]
            of_it = sa.select(events.c.type).where(events.c.key == uid)
            eventually(lambda of_it=of_it: self.select(of_it), seconds=60)
            eventually(lambda watch=watch, uid=uid: watch.saw(uid), seconds=60)
            assert kind in self.select(of_it)[0][0]

    def select(self, query):
        """Rows of the ledger."""
        with self.up._reading() as store:
            return store.select(query)

    def truth(self):
        """What the own watches told, by the rules."""
        told = [
            told_by_uid([one for one in watch.told if one[1]["metadata"]["namespace"] == NAMESPACE])
            for watch in self.watches.values()
        ]
        return Truth(*told)


@pytest.fixture
def site(own_plane, tmp_path):
    """The control plane with its cards, followed."""
    cards = Cards(random.Random(1), 1 + MANY // 800)
    set_up(own_plane.api, cards)
    site = Site(own_plane, tmp_path)
    site.cards = cards
    site.up.start()
    yield site
    with suppress(ProcessLookupError):
        site.up.end(signal.SIGKILL)


def played(site, churn):
    """Lets all lives be lived, with kills in between; the second of each delete that nobody saw, by pod."""
    lost, all_of_them = {}, churn.left
    churn.start()
    for kill in range(KILLS):
        eventually(
            lambda kill=kill: churn.left < all_of_them * (1 - (kill + 0.5) / KILLS), seconds=400
        )
        churn.gate.close()
        site.settled()
        if kill % 2:
            site.plane.kill_apiserver()
            time.sleep(1)
            site.plane.start_apiserver()
        else:
            running = churn.running()
            site.up.end(signal.SIGKILL)
            lost |= churn.lose(LOST, running)
            time.sleep(1)
            site.up.start()
        site.settled()
        churn.gate.open()
    eventually(lambda: not churn.left, seconds=400)
    site.settled()
    for watch in site.watches.values():
        watch.stop()
    return lost


def booked(account):
    """What the ledger says of a pod, in the shape of the truth."""
    rows = []
    for one in account.holdings:
        entries = of_segment(one.model, one.gpu_milli, one.devices, one.device_memory)
        (model,) = {entry.model for entry in entries} or {one.model}
        memory = sum(entry.gpu_memory_mib for entry in entries)
        rows.append(
            (
                one.start_s,
                one.end_s,
                one.cpu_milli,
                one.memory_mib,
                one.gpu_milli,
                memory,
                one.team,
                one.node,
                model,
            )
        )
    return joined((0, *row) for row in rows).get(0, [])


def of_cards(site, kind):
    """(claim, card, pod) to the intervals that the ledger has of a kind."""
    c = card_segments.c
    amounts = (c.gpu_milli, c.gpu_memory_mib) if kind == "held" else (c.gpu_milli,)
    columns = (c.uid, c.card, c.pod_uid, c.start_s, c.end_s, *amounts)
    rows = site.select(sa.select(*columns).where(c.kind == kind))
    return joined(
        ((uid, card, pod), start, EVER if end is None else end, *amounts)
        for uid, card, pod, start, end, *amounts in rows
    )


def differing(found, expected):
    """Intervals of two lists that do not begin at once, end within a second of each other, and have equal amounts."""
    left = list(found)
    for begin, until, *amounts in expected:
        near = [
            one
            for one in left
            if one[0] == begin and abs(one[1] - until) <= 1 and list(one[2:]) == amounts
        ]
        if near:
            left.remove(near[0])
        elif until - begin > 2:
            yield "missing", begin, until, *amounts
    yield from (("more", *one) for one in left)


@pytest.mark.timeout(900)
def test_a_churn_by_every_kind_of_claim_is_booked_to_the_integer_through_kills(site):
    told = site.watches["resourceclaim"]
    churn = Churn(site.plane.api, site.cards, MANY, 20261123, lambda: int(told.version))
    began = time.monotonic()
    lost = played(site, churn)
    took = time.monotonic() - began
    truth, rows = site.truth(), site.up.rows(NAMESPACE)
    of_lost = {one.uid: lost[one.name] for one in truth.pods.values() if one.name in lost}
    kinds = Counter(one.kind for one in churn.lives)
    print(f"\n{len(truth.pods)} pods, {len(truth.claims)} claims in {took:.0f} s: {dict(kinds)}")
    print(f"writes {dict(churn.writes)}, ends that nobody saw {len(lost)}")

    assert len(truth.pods) == len(rows) == MANY
    for uid, pod in truth.pods.items():
        row = rows[pod.name]
        if uid in of_lost:
            # Where the end was not seen, the true one lies in the time that is said to be unknown.
            end_s = row.holdings[-1].end_s if row.holdings else pod.start
            assert ("vanished",) == row.flags
            assert end_s <= of_lost[uid] <= end_s + row.unknown_s
            continue
        waited = (pod.start or pod.end) - pod.created
        told = booked(row), row.waiting_s, row.unknown_s, row.flags
        assert (truth.segments(uid), waited, 0, ()) == told, pod.name
    held = {key: one for key, one in of_cards(site, "held").items() if key[2] not in of_lost}
    assert held == {
        (uid, card, pod): one
        for (uid, _, card, pod), one in truth.pieces.items()
        if pod not in of_lost
    }
    odd = odd_reserved(site, truth, of_lost)
    for one in odd:
        print(one)
    assert odd == []
    assert conserved(site) == []
    assert wordy(site, truth) == {}
    assert site.up.is_whole()


def wordy(site, truth):
    """Claims that were made for one pod and of whose life more than four events tell."""
    c = events.c
    about = sa.select(c.key, sa.func.count()).where(c.type.like("resourceclaim.%")).group_by(c.key)
    told, made_for = dict(site.select(about)), "resource.kubernetes.io/pod-claim-name"
    generated = {
        uid for uid, one in truth.claims.items() if made_for in one.metadata.get("annotations", {})
    }
    lives = Counter(told[uid] for uid in generated)
    print(f"events of a generated claim's life: {dict(lives)}")
    assert generated
    return {uid: told[uid] for uid in generated if told[uid] > EVENTS_OF_A_LIFE}


def odd_reserved(site, truth, lost):
    """Reserved intervals that differ from the truth, but for claims of pods whose end nobody saw."""
    found, spare = [], of_cards(site, "reserved")
    for uid, claim in truth.claims.items():
        for card, (free, milli) in reserved(claim).items():
            rows = spare.pop((uid, card, ""), [])
            odd = list(differing(rows, [(*one, milli) for one in free]))
            if odd and not lost.keys() & {pod.uid for pod in claim.pods}:
                found.append(
                    (claim.metadata["name"], card, odd, rows, free, beside(site, card, odd))
                )
    return found + list(spare)


def beside(site, card, odd):
    """What else the ledger has of a card at the time of an odd interval."""
    from_s, to_s = min(one[1] for one in odd), max(one[2] for one in odd)
    c = card_segments.c
    near = (c.card == card) & (c.start_s < to_s) & sa.or_(c.end_s.is_(None), c.end_s > from_s)
    columns = (c.kind, c.claim, c.start_s, c.end_s, c.since_s, c.gpu_milli, c.vanished)
    return site.select(sa.select(*columns).where(near))


def conserved(site):
    """Cards of which in some second more was had than there is, or whose shares of time are not all of their supply."""
    had = defaultdict(Counter)
    for kind in ("held", "reserved", "unknown"):
        for (_, card, _), rows in of_cards(site, kind).items():
            for begin, until, milli, *_ in rows:
                had[card][begin] += milli
                had[card][until] -= milli
    found = []
    for card, changes in had.items():
        milli = 0
        for at in sorted(changes):
            milli += changes[at]
            if not 0 <= milli <= 1000:
                found.append((card, at, milli))
    since = dict(site.select(sa.select(card_supply.c.card, card_supply.c.start_s)))
    columns = "card, SUM(supply_gpu_milli_s), MIN(idle_gpu_milli_s), COUNT(*)"
    usage = site.select(sa.text(f"SELECT {columns} FROM v1_device_usage GROUP BY card"))
    untils = Counter(since[card] + supply / 1000 for card, supply, _, _ in usage)
    found += [(card, idle) for card, _, idle, _ in usage if idle < 0]
    # Every card that a slice shows was there from its first second to the last one of the ledger.
    return found + ([("until", untils)] if len(untils) != 1 or len(usage) != len(since) else [])

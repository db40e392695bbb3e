"""The storm with hostile tenants at a real API server with its controllers, and the record of all that it stored."""

import asyncio
import json
import multiprocessing
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bus.events.admissions import AdmissionDecided, AdmissionReleased
from bus.events.admissions import entries as entries_of
from tests.acceptance.apiserver import QUOTA
from tests.acceptance.balancing import Balancer
from tests.acceptance.cluster_record import (
    Lag,
    Quotas,
    Record,
    Write,
    asks,
    excesses,
    lagging,
    without,
)
from tests.acceptance.cluster_site import Site
from tests.acceptance.cluster_storm import MANIFESTS, ClusterStorm
from tests.acceptance.cluster_tenants import FOLDERS, TenantOrders, rioted
from tests.acceptance.storm_findings import swept
from tests.acceptance.webhook_process import CLUSTER

AREAS = ("area-0", "area-1", "area-2")
NODES = 4


#: Has the API server write down who made which pod, and whether a webhook that should have answered did not.
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse", "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods"]}],
            "userGroups": ["system:serviceaccounts:kube-system"],
        },
        {"level": "None"},
    ],
}  # fmt: skip
#: From how many seconds above on it is told what happened to the object.
TOLD_FROM = 86
FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io"


def audited(folder):
    """Flags of an API server that keeps an audit log in ``folder``, and the path of that."""
    folder.mkdir(parents=True, exist_ok=True)
    policy, log = folder / "audit-policy.json", folder / "audit.log"
    policy.write_text(json.dumps(AUDIT))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}"], log


def unasked(log):
    """The uids of pods that the API server let a controller make while nobody answered."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return {
        event["responseObject"]["metadata"]["uid"]
        for event in events
        if event["responseStatus"].get("code") == 201
        and any(key.startswith(FAILED_OPEN) for key in event.get("annotations", ()))
    }


class Recorder:
    """Every write of all that tenants may make, by watches of the test's own. What they say is read afterwards.

    Lines are kept as they come: reading them takes time, and when they came is part of the record.
    """

    def __init__(self, api):
        self._api = api
        self._lines = []
        self._threads = []
        self._errors = []
        self._is_over = False

    def begin(self):
        for kind, folder in FOLDERS.items():
            path = folder.replace("namespaces/{}/", "")
            version = self._api.request("GET", path)["metadata"]["resourceVersion"]
            self._threads.append(threading.Thread(target=self._follow, args=(kind, path, version)))
        for thread in self._threads:
            thread.start()

    def _follow(self, kind, path, version):
        try:
            while not self._is_over:
                last = None
                for line in self._api.lines(path, version, seconds=20):
                    self._lines.append((time.time(), kind, line))
                    last = line
                if last is not None:
                    version = json.loads(last)["object"]["metadata"]["resourceVersion"]
        except Exception as error:
            self._errors.append(error)

    def end(self):
        self._is_over = True
        for thread in self._threads:
            thread.join()
        assert self._errors == []

    def writes(self):
        """All writes in the API server's order."""
        found = []
        for at, kind, line in self._lines:
            event = json.loads(line)
            assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
            version = int(event["object"]["metadata"]["resourceVersion"])
            found.append(Write(version, at, kind, event["type"] == "DELETED", event["object"]))
        return sorted(found, key=lambda one: one.version)


@dataclass
class HostileStorm(ClusterStorm):
    """One storm by hostile tenants, each team in a namespace that is mapped to its area of the quotas."""

    #: The API server's audit log.
    audit: object = None
    findings: object = None
    #: (at, quota, uid, amounts, is asked) of all that journals say is charged.
    charges: list = field(default_factory=list)
    #: (from, to) while no keeper ran.
    away: list = field(default_factory=list)

    @asynccontextmanager
    async def _cluster(self):
        plane = self.plane
        plane.kubectl("apply", "-f", str(MANIFESTS / "crds" / "bursar.io.yaml"))
        self.nodes = await asyncio.to_thread(plane.create_nodes, NODES, gpus=0)
        parents = {name: parent for name, (parent, _) in self.quotas.items()}
        self.rules = Quotas(parents, {area: area for area in AREAS})
        self.tokens = {area: self._tenancy(area) for area in AREAS}
        self.server = Recorder(plane.api)
        balancer = Balancer(lambda: [one.tls_port for one in self.webhooks])
        async with balancer.listening():
            self.server.begin()
            try:
                url = f"https://127.0.0.1:{balancer.port}"
                folder = self.folder / "webhook"
                site = Site(plane.kubeconfig, url, folder, CLUSTER, follows_pods=True)
                yield {"site": site}
            finally:
                await asyncio.to_thread(self.server.end)

    def _tenancy(self, area):
        """A namespace of an area, and the token of an account that may edit there."""
        kubectl = self.plane.kubectl
        kubectl("create", "namespace", area)
        kubectl("label", "namespace", area, f"{QUOTA}={area}")
        kubectl("create", "serviceaccount", "tenant", "-n", area)
        account = f"--serviceaccount={area}:tenant"
        kubectl("create", "rolebinding", "tenant", "-n", area, "--clusterrole=edit", account)
        return kubectl("create", "token", "tenant", "-n", area).strip()

    def _of(self, area):
        """The quotas that a namespace may name."""
        return tuple(name for name in self.quotas if self.rules.of({QUOTA: name}, area) == name)

    async def _clients(self):
        orders = []
        for number, area in enumerate(AREAS):
            share = len(AREAS)
            requests = self.plan.requests // share + (number < self.plan.requests % share)
            own = self._of(area)
            foreign = sorted({*self.quotas, "nobodys"} - {*own})
            orders.append(
                TenantOrders(
                    self.plane.url, self.tokens[area], str(self.plane.ca_file), area, own, requests,
                    self.plan.clients // share, self.plan.seed, tuple(foreign), tuple(self.nodes),
                )
            )  # fmt: skip
        context = multiprocessing.get_context("forkserver")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            loop = asyncio.get_running_loop()
            self.told_clients = await loop.run_in_executor(pool, rioted, orders)

    async def _kill_keeper(self):
        since = time.time()
        await super()._kill_keeper()
        self.away.append((since, time.time()))

    async def settle(self):
        """Wait until whatever is on its way has landed or never will."""
        since = time.time()
        for process in (self.keeper, *self.webhooks):
            process.kill()
            process.start()
        for process in (self.keeper, *self.webhooks):
            await process.ready()
        self.away.append((since, time.time()))
        await asyncio.sleep(self.plan.settle_seconds)

    async def read(self):
        """Read the history and the record, once all is over."""
        # Controllers try again for ever, so the history goes on meanwhile.
        for _ in range(20):
            self.told_trees = [await self.told(one) for one in (self.keeper, *self.webhooks)]
            self.findings, self.replayed = await swept(self)
            self.ended_at = time.time()
            told = [one["trees"] for one in self.told_trees]
            if told == [self.replayed] * len(told):
                break
        self.told_trees = told
        async for batch in self.door.read(after=0, live=False):
            for event in (one for whole in batch for one in entries_of(whole)):
                self._charge(event)

    def _charge(self, event):
        at = self.clock.real_us(event.time_us) / 1e6
        keys = self.quotas["root"][1]
        if event.type == AdmissionReleased.wire_type:
            for one in AdmissionReleased.read(event).releases:
                self.charges.append((at, one.quota, one.uid, kept(one.charge, keys), False))
        elif event.type == AdmissionDecided.wire_type:
            fact = AdmissionDecided.read(event)
            if fact.verdict == "refused":
                return
            is_asked = fact.verdict == "admitted"
            self.charges.append((at, fact.quota, fact.uid, kept(fact.charge, keys), is_asked))
            if fact.left is not None:
                left = kept(fact.left.charge, keys)
                self.charges.append((at, fact.quota, fact.left.uid, left, False))

    def judge(self):
        """Compare the whole record with the quotas and the charges."""
        self.writes = self.server.writes()
        self.unasked = unasked(self.audit)
        self.over = excesses(self.writes, self.rules, self.quotas, self.unasked)
        told = (self.writes, self.charges, self.rules, self.ended_at)
        self.above = without(lagging(*told).above, self.away)
        self.below = without(lagging(*told, self.unasked).below, self.away)

    def uncharged(self, excess):
        """What lived in a quota above its charge when more lived there than it allows: a lag of no length for each object."""
        record, charged, at = Record(self.rules, self.unasked), {}, excess.write.at
        for write in self.writes:
            if write.version <= excess.write.version:
                record.apply(write)
        for told, quota, uid, amounts, _ in self.charges:
            if told <= at and quota == excess.quota:
                charged[uid] = amounts
        for uid in record.items:
            live, charge = record.lives(uid), charged.get(uid, {})
            is_here = record.holds(uid)[0] == excess.quota
            if is_here and any(n > charge.get(key, 0) for key, n in live.items()):
                yield Lag(0, at, excess.quota, uid, charge, live)

    def story(self, lag):
        """What was written and charged of the object of a lag and of what is below it, in seconds from its beginning."""
        uids = {lag.uid}
        for _ in range(3):
            uids |= {
                write.object["metadata"]["uid"]
                for write in self.writes
                for owner in write.object["metadata"].get("ownerReferences", ())
                if owner["uid"] in uids
            }
        told = [
            (at - lag.began, "charge", uid[:8], quota, amounts, "asked" if is_asked else "")
            for at, quota, uid, amounts, is_asked in self.charges
            if uid in uids
        ]
        told += [
            (
                write.at - lag.began, "gone" if write.is_gone else "write", uid[:8], write.kind, write.version,
                asks(write.kind, write.object), write.object["metadata"].get("ownerReferences"),
            )
            for write in self.writes
            if (uid := write.object["metadata"]["uid"]) in uids
        ]  # fmt: skip
        return sorted(told, key=lambda one: one[0])


def kept(charge, keys):
    return {key: n for key, n in charge.items() if key in keys}


async def rioted_through(storm):
    """The storm when it has come to rest, and what its record says."""
    async with storm.running():
        await storm.blow()
        await storm.settle()
        await storm.read()
    await asyncio.to_thread(storm.judge)
    return storm


def show(storm):
    """Print what happened, and what was found."""
    storm.told_clients.show()
    found = storm.findings
    print(f"{found.events} events, {len(storm.writes)} writes, {dict(storm.faults)}")
    print(dict(found.verdicts), dict(found.reasons))
    kinds = Counter(write.kind for write in storm.writes)
    print(f"{dict(kinds)}; {len(found.forced)} times over by what is there, by the journals")
    for what, times in (("above", storm.above), ("below", storm.below)):
        print(
            f"longest {what}: {[round(one.seconds, 1) for one in times[:8]]}",
            *times[:3],
            sep="\n  ",
        )
        if times and times[0].seconds > TOLD_FROM:
            print(*storm.story(times[0]), sep="\n    ")
    made = {one.object["metadata"]["uid"] for one in storm.writes if one.kind == "Pod"}
    print(f"{len(storm.unasked)} of {len(made)} pods were made while nobody answered")
    print(f"{len(storm.over)} times over", *storm.over[:20], sep="\n  ")
    for lag in storm.uncharged(storm.over[0]) if storm.over else ():
        print("lived above its charge:", lag, *storm.story(lag), sep="\n    ")

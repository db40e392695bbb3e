"""No secret of a cluster reaches the bus, the ledger, the logs or an export: what is not listed is left behind.

Thousands of objects carry canaries wherever a secret may lie. They are listed, watched and garbled through the product's
own reflectors, and then every byte that was written is searched. A translation that removes what it knows instead of
keeping what it knows must be caught by the same search.
"""

import asyncio
import base64
import json
import logging
import random
from collections import deque

import msgspec
import pytest
import sqlalchemy as sa

from bus.clock import SECOND_US, SystemClock, format_stamp
from bus.envelope import to_line
from bus.events.pods import PodObserved
from bus.kube.watch import records
from bus.kube.watch.reflector import Reflector
from bus.sources.catalogue import SOURCES
from projections.engine.contract import METADATA
from projections.engine.segments.reading import with_links
from tests.acceptance.bookkeeping import QUICK, Bookkeeping
from tests.bus.kube.watch.fakes import bookmark, line, page

pytestmark = [pytest.mark.nats, pytest.mark.timeout(360)]

#: Objects of each kind; pods come in ten times this number.
OBJECTS = 400
#: Recent, since a pod's usage has a row for every hour.
CREATED = format_stamp(SystemClock().now_us() // SECOND_US * SECOND_US)
#: Each refusal asks for a list, and the list is long.
PATIENT = msgspec.structs.replace(QUICK, apart_seconds=10.0)
#: The version at the end of every script.
END = "999999"
MARK = "xQcAnArYq"


class Canaries:
    """Secrets that are unlike any other text, counted."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.count = 0

    def __call__(self, form="{}"):
        """A new one, as such or within a text."""
        self.count += 1
        return form.format(f"{MARK}{self.count:06d}")

    def some(self, most=3):
        """A few of them under names that are secret too."""
        return {self(): self() for _ in range(self.rng.randrange(1, most + 1))}


def container(secret):
    """A container with secrets in everything but its requests."""
    return {
        "name": secret("c-{}"),
        "image": secret("registry.example.org/{}:latest"),
        "command": ["sh", "-c", secret("curl -H 'Authorization: {}'")],
        "args": [secret("--token={}"), secret()],
        "workingDir": secret("/home/{}"),
        "env": [
            {"name": secret(), "value": secret()},
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": secret(), "key": secret()}}},
        ],
        "envFrom": [{"configMapRef": {"name": secret()}}],
        "volumeMounts": [{"name": secret(), "mountPath": secret("/{}")}],
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "X", "value": secret()}]}},
        "lifecycle": {"preStop": {"exec": {"command": [secret()]}}},
        "resources": {
            "requests": {"cpu": f"{secret.rng.randrange(1, 4000)}m", "memory": "1Gi"},
            "limits": {"cpu": "4"},
            "claims": [{"name": secret()}],
        },
        secret(): secret(),
    }


def pod_spec(secret):
    """A pod's spec, or that of a workload's template."""
    return {
        "containers": [container(secret) for _ in range(secret.rng.randrange(1, 3))],
        "initContainers": [container(secret)],
        "volumes": [
            {"name": secret(), "secret": {"secretName": secret()}},
            {"name": "a", "hostPath": {"path": secret("/{}")}},
            {"name": "b", "csi": {"volumeAttributes": secret.some()}},
        ],
        "imagePullSecrets": [{"name": secret()}],
        "serviceAccountName": secret(),
        "nodeSelector": secret.some(),
        "tolerations": [{"key": secret(), "value": secret()}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": [secret()]}],
        "hostname": secret(),
        secret(): secret.some(),
    }


def placing(secret):
    """What decides about placing a pod is listed (docs/scheduling.md), and is plain; secrets are in all beside it."""
    return {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "k", "value": "v", "tolerationSeconds": 9, secret(): secret()}],
        "schedulingGates": [{"name": "gate", secret(): secret()}],
        "affinity": {secret(): secret()},
        "resourceClaims": [{"name": secret(), "resourceClaimName": "claim", secret(): secret()}],
    }


def metadata(secret, kind, number):
    """Identity in plain text, secrets in all else; all labels of nodes are listed, and are plain."""
    manifest = {"spec": {"env": secret(), "data": base64.b64encode(secret().encode()).decode()}}
    found = {
        "uid": f"{kind}-{number}",
        "name": f"{kind}-{number}",
        "resourceVersion": str(1000 + number),
        "creationTimestamp": CREATED,
        "generateName": secret("{}-"),
        "labels": {**secret.some(), "bursar.io/team": "vision", f"{secret()}/bursar.io": "x"},
        "annotations": {
            **secret.some(),
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest),
            "kubernetes.io/description": secret(),
            "notbursar.io/token": secret(),
            "scheduling.koordinator.sh/resource-spec": json.dumps(
                {"preferredCPUBindPolicy": secret()}
            ),
            "scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": secret("0,{}")}),
        },
        "finalizers": [secret("example.org/{}")],
        "managedFields": [{"manager": secret(), "fieldsV1": {f"f:{secret()}": {}}}],
        "ownerReferences": [{"kind": secret(), "name": secret(), "uid": secret()}],
        "selfLink": secret("/{}"),
        secret(): secret(),
    }
    if kind == "nodes":
        return found | {"labels": {"bursar.io/team": "vision", "pool": "gpu"}}
    return found if kind == "namespaces" else {**found, "namespace": "team-a"}


def pod_status(secret, spec):
    """A pod's status: messages of the kubelet quote commands, paths and registries."""
    states = [
        {"waiting": {"reason": secret(), "message": secret("cannot pull {}")}},
        {"terminated": {"exitCode": 1, "message": secret(), "finishedAt": CREATED}},
    ]
    return {
        "phase": secret.rng.choice(("Pending", "Running", "Failed")),
        "message": secret(),
        "reason": secret(),
        "podIP": secret(),
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": secret(), "message": secret()},
            {"type": secret(), "status": secret(), "lastTransitionTime": secret()},
        ],
        "containerStatuses": [
            {
                "name": one["name"],
                "image": secret(),
                "imageID": secret(),
                "state": secret.rng.choice(states),
                "lastState": states[0],
                "allocatedResources": {"cpu": "1"},
            }
            for one in spec["containers"]
        ],
        secret(): secret(),
    }


def storage(secret):
    """What a claim or a volume may say; the names in it are listed, and are plain."""
    csi = {"driver": "d", "volumeHandle": secret(), "volumeAttributes": secret.some()}
    csi["nodeStageSecretRef"] = secret.some()
    return {
        "volumeName": "v",
        "storageClassName": "c",
        "accessModes": [secret(), "ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi", secret(): "1"}},
        "capacity": {"storage": "1Gi", secret(): "1"},
        "selector": secret.some(),
        "mountOptions": [secret()],
        "csi": csi,
        secret(): secret.some(),
    }


def devices(secret, kind):
    """What is said of devices: amounts, names and models are listed, and are plain; settings of drivers are not."""
    opaque = [{"requests": [secret()], "opaque": {"driver": secret(), "parameters": secret.some()}}]
    exactly = {"deviceClassName": "c", "count": 1, secret(): secret()}
    asked = {"devices": {"requests": [{"name": "r", "exactly": exactly}], "config": opaque}}
    if kind == "resourceclaimtemplates":
        return {"spec": {"metadata": {"labels": secret.some()}, "spec": asked}}
    if kind == "deviceclasses":
        return {"spec": {"config": opaque, secret(): secret.some()}}
    if kind == "resourceslices":
        device = {
            "name": "d0", "capacity": {"memory": {"value": "40Gi"}}, secret(): secret.some(),
            "attributes": {"productName": {"string": "A100"}, secret(): {"string": secret()}},
        }  # fmt: skip
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1, secret(): secret()}
        return {"spec": {"driver": "d", "nodeName": "n", "pool": pool, "devices": [device]}}
    given = {"request": "r", "driver": "d", "pool": "p", "device": "d0", secret(): secret()}
    status = {
        "allocation": {"devices": {"results": [given], "config": opaque}, secret(): secret()},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u", secret(): secret()}],
        "devices": [{**given, "data": secret.some(), "networkData": secret.some()}],
    }
    return {"spec": asked, "status": status}


def cpu_layout(secret, metadata):
    """What a node agent tells of CPUs, with texts beside it that no fact carries."""
    detail = [{"id": 0, "core": 0, "socket": 0, "node": 0, secret(): secret()}]
    noted = {
        "node.koordinator.sh/cpu-topology": {"detail": detail, secret(): secret.some()},
        "node.koordinator.sh/pod-cpu-allocs": [{"cpuset": "0", "name": secret(), "managedByKubelet": True}],
        "kubelet.koordinator.sh/cpu-manager-policy": {"policy": secret(), "options": {secret(): secret()}},
        "node.koordinator.sh/reservation": {"reservedCPUs": secret(), secret(): secret.some()},
        "node.koordinator.sh/cpu-shared-pools": secret.some(),
    }  # fmt: skip
    noted = {key: json.dumps(one) for key, one in noted.items()}
    annotations = (metadata.get("annotations") or {}) | noted
    resource = {"name": "cpu", "allocatable": "4", "capacity": secret(), secret(): secret()}
    zone = {"name": "node-0", "type": "Node", "resources": [resource], "costs": secret.some()}
    return {
        "metadata": {**metadata, "annotations": annotations}, "zones": [zone],
        "topologyPolicies": [secret()], "attributes": secret.some(),
    }  # fmt: skip


def thing(secret, kind, number):
    """An object of a kind, as an API server has it."""
    found = {"kind": kind, "metadata": metadata(secret, kind, number), secret(): secret.some()}
    if kind == "pods":
        spec = pod_spec(secret) | placing(secret)
        return {**found, "spec": {**spec, "nodeName": "n"}, "status": pod_status(secret, spec)}
    if kind == "nodemetrics":
        uses = {"resources": {"cpu": "1", "memory": "1Gi", secret(): secret()}, secret(): secret()}
        measured = {"nodeUsage": uses, "aggregatedNodeUsages": [{"usage": {"p95": uses, secret(): uses}}]}  # fmt: skip
        pods = [
            {"name": "p", "namespace": "n", "podUsage": uses, "qosClass": secret(), secret(): 1}
        ]
        status = {"updateTime": CREATED, "nodeMetric": measured, "podsMetric": pods}
        return {**found, "spec": secret.some(), "status": {**status, secret(): secret.some()}}
    if kind == "nodes.metrics.k8s.io":
        usage = {"cpu": "1", "memory": "1Gi", secret(): secret()}
        return {**found, "timestamp": CREATED, "window": "20s", "usage": usage, secret(): 1}
    if kind == "devices":
        # Amounts, places, names and labels of devices are listed, and are plain: pods choose by them, as by labels of nodes.
        amounts = {"koordinator.sh/gpu-core": "100", secret(): secret()}
        place = {"nodeID": 0, "pcieID": "0000:01", "busID": secret(), secret(): secret()}
        vfs = [
            {
                "labels": {"type": "x"},
                secret(): secret.some(),
                "vfs": [{"busID": "0000:02", secret(): 1}],
            }
        ]
        device = {
            "type": "gpu",
            "minor": 0,
            "id": "GPU-0",
            "labels": {"link": "x"},
            "resources": amounts,
        }
        device |= {"topology": place, "vfGroups": vfs, "conditions": [secret.some()], secret(): 1}
        return {**found, "spec": {"devices": [device]}, "status": secret.some()}
    if kind == "noderesourcetopologies":
        return found | cpu_layout(secret, found["metadata"])
    if kind == "nodes":
        taint = {"key": "k", "value": "v", "effect": "NoExecute"}
        spec = {"taints": [{**taint, "timeAdded": secret(), secret(): secret()}]}
        status = {
            "nodeInfo": secret.some(),
            "images": [{"names": [secret()]}],
            "addresses": [{"type": "Hostname", "address": secret()}],
            "conditions": [{"type": "Ready", "status": "True", "message": secret()}],
        }
        return {**found, "spec": {**spec, "providerID": secret("aws:///{}")}, "status": status}
    if kind == "services":
        return {**found, "spec": {"selector": secret.some(), "externalName": secret()}}
    if kind == "namespaces":
        return {**found, "status": {"conditions": [{"type": "x", "message": secret()}]}}
    if kind == "poddisruptionbudgets":
        # Which pods it guards is listed, and is plain.
        selector = {"matchLabels": {"app": "web"}, secret(): secret.some()}
        return {
            **found,
            "spec": {"selector": selector, secret(): secret()},
            "status": secret.some(),
        }
    if kind in ("persistentvolumeclaims", "persistentvolumes"):
        return {**found, "spec": storage(secret), "status": secret.some()}
    if kind in ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"):
        return {**found, **devices(secret, kind)}
    template = {"metadata": metadata(secret, kind, number), "spec": pod_spec(secret)}
    if kind == "reservations":
        owner = {
            "object": {"name": "p", "fieldPath": secret(), secret(): secret()},
            secret(): secret.some(),
        }
        condition = {"type": "Ready", "status": "True", "reason": "Available", secret(): secret()}
        status = {
            "phase": "Available",
            "nodeName": "n",
            "conditions": [condition],
            secret(): secret.some(),
        }
        asked = {**template, "spec": template["spec"] | placing(secret)}
        spec = {"template": asked, "owners": [owner], "ttl": "1h", secret(): secret.some()}
        return {**found, "spec": spec, "status": status}
    spec = {"template": template, "jobTemplate": {"spec": {"template": template}}}
    if kind in ("tfjobs", "pytorchjobs"):
        replicas = {"Worker": {"replicas": 2, "template": template, secret(): secret()}}
        spec |= {"tfReplicaSpecs": replicas, "pytorchReplicaSpecs": replicas}
        spec |= {"runPolicy": {"backoffLimit": 3, secret(): secret.some()}}
        condition = {"type": "Running", "status": "True", "reason": "r", "message": secret()}
        counts = {"Worker": {"active": 1, "selector": secret(), secret(): secret()}}
        found["status"] = {"conditions": [condition], "replicaStatuses": counts, secret(): secret()}
    return {**found, "spec": {**spec, "selector": {"matchLabels": secret.some()}}}


def garbled(secret, kind, number):
    """A line that cannot be taken: cut, doubled, of the wrong shape, or no JSON at all."""
    whole = line("MODIFIED", thing(secret, kind, number))
    wrong = {"metadata": {**metadata(secret, kind, number), "uid": secret("{}/")}}
    shape = {"metadata": {**metadata(secret, kind, number), "labels": {secret(): [secret()]}}}
    name = {"metadata": {**metadata(secret, kind, number), "resourceVersion": secret("{}\n")}}
    return secret.rng.choice(
        (
            whole[: secret.rng.randrange(20, len(whole))],
            whole.replace(b'"kind":', secret('"{0}":1,"{0}":2,"kind":').encode(), 1),
            secret('{{"type":"ADDED","object":"{}"}}').encode(),
            secret('{{"type":"{}","object":{{}}}}').encode(),
            secret("<html>{}</html>").encode(),
            secret('{{"type":"ADDED","object":{{"metadata":{{"uid":NaN,"a":"{}"}}}}}}').encode(),
            line("ADDED", wrong),
            line("ADDED", shape),
            line("ADDED", {**name, secret(): 1}),
            line("DELETED", {"metadata": secret()}),
        )
    )


class Scripted:
    """A cluster with one list, and a watch that goes on where the one before was left."""

    def __init__(self, listed, chunks):
        self.listed = listed
        self.chunks = deque(chunks)
        self.ended = asyncio.Event()

    async def page(self, path, *, limit, following="", metadata_only=False):
        """The list."""
        return self.listed

    async def watch(self, path, *, version):
        """The next chunks."""
        while self.chunks:
            yield self.chunks.popleft()
        # Whoever asks for more has taken all. Its version says less: two lists that agree put it back.
        self.ended.set()
        await asyncio.Event().wait()


def script(secret, kind):
    """What a cluster says of one kind: half of the objects in a list, the others in a watch with refusals between."""
    count = OBJECTS * 10 if kind == "pods" else OBJECTS
    listed = page("999", *(thing(secret, kind, number) for number in range(count // 2)))
    told = []
    for number in range(count // 2, count):
        told.append(line("ADDED", thing(secret, kind, number)))
        if number % 5 == 0:
            told.append(garbled(secret, kind, number))
        if number % 7 == 0:
            told.append(line("DELETED", thing(secret, kind, number)))
    chunks = [told[start : start + 100] for start in range(0, len(told), 100)]
    refusal = {"kind": "Status", "code": 500, "message": secret(), "reason": secret()}
    return Scripted(listed, [*chunks, [line("ERROR", refusal)], [bookmark(END)]])


def deny_listed(record, labels):
    """How not to do it: the whole pod, without everything that is known to hold secrets."""
    pod = json.loads(record.object)
    spec, about = pod["spec"], pod["metadata"]
    for one in (*spec["containers"], *spec["initContainers"]):
        for known in ("env", "envFrom", "args", "command", "volumeMounts", "livenessProbe"):
            one.pop(known)
    for known in ("volumes", "imagePullSecrets", "hostAliases"):
        spec.pop(known)
    about.pop("managedFields")
    about["annotations"].pop("kubectl.kubernetes.io/last-applied-configuration")
    logging.getLogger("bus.sources").debug("pod %s", pod)
    fact = PodObserved(
        uid=about["uid"],
        namespace=about["namespace"],
        name=about["name"],
        resource_version=about["resourceVersion"],
        annotations={"pod": json.dumps(pod)},
    )
    version = about["resourceVersion"]
    return records.event_of(fact, record, key=fact.uid, uid=fact.uid, resource_version=version)


async def followed(books, sources, clusters):
    """Follows these clusters, one source each, to the end of their scripts. What the reflectors know at the end."""
    reflectors = [
        Reflector(source, cluster, books.transport, SystemClock(), settings=PATIENT)
        for source, cluster in zip(sources, clusters, strict=True)
    ]
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    # Seconds on an idle machine; a test machine may be anything but idle.
    async with asyncio.timeout(270):
        while not all(cluster.ended.is_set() for cluster in clusters):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await books.settled()
    return [reflector.state for reflector in reflectors]


def exported(books, path):
    """Writes all that the ledger holds as text: the events as they are exported, and every row of every table."""
    with path.open("wb") as file:
        for event, _ in with_links(books.store.select, 1, 10**6):
            file.write(to_line(event) + b"\n")
        for table in METADATA.sorted_tables:
            for row in books.store.select(sa.select(table)):
                file.write(repr(row).encode() + b"\n")


def found(content):
    """How often a canary, plain or in base64, stands in some bytes."""
    encoded = base64.b64encode(MARK.encode())[:8]
    return content.lower().count(MARK.lower().encode()) + content.count(encoded)


def leaks(folder, log, *others):
    """How many canaries lie where: stream, ledger, export, log, and what else may be shown."""
    places = {"log": found(log.encode()), "shown": found(repr(others).encode())}
    for path in folder.rglob("*"):
        if path.is_file():
            place = path.relative_to(folder).parts[0].partition(".")[0]
            places[place] = places.get(place, 0) + found(path.read_bytes())
    return places


async def test_what_a_cluster_keeps_secret_is_written_nowhere(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "sqlalchemy")
    secret = Canaries(32)
    clusters = [script(secret, source.name) for source in SOURCES]
    async with Bookkeeping(tmp_path) as books:
        states = await followed(books, SOURCES, clusters)
        exported(books, tmp_path / "export")
        parked = books.parked()
        open_files = leaks(tmp_path, caplog.text, states)
        sizes = {path.name: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
        said = (await books.transport.head()).last_sequence
    refused = sum(state.refused for state in states)
    print(f"\n{secret.count} canaries in {OBJECTS * 17} objects; {said} events, {refused} refused")
    print(f"searched: {sizes} and {len(caplog.text)} characters of logs")

    nowhere = dict.fromkeys(("log", "shown", "bus", "ledger", "export"), 0)
    assert nowhere == open_files
    assert nowhere == leaks(tmp_path, caplog.text)
    assert [] == parked
    assert said > OBJECTS * 17
    assert refused > OBJECTS


async def test_removing_what_is_known_to_be_secret_leaks_and_is_found_out(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    secret = Canaries(33)
    pods = [thing(secret, "pods", number) for number in range(20)]
    cluster = Scripted(page("999", *pods), [[bookmark(END)]])
    source = msgspec.structs.replace(SOURCES[0], translate=deny_listed)
    async with Bookkeeping(tmp_path) as books:
        await followed(books, [source], [cluster])
        exported(books, tmp_path / "export")
        places = leaks(tmp_path, caplog.text)
    print(f"\nleaks of a deny-list: {places}")

    assert {"log", "bus", "ledger", "export"} == {place for place, count in places.items() if count}

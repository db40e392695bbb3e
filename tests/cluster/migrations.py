"""A PodMigrationJob and its steps on a real API server, one after the other."""

from bus.clock import SystemClock
from bus.events.decisions import Target
from bus.events.migrations import (
    EndMigration,
    EndReservation,
    MigrationCondition,
    ReportMigration,
    ReserveRoom,
)
from reactors.migration.effectors.bodies import API, MIGRATIONS, RESERVATIONS
from reactors.migration.effectors.migrate import MigrationEffector

PODS = "/api/v1/namespaces/default/pods"
CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}  # fmt: skip


def decision(verb, kind, found, **fields):
    metadata = found["metadata"]
    return verb(
        id="0" * 32, reactor="migration", rules=1, key="k", trigger=1, at_us=1, policy="", is_shadow=False, reason="r",
        target=Target(kind, metadata.get("namespace", ""), metadata["name"], metadata["uid"]), expires_us=2**62, **fields,
    )  # fmt: skip


def pod_body(name):
    container = {"name": "main", "image": "x", "env": [{"name": "TOKEN", "value": "secret"}]}
    metadata = {"name": name, "ownerReferences": [CONTROLLER]}
    return {"metadata": metadata, "spec": {"nodeName": "node-1", "containers": [container]}}


def job_body(pod):
    spec = {"podRef": {"namespace": "default", "name": pod}, "ttl": "5m"}
    return {
        "apiVersion": API,
        "kind": "PodMigrationJob",
        "metadata": {"name": "move"},
        "spec": spec,
    }


async def moved(plane, cluster):
    """The outcomes of each step, as the account of ``cluster`` takes it; the last ones delete what was made."""
    pod = plane.api.request("POST", PODS, pod_body("moved"))
    job = plane.api.request("POST", MIGRATIONS, job_body("moved"))
    target = Target("Pod", "default", "moved", pod["metadata"]["uid"], "node-1")
    reserve = decision(ReserveRoom, "PodMigrationJob", job, pod=target)
    report = decision(
        ReportMigration, "PodMigrationJob", job, phase="Running", status="ReservationCreated",
        conditions=(MigrationCondition("ReservationCreated", True),),
    )  # fmt: skip
    effector = MigrationEffector(cluster, SystemClock())
    steps = [reserve, reserve, report]
    outcomes = [(await effector.act(one))[0] for one in steps]
    room = plane.api.request("GET", f"{RESERVATIONS}/{job['metadata']['uid']}")
    found = plane.api.request("GET", f"{MIGRATIONS}/move")
    assert found["spec"]["reservationOptions"]["reservationRef"]["uid"] == room["metadata"]["uid"]
    assert found["status"]["conditions"][0]["status"] == "True"
    assert "secret" not in str(room)
    steps = [
        decision(EndReservation, "Reservation", room, job=job["metadata"]["uid"]), reserve,
        decision(EndMigration, "PodMigrationJob", job),
    ]  # fmt: skip
    outcomes += [(await effector.act(one))[0] for one in steps]
    left = plane.api.request("GET", RESERVATIONS)["items"] + plane.api.request("GET", MIGRATIONS)["items"]  # fmt: skip
    return [*outcomes, len(left)]

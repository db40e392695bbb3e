"""A training job with four slots: one pod was killed, one evicted, one deleted, and each begun again; one failed for good."""

from bus.events.decisions import DeleteReplica, EffectSettled, Evict, Target
from bus.events.pods import Owner
from tests import factories as f

LABELS = {"job-name": "train", "replica-type": "worker"}


def pod(uid, index, attempt, begin, end, phase="Succeeded", node="a", **fields):
    """A pod of the job that held one core and two cards from one second to another."""
    labels = {
        f"training.kubeflow.org/{k}": v for k, v in (LABELS | {"replica-index": str(index)}).items()
    }
    given = {
        "name": f"train-worker-{index}-{attempt}", "labels": labels, "owner": Owner("TFJob", "train", "j"), "created": begin,
        "node": node, "cpu": "1", "gpu": 2, **fields,
    }  # fmt: skip
    yield f.pod_observed(uid, 1, begin, phase="Running", **given)
    if end is not None:
        yield f.pod_observed(uid, 2, end, phase=phase, finished=(end,), **given)
        yield f.pod_vanished(uid, 3, end, phase=phase, finished=(end,), **given)


def decided(verb, uid, reason, **fields):
    body = verb(
        id=f"{uid:0>32}".replace("w", "a"), reactor="jobs", rules=1, key=uid, trigger=1, at_us=1, policy="p", is_shadow=False,
        target=Target("Pod", "ns", uid, uid), reason=reason, expires_us=1, **fields,
    )  # fmt: skip
    return f.said(body, key=uid, id=body.id, at=1)


def lived():
    """Slot 0 is killed on node a and begun again, slot 1 is evicted, slot 2 is deleted, slot 3 fails and stays so."""
    yield from pod("w01", 0, 1, 0, 3600, "Failed")
    yield decided(
        DeleteReplica, "w01", "failed_retryable", job="j", type="worker", numbers={"exit_code": 137}
    )
    yield from pod("w02", 0, 2, 3700, 7300, node="b")
    yield from pod("w11", 1, 1, 0, 1800, "Failed", node="c")
    evict = decided(Evict, "w11", "quota-preempted")
    yield evict
    body = EffectSettled(decision=evict.id, reactor="evictions", result="done")
    yield f.said(body, key=evict.id, id=f"{evict.id}/settled", at=2)
    yield from pod("w12", 1, 2, 1900, 7300)
    yield from pod("w21", 2, 1, 0, 600, "Running", node="d")
    yield from pod("w22", 2, 2, 700, 7300)
    yield from pod("w31", 3, 1, 0, 60, "Failed")
    yield f.pod_observed("other", 1, 0, cpu="7")

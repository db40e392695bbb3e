"""A history of placements of every kind: bound, refused, gone, elsewhere, overtaken; in shadow and not."""

from bus.events.decisions import BindSettled, FailedBind, Refusal, SchedulingPassed, TriedPod
from tests.factories import node_observed, pod_observed, pod_vanished, said, us

NODES = ("a", "b", "c")
#: a and b are equally good, c is worse.
TOP = (0, 0, 1, 0, 2, 1)


def passed(number, *uids, at=0, node=0, feasible=3, top=TOP, is_shadow=True):
    pods = tuple(
        TriedPod(uid, "ns", uid, node, feasible, -1 if node >= 0 else 0, top if node >= 0 else ())
        for uid in uids
    )
    fact = SchedulingPassed(
        profile="bursar", after=number, assumed=0, rules=1, policy="p", is_shadow=is_shadow,
        at_us=us(at), count=3, nodes=NODES, plugins=("Fit",), scores=((9,), (5,)),
        refusals=(Refusal(reason="no room"),), pods=pods,
    )  # fmt: skip
    return said(fact, key="bursar", id=f"pass/{number}", at=at)


def settled(uid, number, result="refused", at=1):
    failed = FailedBind(uid, number, result, "HTTP 422", f"pass/{number}")
    return said(
        BindSettled(failed=(failed,)), key="bursar", id=f"settled/{uid}/{number}/{at}", at=at
    )


EVENTS = [
    *(node_observed(name) for name in NODES),
    passed(1, "same", "equal", "lower", "waits", "goes"),
    passed(2, "refused", feasible=2, top=TOP[:4]),
    passed(3, "rest", feasible=40),
    passed(4, "unplaced", "stuck", node=-1),
    passed(5, "unplaced", "stuck", node=-1, at=60),
    passed(6, "twice", at=3),
    passed(7, "twice", at=63, node=1),
    passed(8, "bound", "failed", "stale", "unsaid", is_shadow=False),
    passed(9, "never", node=-1, is_shadow=False),
    settled("failed", 8), settled("stale", 8, "stale"), settled("failed", 8, at=2),
    *(
        pod_observed(uid, number, 100, node=node, created=-20)
        for number, (uid, node) in enumerate(
            {
                "same": "a", "equal": "b", "lower": "c", "refused": "c", "rest": "d", "unplaced": "a",
                "twice": "b", "bound": "a", "stale": "b",
            }.items()
        )
    ),
    pod_observed("goes", 20, 5, node=None), pod_vanished("goes", 21, 90, node=None),
]  # fmt: skip

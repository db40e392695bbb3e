"""What is read from an API server's record of writes, by small records."""

import pytest

from tests.acceptance.apiserver import GIB, QUOTA, TYPE
from tests.acceptance.cluster_record import Lag, Quotas, Record, Write, excesses, lagging, without

HARD = {
    "root": ("", {"limits.cpu": 20_000}),
    "team": ("root", {"limits.cpu": 8_000, "limits.cpu.A4": 2_000}),
    "other": ("root", {"limits.cpu": 8_000}),
}
QUOTAS = Quotas({name: parent for name, (parent, _) in HARD.items()}, {"ns": "team", "else": "other"})  # fmt: skip


def spec(cpu):
    return {
        "containers": [{"resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}],
    }


def stored(uid, spec, owner="", by="kube-controller-manager", namespace="ns", **rest):
    metadata = {"name": uid, "uid": uid, "namespace": namespace, "labels": rest.pop("labels", {})}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
        fields = {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{owner}"}}': {}}}}
        metadata["managedFields"] = [{"manager": by, "fieldsV1": fields}]
    return {"metadata": metadata, "spec": spec, **rest}


def pod(uid, cpu="1", phase="Pending", **rest):
    return "Pod", stored(uid, spec(cpu), status={"phase": phase}, **rest)


def maker(kind, uid, cpu="1", replicas=1, **rest):
    template = {"metadata": {"labels": rest.pop("template", {})}, "spec": spec(cpu)}
    field = "parallelism" if kind == "Job" else "replicas"
    return kind, stored(uid, {field: replicas, "template": template}, **rest)


def gone(made):
    return *made, True


def told(*made):
    """These as writes, one a second."""
    return [
        Write(number, float(number), one[0], len(one) > 2, one[1])
        for number, one in enumerate(made, 1)
    ]


def read(*made):
    record = Record(QUOTAS)
    for write in told(*made):
        record.apply(write)
    return record


def cpus(record):
    """By quota, of those that are above nothing."""
    return {name: n for name, one in record.used.items() if (n := one["limits.cpu"])}


DEPLOYMENT = maker("Deployment", "d", "1", 2, labels={QUOTA: "team"})
SET = maker("ReplicaSet", "r", "1", 2, owner="d")


def test_live_pods_count_in_the_quota_of_the_top_of_their_chain_until_they_ended():
    other = {"labels": {QUOTA: "root"}}
    running = read(DEPLOYMENT, SET, pod("a", owner="r", **other), pod("b", "500m", owner="r"))
    ended = read(DEPLOYMENT, SET, pod("a", owner="r"), pod("a", phase="Failed", owner="r"))
    deleted = read(DEPLOYMENT, SET, pod("a", owner="r"), gone(pod("a", owner="r")))

    assert [cpus(one) for one in (running, ended, deleted)] == [{"team": 1_500}, {}, {}]


@pytest.mark.parametrize(
    "one",
    [pod("a", owner="r", by="curl"), pod("a", owner="no-such"), pod("a")],
    ids=["a user wrote the reference", "no such owner was ever stored", "no owner"],
)
def test_a_pod_that_no_controller_put_below_an_owner_counts_for_itself(one):
    record = read(DEPLOYMENT, SET, one)

    assert record.holds("d") == ("team", {"limits.cpu": 2_000, "requests.memory": 2 * GIB})
    assert record.holds("a") == ("team", {"limits.cpu": 1_000, "requests.memory": GIB})


def test_a_reference_that_a_user_writes_once_more_stays_as_it_is():
    record = read(DEPLOYMENT, SET, pod("a", owner="r"), pod("a", owner="r", by="curl"))

    assert record.holds("a") == ("", {})


def test_what_hangs_below_a_deleted_owner_stays_there_until_it_is_gone():
    made = [DEPLOYMENT, SET, pod("a", owner="r"), gone(DEPLOYMENT), gone(SET)]

    assert read(*made).held() == {("team", "d"): {"limits.cpu": 1_000, "requests.memory": GIB}}
    assert read(*made, gone(pod("a", owner="r"))).held() == {}


def test_an_orphan_counts_for_itself_and_one_that_a_controller_adopts_for_its_owner():
    orphans = read(DEPLOYMENT, SET, pod("a", owner="r"), maker("ReplicaSet", "r", "1", 2))
    adopted = read(DEPLOYMENT, SET, pod("a"), pod("a", owner="r"))

    assert orphans.holds("r")[1]["limits.cpu"] == 2_000
    assert orphans.holds("d")[1]["limits.cpu"] == 2_000
    assert set(adopted.held()) == {("team", "d")}


def test_a_holder_weighs_what_it_asks_for_or_what_lives_below_it_if_that_is_more():
    old, new = maker("ReplicaSet", "r", "2", 0, owner="d"), maker("ReplicaSet", "s", "1", 1, owner="d")  # fmt: skip
    record = read(DEPLOYMENT, old, new, pod("a", "2", owner="r"), pod("b", "1", owner="s"))

    assert record.holds("d")[1]["limits.cpu"] == 3_000


def test_a_label_moves_what_lives_where_the_namespace_may_use_that_quota():
    moved = [
        read(DEPLOYMENT, SET, pod("a", owner="r"), maker("Deployment", "d", labels=to))
        for to in ({QUOTA: "other"}, {QUOTA: "no-such"}, {QUOTA: "root"})
    ]
    elsewhere = read(pod("a", namespace="else"), pod("b", namespace="else", labels={QUOTA: "team"}))

    assert [cpus(one) for one in moved] == [{"team": 1_000}] * 3
    assert cpus(elsewhere) == {"other": 2_000}


def test_a_model_is_that_of_the_pod_or_of_its_holder():
    typed = maker("Deployment", "d", labels={TYPE: "A4"})
    record = read(typed, pod("a", owner="d"), pod("b", labels={TYPE: "A4"}))

    assert record.used["team"]["limits.cpu.A4"] == 2_000


def test_an_excess_is_named_with_the_write_that_made_it_and_once():
    pods = [pod(f"p-{n}", "3") for n in range(3)]
    found = excesses(told(*pods, pod("p-2", "3", phase="Running")), QUOTAS, HARD)

    assert [str(one) for one in found] == [
        "team limits.cpu: 9000 live of 8000 after write 3 of Pod p-2"
    ]


def test_a_pod_that_was_made_while_nobody_answered_is_no_excess():
    pods = [pod(f"p-{n}", "3") for n in range(3)]

    assert excesses(told(*pods), QUOTAS, HARD, {"p-1"}) == []


def test_a_reference_that_a_user_wrote_first_counts_for_nobody_when_a_controller_writes_it_too():
    of = {"owner": "r", "labels": {QUOTA: "other"}, "namespace": "else"}
    forged = pod("a", by="kubectl", **of)

    assert cpus(read(DEPLOYMENT, SET, forged, pod("a", **of))) == {"other": 1_000}
    assert cpus(read(DEPLOYMENT, SET, pod("a", labels={QUOTA: "team"}), pod("a", owner="r"))) == {
        "team": 1_000
    }


def test_what_children_may_use_is_none_of_a_quotas_own():
    open_quotas = Quotas(QUOTAS.parents, {"ns": "root"})
    found = excesses(told(pod("a", "5")), open_quotas, HARD)

    assert [(one.quota, one.live, one.limit) for one in found] == [("root", 5_000, 4_000)]


def test_a_charge_is_above_from_the_last_request_for_it_until_it_is_what_lives():
    writes = told(DEPLOYMENT, maker("Deployment", "d", "1", 1, labels={QUOTA: "team"}))
    two, one = {"limits.cpu": 2_000}, {"limits.cpu": 1_000}
    charges = [(0.5, two, True), (30.0, two, True), (70.0, one, False)]
    charges = [(at, "team", "d", amounts, is_asked) for at, amounts, is_asked in charges]
    found = lagging(writes, charges, QUOTAS, 500.0).above

    there = {"limits.cpu": 1_000, "requests.memory": GIB}
    assert [one.seconds for one in found] == [40.0, 28.0, 0.5]
    assert found[0] == Lag(40.0, 30.0, "team", "d", two, there)


def test_a_charge_in_a_quota_that_an_object_left_is_above_until_the_end():
    charges = [(2.0, "other", "a", {"limits.cpu": 1_000}, False)]
    found = lagging(told(pod("a")), charges, QUOTAS, 60.0).above

    assert [(one.seconds, one.quota, one.there) for one in found] == [(58.0, "other", {})]


def test_a_charge_is_below_while_pods_live_that_are_not_charged():
    writes = told(DEPLOYMENT, SET, pod("a", "3", owner="r"))
    charges = [(0.5, "team", "d", {"limits.cpu": 2_000, "requests.memory": 2 * GIB}, True)]
    charges.append((9.0, "team", "d", {"limits.cpu": 3_000, "requests.memory": 2 * GIB}, False))
    found = lagging(writes, charges, QUOTAS, 60.0).below

    assert [(one.seconds, one.uid) for one in found] == [(6.0, "d")]


def test_what_one_watch_tells_late_happened_before_what_another_told_meanwhile():
    writes = told(DEPLOYMENT, SET, pod("a", "3", owner="r"))
    writes[1] = writes[1]._replace(at=50.0)
    charges = [(0.5, "team", "d", {"limits.cpu": 3_000, "requests.memory": 2 * GIB}, True)]

    assert lagging(writes, charges, QUOTAS, 60.0).below == []


def test_time_without_a_keeper_does_not_count():
    lags = [Lag(10.0, 100.0, "team", "a", {}, {}), Lag(8.0, 200.0, "team", "b", {}, {})]
    found = without(lags, [(90.0, 101.0), (105.0, 107.0), (109.0, 300.0)])

    assert [(one.uid, one.seconds) for one in found] == [("a", 6.0), ("b", 0.0)]

"""What hangs below an owner: it passes while all that lives there fits the owner's charge, whoever wrote the reference."""

import pytest

from reactors.admitting import following
from tests.reactors.admission.below import CONTROLLER, OF, ask, begin, deployed, made, owner, show
from tests.reactors.cluster import Cluster

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 10_000})
        yield running


async def reasons(cluster, kind, count, cpu, **fields):
    return [(await ask(cluster, kind, f"x{n}", cpu, **fields)).reason for n in range(count)]


@pytest.mark.parametrize("by", [("ReplicaSet", "web-1"), ("Deployment", "web")], ids=str)
async def test_bare_pods_with_a_made_up_owner_are_charged_themselves(cluster, by):
    """One charged Deployment 2x4 covered twenty bare pods that named it. The same of any native owner."""
    await deployed(cluster)

    assert await reasons(cluster, "Pod", 20, 4, by=by) == ["over-quota"] * 20
    assert (await ask(cluster, "Pod", "small", 2, by=by)).reason == "fits"
    assert cluster.used() == 10_000


async def test_jobs_that_a_user_makes_from_a_cron_job_are_charged_themselves(cluster):
    """`kubectl create job --from=cronjob/x` sets the controller as the CronJob's own runs have it."""
    await begin(cluster, "CronJob", "night", 4)

    by = ("CronJob", "night")
    assert await reasons(cluster, "Job", 6, 4, by=by) == ["fits"] + ["over-quota"] * 5
    assert cluster.used() == 8000
    await show(cluster, "Job", "x0", 4, by=by)
    await show(cluster, "Pod", "x0-0", 4, by=("Job", "x0"))
    assert cluster.used() == 8000
    await cluster.lose("x0")
    await cluster.lose_pod("x0-0", owner("Job", "x0"))
    assert cluster.used() == 4000


@pytest.mark.parametrize("kind", ["Rollout", "PyTorchJob", "Job"])
async def test_a_pod_below_an_owner_that_nobody_saw_is_charged_itself(cluster, kind):
    assert (await ask(cluster, "Pod", "p", 40, by=(kind, "invented"))).reason == "over-quota"
    assert (await ask(cluster, "Pod", "q", 4, by=(kind, "invented"))).reason == "fits"
    await show(cluster, "Pod", "q", 4, by=(kind, "invented"))
    assert cluster.used() == 4000


async def test_a_pod_below_an_owner_of_another_group_or_namespace_is_charged_itself(cluster):
    await deployed(cluster)
    evil = {"by": ("Deployment", "web"), "api": "evil.io/v1", "user": CONTROLLER}
    assert (await ask(cluster, "Pod", "p", 4, **evil)).reason == "over-quota"
    other = made("Pod", "q", 4, by=("ReplicaSet", "web-1"), namespace="other")

    assert (await cluster.review(other, **OF["Pod"], **CONTROLLER)).reason == "over-quota"


async def test_a_replica_set_of_a_deployment_is_not_scaled_beyond_what_fits(cluster):
    await deployed(cluster, cpu=2)
    scale = {
        "metadata": {"name": "web-1", "uid": "web-1", "namespace": "ns", "resourceVersion": "9"}
    }
    fields = {**OF["ReplicaSet"], "operation": "UPDATE", "subresource": "scale"}

    answer = await cluster.review({**scale, "spec": {"replicas": 50}}, **fields)
    assert (answer.allowed, answer.reason) == (False, "over-quota")
    assert "ReplicaSet 'web-1'" in answer.message and "Deployment 'web'" in answer.message
    assert "limits.cpu asks for 96 more, 4 of 10 are used" in answer.message
    answer = await cluster.review({**scale, "spec": {"replicas": 5}}, **fields)
    assert (answer.allowed, answer.reason, cluster.used()) == (True, "raised", 10_000)


def scale_of(replicas, version, before):
    """A review of a scale of the ReplicaSet `web-1`."""
    named = {"name": "web-1", "uid": "web-1", "namespace": "ns", "resourceVersion": version}
    scales = [{"metadata": named, "spec": {"replicas": n}} for n in (replicas, before)]
    how = {"operation": "UPDATE", "subresource": "scale", "old_object": scales[1]}
    return scales[0], {**OF["ReplicaSet"], **how}


async def test_a_set_without_pods_is_scaled_up_by_its_owner_without_an_entry(cluster):
    """It stood below its owner before, so it is not adopted."""
    await deployed(cluster, cpu=2)
    by = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "ReplicaSet", "web-2", 2, 0, **by)
    await show(cluster, "ReplicaSet", "web-1", 2, 1, by=("Deployment", "web"))
    await cluster.lose_pod("web-1-1", owner("ReplicaSet", "web-1"))
    number = len(cluster.said("decided"))
    before = made("ReplicaSet", "web-2", 2, 0, by=("Deployment", "web"), version=9)

    up = await ask(cluster, "ReplicaSet", "web-2", 2, 1, before=before, version=9, **by)
    assert up.reason == "covered"
    assert len(cluster.said("decided")) == number


@pytest.mark.parametrize("is_another", [False, True], ids=["same process", "another process"])
async def test_a_scale_waits_until_an_admitted_change_of_the_template_is_seen(cluster, is_another):
    """What asks for nothing as it has no replicas, or fits its owner's charge, may ask for more with the next scale."""
    await deployed(cluster, cpu=4)
    by = {"by": ("Deployment", "web")}
    cluster.skip_versions(20)
    await show(cluster, "ReplicaSet", "web-1", 1, 0, **by)
    before = made("ReplicaSet", "web-1", 1, 0, version=20, **by)
    edit = {"before": before, "version": 20, **by}
    beside = following(cluster.transport, cluster.clock, cluster="c1", source="two", keeps=False)
    async with beside as other:
        where = {"at": other} if is_another else {}
        assert (await ask(cluster, "ReplicaSet", "web-1", 8, 0, **edit)).reason == "covered"

        first, how = scale_of(2, "21", 0)
        told = await cluster.review(first, **how, **where)
        assert (told.allowed, told.reason) == (False, "object-unseen")
    await show(cluster, "ReplicaSet", "web-1", 8, 0, **by)
    again = await cluster.review(first, **how)
    assert (again.allowed, again.reason) == (False, "over-quota")


async def test_what_is_stored_is_scaled_beyond_what_was_seen_only_by_the_journal(cluster):
    """A scale down was not seen yet: to scale it up again is a growth, though no more was asked for than was seen."""
    await deployed(cluster, cpu=2)
    down, how = scale_of(0, "30", 2)
    assert (await cluster.review(down, **how)).reason == "covered"
    number = len(cluster.said("decided"))
    up, how = scale_of(2, "31", 0)

    assert (await cluster.review(up, **how)).reason == "covered"
    assert len(cluster.said("decided")) == number + 1


async def adopted(cluster, cpu, by):
    """A pod that is charged itself is taken in by a ReplicaSet."""
    await begin(cluster, "Pod", "p", cpu)
    change = {"before": made("Pod", "p", cpu, version=90), "version": 90, "user": CONTROLLER}
    return await ask(cluster, "Pod", "p", cpu, by=("ReplicaSet", by), **change)


@pytest.mark.parametrize(
    ("by", "cpu", "reason", "charge"),
    [
        ("web-0", 1, "raised", 5000),
        ("web-1", 1, "covered", 4000),
        ("web-1", 3, "raised", 5000),
        ("web-0", 4, "over-quota", 4000),
    ],
    ids=["none of those it makes", "one of those it makes", "larger than those", "too large"],
)
async def test_what_is_adopted_comes_on_top_of_pods_that_another_process_may_let_pass(
    cluster, by, cpu, reason, charge
):
    """A pod was made as one of its Deployment's, and at the same moment an old ReplicaSet of that took in another one."""
    made_by = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "Deployment", "web", 2, 2)
    await begin(cluster, "ReplicaSet", "web-0", 2, 0, **made_by)
    await begin(cluster, "ReplicaSet", "web-1", 2, 2, **made_by)
    answer = await adopted(cluster, cpu, by)

    assert (answer.reason, cluster.used()) == (reason, charge + cpu * 1000)


async def test_a_pod_that_a_user_makes_larger_comes_on_top_of_those_that_another_process_lets_pass(
    cluster,
):
    """One was resized from one core to nine, while its ReplicaSet made nine more of one: all below a charge of ten."""
    made_by = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "Deployment", "web", 1, 5)
    await begin(cluster, "ReplicaSet", "web-1", 1, 5, **made_by)
    of = {"by": ("ReplicaSet", "web-1")}
    await begin(cluster, "Pod", "p", 1, user=CONTROLLER, **of)
    before = made("Pod", "p", 1, version=90, **of)

    async def resized(cpu):
        change = {"operation": "UPDATE", "subresource": "resize", "old_object": before}
        after = made("Pod", "p", cpu, version=90, **of)
        return (await cluster.review(after, **OF["Pod"], **change)).reason

    assert [await resized(cpu) for cpu in (8, 6, 6)] == ["over-quota", "raised", "covered"]
    assert cluster.used() == 10_000


async def test_what_is_given_to_an_object_of_an_operator_comes_on_top_of_its_pods(cluster):
    """The operator need not make one less for it."""
    await begin(cluster, "PyTorchJob", "train", 1, 5)
    await begin(cluster, "Pod", "p", 1)
    change = {"before": made("Pod", "p", 1, version=90), "version": 90}
    answer = await ask(cluster, "Pod", "p", 1, by=("PyTorchJob", "train"), **change)

    assert (answer.reason, cluster.used()) == ("raised", 7000)


async def test_each_larger_pod_that_a_set_adopts_comes_on_top_of_the_one_before(cluster):
    await begin(cluster, "ReplicaSet", "set", 1, 3)
    reasons = []
    for number in range(3):
        name, by = f"p{number}", ("ReplicaSet", "set")
        change = {"before": made("Pod", name, 3, version=90), "version": 90, "user": CONTROLLER}
        reasons.append((await ask(cluster, "Pod", name, 3, by=by, **change)).reason)

    assert (reasons, cluster.used()) == (["raised", "raised", "raised"], 9000)


@pytest.mark.parametrize("how", ["a scale", "an edit"])
async def test_what_a_user_scales_below_a_deployment_comes_on_top_of_its_charge(cluster, how):
    """Two processes let one ReplicaSet each be scaled up to the whole charge, as neither had seen the other's."""
    await deployed(cluster, cpu=2)
    by = {"by": ("Deployment", "web")}
    for number in range(2):
        await cluster.lose_pod(f"web-1-{number}", owner("ReplicaSet", "web-1"))
    await show(cluster, "ReplicaSet", "web-1", 2, 0, **by)
    version = cluster.admission.view.objects["web-1"].version
    if how == "a scale":
        up, fields = scale_of(2, version, 0)
        answer = await cluster.review(up, **fields)
    else:
        before = made("ReplicaSet", "web-1", 2, 0, version=version, **by)
        answer = await ask(
            cluster, "ReplicaSet", "web-1", 2, 2, before=before, version=version, **by
        )

    assert (answer.reason, cluster.used()) == ("raised", 8000)


async def test_a_replica_set_of_a_deployment_is_not_edited_beyond_what_fits(cluster):
    """What is true of a scale is true of an edit of its replicas or template, and of a Job's parallelism."""
    await deployed(cluster, cpu=2)
    before = made("ReplicaSet", "web-1", 2, 2, by=("Deployment", "web"), version=9)

    edit = {"by": ("Deployment", "web"), "version": 9, "before": before}
    assert (await ask(cluster, "ReplicaSet", "web-1", 6, 2, **edit)).reason == "over-quota"
    assert (await ask(cluster, "ReplicaSet", "web-1", 1, 2, **edit)).reason == "covered"
    assert cluster.used() == 4000


async def test_pods_beyond_the_charge_raise_it_and_it_falls_when_they_are_gone(cluster):
    """A roll-out with maxSurge: its journal says for which pod, and no pod passes that fits nowhere."""
    await deployed(cluster, cpu=2)
    made_by = {"by": ("Deployment", "web"), "user": CONTROLLER}
    assert (await begin(cluster, "ReplicaSet", "web-2", 2, 1, **made_by)).reason == "raised"
    answer = await begin(cluster, "Pod", "web-2-0", 2, by=("ReplicaSet", "web-2"), user=CONTROLLER)

    assert (answer.reason, cluster.used()) == ("covered", 6000)
    raised = cluster.said("decided")[-1]
    assert (raised["uid"], raised["reason"]) == ("web", "raised")
    assert (raised["child"]["kind"], raised["child"]["uid"]) == ("ReplicaSet", "web-2")
    await show(cluster, "ReplicaSet", "web-1", 2, 1, by=("Deployment", "web"))
    assert cluster.used() == 6000, "the old pod still ends"
    await cluster.lose_pod("web-1-1", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 4000


async def test_a_roll_out_that_fits_nowhere_is_refused_with_its_numbers(cluster):
    await deployed(cluster, cpu=4)
    answer = await ask(
        cluster, "ReplicaSet", "web-2", 4, 1, by=("Deployment", "web"), user=CONTROLLER
    )

    assert answer.reason == "over-quota"
    assert answer.message == (
        "with ReplicaSet 'web-2', what lives below Deployment 'web' is more than its charge: quota 'team': "
        "limits.cpu asks for 4 more, 8 of 10 are used, 2 too much; this namespace holds 8, others 0 (over-quota)"
    )
    assert cluster.used() == 8000


async def test_runs_of_a_cron_job_that_overlap_raise_its_charge(cluster):
    await begin(cluster, "CronJob", "night", 4)
    run = {"by": ("CronJob", "night"), "user": CONTROLLER}
    answers = [(await ask(cluster, "Job", f"run{n}", 4, **run)).reason for n in range(3)]

    assert answers == ["covered", "raised", "over-quota"]
    assert cluster.used() == 8000
    for number in range(2):
        await show(cluster, "Job", f"run{number}", 4, by=("CronJob", "night"))
    await cluster.lose("run0")
    assert cluster.used() == 4000


async def test_pods_that_still_end_count_beside_those_that_replace_them(cluster):
    """Pods may take a day to end: a ReplicaSet replaces at once what is deleted."""
    await deployed(cluster)
    await show(
        cluster, "Pod", "web-1-0", 4, by=("ReplicaSet", "web-1"), deletion="2026-01-02T00:00:00Z"
    )
    again = {"by": ("ReplicaSet", "web-1"), "user": CONTROLLER}

    assert (await ask(cluster, "Pod", "web-1-2", 4, **again)).reason == "over-quota"
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    assert (await ask(cluster, "Pod", "web-1-2", 4, **again)).reason == "covered"


async def test_what_was_reviewed_counts_before_it_is_seen_and_no_longer_than_it_can_land(cluster):
    await begin(cluster, "Job", "a", 4, 2)
    by = {"by": ("Job", "a"), "user": CONTROLLER}
    answers = [(await ask(cluster, "Pod", f"p{n}", 4, **by)).reason for n in range(3)]
    assert answers == ["covered", "covered", "over-quota"]
    assert (await ask(cluster, "Pod", "p1", 4, **by)).reason == "covered", "the same pod again"
    cluster.clock.after(75)

    assert (await ask(cluster, "Pod", "p3", 4, **by)).reason == "covered"


async def test_a_dry_run_of_a_child_counts_and_charges_nothing(cluster):
    await begin(cluster, "Job", "a", 4, 2)
    by = {"by": ("Job", "a")}
    for number in range(3):
        dry = made("Pod", f"p{number}", 4, **by)
        assert (
            await cluster.review(dry, dry_run=True, **OF["Pod"], **CONTROLLER)
        ).reason == "covered"
    dry = made("Pod", "p", 9, **by)
    assert (await cluster.review(dry, dry_run=True, **OF["Pod"], **CONTROLLER)).reason == "raised"

    assert cluster.used() == 8000
    assert (await ask(cluster, "Pod", "p9", 8, user=CONTROLLER, **by)).reason == "covered"


async def test_an_owner_that_is_admitted_and_not_seen_yet_answers_for_its_pods(cluster):
    await ask(cluster, "Deployment", "web", 4, 2)
    of_web = {"by": ("Deployment", "web"), "user": CONTROLLER}
    assert (await ask(cluster, "ReplicaSet", "web-1", 4, 2, **of_web)).reason == "covered"
    by = {"by": ("ReplicaSet", "web-1"), "user": CONTROLLER}
    answers = [(await ask(cluster, "Pod", f"p{n}", 4, **by)).reason for n in range(3)]

    assert answers == ["covered", "covered", "over-quota"]


async def test_two_processes_never_raise_beyond_the_limit(cluster):
    """Each raise stands in the journal on the sequence that its process knew, with what it was for."""
    await begin(cluster, "CronJob", "night", 4)
    beside = following(
        cluster.transport, cluster.clock, cluster="c1", source="webhook/2", keeps=False
    )
    first = cluster.admission
    async with beside as other:
        answers = []
        for number in range(4):
            cluster.admission = other if number % 2 else first
            run = {"by": ("CronJob", "night"), "user": CONTROLLER}
            answers.append((await ask(cluster, "Job", f"run{number}", 8, **run)).reason)
        cluster.admission = first

    assert answers == ["raised", "over-quota", "over-quota", "over-quota"]
    assert cluster.used() == 8000


async def test_a_raise_whose_child_never_landed_falls_after_a_list_without_it(cluster):
    await begin(cluster, "CronJob", "night", 4)
    run = {"by": ("CronJob", "night"), "user": CONTROLLER}
    await ask(cluster, "Job", "run", 8, **run)
    cluster.clock.after(74)
    await show(cluster, "CronJob", "night", 4)
    assert (cluster.used(), cluster.admission.keeper.due(cluster.clock.us)) == (8000, set())
    cluster.clock.after(1)
    assert cluster.admission.keeper.due(cluster.clock.us) == {"Job"}
    await cluster.list()

    assert cluster.used() == 4000


async def test_an_operator_that_no_setting_names_makes_what_its_kind_makes(cluster):
    """The controllers of Kubeflow, Ray and Argo run under any account; what they make has to fit all the same."""
    await begin(cluster, "PyTorchJob", "train", 2, 2)
    operator = {"user": {"user": "system:serviceaccount:kubeflow:training-operator"}}
    by = {"by": ("PyTorchJob", "train"), **operator}
    answers = [(await ask(cluster, "Pod", f"p{n}", 2, **by)).reason for n in range(6)]

    assert answers == ["covered"] * 2 + ["raised"] * 3 + ["over-quota"]
    assert (await ask(cluster, "Job", "j", 4, **by)).reason == "over-quota"


async def test_accounts_of_controllers_are_named_by_settings():
    from reactors.admission.coverage.owners import Controllers

    named = Controllers(users=frozenset({"me"}), groups=frozenset({"robots"}))
    async with Cluster(controllers=named) as cluster:
        await cluster.see_quota("team", {"limits.cpu": 10_000})
        await begin(cluster, "Job", "a", 4)
        by = {"by": ("Job", "a")}
        assert (await ask(cluster, "Pod", "p", 4, user={"user": "me"}, **by)).reason == "covered"
        robot = {"user": "r2", "groups": ("robots",)}
        assert (await ask(cluster, "Pod", "p", 4, user=robot, **by)).reason == "covered"
        assert (await ask(cluster, "Pod", "q", 4, user=CONTROLLER, **by)).reason == "fits"


async def test_what_a_sidecar_adds_to_the_pods_raises_the_charge(cluster):
    """A template does not show what other webhooks and LimitRanges add; each pod does when it is made."""
    await begin(cluster, "Job", "a", 4, 2)
    by = {"by": ("Job", "a"), "user": CONTROLLER}
    answers = [(await ask(cluster, "Pod", f"p{n}", 4.5, **by)).reason for n in range(2)]

    assert answers == ["covered", "raised"]
    assert cluster.used() == 9000

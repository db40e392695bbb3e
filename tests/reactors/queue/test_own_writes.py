"""Bursar's own writes pass its own webhook, however late or busy that is: starts that were released, and stops."""

import pytest

from bus.errors import PermissionDeniedError
from bus.events.quotas import Serves
from reactors.admitting import failing
from reactors.queue import releasing
from tests.reactors.admission.below import OF, ask, begin, made
from tests.reactors.cluster import Cluster
from tests.reactors.outages import Away, answered, body
from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import differences_of, until

pytestmark = pytest.mark.simulated


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)


class Late(Jobs):
    """Its webhook decides nothing in time."""

    is_late = False

    async def update(self, name, object):
        if not self.is_late:
            return await super().update(name, object)
        answer = failing(self.admission)(self._review(object, self.objects[name], "UPDATE"), None)
        if not answer.allowed:
            raise PermissionDeniedError(permission="patch jobs.batch", message=answer.message)
        await self._store(object)
        return object


async def test_what_was_released_starts_where_the_webhook_decides_nothing_in_time():
    async with Late() as cluster:
        await cluster.see_team(4)
        cluster.is_late = True
        await cluster.create("a", 3)
        await until(lambda: cluster.running() == ["a"])
        await cluster.settled()

        assert (3000, 1) == (cluster.used(), cluster.patches)
        assert cluster.admission.releasing.refused == 0


def unlimited():
    """A pod template of which one container states no limit."""
    side = {"name": "side", "resources": {"limits": {"cpu": "1"}}}
    return {"spec": {"containers": [{"name": "main", "resources": {}}, side]}}


def claiming(template):
    """A pod template that names a claim, whose devices its own demand has not."""
    claims = [{"name": "g", "resourceClaimName": "c"}]
    return {**template, "spec": {**template["spec"], "resourceClaims": claims}}


@pytest.mark.parametrize(
    "change",
    [
        lambda job: job["spec"].update(parallelism=2),
        lambda job: job["metadata"]["labels"].update({"biz.group.resource.quota": "other"}),
        lambda job: job["metadata"].update(
            ownerReferences=[
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": "c",
                    "uid": "c",
                    "controller": True,
                }
            ]
        ),
        lambda job: job["metadata"].update(uid="another"),
        lambda job: job["metadata"].update(uid=[]),
        lambda job: job["spec"].update(template=unlimited()),
        lambda job: job["spec"].update(template=claiming(job["spec"]["template"])),
    ],
    ids=[
        "larger",
        "in another quota",
        "below an owner",
        "of another uid",
        "no uid",
        "no limits",
        "with a claim",
    ],
)
async def test_a_start_that_was_not_decided_is_refused_while_nobody_decides(change):
    async with Jobs() as cluster:
        await cluster.see_team(4)
        await cluster.see_team(4, name="other")
        # The start itself is lost on its way.
        cluster.fails = [PermissionDeniedError(permission="patch", message="a test")]
        await cluster.create("a", 3)
        await until(lambda: cluster.used() == 3000)
        waits = cluster.objects["a"]
        runs = {
            **waits,
            "spec": {**waits["spec"], "suspend": False},
            "metadata": {**waits["metadata"], "annotations": {}},
        }
        runs["metadata"]["labels"] = {**waits["metadata"]["labels"]}
        failure = failing(cluster.admission)
        assert failure(cluster._review(runs, waits, "UPDATE"), None).allowed
        template = claiming(waits["spec"]["template"])
        named = [{**one, "spec": {**one["spec"], "template": template}} for one in (runs, waits)]
        assert failure(cluster._review(*named, "UPDATE"), None).allowed

        change(runs)
        assert not failure(cluster._review(runs, waits, "UPDATE"), None).allowed


async def test_a_start_that_takes_limits_away_is_refused_and_one_that_never_had_them_passes():
    """Its quota may have limited nothing of it when it was created: the queue starts it all the same."""
    async with Jobs() as cluster:
        await cluster.see_team(4)
        cluster.fails = [PermissionDeniedError(permission="patch", message="a test")]
        await cluster.create("a", 3)
        await until(lambda: cluster.used() == 3000)
        waits = cluster.objects["a"]
        without = {**waits, "spec": {**waits["spec"], "template": unlimited()}}
        found = []
        for before, after in ((waits, without), (without, without), (waits, waits)):
            runs = {**after, "metadata": {**after["metadata"], "annotations": {}}}
            runs["spec"] = {**after["spec"], "suspend": False}
            answer = await cluster.admission.handler(cluster._review(runs, before, "UPDATE"))
            found.append((answer.allowed, answer.reason))

        assert [(False, "must-specify"), (True, "fewer"), (True, "fewer")] == found
        assert [] == differences_of(cluster)


async def test_what_its_user_resumes_is_refused_while_nobody_decides():
    async with Jobs() as cluster:
        await cluster.see_team(4)
        await cluster.create("a", 3, suspend=True)
        waits = cluster.objects["a"]
        runs = {**waits, "spec": {**waits["spec"], "suspend": False}}

        assert not failing(cluster.admission)(cluster._review(runs, waits, "UPDATE"), None).allowed


@pytest.mark.parametrize("gate", ["hangs", "away"])
async def test_stops_pass_while_the_bus_is_away(gate):
    async with Cluster(Away()) as cluster:
        await cluster.see_quota("team", {"limits.cpu": 8000})
        await begin(cluster, "Job", "job", 1, 2)
        cluster.transport.gate = gate
        runs = made("Job", "job", 1, 2)
        held = made("Job", "job", 1, 2, annotations={"bursar.io/queue": "team"})
        held["spec"]["suspend"] = True

        assert (await answered(cluster, body(held, "UPDATE", runs)))["allowed"]
        cluster.transport.gate = ""


def scale(replicas):
    return {
        "metadata": {"name": "web", "namespace": "ns", "uid": "web"},
        "spec": {"replicas": replicas},
    }


@pytest.mark.parametrize("closed", ["of others", "unusable"])
async def test_a_quota_that_takes_a_workload_no_more_refuses_no_stop_of_it(closed):
    fields = {"of others": {"serves": Serves(("other",))}, "unusable": {"problem": "a test"}}[
        closed
    ]
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 8000})
        await begin(cluster, "Deployment", "web", 2, 2)
        await begin(cluster, "Job", "job", 1)
        await cluster.see_quota("team", {"limits.cpu": 8000}, **fields)
        before, stopped = made("Job", "job", 1), made("Job", "job", 1)
        stopped["spec"]["suspend"] = True
        down = {**OF["Deployment"], "subresource": "scale", "operation": "UPDATE"}

        assert (
            await cluster.review(stopped, **OF["Job"], operation="UPDATE", old_object=before)
        ).allowed
        assert (await cluster.review(scale(0), **down, old_object=scale(2))).allowed
        assert (
            await ask(cluster, "Deployment", "web", 2, 1, before=made("Deployment", "web", 2, 2))
        ).allowed
        assert not (await cluster.review(scale(3), **down, old_object=scale(2))).allowed
        assert not (
            await ask(cluster, "Deployment", "web", 2, 3, before=made("Deployment", "web", 2, 2))
        ).allowed
        assert not (await ask(cluster, "Deployment", "new", 1, 1)).allowed

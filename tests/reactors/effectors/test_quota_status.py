"""The status of a quota: what it says, when it is written, and what became of it."""

import asyncio
import time

import msgspec
import pytest

from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.kube.crds.quotas import PATH, QuotaStatus
from reactors.effectors.quota_status import (
    BizGroupStatus,
    Condition,
    StatusWriter,
    WriteOutcome,
    body,
    content,
)


def status(**fields):
    return BizGroupStatus(
        **{"name": "team", "uid": "u", "moment_s": 60, "observed_sequence": 7, **fields}
    )


FULL = status(
    hard={"limits.cpu": 10_000, "limits.cpu.A4": 4_000, "requests.memory": 2**36},
    used={"limits.cpu": 1_500},
    self_used={"limits.cpu": 500},
    runtime={"cpu": 2_000, "memory": 2**30},
    budget_left={"limits.cpu": 5_400_000, "limits.nvidia.com/gpu": -3_600_000},
    exhausts_s=86_400,
    forecast={"cash/limits.cpu": "likely 1970-01-02, 1970-01-02 to never; chance 60 %"},
    conditions=(Condition("Exhausted", "False", 0, "Left", "1.5 core-hours"),),
    generation=3,
)


OLDER = (
    "failed to create typed patch object (/team): .status.forecast: field not declared in schema"
)


class Objects:
    """A cluster with one quota, whose answers to apply are given; None is a success."""

    def __init__(self, *answers, uid="u"):
        self.answers = list(answers)
        self.uid = uid
        self.applied, self.slept = [], []

    async def apply(self, path, body):
        self.applied.append((path, body))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return body

    async def get(self, path):
        if self.uid is None:
            raise NotFoundError()
        return {"metadata": {"uid": self.uid, "resourceVersion": "5"}}

    async def sleep(self, seconds):
        self.slept.append(round(seconds, 1))


def writer(objects, **options):
    return StatusWriter(objects, sleep=objects.sleep, per_second=1e9, **options)


def test_a_status_says_amounts_as_people_write_them():
    assert content(FULL) == {
        "hard": {"limits.cpu": "10", "limits.cpu.A4": "4", "requests.memory": "64Gi"},
        "used": {"limits.cpu": "1500m"},
        "selfUsed": {"limits.cpu": "500m"},
        "runtime": {"cpu": "2", "memory": "1Gi"},
        "budgetLeft": {"cash/limits.cpu": "1.5", "cash/limits.nvidia.com/gpu": "-1"},
        "exhaustsAt": "1970-01-02T00:00:00Z",
        "forecast": {"cash/limits.cpu": "likely 1970-01-02, 1970-01-02 to never; chance 60 %"},
        "conditions": [
            {
                "type": "Exhausted",
                "status": "False",
                "reason": "Left",
                "message": "1.5 core-hours",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
                "observedGeneration": 3,
            }
        ],
        "shown": {
            "hard": "limits.cpu: 10, limits.cpu.A4: 4, requests.memory: 64Gi",
            "used": "limits.cpu: 1500m",
            "budgetLeft": "limits.cpu: 1.5, limits.nvidia.com/gpu: -1",
        },
    }


def test_the_body_names_the_object_and_the_ledgers_moment():
    found = body(FULL, "5")

    assert found["metadata"] == {"name": "team", "resourceVersion": "5"}
    assert found["status"]["lastReconcileTime"] == "1970-01-01T00:01:00Z"
    assert found["status"]["observedSequence"] == 7


def test_a_status_is_what_the_schema_has():
    said = body(FULL, "5")["status"]

    assert QuotaStatus.model_validate(said).model_dump(by_alias=True) == said


def test_without_a_forecast_an_older_kind_of_the_object_takes_the_status():
    assert "forecast" not in content(status())


def test_columns_show_three_keys_and_count_the_others():
    hard = {f"limits.cpu.{letter}": 1_000 for letter in "ABCDE"}

    assert content(status(hard=hard))["shown"]["hard"] == (
        "limits.cpu.A: 1, limits.cpu.B: 1, limits.cpu.C: 1 +2"
    )


@pytest.mark.parametrize("second", [None, 10**12])
def test_a_budget_that_lasts_for_ever_has_no_end(second):
    assert content(status(exhausts_s=second))["exhaustsAt"] == ""


async def test_a_status_is_written_once_while_only_its_moment_changes():
    objects = Objects()
    writes = writer(objects)
    results = [
        (await writes.write(status(moment_s=moment, observed_sequence=moment))).result
        for moment in (1, 2, 3)
    ]

    assert results == ["written", "unchanged", "unchanged"]
    assert [path for path, _ in objects.applied] == [f"{PATH}/team/status"]


async def test_a_changed_status_and_that_of_a_namesake_are_written():
    objects = Objects()
    writes = writer(objects)
    for one in (status(), status(used={"limits.cpu": 1}), status()):
        assert (await writes.write(one)).result == "written"
    objects.uid = "v"
    assert (await writes.write(status(uid="v"))).result == "written"

    assert len(objects.applied) == 4


async def test_conflicts_are_tried_again():
    objects = Objects(ConflictError(), ConflictError())

    assert await writer(objects).write(status()) == WriteOutcome("team", "written")
    assert len(objects.applied) == 3


@pytest.mark.parametrize("uid", ["another", None])
async def test_another_object_of_this_name_or_none_means_gone(uid):
    objects = Objects(uid=uid)

    assert await writer(objects).write(status()) == WriteOutcome("team", "gone")
    assert objects.applied == []


async def test_a_server_that_asks_to_wait_is_waited_for():
    objects = Objects(ClusterUnavailableError(delay_seconds=7.0, status=429))

    assert (await writer(objects).write(status())).result == "written"
    assert 7.0 in objects.slept


@pytest.mark.parametrize("error", [ClusterUnavailableError, ConflictError])
async def test_what_lasts_is_told_after_four_attempts(error):
    objects = Objects(*(error() for _ in range(9)))

    with pytest.raises(ClusterUnavailableError):
        await writer(objects).write(status())

    assert len(objects.applied) == 4


async def test_after_an_unknown_outcome_the_same_status_is_written_again():
    objects = Objects()
    writes = writer(objects, attempts=1)
    await writes.write(status())
    objects.answers = [ClusterUnavailableError()]
    with pytest.raises(ClusterUnavailableError):
        await writes.write(status(used={"limits.cpu": 1}))

    assert (await writes.write(status())).result == "written"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (NotFoundError(), WriteOutcome("team", "gone")),
        (
            RequestRefusedError(message="unknown field"),
            WriteOutcome("team", "refused", "unknown field"),
        ),
    ],
)
async def test_an_outcome_says_what_became_of_it_and_the_next_one_is_written(answer, outcome):
    objects = Objects(answer)
    writes = writer(objects)

    assert await writes.write(status()) == outcome
    assert (await writes.write(status())).result == "written"


async def test_a_kind_of_an_earlier_release_takes_the_status_without_its_forecast():
    objects = Objects(RequestRefusedError(status=500, message=OLDER))
    writes = writer(objects, attempts=1)

    assert await writes.write(FULL) == WriteOutcome("team", "written")
    assert ["forecast" in said["status"] for _, said in objects.applied] == [True, False]
    assert "apply deploy/manifests/crds" in "".join(writes.trouble())
    assert (await writes.write(FULL)).result == "unchanged"

    # The kinds were applied.
    changed = msgspec.structs.replace(FULL, forecast={"cash/limits.cpu": "likely not"})
    assert (await writes.write(changed)).result == "written"
    assert "forecast" in objects.applied[-1][1]["status"]
    assert [] == list(writes.trouble())


async def test_a_missing_permission_is_raised():
    with pytest.raises(PermissionDeniedError):
        await writer(Objects(PermissionDeniedError())).write(status())


async def test_writes_are_spaced():
    writes = StatusWriter(Objects(), per_second=50)
    begin = time.monotonic()
    changes = [status(used={"limits.cpu": n}) for n in range(6)]
    await asyncio.gather(*(writes.write(one) for one in changes))

    assert time.monotonic() - begin >= 0.1

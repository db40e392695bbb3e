"""Random jobs: each look gives what the plain walk gives; and a job whose steps are taken comes to rest as it asks to."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.clock import SECOND_US
from bus.events.workloads import (
    ElasticPolicy,
    ReplicaCounts,
    ReplicaSpec,
    TrainingSpec,
    WorkloadCondition,
)
from reactors.jobs.passes import reconciled
from reactors.jobs.shape import Job, JobStatus, Rules, SeenJob, SeenPod
from tests.reactors.jobs.plainly import ORDER, Plainly, PlainlyTrained
from tests.thorough import tries

NOW = 1_000
POLICIES = st.sampled_from(["", "Never", "Always", "OnFailure", "ExitCode"])
PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
PODS = st.tuples(
    PHASES, st.sampled_from([None, 0, 1, 127, 128, 137]), st.integers(0, 2), st.booleans()
)
NAMED = ("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
TIMES = st.none() | st.integers(NOW - 20, NOW)


@st.composite
def jobs(draw, names=ORDER):
    counted = st.tuples(st.integers(0, 3), POLICIES)
    types = draw(st.dictionaries(st.sampled_from(names), counted, min_size=1))
    conditions = draw(st.lists(st.sampled_from(NAMED), unique=True, max_size=3))
    job = {
        "types": types, "conditions": [(name, draw(st.booleans())) for name in conditions],
        "counts": {type: draw(st.tuples(*[st.integers(0, 2)] * 3)) for type in types if draw(st.booleans())},
        "start": draw(TIMES), "completion": draw(TIMES), "deadline": draw(st.none() | st.integers(0, 20)),
        "backoff": draw(st.none() | st.integers(0, 3)), "suspend": draw(st.integers(0, 4)) == 0,
        "clean": draw(st.sampled_from(["", "None", "Running", "All"])), "dynamic": draw(st.booleans()),
        "success": draw(st.sampled_from(["", "AllWorkers"])),
    }  # fmt: skip
    slots = draw(st.lists(st.tuples(st.sampled_from(sorted(types)), st.integers(0, 4)), max_size=8))
    return job, [(*slot, *draw(PODS)) for slot in slots]


#: Their types, and what holds where a type says no restart policy.
OTHERS = {
    "PyTorchJob": (("Master", "Worker"), "OnFailure"), "XGBoostJob": (("Master", "Worker"), "Never"),
    "PaddleJob": (("Master", "Worker"), "OnFailure"), "JAXJob": (("Worker",), "Never"),
}  # fmt: skip


@st.composite
def other_jobs(draw):
    """Of the kinds but TFJob. Half of the elastic ones have a master, which then decides."""
    kind = draw(st.sampled_from(sorted(OTHERS)))
    names, default = OTHERS[kind]
    job, pods = draw(jobs(names))
    job |= {"kind": kind, "elastic": kind == "PyTorchJob" and draw(st.booleans())}
    types = {name: (count, policy or default) for name, (count, policy) in job["types"].items()}
    return job, pods, job | {"types": types}


def of(job, pods):
    """The same as the product has it."""
    kind = job.get("kind", "TFJob")
    spec = TrainingSpec(
        {type: ReplicaSpec(count, policy) for type, (count, policy) in job["types"].items()},
        clean_pod_policy=job["clean"], deadline_s=job["deadline"], backoff_limit=job["backoff"],
        suspend=job["suspend"], success_policy=job["success"], is_dynamic=job["dynamic"],
        elastic=ElasticPolicy() if job.get("elastic") else None,
    )  # fmt: skip
    conditions = tuple(
        WorkloadCondition(name, str(held), f"{kind}{name}") for name, held in job["conditions"]
    )
    counts = {type: ReplicaCounts(*one) for type, one in job["counts"].items()}
    status = JobStatus(conditions, counts, us(job["start"]), us(job["completion"]))
    seen = tuple(
        SeenPod(f"{type}-{index}-{n}", str(n), type.lower(), str(index), phase, deleting, restarts, code)
        for n, (type, index, phase, code, restarts, deleting) in enumerate(pods)
    )  # fmt: skip
    return Job("j", kind, "ns", "train", spec, status), SeenJob(seen)


def us(seconds):
    return None if seconds is None else seconds * SECOND_US


def plain_counts(status):
    return {type: (one.active, one.succeeded, one.failed) for type, one in status.counts.items()}


@settings(max_examples=tries(100, 2_000), deadline=None)
@given(jobs())
def test_a_look_gives_what_the_plain_walk_gives(drawn):
    job, pods = drawn
    check(job, pods, Plainly(job, pods, NOW).run())


@settings(max_examples=tries(100, 2_000), deadline=None)
@given(other_jobs())
def test_a_look_at_a_job_of_another_kind_gives_what_the_plain_walk_gives(drawn):
    job, pods, resolved = drawn
    check(job, pods, PlainlyTrained(resolved, pods, NOW).run())


def check(job, pods, told):
    found = reconciled(*of(job, pods), NOW * SECOND_US, Rules(is_v1=True))
    removed = sorted((one.pod.type, int(one.pod.index)) for one in found.removals)

    assert sorted((one.type, one.index) for one in found.creates) == sorted(told.creates)
    assert removed == sorted((type.lower(), index) for type, index in told.removes)
    assert [(one.type, one.status == "True") for one in found.status.conditions] == told.conditions
    assert plain_counts(found.status) == told.counts
    assert (found.status.start_us, found.status.completion_us) == (
        us(told.start),
        us(told.completion),
    )


@settings(max_examples=tries(50, 1_000), deadline=None)
@given(jobs(), st.sampled_from([True, False]), st.randoms(use_true_random=False))
def test_taking_the_steps_in_any_order_ends_at_the_same_pods(drawn, is_v1, random):
    job, pods = drawn
    job |= {"suspend": False, "deadline": None, "backoff": None, "conditions": []}
    # Two pods of one slot are left alone, whichever they are.
    pods = list(
        {pod[:2]: (*pod[:5], False) for pod in pods if pod[1] < job["types"][pod[0]][0]}.values()
    )
    wanted = {(type, n) for type, (count, _) in job["types"].items() for n in range(count)}
    if is_v1:
        wanted |= {(type, 0) for type in job["types"]}
    for _ in range(100):
        found = reconciled(*of(job, pods), NOW * SECOND_US, Rules(is_v1=is_v1))
        steps = [(True, one.type, one.index) for one in found.creates]
        steps += [
            (False, next(t for t in ORDER if t.lower() == one.pod.type), int(one.pod.index))
            for one in found.removals
        ]
        if not steps:
            break
        makes, type, index = random.choice(steps)
        pods = [pod for pod in pods if pod[:2] != (type, index)]
        if makes:
            pods.append((type, index, "Pending", None, 0, False))
        if is_v1 and index >= job["types"][type][0]:
            # The operator makes a pod for no replicas, and deletes it, for ever.
            return

    assert {pod[:2] for pod in pods} == wanted

"""Runs `expectations` cases: what the operator waits for, by the product's :class:`reactors.jobs.shape.JobExpectations`.

An entry is what one pass decided; `set` is that pass, and what is observed lowers what its decisions raised.
"""

from bus.clock import SECOND_US
from reactors.jobs.shape import JobExpectations, Rules, may_look

V1 = Rules(is_v1=True)
KEY = "ns/job/worker/pods"


def check(case):
    """The rule of the case gives what it says."""
    assert case["rule"] == "sequence"
    entries, now_us, told = {}, 0, []
    for step in case["given"]["steps"]:
        op, key = step["op"], step.get("key", KEY)
        known, times = entries.get(key), step.get("times", 1)
        if op in ("set", "expect_creations", "expect_deletions"):
            counts = {
                "set": (step.get("add"), step.get("del")), "expect_creations": (step.get("n"), 0),
                "expect_deletions": (0, step.get("n")),
            }[op]  # fmt: skip
            entries[key] = JobExpectations(since_us=now_us).raised(*counts)
        elif op == "delete":
            entries.pop(key, None)
        elif op == "advance":
            now_us += step["seconds"] * SECOND_US
        elif op == "get":
            told.append(known and [known.creations, known.deletions])
        elif op == "satisfied":
            told.append(known is None or known.is_settled(now_us))
        elif op == "job_satisfied":
            told.append(may_look(step["types"], _of(entries, step["job"]), now_us, V1))
        else:
            change = {
                "raise": (step.get("add"), step.get("del")),
                "lower": (-step.get("add", 0), -step.get("del", 0)),
                "creation_observed": (-times, 0), "deletion_observed": (0, -times),
            }[op]  # fmt: skip
            if known is not None:
                entries[key] = known.raised(*change)

    assert told == case["expect"]["results"]


def _of(entries, job):
    """The entries of one job, by type and part."""
    own = f"{job}/"
    return {key.removeprefix(own): one for key, one in entries.items() if key.startswith(own)}

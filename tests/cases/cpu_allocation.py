"""Runs `cpu_allocation` cases: which CPUs a pod gets, and which pods get some, by the product's own rules."""

from collections import Counter

import pytest

from bus.cpusets import parsed, written
from bus.events.constraints import CpuTerms
from reactors.scheduling.cpus import wishes
from reactors.scheduling.cpus.picking import Holders, Wish, pick
from reactors.scheduling.cpus.topology import Cpu, Topology

PRIORITIES = {"Prod": 9500, "Mid": 7500, "Batch": 5500, "Free": 3500}
ERRORS = {
    wishes.NO_WHOLE_CPUS: "cpu_must_be_integer",
    wishes.NO_WHOLE_CORES: "must_be_multiple_of_threads_per_core",
    wishes.NO_FULL_CORES: "node_requires_full_pcpus",
    wishes.NO_TOPOLOGY: "invalid_cpu_topology",
}


def check(case):
    """What the operation gives is what the case says."""
    given, expect = case["given"], case["expect"]
    op = given.get("op", "pick")
    if op not in OPERATIONS:
        pytest.fail(f"not followed: {op}", pytrace=False)
    found = OPERATIONS[op](given)

    assert {key: found.get(key, "not told") for key in expect} == expect


def topology_of(given):
    numa, cores, threads = (
        given[key] for key in ("numa_per_socket", "cores_per_numa", "threads_per_core")
    )
    count = given["sockets"] * numa * cores * threads
    return Topology(
        Cpu(n, n // threads, n // (threads * cores * numa), n // (threads * cores))
        for n in range(count)
    )


def wish_of(given):
    exclusive = given.get("exclusive_policy", "None")
    return Wish(given["need"], given["bind_policy"], "" if exclusive == "None" else exclusive)


def holders_of(given):
    taken = parsed(given["taken_cpus"])
    times = Counter(taken)
    times.update(parsed(given.get("taken_twice", "")))
    by_policy = {
        policy: parsed(cpus) for policy, cpus in given.get("taken_by_exclusive_policy", {}).items()
    }
    if "taken_exclusive_policy" in given:
        by_policy = {given["taken_exclusive_policy"]: taken}
    return Holders(times, by_policy.get("PCPULevel", ()), by_policy.get("NUMANodeLevel", ()))


def picked(given):
    found = pick(
        topology_of(given["topology"]), wish_of(given), holders_of(given),
        strategy=given["numa_strategy"], most_pods=given.get("max_pods_per_cpu", 1),
    )  # fmt: skip
    return {"error": "not_enough_cpus", "cpus": None} if found is None else {"cpus": written(found)}


def shared_sequence(given):
    topology, most, times, found = (
        topology_of(given["topology"]), given["max_pods_per_cpu"], Counter(), [],
    )  # fmt: skip
    for request in given["requests"]:
        cpus = pick(
            topology,
            wish_of(request),
            Holders(times),
            strategy=given["numa_strategy"],
            most_pods=most,
        )
        times.update(cpus or ())
        found.append(None if cpus is None else written(cpus))
    left = [cpu for cpu in topology.cpus if times[cpu] < most]
    return {"cpus": found, "still_available": written(left)}


def decide(given):
    terms = CpuTerms(
        qos=given["qos"],
        bind=given.get("bind_policy") or "",
        exclusive=given.get("exclusive_policy") or "",
    )
    priority = PRIORITIES.get(given.get("priority_class"), 0)
    wish, why = wishes.wish_of(terms, priority, given["cpu_request_milli"])
    if wish is not None:
        full_only = given.get("node_policy") == "FullPCPUsOnly"
        why = wishes.refused(wish, given.get("threads_per_core", 2), full_only=full_only)
    found = {"binds": wish is not None and not why}
    if why:
        found["error"] = ERRORS[why]
    if wish is not None:
        found |= {"bind_policy": wish.bind, "need": wish.count, "cpus": wish.count}
    return found


OPERATIONS = {"pick": picked, "shared_sequence": shared_sequence, "decide": decide}

"""How a test shares a run with others: its marks by the servers that its fixtures start, and the process that runs it.

`pytest -n 4` deals the tests to four processes. Tests that use one fixture of their file go to one process together, so that it
is made once; so do the tests of the shared control plane, and those that read the whole source. All others go where there is
room. A test that starts a nats-server is marked by hand, and refused where it is marked by no server at all.
"""

import asyncio
import gc
import inspect
from collections import Counter

import pytest
from _pytest.nodeid import NodeId

from bus import embedded
from tests.simulation.loop import SimulatedLoop

#: A fixture that starts a server, or reads a large trace → the mark of the tests that use it.
MARKS = {
    "postgres_server": "postgres", "start_plane": "kube", "start_module_plane": "kube", "plane": "kube", "trace_of": "long",
}  # fmt: skip
#: A fixture, or the folder of a test → the group of tests that one process runs.
GROUPS = {
    "plane": "plane",
    "built_image": "image",
    "tests/node/": "node",
    "tests/architecture/": "architecture",
}
#: Every process of the run asks for the same server.
SHARED_BY_ALL = {"postgres_server"}

#: The length of a test without a limit of its own, where the order of tests is chosen.
USUAL_SECONDS = 5

#: Marks of tests that `make unit` leaves out.
NOT_UNIT = ("nats", "postgres", "kube", "slow", "benchmark")

_bundled_binary = embedded.bundled_binary


def pytest_asyncio_loop_factories(item):
    """The loop of a test: one that never waits where its module says so, and the usual one at real servers."""
    if item.get_closest_marker("simulated") and not any(map(item.get_closest_marker, NOT_UNIT)):
        return {"simulated": SimulatedLoop}
    return {"usual": asyncio.new_event_loop}


def pytest_itemcollected(item):
    for fixture in MARKS.keys() & set(item.fixturenames):
        item.add_marker(MARKS[fixture])
    if group := _group(item):
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """The group or test with the longest limit starts first. Groups end the names of tests, where `--dist loadgroup` looks.

    xdist 3.8 writes such a name itself, but one that pytest 9.2 does not read.
    """
    if not config.getoption("loadgroup", False):
        return
    limits = Counter()
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None and not item.nodeid.endswith(f"@{mark.args[0]}"):
            item._id = NodeId.parse(f"{item.nodeid}@{mark.args[0]}")
        limits[_unit(item)] += _limit_seconds(item)
    items.sort(key=lambda item: limits[_unit(item)], reverse=True)


def pytest_collection_finish():
    """What was collected stays to the end: the collector of garbage need not go through it again and again.

    It looks seldom: tests make much, and little of it are cycles. A fifth of their CPU was its.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    is_marked = any(map(item.get_closest_marker, NOT_UNIT))
    embedded.bundled_binary = _bundled_binary if is_marked else _refused
    if item.get_closest_marker("simulated") and not inspect.iscoroutinefunction(item.function):
        if awaited := sorted(name for name in item.fixturenames if _is_async(name, item)):
            # pytest-asyncio makes the fixtures of such a test in the usual loop.
            pytest.fail(f"simulated does nothing here: make the test async, for {awaited}", False)


def _refused():
    pytest.fail("a test that starts a nats-server is marked nats", pytrace=False)


def _unit(item):
    """The group of a test, or the test by itself: xdist sends it to one process."""
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark is not None else item.nodeid


def _limit_seconds(item):
    """The limit in the mark of a test: long tests have one."""
    mark = item.get_closest_marker("timeout")
    return mark.args[0] if mark is not None else USUAL_SECONDS


def _is_shared(name, item):
    """Whether a test has the fixture of the whole run, and none of its own under that name."""
    found = item.session._fixturemanager.getfixturedefs(name, item)
    return name in item.fixturenames and found[-1].scope == "session"


def _is_async(name, item):
    """Whether a fixture of a test is made in a loop."""
    for found in item.session._fixturemanager.getfixturedefs(name, item) or ():
        if inspect.iscoroutinefunction(found.func) or inspect.isasyncgenfunction(found.func):
            return True
    return False


def _group(item):
    """The group of a test; empty for one that shares nothing."""
    for name, group in GROUPS.items():
        if item.nodeid.startswith(name) or _is_shared(name, item):
            return group
    for name in set(item.fixturenames) - SHARED_BY_ALL:
        for one in item.session._fixturemanager.getfixturedefs(name, item) or ():
            if one.scope != "function" and one.func.__module__.startswith("tests."):
                return item.nodeid.split("::")[0]
    return ""

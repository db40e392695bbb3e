"""Rules for the tests themselves: what several of them need stands in a plain module."""

import ast
import re

from tests.architecture.product import ROOT, files, imports, nodes, tree

#: Marks of tests at real servers or processes, and of those where a sleep takes no time.
WAITING = {"nats", "postgres", "kube", "slow", "long", "simulated"}
#: Folders whose tests run real servers, or measure.
AT_SERVERS = (
    "tests/acceptance/",
    "tests/cluster/",
    "tests/benchmarks/",
    "tests/node/",
    "tests/simulation/",
)
#: Seconds that stand for ever: such a sleep is cut short.
FOR_EVER = 60
#: Files that sleep at the other end of a socket, beside a thread, or for tests with one of the marks. None is added.
AT_SOCKETS = {
    "tests/bus/hostile.py", "tests/bus/kube/observations.py", "tests/bus/kube/watch/fakes.py",
    "tests/bus/notebooks/notebooks.py", "tests/bus/notebooks/test_prober.py", "tests/bus/test_notify.py",
    "tests/bus/test_transport_contract.py", "tests/projections/engine/test_runner.py",
    "tests/reactors/admission/deciding/test_batching.py", "tests/reactors/webhook/clusters.py",
    "tests/reactors/webhook/test_application.py", "tests/reactors/webhook/test_connections.py",
    "tests/reactors/webhook/test_exchange.py", "tests/reactors/webhook/test_server.py", "tests/scenario.py",
    "tests/servers.py",
}  # fmt: skip


def test_nothing_imports_from_a_test_file():
    """A shared part stands in a module beside its tests, so that a test may change without asking others."""
    borrowed = {
        f"{path.relative_to(ROOT)} -> {found}"
        for path in files("tests")
        for found in imports(path)
        if found.startswith("tests.") and any(p.startswith("test_") for p in found.split("."))
    }

    assert set() == borrowed


def test_sleeps_stand_only_in_tests_at_real_servers_and_where_they_take_no_time():
    """Elsewhere a clock is told the time, and a test waits for what it expects."""
    sleepers = {
        str(path.relative_to(ROOT))
        for path in files("tests")
        if not str(path.relative_to(ROOT)).startswith(AT_SERVERS) and any(map(sleeps, nodes(path)))
        for part in tree(path).body
        if any(map(sleeps, ast.walk(part))) and not marks(tree(path), part) & WAITING
    }

    assert AT_SOCKETS == sleepers


def marks(module, part):
    """The marks of a function or class of a test file, with those of the whole file."""
    given = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    text = " ".join(map(ast.unparse, [*given, *getattr(part, "decorator_list", [])]))
    return set(re.findall(r"mark\.(\w+)", text))


def sleeps(node):
    """Whether time passes here: for more than nothing, and not for ever."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr != "sleep" or ast.unparse(node.func.value) not in ("asyncio", "time"):
        return False
    seconds = node.args[0]
    return not isinstance(seconds, ast.Constant) or 0 < seconds.value < FOR_EVER

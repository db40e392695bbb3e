"""What is registered as pure is pure: no await, clock, randomness, environment, SQL, socket, file or loud log.

Found by registration, not by name: whatever stands in SOURCES, the MODEL, PLUGINS or REACTORS, and what derivations derive with. A
replay gives the same ledger only because of this. Source: docs/architecture.md, CONTRIBUTING.md.
"""

import functools
import importlib.util
import inspect
import logging
import os
import random
import time
from datetime import datetime

import pytest

from bus.kube import kinds
from bus.kube.crds import keys, quotas, schema
from bus.notebooks import choice, memory
from bus.notebooks.catalogue import PROBES
from bus.sources.catalogue import SOURCES
from projections import pod_runs, timelines, workloads
from projections.catalogue import MODEL
from projections.lists import parts
from reactors.culling import fusion, hub, kubeflow, policy, workspaces
from reactors.culling.effectors import patches
from reactors.effectors import quota_status
from reactors.engine import effects, interlocks, policies, verify
from reactors.jobs import passes
from reactors.scheduling.cycle import trial
from reactors.scheduling.decide import concluded as passes_decided
from tests.architecture.product import PACKAGES
from tests.architecture.purity import faults


def registered():
    """(name, function) of everything that must be pure."""
    found = [(f"source {source.name}", source.translate) for source in SOURCES]
    for projection in MODEL.projections:
        for part in ("keys", "fold"):
            found.append((f"{part} of {projection.name}", getattr(projection, part)))
    for name, codec in [*((p.name, p.codec) for p in MODEL.projections), ("pods", pod_runs.codec)]:
        for part in ("columns", "row", "shown", "known"):
            found.append((f"{part} of {name}", getattr(codec, part)))
    for part in ("fold", "derive", "is_same_run", "stored", "segment_columns"):
        found.append((f"{part} of pod_runs", getattr(pod_runs, part)))
    found += [(f"histories.{name}", f) for name, f in inspect.getmembers(timelines, own_function)]
    found.append(("lists.absence", parts.absence))
    for one in MODEL.sums:
        found += [(f"shares of {table.name}", shares) for table, shares in one.tables]
    found.append(("workloads.tops", workloads.tops))
    for part in ("asked", "scaled", "scale_of", "target_of", "governing_owner"):
        found.append((f"kinds.{part}", getattr(kinds, part)))
    found += [
        ("quotas.understood", quotas.understood),
        ("crds", schema.crds),
        ("key", keys.key_text),
    ]
    found += [("status.content", quota_status.content), ("status.body", quota_status.body)]
    for kind in PROBES:
        found += [(f"{part} of {kind.name}", getattr(kind, part)) for part in ("asks", "reads")]
    for module in (choice, fusion, hub, kubeflow, memory, policy, workspaces):
        found += [(f"{module.__name__}.{name}", f) for name, f in _public_functions(module)]
    for module in (effects, interlocks, patches, policies, trial, verify):
        found += [(f"{module.__name__}.{name}", f) for name, f in _public_functions(module)]
    found.append(("passes of the scheduler", passes_decided))
    found.append(("looks at training jobs", passes.reconciled))
    for reactor in reactors():
        for part in ("decide", "managed", "overtaken"):
            found.append((f"{part} of {reactor.name}", getattr(reactor, part)))
        found.append((f"state of {reactor.name}", reactor.state.apply))
    return found


def own_function(thing):
    return inspect.isfunction(thing) and thing.__module__ == timelines.__name__


def _public_functions(module):
    for name, thing in vars(module).items():
        if inspect.isfunction(thing) and thing.__module__.startswith(module.__name__):
            yield name, thing


def reactors():
    if importlib.util.find_spec("reactors.catalogue") is None:
        return ()
    return importlib.import_module("reactors.catalogue").REACTORS


@pytest.mark.parametrize(
    "function", [pytest.param(function, id=name) for name, function in registered()]
)
def test_a_registered_function_is_pure(function):
    assert [] == faults(function, PACKAGES)


# --- what the test can see -------------------------------------------------------------------------

_log = logging.getLogger(__name__)


class Planted:
    def stamp(self):
        return time.time()


async def awaits():
    await awaits()


def reads_the_clock():
    return datetime.now()


def reads_time():
    return time.time_ns()


def draws():
    return random.random()


def reads_the_environment():
    return os.environ.get("HOME")


def runs_sql(connection):
    return connection.execute("SELECT 1")


def opens(path):
    with open(path) as file:
        return file.read()


def logs():
    _log.warning("loud")


def remembers():
    global _log
    _log = None


def through_a_helper():
    return reads_time()


def through_a_method(row):
    return row.stamp()


def takes(number, other):
    return number + draws() + other


IMPURE = {one.__name__: one for one in (
    awaits, reads_the_clock, reads_time, draws, reads_the_environment, runs_sql, opens, logs,
    remembers, through_a_helper, through_a_method,
)} | {"through_a_partial": functools.partial(takes, 1)}  # fmt: skip


@pytest.mark.parametrize("function", IMPURE.values(), ids=IMPURE)
def test_an_impure_function_is_caught(function):
    assert faults(function, ("tests",))


def quiet(rows):
    _log.debug("%s", rows)
    return sorted({*rows, datetime(2026, 1, 1)})


def test_a_pure_function_is_let_through():
    assert [] == faults(quiet, ("tests",))

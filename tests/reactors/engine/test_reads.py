"""What a state reads is what it declares: it is given that and nothing else."""

import ast
import inspect
import sys
import textwrap
from typing import get_args

import pytest

from bus.events import VOCABULARY
from bus.events.clock import ClockTicked
from bus.events.notebooks import NotebookSampled
from bus.events.pods import PodObserved, PodVanished
from reactors.admission.state.state import AdmissionState
from reactors.catalogue import REACTORS
from reactors.engine.effects import Effects
from reactors.engine.interlocks import Interlocks
from reactors.engine.policies import Policies
from reactors.engine.replica import Replica
from tests.factories import CLUSTER, numbered, pod_observed
from tests.reactors.engine.toys import ticked, toy

STATES = [*(reactor.state for reactor in REACTORS), AdmissionState, Interlocks, Effects, Policies]


def asked_for(state):
    """The classes that the methods of a state tell apart: ``isinstance(fact, …)``."""
    names = vars(sys.modules[state.__module__])
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(state)))):
        is_asked = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        if is_asked and getattr(node.args[0], "id", "") == "fact":
            found = eval(compile(ast.Expression(node.args[1]), "", "eval"), names)
            yield from found if isinstance(found, tuple) else get_args(found) or (found,)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_state_declares_every_fact_that_it_tells_apart(state):
    declared = {one for one in VOCABULARY.values() if issubclass(one, state.reads)}
    told = list(asked_for(state))
    forgotten = [one for one in told if not any(issubclass(known, one) for known in declared)]

    assert told
    assert [] == forgotten


def test_a_replica_reads_what_its_parts_declare_and_passes_over_the_rest():
    replica = Replica([toy()], CLUSTER)

    assert {PodObserved.wire_type, PodVanished.wire_type, ClockTicked.wire_type} <= set(
        replica.reads
    )
    assert NotebookSampled.wire_type not in replica.reads
    for event in numbered([pod_observed("p"), ticked(0)]):
        replica.apply(event)
    assert ["p"] == list(replica.states["toy"].pods)
    assert 2 == replica.sequence

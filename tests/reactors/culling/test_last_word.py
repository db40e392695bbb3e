"""The look right before a stop."""

import pytest

from bus.events.decisions import Cull, Target
from bus.events.notebooks import Evidence
from reactors.culling.evidence import last_word
from reactors.culling.policy import CullingPolicy, NotebookSubject, limits_of
from reactors.culling.probing import LastLook
from tests.factories import us

LIMITS = limits_of(CullingPolicy(), NotebookSubject("ns"))
K, T = "jupyter_kernels", "jupyter_terminals"


def cull():
    return Cull(
        id="0" * 32, reactor="culling", rules=1, key="p", trigger=1, at_us=us(5_000), policy="",
        is_shadow=False, target=Target("Pod", "ns", "p", "p"), reason="idle", expires_us=us(5_300),
        numbers={"last_activity_us": us(1_000), "running_since_us": us(0)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "word"),
    [
        ([], "unreadable"),
        ([Evidence(source=K, active_us=us(1_000))], ""),
        ([Evidence(source=K)], ""),
        ([Evidence(source=K, active_us=us(1_001))], "active"),
        ([Evidence(source=K, busy=True)], "active"),
        ([Evidence(source=K, outcome="unreachable", fault="timed_out")], "unreadable"),
        ([Evidence(source=K, active_us=us(9)), Evidence(source=T, active_us=us(4_990))], "active"),
        ([Evidence(source=K), Evidence(source="gpu", busy=True)], "active"),
        ([Evidence(source="gpu")], "unreadable"),
        ([Evidence(source=K, starting_since_us=us(4_990))], "active"),
    ],
    ids=[
        "nothing", "as it was", "no kernels", "used since", "busy", "away", "a terminal", "a GPU",
        "only a GPU", "a new kernel",
    ],
)  # fmt: skip
def test_a_last_look_speaks_against_a_stop_unless_it_is_readable_and_nothing_happened(
    evidence, word
):
    assert word == last_word(evidence, us(5_010), cull(), LIMITS)


async def test_without_a_prober_it_speaks_against_it():
    assert "unreadable" == await LastLook(None, None)(cull())

"""What other cullers would have stopped: each on the same looks, with the faults it is known for."""

import pytest

from bus.clock import SECOND_US
from bus.events.notebooks import Evidence, NotebookSampled
from reactors.culling.alike import CULLERS, simulate_like
from reactors.culling.policy import Limits

MINUTE = 60 * SECOND_US
LIMITS = Limits(idle_seconds=0)


def look(number, seen, began):
    """What one look found: `x` a busy kernel, `.` idle since it began, `t` a terminal, `s` a starting kernel, `!` no answer."""
    at_us = began + number * MINUTE
    kernels = Evidence(source="jupyter_kernels", active_us=began, counters={"kernels": 1})
    terminals = Evidence(source="jupyter_terminals", counters={"terminals": 0})
    if seen == "x":
        kernels = Evidence(source="jupyter_kernels", busy=True, counters={"kernels": 1, "busy": 1})
    elif seen == "s":
        kernels = Evidence(
            source="jupyter_kernels", starting_since_us=at_us, counters={"kernels": 1}
        )
    elif seen == "t":
        terminals = Evidence(source="jupyter_terminals", active_us=at_us, counters={"terminals": 1})
    elif seen == "!":
        kernels = Evidence(source="jupyter_kernels", outcome="unreachable", fault="timeout")
        terminals = Evidence(source="jupyter_terminals", outcome="unreachable", fault="timeout")
    return at_us, NotebookSampled(uid="u", evidence=(kernels, terminals))


def culled(culler, text, *, idle_minutes=10, step=1):
    """Minutes of each cull. A blank is a minute without a look."""
    began = 1_000_000 * MINUTE
    samples = [look(number * step, seen, began) for number, seen in enumerate(text) if seen != " "]
    found = simulate_like(samples, culler, idle_minutes * 60, LIMITS)
    return [(cull.at_us - began) // MINUTE for cull in found.culls]


@pytest.mark.parametrize(
    ("culler", "text", "minutes"),
    [
        # Strictly later than the limit, at most one pass in more than a minute.
        ("kubeflow", "." * 20, [12]),
        ("opendatahub", "." * 20, [12]),
        ("jupyterhub", "." * 20, [10]),
        ("workspaces", "." * 70, [60]),
    ],
)
def test_each_stops_an_idle_notebook_at_its_own_limit(culler, text, minutes):
    assert minutes == culled(culler, text)


@pytest.mark.parametrize("culler", CULLERS)
def test_none_stops_a_busy_one(culler):
    assert [] == culled(culler, "x" * 130)


def test_terminals_count_for_all_but_kubeflows():
    text = "t" * 130

    assert {"kubeflow"} == {culler for culler in CULLERS if culled(culler, text)}


def test_kubeflows_and_its_fork_stop_where_the_probe_failed():
    text = "x" * 5 + "!" * 125

    stopped = {culler for culler in CULLERS if culled(culler, text)}

    assert {"kubeflow", "opendatahub"} <= stopped
    assert "workspaces" not in stopped


def test_a_kernel_that_starts_is_busy_to_kubeflows():
    assert [] == culled("kubeflow", "s" * 30)


def test_a_gap_is_counted_and_never_as_saved():
    began = 1_000_000 * MINUTE
    samples = [look(number, ".", began) for number in (*range(15), *range(300, 302))]

    found = simulate_like(samples, "jupyterhub", 600, LIMITS)

    assert (1, 286 * MINUTE, 5 * MINUTE) == (found.gaps, found.unknown_us, found.saved_us)


@pytest.mark.parametrize("culler", CULLERS)
def test_a_notebook_that_is_used_again_is_a_false_cull_and_may_be_stopped_again(culler):
    began = 1_000_000 * MINUTE
    texts = "." * 70 + "x" + "." * 70
    samples = [look(number, seen, began) for number, seen in enumerate(texts)]

    found = simulate_like(samples, culler, 600, LIMITS)

    assert 1 == found.touched_within(3_600)
    assert 70 == (found.culls[0].again_us - began) // MINUTE
    assert 2 == len(found.culls)

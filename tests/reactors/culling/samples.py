"""Evidence and limits with defaults, at one noon."""

from bus.clock import parse_stamp
from reactors.culling import fusion
from reactors.culling.policy import Limits

NOON = "2024-08-14T12:00:00Z"


def us(clock):
    """The instant of a clock time on that day."""
    return parse_stamp(f"2024-08-14T{clock}Z")


def sample(**fields):
    """A readable sample of half a minute before noon."""
    defaults = {"source": "jupyter_kernels", "observed_us": us("11:59:30")}
    return fusion.Sample(**defaults | fields)


def evaluate(*evidence, since="06:00:00", warned=None, now="12:00:00", **limits):
    """The verdict at noon over a run since six."""
    return fusion.evaluate(
        evidence,
        running_since_us=us(since),
        warned=warned,
        limits=Limits(**limits),
        now_us=us(now),
    )


def step(*evidence, **given):
    """Decision and reason alone."""
    verdict = evaluate(*evidence, **given)
    return verdict.decision, verdict.reason

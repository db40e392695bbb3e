"""Resource amounts requested by a pod: Kubernetes quantities as exact integers.

Pure. Sources put `PodResources` into `pod.observed`; `bus/charges.py` turns it into a charge. `docs/accounting.md`
is the law; `effective_request` follows it and upstream's `PodRequests` (k8s.io/component-helpers v0.36.3,
`resource/helpers.go`), and was compared with that on random pods. One reading is decided here:

- *Strict and observed quantities.* Input to Bursar (quotas, budgets, policies) is read by `parse_quantity`,
  stricter than Kubernetes (docs/wrong-input.md C1 to C5). But the API server keeps `+1`, `5.` and forty leading
  zeros in a pod as they were written, and runs that pod; refusing them would let a tenant hide from the ledger.
  Pods are read by `observed_quantity`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from bus.errors import QuantityError

Requests = Mapping[str, int]
"""Resource name to nano-units (10**-9 of a core, byte or piece), never negative."""

NANO = 1_000_000_000
_LONGEST = 32
_MAX_EXPONENT = 18
_MILLI = 10**6
_MAX_NANO = (2**63 - 1) * _MILLI

_ONE_LETTER = {
    "n": 1,
    "u": 10**3,
    "m": 10**6,
    "k": 10**12,
    "M": 10**15,
    "G": 10**18,
    "T": 10**21,
    "P": 10**24,
    "E": 10**27,
}
_TWO_LETTERS = {f"{letter}i": NANO << 10 * (n + 1) for n, letter in enumerate("KMGTPE")}
_SUFFIXES = {"": NANO, **_ONE_LETTER, **_TWO_LETTERS}

_GRAMMAR = re.compile(r"([0-9]*)(?:\.([0-9]+))?(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?")
# Possessive: a megabyte of zeros before a wrong letter is read once, not once per zero.
_AS_WRITTEN = re.compile(
    r"\+?+(?=\.?[0-9])0*+([0-9]*+)(?:\.([0-9]*+))?"
    r"(?:([KMGTPE]i|[numkMGTPE])|([eE][+-]?+)(?=[0-9])0*+([0-9]*+))?"
)
_TEN_TO: list[int] = [10**power for power in range(_LONGEST + _MAX_EXPONENT)]


def _refused(text: str, reason: str) -> QuantityError:
    return QuantityError(text=text[:_LONGEST], reason=reason)


@lru_cache(maxsize=16_384)
def parse_quantity(text: str) -> int:
    """The exact value of a Kubernetes quantity in nano-units, a part of a nano-unit rounded up.

    For input to Bursar. Refused, although Kubernetes reads them: any sign before the number, a point without digits
    behind it, more than 32 characters, exponents beyond 18, values above 2**63 - 1 milli-units. `.5` is read; `12E`
    is exa, `12e3` and `12E3` are exponents. Raises QuantityError: deny the request. Source: apimachinery
    `resource.Quantity` v0.36.3; docs/wrong-input.md C1 to C5 of docs/reliability.md.
    """
    # Length first: everything after it is bounded work, whatever was sent.
    if len(text) > _LONGEST:
        raise _refused(text, "longer than 32 characters")
    if not text.isascii():
        raise _refused(text, "not ASCII")
    # Of ASCII, isdigit() accepts 0 to 9 only, and int() of such a text is exact.
    if text.isdigit():
        nano = int(text) * NANO
    elif (scale := _ONE_LETTER.get(text[-1:])) and text[:-1].isdigit():
        nano = int(text[:-1]) * scale
    elif (scale := _TWO_LETTERS.get(text[-2:])) and text[:-2].isdigit():
        nano = int(text[:-2]) * scale
    else:
        nano = _general(text)
    if nano > _MAX_NANO:
        raise _refused(text, "above 2**63 - 1 milli-units")
    return nano


def _general(text: str) -> int:
    parts = _GRAMMAR.fullmatch(text)
    if parts is None:
        raise _refused(text, "not a quantity")
    whole, fraction, suffix, exponent = parts.groups()
    if not whole and not fraction:
        raise _refused(text, "no digits")
    power = int(exponent or 0)
    if not -_MAX_EXPONENT <= power <= _MAX_EXPONENT:
        raise _refused(text, "exponent beyond 18")
    digits = int(whole + (fraction or "")) * _SUFFIXES[suffix or ""]
    power -= len(fraction or "")
    return digits * _TEN_TO[power] if power >= 0 else -(-digits // _TEN_TO[-power])


def observed_quantity(text: str) -> int:
    """The value in nano-units of a quantity as an API server sends it for a pod.

    As `parse_quantity`, and also the spellings accepted and kept by the API server: a plus sign, a point at the
    end, leading zeros of number and exponent in any count. Raises QuantityError: park the observation.
    """
    try:
        return parse_quantity(text)
    except QuantityError:
        parts = _AS_WRITTEN.fullmatch(text)
        if parts is None:
            raise
        whole, fraction, suffix, marker, exponent = parts.groups()
        if exponent is not None:
            suffix = marker + (exponent or "0")
        plain = (whole or "0") + (f".{fraction}" if fraction else "") + (suffix or "")
        if plain == text:
            raise
    return parse_quantity(plain)


class ContainerResources(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One container's share of `PodResources`: resource name to quantity as the API server wrote
    it.

    `requests` is the spec's; `actual` is `status…resources.requests`, `None` where the container's
    status has no `resources` at all; `allocated` is `allocatedResources` of the same status, of no
    effect without `actual`. `restartable`: an init container that stays as a sidecar.
    """

    requests: dict[str, str] = {}
    actual: dict[str, str] | None = None
    allocated: dict[str, str] | None = None
    restartable: bool = False


class PodResources(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything of a pod that decides its charge; the `resources` field of `pod.observed`.

    `containers` and `init_containers` (`init` in JSON) in the order of the spec; `requests`,
    `actual` and `allocated` are pod-level (`spec.resources.requests`, `status.resources.requests`,
    `status.allocatedResources`), with `actual` `None` where `status.resources` is absent;
    `infeasible`: the condition `PodResizePending` has the reason `Infeasible`.
    """

    containers: tuple[ContainerResources, ...] = ()
    init_containers: tuple[ContainerResources, ...] = msgspec.field(default=(), name="init")
    overhead: dict[str, str] = {}
    requests: dict[str, str] = {}
    actual: dict[str, str] | None = None
    allocated: dict[str, str] | None = None
    infeasible: bool = False


def effective_request(resources: PodResources) -> dict[str, int]:
    """The scheduler's count for a pod, per resource name in nano-units; zeros are kept.

    The larger of (all containers and sidecars) and (the largest step of initialisation), with pod-level requests in
    place of these for cpu, memory and hugepages, plus overhead. Raises QuantityError for an unreadable quantity:
    park the observation. Source: docs/accounting.md (the law); `PodRequests` as in the module.
    """
    infeasible = resources.infeasible
    total: dict[str, int] = {}
    for container in resources.containers:
        _add(total, _counted(container, infeasible))
    if resources.init_containers:
        sidecars: dict[str, int] = {}
        largest: dict[str, int] = {}
        for container in resources.init_containers:
            if container.restartable:
                asked = _counted(container, infeasible)
                _add(total, asked)
                _add(sidecars, asked)
                _raise_to(largest, sidecars)
            else:
                # Upstream reads the status of sidecars only: a plain one cannot be resized.
                step = _read(container.requests)
                _add(step, sidecars)
                _raise_to(largest, step)
        _raise_to(total, largest)
    if resources.requests:
        total.update(_pod_level(resources))
    _add(total, _read(resources.overhead))
    return total


def effective_limit(limits: PodResources) -> dict[str, int]:
    """The limits of a pod, per resource name in nano-units; a name without a limit is absent.

    `limits` holds limits in the place of requests. The sums are those of `effective_request`;
    overhead is added only where there is a limit. Raises QuantityError. Source: `PodLimits`, as in
    the module.
    """
    total = effective_request(msgspec.structs.replace(limits, overhead={}))
    for name, nano in _read(limits.overhead).items():
        if total.get(name):
            total[name] += nano
    return total


_ABOVE_ZERO = re.compile(r"\+?[0.]*[1-9]")


def is_above_zero(text: str | None) -> bool:
    """Whether a quantity as it was written is above zero; False for none. Unreadable quantities are not checked here."""
    return text is not None and _ABOVE_ZERO.match(text) is not None


def _read(written: Mapping[str, str]) -> dict[str, int]:
    return {name: observed_quantity(text) for name, text in written.items()}


def _add(total: dict[str, int], more: Requests) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano


def _raise_to(least: dict[str, int], other: Requests) -> None:
    for name, nano in other.items():
        if nano >= least.get(name, 0):
            least[name] = nano


def _largest(written: Iterable[Mapping[str, str] | None]) -> dict[str, int]:
    result: dict[str, int] = {}
    for one in written:
        if one:
            _raise_to(result, _read(one))
    return result


def _counted(container: ContainerResources, infeasible: bool) -> dict[str, int]:
    if container.actual is None:
        return _read(container.requests)
    spec = None if infeasible else container.requests
    return _largest((spec, container.actual, container.allocated))


def _pod_level(resources: PodResources) -> dict[str, int]:
    requests = resources.requests
    names = [
        name for name in requests if name in ("cpu", "memory") or name.startswith("hugepages-")
    ]
    if resources.actual is None:
        return {name: observed_quantity(requests[name]) for name in names}
    spec = None if resources.infeasible else requests
    found = _largest((spec, resources.actual, resources.allocated))
    # Upstream counts a name found only in the infeasible spec as zero, not by its containers.
    return {name: found.get(name, 0) for name in names}

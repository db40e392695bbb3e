"""The charge of a pod: the amounts of its effective request, as exact integers.

Pure. Three readings are decided here:

- *`extended` holds counts, but for resources valued in bytes*: `hugepages-*` (held exclusively, so
  not to be lost, and not part of memory) and Koordinator's `batch-memory`, `mid-memory` and
  `gpu-memory` are kept in MiB, rounded up. In bytes eight large cards would pass the bound of
  2**40. `ephemeral-storage` and other native names are left out, as are zeros.
- *`koordinator.sh/gpu`* (`kubernetes.io/gpu` in v1.0) is no vendor's card: it is percent of one, by
  Koordinator's `apis/extension/resource.go`, and read like `gpu-core`.
- *A refused resource is refused alone.* An unreadable quantity, or an amount too large for a row, is charged as
  zero and named; the pod's other resources are charged. Else two tebibytes of a scratch resource would make eight
  cards free.

Source: docs/accounting.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from bus.amounts import (
    NANO,
    ContainerResources,
    PodResources,
    effective_request,
    observed_quantity,
)
from bus.errors import MalformedJsonError, QuantityError

MAX_AMOUNT = 2**40
"""The largest charged amount of one row: sums of rows stay inside 64 bits (docs/wrong-input.md F4)."""

_MILLI = NANO // 1000
#: Ten milli-cards.
_PERCENT = NANO // 10
_MIB = 2**20 * NANO


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """The charge of one pod per second while it is bound: exact integers, each 0 to 2**40.

    `extended`: (resource name, count) sorted by name, each name once, no zeros; MiB instead of a count where the
    resource is valued in bytes (see the module). Equal amounts compare equal. `refused`: the names, sorted, of
    resources charged as zero for an unreadable or too large quantity.
    """

    cpu_millicores: int = 0
    memory_mib: int = 0
    gpu_milligpus: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    refused: tuple[str, ...] = ()


_PERCENT_OF_A_CARD = frozenset({"koordinator.sh/gpu", "kubernetes.io/gpu"})
_IN_BYTES = frozenset(
    f"{prefix}/{kind}"
    for prefix in ("koordinator.sh", "kubernetes.io")
    for kind in ("batch-memory", "mid-memory", "gpu-memory")
)


def charged(resources: PodResources) -> Amounts:
    """The amounts of a pod: its effective request, each resource rounded up once, at the total.

    GPU: whole cards of any vendor count 1,000 each; where there are none (or zero), percent points of `gpu-core` 10
    each; where there are none, points of `gpu-memory-ratio` 10 each: one pod never sums a device twice. These names
    are not in `extended`; MIG slices are. Total: a resource with an unreadable quantity anywhere in the pod, or
    with an amount above 2**40, is refused alone and named in `refused`; the others are charged (docs/wrong-input.md
    D2, F4). Source: docs/accounting.md.
    """
    return _amounts(*effective(resources))


def _amounts(request: Mapping[str, int], refused: set[str]) -> Amounts:
    cards: list[tuple[int, str]] = []
    cores: list[tuple[int, str]] = []
    ratios: list[tuple[int, str]] = []
    extended: list[tuple[str, int]] = []
    for name, nano in request.items():
        if name.startswith("hugepages-") or name in _IN_BYTES:
            extended.append((name, _bounded(name, nano, _MIB, refused)))
        elif "/" in name and nano:
            kind = name.rpartition("/")[2]
            if kind == "gpu-core" or name in _PERCENT_OF_A_CARD:
                devices, unit = cores, _PERCENT
            elif kind == "gpu":
                devices, unit = cards, _MILLI
            elif kind == "gpu-memory-ratio":
                devices, unit = ratios, _PERCENT
            else:
                extended.append((name, _bounded(name, nano, NANO, refused)))
                continue
            # An absurd card is no card: the fallbacks count then.
            if _bounded(name, nano, unit, refused):
                devices.append((nano, name))
    devices, unit = (cards, _MILLI) if cards else (cores or ratios, _PERCENT)
    return Amounts(
        _bounded("cpu", request.get("cpu", 0), _MILLI, refused),
        _bounded("memory", request.get("memory", 0), _MIB, refused),
        _together(devices, unit, refused) if devices else 0,
        tuple(sorted(row for row in extended if row[1])),
        tuple(sorted(refused)) if refused else (),
    )


def card_milli(requests: Mapping[str, int]) -> int:
    """Thousandths of cards in whole-number requests by name, by the rule of :func:`charged`."""
    return _amounts({name: count * NANO for name, count in requests.items()}, set()).gpu_milligpus


def effective(resources: PodResources) -> tuple[dict[str, int], set[str]]:
    """The effective request of a pod, and the names excluded for an unreadable quantity."""
    refused: set[str] = set()
    try:
        request = effective_request(resources)
    except QuantityError:
        resources, refused = _readable(resources)
        request = effective_request(resources)
    return request, refused


def _readable(resources: PodResources) -> tuple[PodResources, set[str]]:
    """`resources` without every name with an unreadable quantity somewhere, and these names."""
    refused: set[str] = set()
    containers = (*resources.containers, *resources.init_containers)
    whole = (resources.requests, resources.actual, resources.allocated, resources.overhead)
    parts = ((one.requests, one.actual, one.allocated) for one in containers)
    for written in (*whole, *(mapping for part in parts for mapping in part)):
        for name, text in (written or {}).items():
            try:
                observed_quantity(text)
            except QuantityError:
                refused.add(name)

    def kept(written: dict[str, str]) -> dict[str, str]:
        return {name: text for name, text in written.items() if name not in refused}

    def part(one: ContainerResources) -> ContainerResources:
        return ContainerResources(
            kept(one.requests),
            None if one.actual is None else kept(one.actual),
            None if one.allocated is None else kept(one.allocated),
            one.restartable,
        )

    readable = PodResources(
        tuple(map(part, resources.containers)),
        tuple(map(part, resources.init_containers)),
        kept(resources.overhead),
        kept(resources.requests),
        None if resources.actual is None else kept(resources.actual),
        None if resources.allocated is None else kept(resources.allocated),
        resources.infeasible,
    )
    return readable, refused


def _bounded(name: str, nano: int, unit: int, refused: set[str]) -> int:
    amount = -(-nano // unit)
    if amount > MAX_AMOUNT:
        refused.add(name)
        return 0
    return amount


def _together(devices: list[tuple[int, str]], unit: int, refused: set[str]) -> int:
    """The sum of devices of several names; while it is too large, the largest are refused."""
    total = sum(nano for nano, _ in devices)
    if -(-total // unit) > MAX_AMOUNT:
        for nano, name in sorted(devices, reverse=True):
            total -= nano
            refused.add(name)
            if -(-total // unit) <= MAX_AMOUNT:
                break
    return -(-total // unit)


_decode = msgspec.json.Decoder(PodResources).decode
_CACHED_BYTES = 4_096


def charged_bytes(raw: bytes) -> Amounts:
    """`charged` of a `PodResources` object in JSON; replicas and repeats cost one look-up.

    The bytes must have passed `bus.strict` before (duplicate keys are not checked here). Raises MalformedJsonError
    for another shape.
    """
    # Large objects are rare and would let a few tenants hold the cache's memory.
    return _charged_cached(raw) if len(raw) <= _CACHED_BYTES else _charged_bytes(raw)


def _charged_bytes(raw: bytes) -> Amounts:
    try:
        resources = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        resources = None
    if resources is None:
        raise MalformedJsonError(reason="not the shape of a pod's resources")
    return charged(resources)


_charged_cached = lru_cache(maxsize=16_384)(_charged_bytes)

"""Keys and amounts of quotas: texts of people to exact integers and back. Pure.

A key is ``requests.<resource>`` or ``limits.<resource>``, with ``.<TYPE>`` behind it for one model of it and
``cash/`` before it for a budget: ``limits.cpu``, ``limits.cpu.A4``, ``cash/limits.nvidia.com/gpu``. Fractions of a
unit are rounded up (docs/wrong-input.md C5).

Source: docs/quotas.md (keys); docs/accounting.md (measures); docs/wrong-input.md C1
to C5, C10.
"""

from __future__ import annotations

import re

from bus.amounts import NANO, parse_quantity
from bus.errors import QuantityError

CASH = "cash/"
LARGEST = 2**63 - 1
"""Amounts of quotas stay inside 64 bits, as the ledger's sums do."""

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_NATIVE = r"(cpu|memory|gpu-memory|ephemeral-storage|hugepages-[0-9]+[KMGT]i)"
#: Resources by name: those of Kubernetes, device memory by claim, and extended ones with the domain of their
#: vendor.
RESOURCE = rf"({_NATIVE}|{_DOMAIN}/{_NAME})"
KEY = rf"(requests|limits)\.({_NATIVE}(\.{_NAME})?|{_DOMAIN}/{_NAME})"
#: The ledger keeps hours of these only.
CASH_KEY = rf"cash/(requests|limits)\.((cpu|memory)|{_DOMAIN}/gpu)(\.{_NAME})?"

_KEY = re.compile(KEY)
_CASH_KEY = re.compile(CASH_KEY)
_RESOURCE = re.compile(RESOURCE)
_CORE_OR_CARD_HOUR = 3_600_000
_GIB_HOUR = 3_600 * 1024
_LONGEST = 400
_BYTES = ("memory", "gpu-memory", "ephemeral-storage", "hugepages-")
_SUFFIXES = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))

Quantity = str | int
"""As it stands in an object: text, or a whole number."""


def is_key(key: str) -> bool:
    """Whether ``key`` may stand in ``hard``, ``cash/`` keys included."""
    # Length first: the patterns look back.
    return len(key) <= _LONGEST and bool(_KEY.fullmatch(key) or _CASH_KEY.fullmatch(key))


def is_resource(name: str) -> bool:
    """Whether ``name`` may stand in ``min``, ``max`` and ``sharedWeight``."""
    return len(name) <= _LONGEST and bool(_RESOURCE.fullmatch(name))


def resource_amount(name: str, quantity: Quantity) -> tuple[int, bool]:
    """The amount of a resource, and whether it was rounded up: cpu in milli, all else in whole units.

    Raises QuantityError with a ``reason``.
    """
    return _amount(quantity, 1000 if name == "cpu" else 1)


def key_amount(key: str, quantity: Quantity) -> tuple[int, bool]:
    """The amount of a key of ``hard``, and whether it was rounded up: milli-cores for cpu and its types, else whole
    units; for ``cash/`` keys milli-core-seconds, milli-card-seconds or MiB-seconds of the hours in ``quantity``.

    Raises QuantityError with a ``reason``.
    """
    if key.startswith(CASH) and str(quantity).endswith("i"):
        raise QuantityError(text=str(quantity)[:32], reason="hours are a plain number")
    return _amount(quantity, _scale(key))


def key_text(key: str, amount: int) -> str:
    """An amount of a key as people write it: ``10``, ``1500m``, ``64Gi``; hours for ``cash/`` keys, cut to thousandths.

    May be negative. Exact but for hours.
    """
    scale = _scale(key)
    if scale == 1:
        return _in_bytes(amount) if _resource(key).startswith(_BYTES) else str(amount)
    if scale == 1000:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    sign = "-" if amount < 0 else ""
    whole, thousandths = divmod(abs(amount) * 1000 // scale, 1000)
    return f"{sign}{whole}" + (f".{thousandths:03d}".rstrip("0") if thousandths else "")


def hour_of(key: str) -> int:
    """The unit·seconds of an hour of a ``cash/`` key: a core, a card or a GiB for so long."""
    return _scale(key)


def resource_text(name: str, amount: int) -> str:
    """An amount of a resource as people write it."""
    return key_text(f"requests.{name}", amount)


def _amount(quantity: Quantity, scale: int) -> tuple[int, bool]:
    nano = parse_quantity(str(quantity)) * scale
    amount = -(-nano // NANO)
    if amount > LARGEST:
        raise QuantityError(text=str(quantity), reason="too large for 64 bits")
    return amount, nano % NANO != 0


def _scale(key: str) -> int:
    """Units of a key's measure in the quantity 1."""
    resource = _resource(key)
    is_cpu = resource == "cpu" or resource.startswith("cpu.")
    if not key.startswith(CASH):
        return 1000 if is_cpu else 1
    return _CORE_OR_CARD_HOUR if is_cpu or "/" in resource else _GIB_HOUR


def _resource(key: str) -> str:
    """The resource of a key, with its type."""
    return key.removeprefix(CASH).partition(".")[2]


def _in_bytes(amount: int) -> str:
    for suffix, bits in _SUFFIXES:
        if amount and amount % (1 << bits) == 0:
            return f"{amount >> bits}{suffix}"
    return str(amount)

"""The text format of Prometheus metrics, as far as counters and gauges need it.

Source: Prometheus, "Exposition formats", text format 0.0.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation

_LINE = re.compile(
    r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S{1,40})(?:[ \t]+-?[0-9]{1,20})?[ \t]*"
)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)",?[ \t]*')
#: Above any real counter; larger values are not numbers of ours.
_LARGEST = Decimal(2**53)


def values(body: bytes, names: frozenset[str]) -> Iterator[tuple[str, Mapping[str, str], Decimal]]:
    """Name, labels and value of every line about ``names``. Other and unreadable lines are left out; so are NaN,
    infinities and negative values, invalid for counters and shares.
    """
    for line in body.decode("utf-8", "replace").splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name not in names:
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            continue
        try:
            labels, number = parts.group(2, 3)
            value = Decimal(number)
        except InvalidOperation:
            continue
        if value.is_finite() and 0 <= value <= _LARGEST:
            yield name, dict(_LABEL.findall(labels or "")), value

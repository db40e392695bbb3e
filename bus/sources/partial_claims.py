"""Claims of devices, and templates, with an unreadable part: their facts carry the other parts. Pure.

An unreadable request counts as its largest possible allocation, of each class in it. Without a readable class it
counts for the driver of each vendor's cards, and so do requests too large for a message of the bus. So no claim
with refused requests is free.

Source: docs/devices.md ("Devices in quotas").
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus import strict
from bus.envelope import Event
from bus.events.devices import CARD_DRIVERS
from bus.kube.watch import cutting
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record, TooLargeError
from bus.sources import devices
from bus.sources.devices import ClaimStatus, Request, Result


class _Requests(msgspec.Struct):
    requests: msgspec.Raw = msgspec.Raw()


class _ClaimSpec(msgspec.Struct):
    devices: _Requests | None = None


class _EitherSpec(msgspec.Struct):
    """Of a claim, or of a template."""

    devices: _Requests | None = None
    spec: _ClaimSpec | None = None


class _Parts(msgspec.Struct):
    """The decoded parts. Opaque parameters are skipped: they may hold 160,000 values."""

    metadata: msgspec.Raw = msgspec.Raw()
    spec: _EitherSpec | None = None
    status: msgspec.Raw = msgspec.Raw()


class Loose(msgspec.Struct):
    """A claim or a template without expectations."""

    metadata: Any = None
    spec: Any = None
    status: Any = None


def translate_claim(record: Record, labels: LabelPolicy) -> Event:
    """The fact of a claim by its readable parts. Raises MalformedJsonError or ObservationError without an identity."""
    found = _loose(record)
    found["spec"] = _spec(found["spec"])
    found["status"] = _status(found["status"])
    try:
        return devices.translate_claim(_mended(record, found), labels)
    except TooLargeError:
        found["spec"] = _spec({"devices": {"requests": [None]}})
        return devices.translate_claim(_mended(record, found), labels)


def translate_template(record: Record, labels: LabelPolicy) -> Event:
    """The same of a template."""
    found = _loose(record)
    within = found["spec"]
    if within is not None:
        found["spec"] = {"spec": _spec(within.get("spec") if isinstance(within, dict) else [])}
    try:
        return devices.translate_template(_mended(record, found), labels)
    except TooLargeError:
        found["spec"] = {"spec": _spec({"devices": {"requests": [None]}})}
        return devices.translate_template(_mended(record, found), labels)


def _mended(record: Record, found: dict[str, Any]) -> Record:
    return msgspec.structs.replace(record, object=msgspec.json.encode(found))


def _loose(record: Record) -> dict[str, Any]:
    parts = cutting.picked(record.object, _Parts)
    # Without requests an unreadable member stands for them.
    raw = cutting.picked(parts if b'"requests":' in parts else record.object, Loose)
    found = msgspec.convert(strict.loads(raw, max_bytes=len(raw)), Loose)
    return {"metadata": _metadata(found.metadata), "spec": found.spec, "status": found.status}


def _metadata(written: Any) -> dict[str, Any]:
    """The readable fields of an object's metadata; of its labels and annotations the texts."""
    found = dict[str, Any]()
    for name, value in (written if isinstance(written, dict) else {}).items():
        if name in ("labels", "annotations") and isinstance(value, dict):
            value = {key: text for key, text in value.items() if isinstance(text, str)}
        if _fits({"uid": "", "name": "", "resourceVersion": "", name: value}, Metadata):
            found[name] = value
    return found


def _spec(written: Any) -> dict[str, Any] | None:
    """``spec`` of a claim with a readable request for each of its requests."""
    if written is None:
        return None
    within = written.get("devices", {}) if isinstance(written, dict) else None
    asked = within.get("requests") if isinstance(within, dict) else False
    if asked is None:
        return {}
    requests = asked if isinstance(asked, list) else [asked]
    return {"devices": {"requests": [one if _fits(one, Request) else _most(one) for one in requests]}}  # fmt: skip


def _most(written: Any) -> dict[str, Any]:
    """The replacement of an unreadable request."""
    request = written if isinstance(written, dict) else {}
    name, several = request.get("name"), request.get("firstAvailable")
    asks = [request.get("exactly"), *(several if isinstance(several, list) else ())]
    classes = [one.get("deviceClassName") for one in asks if isinstance(one, dict)]
    known = sorted({one for one in classes if isinstance(one, str)}) or sorted(CARD_DRIVERS)
    every = [{"deviceClassName": one, "allocationMode": "All"} for one in known]
    return {"name": name if isinstance(name, str) else "", "firstAvailable": every}


def _status(written: Any) -> Any:
    """``status`` of a claim with its readable results; None if the whole is unreadable."""
    if _fits(written, ClaimStatus | None):
        return written
    try:
        given = written["allocation"]
        results = [one for one in given["devices"]["results"] if _fits(one, Result)]
    except (TypeError, KeyError):
        return None
    stamp = given.get("allocationTimestamp")
    return {
        "allocation": {
            "allocationTimestamp": stamp if isinstance(stamp, str) else None,
            "devices": {"results": results},
        }
    }


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True

"""The diagnosis endpoints of Koordinator's scheduler, on the port of health and figures: routes for its tools.

The flags change the log of this process and nothing else. All answers are as of the newest event read.

Source: koordinator-sh/koordinator, pkg/scheduler/frameworkext/services; docs/scheduling.md.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bus.events.decisions import SchedulingPassed
from bus.transport import Transport
from reactors.engine.replica import Replica
from reactors.scheduling.diagnosis import summaries

#: Most bytes of a flag's value.
LONGEST = 64
#: From this verbosity on, debug messages are logged, too (Kubernetes, "Logging Conventions"): of our packages, and no others'.
DEBUG = 4
_PACKAGES = ("bus", "projections", "reactors", "deploy")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)

_log = logging.getLogger(__name__)

Answer = Callable[[Replica, Request], tuple[Any, str]]


class Diagnosis:
    """Answers from ``known``; it is None until the reactors run."""

    def __init__(self, known: Callable[[], Replica | None]) -> None:
        self._known = known
        #: How many of the best nodes of each pod are logged with their scores; below 1 = none.
        self.most = 0
        answers: dict[str, Answer] = {
            "/apis/v1/nodes/:nodeName": _node,
            "/apis/v1/plugins/Coscheduling/gang/:namespace/:name": _gang,
            "/apis/v1/plugins/Coscheduling/gangs": _gangs,
            "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries": _devices_of_all,
            "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/:name": _devices,
            "/apis/v1/plugins/ElasticQuota/quota/:name": _quota,
            "/apis/v1/plugins/ElasticQuota/quotas": _quotas,
            "/apis/v1/plugins/NodeNUMAResource/availableCPUs/:nodeName": _available_cpus,
            "/apis/v1/plugins/NodeNUMAResource/cpuTopologyOptions/:nodeName": _cpu_topology,
        }
        self._services = {"GET": sorted(["/apis/v1/__services__", *answers])}
        self.routes = [
            Route("/debug/flags/s", self._flag("debugTopNScores", self._set_most), methods=["PUT"]),
            Route(
                "/debug/flags/v",
                self._flag("klog.logging.verbosity", _set_verbosity),
                methods=["PUT"],
            ),
            Route("/apis/v1/__services__", self._listed),
            *(Route(_path(path), self._answering(one)) for path, one in answers.items()),
        ]

    async def follow(self, transport: Transport) -> None:
        """Log the tables of newly read passes, while the flag asks for it; for ever."""
        after = (await transport.head()).last_sequence
        async for events in transport.read(after=after, linger_seconds=0.0):
            for event in events if self.most > 0 else ():
                if event.type == SchedulingPassed.wire_type and not event.defect:
                    for table in summaries.tables(SchedulingPassed.read(event), self.most):
                        _log.info("scores of pass %d\n%s", event.sequence, table)

    def _set_most(self, value: int) -> None:
        self.most = value

    def _flag(self, name: str, change: Callable[[int], None]) -> Callable[[Request], Any]:
        async def changed(request: Request) -> Response:
            body = b""
            async for chunk in request.stream():
                body += chunk
                if len(body) > LONGEST:
                    return PlainTextResponse("the value is too long", 413)
            value = body.decode("utf-8", "replace").strip()
            if not _INTEGER.fullmatch(value):
                message = f"failed set {name} {value}: {value!r} is no integer"
                return PlainTextResponse(message, 400)
            change(int(value))
            return PlainTextResponse(f"successfully set {name} to {int(value)}")

        return changed

    async def _listed(self, request: Request) -> Response:
        return JSONResponse(self._services)

    def _answering(self, answer: Answer) -> Callable[[Request], Any]:
        async def found(request: Request) -> Response:
            replica = self._known()
            if replica is None:
                return JSONResponse({"message": "the reactors do not run yet"}, 503)
            body, absent = answer(replica, request)
            if absent:
                return JSONResponse({"message": f"cannot find {absent}"}, 404)
            return JSONResponse(body)

        return found


def _set_verbosity(value: int) -> None:
    for name in _PACKAGES:
        logging.getLogger(name).setLevel(logging.DEBUG if value >= DEBUG else logging.NOTSET)


def _path(path: str) -> str:
    """The path as the router takes it."""
    return re.sub(r":(\w+)", r"{\1}", path)


def _node(replica: Replica, request: Request) -> tuple[Any, str]:
    name = request.path_params["nodeName"]
    found = summaries.node(replica, name)
    return found, "" if found is not None else f"node {name}"


def _gang(replica: Replica, request: Request) -> tuple[Any, str]:
    key = f"{request.path_params['namespace']}/{request.path_params['name']}"
    found = summaries.gang(replica, key)
    return found, "" if found is not None else f"gang {key}"


def _gangs(replica: Replica, request: Request) -> tuple[Any, str]:
    return summaries.gangs(replica), ""


def _quota(replica: Replica, request: Request) -> tuple[Any, str]:
    name = request.path_params["name"]
    found = summaries.quota(replica, name)
    return found, "" if found is not None else f"quota {name}"


def _quotas(replica: Replica, request: Request) -> tuple[Any, str]:
    return summaries.quotas(replica), ""


def _available_cpus(replica: Replica, request: Request) -> tuple[Any, str]:
    # Code with columns loads numpy, and only the scheduler needs it.
    from reactors.scheduling.diagnosis import cpu_summaries

    name = request.path_params["nodeName"]
    found = cpu_summaries.available(replica, name)
    return found, "" if found is not None else f"CPUs of node {name}"


def _cpu_topology(replica: Replica, request: Request) -> tuple[Any, str]:
    from reactors.scheduling.diagnosis import cpu_summaries

    name = request.path_params["nodeName"]
    found = cpu_summaries.topology(replica, name)
    return found, "" if found is not None else f"CPUs of node {name}"


def _devices(replica: Replica, request: Request) -> tuple[Any, str]:
    from reactors.scheduling.diagnosis import device_summaries

    name = request.path_params["name"]
    found = device_summaries.summary(replica, name)
    return found, "" if found is not None else f"devices of node {name}"


def _devices_of_all(replica: Replica, request: Request) -> tuple[Any, str]:
    from reactors.scheduling.diagnosis import device_summaries

    return device_summaries.summaries(replica), ""

"""A kind of evidence: requests about a notebook, and a reader of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bus.events.notebooks import Evidence
from bus.notebooks.prober import ProbeResponse, ProbeTarget, Unanswered

#: Label of the notebook controller; its servers are mounted below /notebook/<namespace>/<name>/.
NOTEBOOK_NAME = "notebook-name"


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A notebook with an address: the pod as the API server shows it. Only ``uid`` and ``image`` are published."""

    uid: str
    namespace: str
    name: str
    #: status.podIP; "" = not yet.
    address: str
    port: int = 8888
    #: Where the server is mounted, with a slash at its end.
    base_path: str = "/"
    #: Of its namespace. "" = the server is asked without one.
    token: str = ""
    #: It shares the network of its node, and so its address.
    is_on_host: bool = False
    image: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    started_us: int = 0
    #: Port of an Envoy or Istio sidecar's counters; 0 = the pod has none.
    counters_port: int = 0
    #: Address of the DCGM exporter on the pod's node; "" = none, or no GPU is held.
    exporter: str = ""


class ApiRequest(msgspec.Struct, frozen=True):
    """A GET to the API server, through its own adapter."""

    path: str


Reply = ProbeResponse | Unanswered
Request = ProbeTarget | ApiRequest


class Asks(Protocol):
    """The requests about a notebook, in order; () = this kind has nothing to ask there."""

    def __call__(self, peer: Peer, /) -> tuple[Request, ...]:
        """Pure; the paths hold no text of a tenant."""
        ...


class Reads(Protocol):
    """The evidence in the answers to these requests, one for each, in order. Never raises."""

    def __call__(
        self, replies: Sequence[Reply], peer: Peer, observed_us: int, /
    ) -> tuple[Evidence, ...]:
        """Pure; ``observed_us`` is when the answers were there."""
        ...


class EvidenceKind(msgspec.Struct, frozen=True):
    """One kind of evidence."""

    #: As the annotation ``bursar.io/probe`` names it.
    name: str
    asks: Asks
    reads: Reads
    #: Images with such a server, as shell patterns. () = chosen by name only.
    images: tuple[str, ...] = ()
    #: Asked wherever it can be, whatever server runs there.
    everywhere: bool = False

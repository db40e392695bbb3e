"""Facts about nodes: what they offer and which GPU they carry.

Source: Kubernetes API reference, core/v1 Node; docs/accounting.md (GPU model).
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.constraints import Taint
from bus.events.vocabulary import Fact


class NodeObserved(Fact, frozen=True, kw_only=True):
    """A node was seen. Key: its name, since pods refer to it by name."""

    wire_type: ClassVar[str] = "node.observed"

    uid: str
    name: str
    resource_version: str
    created: str | None = None
    #: The first of the known GPU model labels that is there; None = none is.
    model: str | None = None
    #: status.allocatable, as written by the node agent.
    allocatable: dict[str, str] = {}
    ready: bool = False
    unschedulable: bool = False
    labels: dict[str, str] = {}
    #: Its other labels: pods may name any of them. They stand in no report.
    further_labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    #: Its images, ``KEY=BYTES`` with spaces between: :func:`bus.sources.images.images_of`.
    images: str = ""
    #: What systems that share cards say of it in annotations: docs/devices.md.
    card_texts: dict[str, str] = {}
    #: There were more taints or labels than a fact carries: a pod that names labels is not placed there.
    is_cut: bool = False


class NodeVanished(Fact, frozen=True, kw_only=True):
    """A node was deleted. Its pods hold until they end themselves. Key: its name."""

    wire_type: ClassVar[str] = "node.vanished"

    uid: str
    name: str
    resource_version: str

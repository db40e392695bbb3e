"""Facts about namespaces: their owners.

Source: Kubernetes API reference, core/v1 Namespace; Kubeflow profiles (annotation ``owner``).
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.vocabulary import Fact


class NamespaceObserved(Fact, frozen=True, kw_only=True):
    """A namespace was observed. Key: its name, since pods refer to it by name."""

    wire_type: ClassVar[str] = "namespace.observed"

    uid: str
    name: str
    resource_version: str
    created: str | None = None
    #: Value of the configured team label; None = the namespace has none.
    team: str | None = None
    #: Value of the user label, else of the ``owner`` annotation (Kubeflow profiles).
    user: str | None = None
    labels: dict[str, str] = {}


class NamespaceVanished(Fact, frozen=True, kw_only=True):
    """A namespace was deleted. What it named stays named: its pods keep their team. Key: its name."""

    wire_type: ClassVar[str] = "namespace.vanished"

    uid: str
    name: str
    resource_version: str

"""Facts about the services of training jobs, names by which their pods find each other.

Source: Kubernetes API reference, core/v1 Service.
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.pods import Owner
from bus.events.vocabulary import Fact


class ServiceObserved(Fact, frozen=True, kw_only=True):
    """A Service with the label of a training job was observed. Key: its uid. Others are not followed."""

    wire_type: ClassVar[str] = "service.observed"

    uid: str
    namespace: str
    name: str
    resource_version: str
    #: Its controller. Every writer of services may write any.
    owner: Owner | None = None
    #: Job, replica type and index by its labels below ``training.kubeflow.org/``; "" = it has no such label.
    job: str = ""
    type: str = ""
    index: str = ""
    is_terminating: bool = False


class ServiceVanished(Fact, frozen=True, kw_only=True):
    """Such a Service was deleted, or lost its label. Key: its uid."""

    wire_type: ClassVar[str] = "service.vanished"

    uid: str
    namespace: str
    name: str
    resource_version: str

"""The status of an ElasticQuota in its own object: ``.status.used``, and Koordinator's annotations. Pure.

Koordinator's scheduler writes the annotations ``quota.scheduling.koordinator.sh/…`` with lists of resources as JSON, and its
tools read them. Bursar writes them if that scheduler does not run. ``guaranteed`` is the amount that a quota may use for any
use of others: its ``min``, or less if more is promised than there is. The use of non-preemptible pods is not known here, so
``non-preemptible-request`` and ``-used`` are not written.

Annotations are no part of a status, so there are two writes: the first to the object itself, with the status in it for a
CustomResourceDefinition without a status subresource; the second to the subresource.

Source: Koordinator, ``pkg/scheduler/plugins/elasticquota/controller.go`` and ``apis/extension/elastic_quota.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.kube.crds import keys
from projections.quota_trees.elastic import Figures

Json = dict[str, Any]

API_VERSION = "scheduling.sigs.k8s.io/v1alpha1"
KIND = "ElasticQuota"
PREFIX = "quota.scheduling.koordinator.sh/"


class ElasticStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The new status of one ElasticQuota. Amounts by resource name: cpu in milli, all others whole."""

    name: str
    namespace: str
    #: The uid of the object; a later object of the same name is left alone.
    uid: str
    figures: Figures

    @property
    def path(self) -> str:
        """Where the API server serves it."""
        group, _, version = API_VERSION.partition("/")
        return f"/apis/{group}/{version}/namespaces/{self.namespace}/elasticquotas/{self.name}"

    def content(self) -> Json:
        """The status for comparison: two equal ones need one write."""
        figures = self.figures
        values = {
            "runtime": figures.runtime,
            "request": figures.request,
            "child-request": figures.child_request,
            "guaranteed": figures.effective_min,
            "allocated": figures.used,
        }
        return {
            "used": _texts(figures.used),
            "annotations": {PREFIX + name: _json(amounts) for name, amounts in values.items()},
        }

    def writes(self, found: Json) -> list[tuple[str, Json]]:
        """The bodies to apply, one after the other, to the object as read, each with its path."""
        values = self.content()
        status = {"used": values["used"]}
        return [
            (self.path, self._body({"annotations": values["annotations"]}) | {"status": status}),
            (f"{self.path}/status", self._body({}) | {"status": status}),
        ]

    def _body(self, metadata: Json) -> Json:
        named = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": named | metadata}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: keys.resource_text(name, amount) for name, amount in sorted(amounts.items())}


def _json(amounts: Mapping[str, int]) -> str:
    return msgspec.json.encode(_texts(amounts)).decode()

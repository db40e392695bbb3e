"""The webhook configurations, as data: one decides, one lets workloads wait. Pure.

It names every resource and has no wildcard. So leases, nodes, events, reviews, namespaces and Bursar's own objects
are never reviewed, and a cluster starts from nothing with failurePolicy Fail.

Pods made by a controller below a governed owner have a webhook of their own, and are reviewed only at their
creation. While Bursar is down they pass under either policy, so an outage keeps no controller from
replacing a pod; passed pods are charged when they are observed. That is safe as no request can make a running Bursar not answer
(:mod:`reactors.webhook.outline`). Any other change of theirs by a controller is left out. An
ownerReference alone proves nothing: any tenant may write one.

The deletion of a workload is never reviewed. It requests nothing, and so it never depends on Bursar.

With failurePolicy Fail only objects with a label for a quota are refused while Bursar is down: a label of the namespace, of the
object or of its pod template. The rest has an entry of its own, reviewed in the same way but passed on failure, so work
without a quota goes on.

Source: Kubernetes, "Dynamic Admission Control" and "Admission Webhook Good Practices"; docs/wrong-input.md.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from bus.kube.kinds import QUOTA_LABELS, Kind

NAME = "bursar"
PATH = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"
MUTATING_PATH = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"
IGNORE_LABEL = "bursar.io/admission"
TIMEOUT_SECONDS = 5
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")

Json = dict[str, Any]

_QUOTAS = (
    ("bursar.io", ("v1alpha1",), "bizgroupresourcequotas", "Cluster"),
    ("scheduling.sigs.k8s.io", ("v1alpha1",), "elasticquotas", "Namespaced"),
)
#: Requests of claims and of their templates never change. The owner of a claim may change.
_CLAIMS = (
    ("resource.k8s.io", ("v1",), "resourceclaims", "Namespaced", ["CREATE", "UPDATE"]),
    ("resource.k8s.io", ("v1",), "resourceclaimtemplates", "Namespaced", ["CREATE"]),
)
_CHANGES = ["CREATE", "UPDATE", "DELETE"]
#: Owner references read by a condition. CEL has a budget for each request; one that exceeds it falls under failurePolicy.
_MOST_OWNERS = 64


class RegistrationSettings(msgspec.Struct, frozen=True):
    """The way of the API server to the webhook, and the objects of its reviews."""

    #: Bursar's own namespace: never reviewed, so Bursar can always be repaired.
    namespace: str
    #: Service in that namespace; the certificate must be for `<service>.<namespace>.svc`.
    service: str = "bursar-webhook"
    port: int = 443
    #: Instead of the service: `https://host:port`, for a Bursar outside of the cluster.
    url: str = ""
    #: The policy while the webhook is down. Ignore lets requests through, to be charged as ungoverned when observed; Fail
    #: refuses those with a label for a quota.
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    #: More namespaces without reviews. Users with the right to write workloads there have no quota.
    exempt_namespaces: tuple[str, ...] = ()
    #: User names and groups of controllers: those of Notebook, TFJob, RayCluster, as
    #: `system:serviceaccount:<namespace>:<name>`, besides Kubernetes' own.
    controllers: tuple[str, ...] = ()
    controller_groups: tuple[str, ...] = ("system:serviceaccounts:kube-system",)


def configuration(
    settings: RegistrationSettings, governed: Iterable[Kind], ca_bundle: bytes
) -> Json:
    """The whole object, for server-side apply at `PATH`. `ca_bundle` is PEM; empty where another program fills it in."""
    kinds = tuple(governed)
    pods = [_rule("", ("v1",), "pods", "Namespaced", ["CREATE"])]
    children = _webhook(settings, ca_bundle, "children", pods, _of_controllers(settings, kinds))
    workloads = _webhook(
        settings, ca_bundle, "workloads", _workload_rules(kinds), _conditions(settings, kinds)
    )
    claims = [_rule(*one) for one in _CLAIMS]
    webhooks = [
        *_by_mapping(workloads),
        _webhook(settings, ca_bundle, "quotas", [_rule(*quota) for quota in _QUOTAS], []),
        {**children, "failurePolicy": "Ignore"},
        *_by_mapping(_webhook(settings, ca_bundle, "claims", claims, _users_claims(settings))),
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "bursar"}},
        "webhooks": webhooks,
    }


def mutating_configuration(
    settings: RegistrationSettings, governed: Iterable[Kind], ca_bundle: bytes
) -> Json:
    """The object at `MUTATING_PATH`: workloads that can wait are reviewed at their creation. See :mod:`reactors.queue.hold`.

    While Bursar is down, such a workload is created unchanged, and the validating webhook decides.
    """
    rules = [
        _rule(kind.group, kind.versions, kind.resource, "Namespaced", ["CREATE"])
        for kind in governed
        if kind.queues
    ]
    webhook = _webhook(settings, ca_bundle, "queue", rules, [])
    webhook |= {
        "clientConfig": _client(settings, ca_bundle, "/mutate"),
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "bursar"}},
        "webhooks": [webhook],
    }


def _webhook(
    settings: RegistrationSettings, ca_bundle: bytes, name: str, rules: list[Json], conditions: list[Json]
) -> Json:  # fmt: skip
    return {
        "name": f"{name}.admission.bursar.io",
        "clientConfig": _client(settings, ca_bundle),
        "rules": rules,
        "failurePolicy": settings.failure_policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespaces(settings),
        "objectSelector": {},
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
        "matchConditions": conditions,
    }


def _by_mapping(webhook: Json) -> list[Json]:
    """Entries that together match the requests of ``webhook``, each request once: those of mapped namespaces, of labelled
    objects, and the rest, passed while Bursar is down. With Ignore it is one entry.
    """
    if webhook["failurePolicy"] == "Ignore":
        return [webhook]
    business, elastic = _LABELS

    def entry(name: str, condition: str, **namespaces: str) -> Json:
        selector = webhook["namespaceSelector"]["matchExpressions"]
        labels = (business, namespaces["business"]), (elastic, namespaces["elastic"])
        mapped = [{"key": key, "operator": operator} for key, operator in labels if operator]
        more = [{"name": "names-a-quota", "expression": condition}] if condition else []
        return webhook | {
            "name": name + webhook["name"],
            "namespaceSelector": {"matchExpressions": [*selector, *mapped]},
            "matchConditions": [*webhook["matchConditions"], *more],
        }

    unmapped = {"business": "DoesNotExist", "elastic": "DoesNotExist"}
    return [
        entry("", "", business="Exists", elastic=""),
        entry("elastic-", "", business="DoesNotExist", elastic="Exists"),
        entry("labelled-", _NAMES_QUOTA, **unmapped),
        entry("free-", f"!({_NAMES_QUOTA})", **unmapped) | {"failurePolicy": "Ignore"},
    ]


def _client(settings: RegistrationSettings, ca_bundle: bytes, path: str = "/admit") -> Json:
    if settings.url:
        client: Json = {"url": f"{settings.url}{path}"}
    else:
        service = {"namespace": settings.namespace, "name": settings.service}
        client = {"service": {**service, "path": path, "port": settings.port}}
    if ca_bundle:
        client["caBundle"] = base64.b64encode(ca_bundle).decode()
    return client


def _namespaces(settings: RegistrationSettings) -> Json:
    exempt = {*SYSTEM_NAMESPACES, settings.namespace, *settings.exempt_namespaces}
    by_name = {
        # Set by the API server itself, and not changeable.
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": sorted(exempt),
    }
    # Only on namespaces, since tenants cannot write them; a label on the workload would be an open bypass.
    by_label = {"key": IGNORE_LABEL, "operator": "NotIn", "values": ["ignore"]}
    return {"matchExpressions": [by_name, by_label]}


def _workload_rules(kinds: tuple[Kind, ...]) -> list[Json]:
    rules: list[Json] = []
    for kind in kinds:
        changes = ["CREATE", "UPDATE"]
        rules.append(_rule(kind.group, kind.versions, kind.resource, "Namespaced", changes))
        if subresource := _subresource(kind):
            resource = f"{kind.resource}/{subresource}"
            rules.append(_rule(kind.group, kind.versions, resource, "Namespaced", ["UPDATE"]))
    autoscalers = "horizontalpodautoscalers"
    # Older versions are converted: matchPolicy Equivalent.
    rules.append(_rule("autoscaling", ("v2",), autoscalers, "Namespaced", ["CREATE", "UPDATE"]))
    return rules


def _subresource(kind: Kind) -> str:
    """The subresource through which an object of the kind can request more."""
    if (kind.group, kind.resource) == ("", "pods"):
        return "resize"
    return "scale" if kind.scales else ""


def _rule(
    group: str, versions: tuple[str, ...], resource: str, scope: str, operations: list[str] = _CHANGES
) -> Json:  # fmt: skip
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "resources": [resource],
        "operations": list(operations),
        "scope": scope,
    }


def _conditions(settings: RegistrationSettings, kinds: tuple[Kind, ...]) -> list[Json]:
    pods = "request.resource.group == '' && request.resource.resource == 'pods'"
    return [
        {
            "name": "not-a-controllers-pod-below-a-governed-owner",
            # An adoption is reviewed like any user's change: its charge moves to its owner's.
            "expression": f"!({pods} && {_is_controllers(settings, kinds)} && !({_ADOPTS}))",
        },
        # Mirror pods stand for pods that a node runs anyway; a node may write no others.
        {
            "name": "not-by-a-node",
            "expression": "!('system:nodes' in request.userInfo.groups)",
        },
    ]


def _of_controllers(settings: RegistrationSettings, kinds: tuple[Kind, ...]) -> list[Json]:
    return [
        {
            "name": "a-controllers-pod-below-a-governed-owner",
            "expression": _is_controllers(settings, kinds),
        }
    ]


def _users_claims(settings: RegistrationSettings) -> list[Json]:
    """Leave out claims made by Kubernetes for a pod: the pod itself is reviewed."""
    trusted = f"({_is_trusted(settings)} || request.userInfo.username == 'system:kube-scheduler')"
    owned = (
        "object.metadata.?ownerReferences.orValue([])"
        ".exists(o, o.?controller.orValue(false) && o.kind == 'Pod')"
    )
    parts = (("annotations", "{}"), ("labels", "{}"), ("ownerReferences", "[]"))
    differs = (
        f"object.metadata.?{one}.orValue({none}) != oldObject.metadata.?{one}.orValue({none})"
        for one, none in parts
    )
    return [
        {"name": "not-made-for-a-pod", "expression": f"!({trusted} && {owned})"},
        {
            "name": "made-or-given-away",
            "expression": f"request.operation == 'CREATE' || {' || '.join(differs)}",
        },
    ]


def _is_trusted(settings: RegistrationSettings) -> str:
    """Whether a controller asks."""
    trusted = [
        "request.userInfo.username == 'system:kube-controller-manager'",
        f"request.userInfo.username in {_list(settings.controllers)}",
        f"request.userInfo.groups.exists(g, g in {_list(settings.controller_groups)})",
    ]
    return f"({' || '.join(trusted)})"


def _controlling(item: str) -> str:
    """The uids of an object's controllers, in CEL."""
    found = f"{item}.metadata.?ownerReferences.orValue([])"
    return f"{found}.filter(o, o.?controller.orValue(false)).map(o, o.uid)"


#: Whether an object is given another controller.
_ADOPTS = (
    f"request.operation == 'UPDATE' && {_controlling('object')} != {_controlling('oldObject')}"
)


#: Labels for a quota, of namespaces and workloads.
_LABELS = (QUOTA_LABELS[0], "quota.scheduling.koordinator.sh/name")


def _naming() -> str:
    """Whether the object, the stored one or a pod template of them has a label for a quota."""
    places = ("metadata", "spec.?template.?metadata", "spec.?jobTemplate.?spec.?template.?metadata")
    found = [
        f"{item}.?{place}.?labels[?'{label}'].hasValue()"
        for item in ("object", "oldObject")
        for place in places
        for label in _LABELS
    ]
    half = len(found) // 2
    return f"{' || '.join(found[:half])} || (oldObject != null && ({' || '.join(found[half:])}))"


_NAMES_QUOTA = _naming()


def _is_controllers(settings: RegistrationSettings, kinds: tuple[Kind, ...]) -> str:
    """Whether the request is a controller's, about an object below a governed owner."""
    owners = sorted(f"{kind.group}/{kind.kind}" for kind in kinds if kind.covers)
    found = [f"{one}.metadata.?ownerReferences.orValue([])" for one in ("object", "oldObject")]
    # Versions of a group change, so only the group is compared.
    owned = (
        f"{found[0]}.size() <= {_MOST_OWNERS} && "
        f"(oldObject == null || {found[1]}.size() <= {_MOST_OWNERS}) && "
        f"{found[0]}.exists(o, o.?controller.orValue(false) && (o.apiVersion.contains('/') ? "
        f"o.apiVersion.split('/')[0] : '') + '/' + o.kind in {_list(owners)})"
    )
    return f"({_is_trusted(settings)} && {owned})"


def _list(texts: Iterable[str]) -> str:
    """A list of texts in CEL."""
    quoted = (msgspec.json.encode(text).decode() for text in texts)
    return f"[{', '.join(quoted)}]"

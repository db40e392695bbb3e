"""The demand of one pod of a template, before its pod exists: Kubernetes' own defaults and sums.

Two things are not in a template and so not in its demand: the overhead of its runtime class, and additions by
LimitRanges and other webhooks at the pod's creation. The pods themselves show them.

A container without a limit of a resource may use the whole node, so its limit counts as its request there, never as
nothing; :func:`pod_needs` names it.

Source: kubernetes v1.36.3 ``SetDefaults_Pod`` (``pkg/apis/core/v1/defaults.go``), ``PodRequests`` and ``PodLimits`` of
component-helpers; docs/wrong-input.md.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from bus.amounts import (
    ContainerResources,
    PodResources,
    effective_limit,
    effective_request,
    is_above_zero,
    observed_quantity,
)
from bus.errors import DemandError, QuantityError
from bus.kube.kinds.paths import bounded

#: Most resource names of one pod: a fact with more would outgrow a message.
MOST_RESOURCES = 64
#: Unbounded resources of a container without limits.
UNBOUNDED = ("cpu", "ephemeral-storage", "memory")
#: Most reported keys, half of them of requests.
MOST_UNSTATED = 12
#: Most named containers with missing values, and longest name of one.
MOST_NAMED = 8
LONGEST_CONTAINER = 63
#: In a demand: the number of device claims made from the named template. The naming object does not hold the
#: requested devices.
CLAIM_TEMPLATE = "claims.template/"
#: In a demand: a training runtime by kind and name, not observed yet.
RUNTIME = "trainer.runtime/"
#: Longest resource name: a prefix of 253, a slash, a name of 63.
LONGEST_RESOURCE = 253 + 1 + 63

_MILLI = 10**6
_WHOLE = 10**9

#: Kubernetes' own kinds have texts only; an API server keeps numbers in objects with a loose schema.
Quantities = dict[str, str | int | float | None]
Written = dict[str, str]


class TemplateResources(msgspec.Struct, omit_defaults=True):
    """``resources`` of a container or of a pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class TemplateContainer(msgspec.Struct, rename="camel", omit_defaults=True):
    """The decoded part of a container: no image, command, arguments, environment or mounts."""

    name: str | None = None
    resources: TemplateResources | None = None
    restart_policy: str | None = None


class TemplateClaim(msgspec.Struct, rename="camel", omit_defaults=True):
    """An entry of ``resourceClaims``. An entry with the name of a claim asks for nothing more: that claim has the demand."""

    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class TemplateSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """The decoded part of a pod's spec."""

    containers: list[TemplateContainer] | None = None
    init_containers: list[TemplateContainer] | None = None
    overhead: Quantities | None = None
    resources: TemplateResources | None = None
    priority_class_name: str | None = None
    resource_claims: list[TemplateClaim] | None = None


class TemplateMetadata(msgspec.Struct):
    """The decoded part of a template's metadata."""

    labels: dict[str, str] | None = None


class PodTemplate(msgspec.Struct):
    """The decoded part of a pod template, and of a pod."""

    spec: TemplateSpec
    metadata: TemplateMetadata | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Its labels, all of them."""
        return (self.metadata.labels if self.metadata else None) or {}

    @property
    def containers(self) -> int:
        """The number of its containers, init containers included."""
        return len(_all(self.spec))

    @property
    def quantities(self) -> int:
        """How many requests and limits its containers state."""
        stated = (one.resources for one in _all(self.spec) if one.resources is not None)
        return sum(len(one.requests or ()) + len(one.limits or ()) for one in stated)


#: Specs of more bytes are not remembered: whoever writes them must not fill the memory.
LONGEST_KNOWN = 4_096

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TemplateSpec).decode


def template_at(value: object, place: str) -> PodTemplate:
    """``value`` as a template with at least one container. Raises DemandError with the field below ``place``."""
    try:
        template = msgspec.convert(value, PodTemplate)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        below = (f"{place}{where.rstrip('`')}").lstrip(".")
        raise DemandError(path=below, reason=reason[:200]) from None
    if not template.spec.containers:
        raise DemandError(path=_below(place, "spec.containers"), reason="no containers")
    return template


def _all(spec: TemplateSpec) -> list[TemplateContainer]:
    return [*(spec.init_containers or ()), *(spec.containers or ())]


#: Demand of one pod, and the result of :func:`_unstated`.
Needs = tuple[dict[str, int], dict[str, tuple[str, ...]]]


def pod_needs(template: PodTemplate, place: str) -> Needs:
    """Demand of one pod: ``requests.<resource>`` and ``limits.<resource>``, each rounded up once, at the pod, no
    zeros; and the containers without a limit of a resource, by ``limits.<resource>``, and of these by
    ``requests.<resource>`` those without a request.

    Raises DemandError for an unreadable quantity, an amount above 2**63 - 1, or too many or too long resource names.
    """
    key = _encode(template.spec)
    if len(key) > LONGEST_KNOWN:
        return _needs(template.spec, place)
    try:
        demand, unstated = _known(key)
    except DemandError:
        # Said again with its place.
        return _needs(template.spec, place)
    return demand.copy(), unstated


@lru_cache(maxsize=1_024)
def _known(spec: bytes) -> Needs:
    """The demand of a spec. Most pods of a cluster are written alike, so they are summed once."""
    return _needs(_decode(spec), "")


def _needs(spec: TemplateSpec, place: str) -> Needs:
    for resources in (spec.resources, *(one.resources for one in _all(spec))):
        written = (resources.requests, resources.limits) if resources else ()
        if any(one and len(one) > MOST_RESOURCES for one in written):
            raise DemandError(path=place, reason=f"more than {MOST_RESOURCES} resources")
    return _summed(spec, place), _unstated(spec)


def _summed(spec: TemplateSpec, place: str) -> dict[str, int]:
    try:
        requests = effective_request(_requested(spec))
        limits = effective_limit(_limited(spec))
    except QuantityError as error:
        raise _located(error, spec, _below(place, "spec")) from None
    demand: dict[str, int] = {}
    for prefix, amounts in (("requests.", requests), ("limits.", limits)):
        if len(amounts) > MOST_RESOURCES:
            raise DemandError(path=place, reason=f"more than {MOST_RESOURCES} resources")
        for name, nano in amounts.items():
            amount = -(-nano // (_MILLI if name == "cpu" else _WHOLE))
            if amount:
                demand[prefix + _named(name, place)] = bounded(amount, f"{place}: {prefix}{name}")
    for claim in spec.resource_claims or ():
        if claim.resource_claim_template_name:
            key = CLAIM_TEMPLATE + _named(claim.resource_claim_template_name, place)
            demand[key] = demand.get(key, 0) + 1
    if sum(key.startswith(CLAIM_TEMPLATE) for key in demand) > MOST_RESOURCES:
        raise DemandError(path=place, reason=f"more than {MOST_RESOURCES} templates of claims")
    return demand


def claims_of(spec: TemplateSpec) -> tuple[str, ...]:
    """The claims named directly, without those of templates."""
    return tuple(
        one.resource_claim_name for one in spec.resource_claims or () if one.resource_claim_name
    )


def _unstated(spec: TemplateSpec) -> dict[str, tuple[str, ...]]:
    """CPU, memory and local disk are without bounds where they are not limited, and so is a limit of 0 to the
    kubelet. Other resources count only if requested without a limit, since unnamed ones are not given. At most
    :data:`MOST_NAMED` containers are named of each. The quantities are readable.
    """
    above = _written(spec.resources.limits) if spec.resources else {}
    found: dict[str, list[str]] = {}
    for container in _all(spec):
        limits, requests = _stated(container, "limits"), _stated(container, "requests")
        for resource in (*UNBOUNDED, *sorted(requests.keys() - set(UNBOUNDED))):
            if resource in limits or is_above_zero(above.get(resource)):
                continue
            if len(found) >= MOST_UNSTATED and f"limits.{resource}" not in found:
                break
            name = (container.name or "")[:LONGEST_CONTAINER]
            found.setdefault(f"limits.{resource}", []).append(name)
            if resource not in requests:
                found.setdefault(f"requests.{resource}", []).append(name)
    return {key: tuple(dict.fromkeys(names))[:MOST_NAMED] for key, names in sorted(found.items())}


def _stated(container: TemplateContainer, part: str) -> Written:
    """The quantities above 0 of a container's ``requests`` or ``limits``."""
    written = _written(getattr(container.resources, part, None))
    return {name: text for name, text in written.items() if is_above_zero(text)}


def _named(name: str, place: str) -> str:
    if len(name) > LONGEST_RESOURCE or not name.isprintable():
        raise DemandError(path=place, reason="no name of a resource", name=name[:64])
    return name


def _written(quantities: Quantities | None) -> Written:
    """The quantities as texts. Null is zero, as Kubernetes reads it."""
    if not quantities:
        return {}
    return {
        name: text if type(text) is str else "0" if text is None else repr(text)
        for name, text in quantities.items()
    }


def _requested(spec: TemplateSpec) -> PodResources:
    """Where a request is missing, its limit is one: of a container, and of a pod where no container asks."""
    containers = _containers(spec.containers, defaulted=True)
    init = _containers(spec.init_containers, defaulted=True)
    pod = spec.resources or TemplateResources()
    asked = {name for one in (*containers, *init) for name in one.requests}
    pod_requests = _written(pod.requests)
    for name, limit in _written(pod.limits).items():
        if name not in pod_requests and (name not in asked or name.startswith("hugepages-")):
            pod_requests[name] = limit
    return PodResources(containers, init, _written(spec.overhead), pod_requests)


def _limited(spec: TemplateSpec) -> PodResources:
    """Where a limit is missing, or 0, the request is one."""
    containers = _containers(spec.containers, defaulted=False)
    init = _containers(spec.init_containers, defaulted=False)
    pod = spec.resources or TemplateResources()
    limits = _written(pod.limits)
    stated = {name for one in (*containers, *init) for name in one.requests}
    for name, request in _written(pod.requests).items():
        if not is_above_zero(limits.get(name)) and name not in stated:
            limits[name] = request
    return PodResources(containers, init, _written(spec.overhead), limits)


def _containers(
    containers: list[TemplateContainer] | None, *, defaulted: bool
) -> tuple[ContainerResources, ...]:
    found = []
    for container in containers or ():
        resources = container.resources
        quantities = _written(resources.limits) if resources else {}
        if defaulted and resources:
            quantities |= _written(resources.requests)
        elif resources:
            for name, request in _written(resources.requests).items():
                if not is_above_zero(quantities.get(name)):
                    quantities[name] = request
        found.append(
            ContainerResources(quantities, restartable=container.restart_policy == "Always")
        )
    return tuple(found)


def _located(error: QuantityError, spec: TemplateSpec, place: str) -> DemandError:
    """The same complaint with the place of the quantity; looked for only once there is one to complain about."""
    lists = (("containers", spec.containers), ("initContainers", spec.init_containers))
    held = [
        (f"{place}.{name}[{index}].resources", container.resources)
        for name, containers in lists
        for index, container in enumerate(containers or ())
    ]
    held.append((f"{place}.resources", spec.resources))
    for at, resources in held:
        for part in ("requests", "limits"):
            for name, text in _written(getattr(resources, part, None)).items():
                if _is_unreadable(text):
                    return DemandError(path=f"{at}.{part}.{name[:64]}", reason=error.reason)
    return DemandError(path=f"{place}.overhead", reason=error.reason)


def _is_unreadable(text: str) -> bool:
    try:
        observed_quantity(text)
    except QuantityError:
        return True
    return False


def _below(place: str, path: str) -> str:
    return f"{place}.{path}" if place else path

"""Selects the labels and annotations to publish, and reads team, user and GPU model from them.

Labels are written by users, so they are kept by an allow-list and bounded in number and length;
annotations can hold whole manifests with their secrets (``last-applied-configuration``), so only
prefixes of Bursar's own are kept, the three stamps of Kubeflow's culler, and two costs of evictions.

Source: docs/accounting.md; docs/architecture.md; docs/wrong-input.md; Kubernetes
API conventions, "Syntax and character set" (label values 63 characters, names 63, prefixes 253).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from bus.kube.crds import culling
from bus.kube.crds.culling import KUBEFLOW_KEYS
from bus.kube.kinds import QUEUE_ANNOTATION, QUOTA_LABELS, SELECTABLE
from bus.user_names import UserNames

#: Most labels, and most annotations, of one fact.
MOST = 64
#: Longest label value of the API server; longer ones are cut.
LONGEST_LABEL = 63
#: Longest token of a user's name.
LONGEST_TOKEN = 400
#: Longest kept annotation value; longer ones are cut.
LONGEST_ANNOTATION = 253
#: Most bytes that labels and annotations of one fact may take together, as JSON. A message of the
#: history carries 64 KiB.
LARGEST_TEXTS = 16 * 1024
#: Longest key that the API server accepts: a prefix of 253, a slash, a name of 63. Longer ones are
#: left out, since a cut key would be another key.
LONGEST_KEY = 253 + 1 + 63

#: What evicting or deleting a pod costs, as Koordinator and Kubernetes read it.
EVICTION_COSTS = (
    "scheduling.koordinator.sh/eviction-cost",
    "controller.kubernetes.io/pod-deletion-cost",
)
#: The annotation of pods opting out of moves: ``"true"``.
DO_NOT_MOVE = "bursar.io/do-not-move"
#: Labels that Bursar itself reads, besides those of quotas, team and user; they are dropped last.
READ_LABELS = frozenset(
    {"notebook-name", "app.kubernetes.io/component", "component", "bursar.io/probe"}
)
#: Annotations that Bursar itself reads or writes; they are dropped last.
READ_ANNOTATIONS = frozenset(
    {
        *KUBEFLOW_KEYS,
        *EVICTION_COSTS,
        QUEUE_ANNOTATION,
        DO_NOT_MOVE,
        culling.CULLS_AT,
        culling.WARNED_BY,
        culling.CULLED_BY,
        culling.CULL_REASON,
        culling.REPLICAS_BEFORE,
        culling.RESTORED_BY,
        culling.SNOOZED_UNTIL,
        "bursar.io/cull-idle-after",
        "bursar.io/do-not-cull",
        "bursar.io/probe",
        "bursar.io/probe-base-path",
        "bursar.io/probe-port",
        "bursar.io/steps",
    }
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_encode = msgspec.json.Encoder().encode


class Accelerator(msgspec.Struct, frozen=True, array_like=True):
    """A resource counted in thousandths of a card. Its model is ``model`` unless a node label names another."""

    gpu_milli: int
    model: str


class LabelPolicy(msgspec.Struct, frozen=True):
    """The labels and annotations a source may publish. A changed policy applies from an object's next observation,
    and never to published facts.
    """

    #: Pod and namespace label of the team.
    team: str = "bursar.io/team"
    #: Pod and namespace label of the user.
    user: str = "bursar.io/user"
    #: Pod annotations and labels with the user's name, if the label is missing, in this order; for one key the
    #: annotation first. KubeSpawner 7 writes the name into the annotation and a slug of it into the label.
    pod_users: tuple[str, ...] = ("hub.jupyter.org/username",)
    #: Namespace annotation with the user's name, if the label is missing (Kubeflow profiles).
    owner_annotation: str = "owner"
    #: The key to seal user names in the history; None = names stay readable.
    names: UserNames | None = None
    #: Resources counted as cards by this installation, by name.
    accelerators: tuple[tuple[str, Accelerator], ...] = ()
    #: Published label keys: reports group by them (``--by label:KEY``).
    label_keys: frozenset[str] = frozenset(
        {
            "app",
            "component",  # JupyterHub's KubeSpawner
            "gpu_spec",  # recorded trace openb
            "job-name",
            "jobset.sigs.k8s.io/job-index",
            "jobset.sigs.k8s.io/replicatedjob-name",
            "koordinator.sh/priority",
            "koordinator.sh/priority-class",
            "koordinator.sh/qosClass",
            "k8s-app",
            "node.kubernetes.io/instance-type",
            "notebook-name",  # Kubeflow notebooks
            "phase",  # recorded trace openb
            "pod-group.scheduling.sigs.k8s.io",
            "qos",  # recorded trace openb
            "ray.io/cluster",
            "quota.scheduling.koordinator.sh/preemptible",
            "volcano.sh/job-name",
            *QUOTA_LABELS,
        }
    )
    #: Prefixes of published label keys. Settings add to them: quotas select namespaces by those in ``SELECTABLE``.
    label_prefixes: tuple[str, ...] = (
        "app.kubernetes.io/",
        "batch.kubernetes.io/",
        "bursar.io/",
        "kueue.x-k8s.io/",
        "scv/",  # Yoda
        "topology.kubernetes.io/",
        "training.kubeflow.org/",
    )
    #: Prefixes of published annotation keys. Each may leave the cluster with its whole value: add with care.
    annotation_prefixes: tuple[str, ...] = ("bursar.io/", *KUBEFLOW_KEYS, *EVICTION_COSTS)
    #: Node labels with the GPU model, by falling precedence; the first present one counts.
    model_labels: tuple[str, ...] = (
        "nvidia.com/gpu.product",  # NVIDIA GPU feature discovery
        "kubernetes.io/gpu-model",  # Koordinator since 1.0
        "node.koordinator.sh/gpu-model",  # Koordinator since 1.4
        "amd.com/gpu.product-name",  # AMD node labeller
        "cloud.google.com/gke-accelerator",
        "alibabacloud.com/gpu-card-model",
        "aliyun.accelerator/nvidia_name",
        "eks.amazonaws.com/instance-gpu-name",
        "karpenter.k8s.aws/instance-gpu-name",
    )


class Texts(msgspec.Struct, frozen=True):
    """The labels and annotations of one object for its fact, and the names of cut or dropped ones."""

    labels: dict[str, str]
    annotations: dict[str, str]
    labels_cut: bool
    annotations_cut: bool


def kept_texts(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, policy: LabelPolicy
) -> Texts:
    """The labels and annotations of ``policy``, together at most :data:`LARGEST_TEXTS` as JSON.

    Annotations are dropped first, then labels, from the end of their order, so two watchers keep the same ones.
    Keys of Bursar go last, and keys of the settings before them. Otherwise a tenant could displace them with labels
    below a prefix. At most 64 of each.
    """
    labels = _sealed(labels or {}, policy)
    kept, labels_cut, size = _bounded(
        labels, _chosen_labels(labels, policy), _longest(policy), LARGEST_TEXTS
    )
    chosen = _chosen_annotations(annotations, policy)
    noted, annotations_cut, _ = _bounded(
        annotations or {}, chosen, LONGEST_ANNOTATION, LARGEST_TEXTS - size
    )
    return Texts(kept, noted, labels_cut, annotations_cut)


def kept_labels(
    labels: Mapping[str, str] | None, policy: LabelPolicy
) -> tuple[dict[str, str], bool]:
    """The labels of ``policy``, bounded as in :func:`kept_texts`, and whether any was cut or dropped."""
    labels = _sealed(labels or {}, policy)
    kept, cut, _ = _bounded(labels, _chosen_labels(labels, policy), _longest(policy), LARGEST_TEXTS)
    return kept, cut


def _sealed(labels: Mapping[str, str], policy: LabelPolicy) -> Mapping[str, str]:
    """The labels, with user names sealed under the policy's key."""
    if policy.names is None:
        return labels
    users = {key: name for key in (policy.user, *policy.pod_users) if (name := named(key, labels))}
    return {**labels, **{key: policy.names.sealed(name) for key, name in users.items()}}


def _longest(policy: LabelPolicy) -> int:
    """Longest kept label value: a token is longer than its name."""
    return LONGEST_LABEL if policy.names is None else LONGEST_TOKEN


def _chosen_labels(labels: Mapping[str, str] | None, policy: LabelPolicy) -> list[str]:
    if not labels:
        return []
    keys, prefixes = policy.label_keys, policy.label_prefixes
    chosen = [key for key in labels if key in keys or key.startswith(prefixes)]
    named = (policy.team, policy.user)
    chosen.sort(
        key=lambda key: (
            key not in QUOTA_LABELS,
            key not in named,
            key not in READ_LABELS,
            key not in keys,
            not key.startswith(SELECTABLE),
            key,
        )
    )
    return chosen


def _chosen_annotations(annotations: Mapping[str, str] | None, policy: LabelPolicy) -> list[str]:
    if not annotations:
        return []
    chosen = [key for key in annotations if key.startswith(policy.annotation_prefixes)]
    chosen.sort(key=lambda key: (key not in READ_ANNOTATIONS, key))
    return chosen


def named(key: str, *sources: Mapping[str, str] | None) -> str | None:
    """The first non-empty value under ``key`` in ``sources``, or None.

    Cut to the length of a label value: teams and users are keys of the ledger's rows.
    """
    for source in sources:
        value = source.get(key) if source else None
        if value:
            return _CONTROL.sub("", value[:LONGEST_LABEL]) or None
    return None


def user_named(
    policy: LabelPolicy,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None = None,
) -> str | None:
    """The user by the label, or else by the annotation of the owner; under the policy's key where it has one."""
    return _sealed_name(
        policy, named(policy.user, labels) or named(policy.owner_annotation, annotations)
    )


def pod_user(
    policy: LabelPolicy,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
) -> str | None:
    """The user of a pod: by the label, or else by the first of ``policy.pod_users``; under the policy's key where it has one."""
    found = named(policy.user, labels)
    for key in policy.pod_users:
        found = found or named(key, annotations, labels)
    return _sealed_name(policy, found)


def _sealed_name(policy: LabelPolicy, name: str | None) -> str | None:
    return name and (name if policy.names is None else policy.names.sealed(name))


def gpu_model(labels: Mapping[str, str] | None, policy: LabelPolicy) -> str | None:
    """The value of a node's first GPU model label, or None."""
    for key in policy.model_labels:
        model = named(key, labels)
        if model is not None:
            return model
    return None


def _bounded(
    texts: Mapping[str, str], chosen: list[str], longest: int, room: int
) -> tuple[dict[str, str], bool, int]:
    """(kept items of ``chosen`` by key, whether anything was cut, size as JSON). The first of ``chosen`` stay longest."""
    kept: dict[str, str] = {}
    cut, used = False, 0
    for key in chosen:
        value = texts[key]
        if len(value) > longest:
            value, cut = value[:longest], True
        if len(kept) == MOST or len(key) > LONGEST_KEY or _CONTROL.search(key + value):
            cut = True
            continue
        size = encoded_size(key) + encoded_size(value) + 2
        if used + size > room:
            cut = True
            continue
        kept[key] = value
        used += size
    return dict(sorted(kept.items())), cut, used


def encoded_size(text: str) -> int:
    """Bytes of a text as JSON."""
    # Nothing but quotes and backslashes is escaped in printable ASCII.
    if text.isascii() and '"' not in text and "\\" not in text and text.isprintable():
        return len(text) + 2
    return len(_encode(text))


def quota_labels(labels: Mapping[str, Any]) -> dict[str, str]:
    """The labels for a quota or a model. They may be those of a review."""
    found = ((key, labels.get(key)) for key in QUOTA_LABELS)
    return {key: value for key, value in found if value and isinstance(value, str)}

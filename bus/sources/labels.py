"""Which labels and annotations leave the cluster, and which of them name the team, the user and the
GPU model.

Labels are written by users, so they are kept by an allow-list and bounded in number and length;
annotations can hold whole manifests with their secrets (``last-applied-configuration``), so only
prefixes of Bursar's own are kept, and the three stamps of Kubeflow's culler.

Source: ``accounting.md`` section 4; ``house.md`` 3.7; ``reliability.md`` A17 and P32; Kubernetes
API conventions, "Syntax and character set" (label values 63 characters, names 63, prefixes 253).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from bus.kinds import QUOTA_LABELS
from bus.resources.culling import KUBEFLOW_KEYS

#: Most labels, and most annotations, that one fact carries.
MOST = 64
#: Longest label value that the API server accepts; longer ones are cut.
LONGEST_LABEL = 63
#: Longest annotation value that is kept; longer ones are cut.
LONGEST_ANNOTATION = 253
#: Longest key that the API server accepts: a prefix of 253, a slash, a name of 63. Longer ones are
#: left out, since a cut key would be another key.
LONGEST_KEY = 253 + 1 + 63

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class LabelPolicy(msgspec.Struct, frozen=True):
    """What a source may take from labels and annotations. The same policy gives the same facts, so
    a change of it takes effect with the next observation of an object and never in what was said
    before.
    """

    #: Label of pods and namespaces that names the team.
    team: str = "bursar.io/team"
    #: Label of pods and namespaces that names the user.
    user: str = "bursar.io/user"
    #: Annotation of namespaces that names the user where the label does not (Kubeflow profiles).
    owner_annotation: str = "owner"
    #: Label keys that are kept: reports group by them (``--by label:KEY``).
    label_keys: frozenset[str] = frozenset(
        {
            "app",
            "gpu_spec",  # recorded trace openb
            "job-name",
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
    #: Prefixes of label keys that are kept.
    label_prefixes: tuple[str, ...] = (
        "app.kubernetes.io/",
        "batch.kubernetes.io/",
        "bursar.io/",
        "kueue.x-k8s.io/",
        "topology.kubernetes.io/",
        "training.kubeflow.org/",
    )
    #: Prefixes of annotation keys that are kept. Each may leave the cluster with its whole value:
    #: add with care.
    annotation_prefixes: tuple[str, ...] = ("bursar.io/", *KUBEFLOW_KEYS)
    #: Node labels that name the GPU model, by falling precedence; the first that is there counts.
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


def kept_labels(
    labels: Mapping[str, str] | None, policy: LabelPolicy
) -> tuple[dict[str, str], bool]:
    """The labels that ``policy`` keeps, by key, and whether any of them had to be cut or left out.

    At most 64, the first by key, so that two watchers keep the same ones; those that name a quota
    before all others, or a tenant could push them out with labels of its own.
    """
    if not labels:
        return {}, False
    keys, prefixes = policy.label_keys, policy.label_prefixes
    chosen = [key for key in labels if key in keys or key.startswith(prefixes)]
    return _bounded(labels, chosen, LONGEST_LABEL)


def kept_annotations(
    annotations: Mapping[str, str] | None, policy: LabelPolicy
) -> tuple[dict[str, str], bool]:
    """The annotations that ``policy`` keeps, by key, and whether any of them had to be cut or
    left out.
    """
    if not annotations:
        return {}, False
    prefixes = policy.annotation_prefixes
    chosen = [key for key in annotations if key.startswith(prefixes)]
    return _bounded(annotations, chosen, LONGEST_ANNOTATION)


def named(key: str, *sources: Mapping[str, str] | None) -> str | None:
    """The value under ``key`` in the first of ``sources`` that has one; None where none has, or it
    is empty.

    Cut to the length of a label value: teams and users are keys of the ledger's rows.
    """
    for source in sources:
        value = source.get(key) if source else None
        if value:
            return _CONTROL.sub("", value[:LONGEST_LABEL]) or None
    return None


def gpu_model(labels: Mapping[str, str] | None, policy: LabelPolicy) -> str | None:
    """The value of the first GPU model label that a node has; None = it has none."""
    for key in policy.model_labels:
        model = named(key, labels)
        if model is not None:
            return model
    return None


def _bounded(
    texts: Mapping[str, str], chosen: list[str], longest: int
) -> tuple[dict[str, str], bool]:
    if not chosen:
        return {}, False
    chosen.sort(key=lambda key: (key not in QUOTA_LABELS, key))
    kept: dict[str, str] = {}
    cut = False
    for key in chosen:
        value = texts[key]
        if len(value) > longest:
            value, cut = value[:longest], True
        if len(kept) == MOST or len(key) > LONGEST_KEY or _CONTROL.search(key + value):
            cut = True
            continue
        kept[key] = value
    return kept, cut

"""The test review that proves the way of reviews: a dry run through the API server, denied with its own token.

A denial is the proof, for three reasons. It comes back through the API server, whichever process of ours answered. It proves
that refusals work, and this is the purpose of enforcing. And denied objects are never stored. If the webhook is not called (a
wrong address with failurePolicy Ignore, a deleted configuration), no other program knows the token.

Source: Kubernetes, "Dynamic Admission Control" (dry run, failure policy).
"""

from __future__ import annotations

import re
from typing import Any

from reactors.webhook.review import Answer, Review

ANNOTATION = "bursar.io/review-probe"
#: The reason of the proving denial.
ARRIVED = "review-arrived"
#: The place of the test: a governed namespace without workloads; ``deploy/manifests/rbac/registrar.yaml`` makes it.
NAMESPACE = "bursar-probe"

_TOKEN = re.compile(r"[0-9a-f]{16}\Z")


def path(namespace: str) -> str:
    """The collection of the probe."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def probe(token: str) -> dict[str, Any]:
    """The object to create in a dry run: a Deployment of nothing. ``token``: 16 hexadecimal digits."""
    labels = {"app.kubernetes.io/part-of": "bursar"}
    container = {"name": "none", "image": "none"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "review-probe", "labels": labels, "annotations": {ANNOTATION: token}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def answer(review: Review) -> Answer | None:
    """The proof, if a review asks for it; else None. Only a dry run of nothing is a probe."""
    if not review.dry_run or review.resource != "deployments" or review.operation != "CREATE":
        return None
    metadata = (review.object or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    token = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(token, str) or not _TOKEN.match(token):
        return None
    return Answer(False, ARRIVED, arrival_text(token))


def arrival_text(token: str) -> str:
    """The text of the API server's refusal after the review arrived."""
    return f"the review {token} arrived at Bursar"

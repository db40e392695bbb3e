"""The answers to reviews with only an outline: refused if a quota may govern the object, else allowed. Pure.

A deletion passes, except that of a quota in use. A team without a quota may write any object. If the labels of an
object are unknown, because its review was not read to the end, a quota may govern it.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

from bus.kube.kinds import GOVERNED
from bus.sources.devices import requests_of
from reactors.admission.reviewing.governing import may_be_charged, stands_in_quota
from reactors.admission.reviewing.questions import CLAIMS, QUOTAS, TEMPLATES
from reactors.admission.reviewing.quotas import answer_deletion
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.webhook.failure import UNREADABLE, unread
from reactors.webhook.outline import Outline
from reactors.webhook.review import Answer

_CHARGED = frozenset(
    {CLAIMS, TEMPLATES, *QUOTAS, *((kind.group, kind.resource) for kind in GOVERNED)}
)
_PASSED = "Bursar could not read this object exactly; no quota governs it"


class Outlines:
    """Answers by the observed quotas, namespaces and owners."""

    def __init__(self, view: AdmissionState, journals: Journals) -> None:
        self._view = view
        self._journals = journals

    def __call__(self, outline: Outline, reason: str | None) -> Answer:
        """The answer; ``reason`` None: the review was not read in time."""
        kind = QUOTAS.get((outline.group, outline.resource))
        if kind is not None and outline.operation == "DELETE" and not outline.subresource:
            return answer_deletion(outline, kind, self._journals, self._view)
        if self._is_governed(outline, is_late=reason is None):
            return unread(outline, reason)
        return Answer(True, UNREADABLE, warnings=(_PASSED,))

    def _is_governed(self, outline: Outline, *, is_late: bool) -> bool:
        """Whether a quota is charged for the object, or may be. Of autoscalers, each scale asks for itself."""
        # Without an operation not even the beginning was read.
        if outline.operation and (outline.group, outline.resource) not in _CHARGED:
            return False
        if (outline.group, outline.resource) in QUOTAS or outline.names_quota:
            return True
        if not outline.is_whole or outline.uids is None:
            return True
        if self._view.place({}, outline.namespace) is not None or self._is_named(outline):
            return True
        view, namespace = self._view, outline.namespace
        is_below = any(stands_in_quota(view, uid, namespace) for uid in outline.uids)
        # The labels of the object itself were read, but for those of a scale.
        own = frozenset[str]() if outline.subresource == "scale" else outline.own
        return is_below or may_be_charged(view, outline.uids - own, namespace, is_late=is_late)

    def _is_named(self, outline: Outline) -> bool:
        """Whether a charged object names this template of claims."""
        if (outline.group, outline.resource) != TEMPLATES:
            return False
        naming = self._view.state.claiming.naming(outline.namespace, outline.name, requests_of({}))
        found = (self._view.objects.get(uid) for uid, _ in naming)
        return any(
            one is not None and self._view.counted(one.labels, one.namespace) is not None
            for one in found
        )

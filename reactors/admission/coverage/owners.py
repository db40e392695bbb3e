"""Who answers for an object: the one that is charged for it, by group, kind and uid, and only if it was seen. Pure.

A reference to a controller is written by whoever may write the object, so it proves nothing by itself. It counts where a
controller's account wrote it, or where the owner's controller is a program that may run under any account, and its kind
makes such objects. Everywhere else the object is charged in its own right.

Source: ``docs/admission.md`` ("What hangs below an owner").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from bus.events.pods import Owner
from bus.kube.kinds import GOVERNED

if TYPE_CHECKING:
    # Questions about decisions ask who answers for an object, and review nothing.
    from reactors.webhook.review import Review

#: Kubernetes' own controllers, where they have one account for all.
CONTROLLER_MANAGER = "system:kube-controller-manager"
#: Its garbage collector, where each controller has an account of its own.
COLLECTOR = ":generic-garbage-collector"
NODES = "system:nodes"
NODE = "Node"

#: Kinds that answer for what they control.
COVERING = frozenset(kind.kind for kind in GOVERNED if kind.covers)


class Controllers(msgspec.Struct, frozen=True):
    """The accounts of controllers: what they make below an owner is the owner's."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset({"system:serviceaccounts:kube-system"})

    def wrote(self, review: Review) -> bool:
        """Whether a controller asks."""
        is_named = review.user == CONTROLLER_MANAGER or review.user in self.users
        return is_named or not self.groups.isdisjoint(review.groups)


def collects(review: Review) -> bool:
    """Whether the garbage collector may be the one that asks: other controllers release what they make again at once."""
    return review.user == CONTROLLER_MANAGER or review.user.endswith(COLLECTOR)


def wrote_node(review: Review) -> bool:
    """Whether a node agent asks: it writes mirror pods, of what its node runs anyway."""
    return review.user.startswith("system:node:") and NODES in review.groups


def controller_of(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and uid of the controller that an object names, of whatever group; ("", "") for none. Never raises."""
    references = metadata.get("ownerReferences")
    for one in references if isinstance(references, list) else ():
        if isinstance(one, dict) and one.get("controller") is True:
            return str(one.get("kind", "")), str(one.get("uid", ""))
    return "", ""


def is_covering(owner: Owner | None) -> TypeGuard[Owner]:
    """Whether an object with this controller may be covered by it."""
    return owner is not None and owner.kind in COVERING

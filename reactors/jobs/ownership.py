"""Ownership: a job adopts uncontrolled objects with its labels, and releases its objects that lost them. Pure.

Source: Kubeflow training-operator v1, ``pkg/controller.v1/control/controller_ref_manager.go``; docs/jobs.md.
"""

from __future__ import annotations

from typing import Literal

from reactors.jobs.shape import Ownership

Claim = Literal["ours", "adopt", "release", "no"]


def claim(
    owner: Ownership, *, is_selected: bool, is_deleting: bool, is_job_deleting: bool
) -> Claim:
    """Whether an object belongs to a job. ``adopt``: after a fresh read shows the job still there."""
    if owner == "other":
        return "no"
    if owner == "self":
        if is_selected:
            return "ours"
        return "no" if is_job_deleting else "release"
    if not is_selected or is_deleting or is_job_deleting:
        return "no"
    return "adopt"

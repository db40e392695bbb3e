"""Facts about training runtimes: the templates of an administrator, or a team, for TrainJobs of Kubeflow Trainer.

Only the requests of its pods are published of a template: no image, command, environment or volume.

Source: Kubeflow Trainer v2.2, ``trainer.kubeflow.org/v1alpha1`` TrainingRuntime and ClusterTrainingRuntime; docs/jobs.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.vocabulary import Fact


class RuntimeJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the jobs of a runtime's JobSet.

    ``spec`` is what is read of its pod template, as JSON. ``step``: which part of a TrainJob it is, as its label says; "" = none.
    """

    name: str
    spec: str
    step: str = ""
    #: How many pods it has, and how many such jobs there are.
    pods: int = 1
    jobs: int = 1
    #: It has labels: a TrainJob changes the resources of no other.
    is_labelled: bool = False


class RuntimeTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request of a TrainJob by its runtime. Fields of the job override it."""

    jobs: tuple[RuntimeJob, ...] = ()
    #: Its ``mlPolicy``: whether it exists, the training nodes, and whether it is MPI's (its launcher may train,
    #: too).
    has_policy: bool = False
    nodes: int = 1
    is_mpi: bool = False
    launcher_trains: bool = False


class RuntimeUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The runtime that a TrainJob names, and what the job says in its place.

    ``resources`` are those of the containers that train, as JSON; "" = the runtime's. ``pods``: how many pods it has with its
    runtime; None while that was not observed.
    """

    kind: str
    name: str
    nodes: int | None = None
    resources: str = ""
    pods: int | None = None


class TrainingRuntimeObserved(Fact, frozen=True, kw_only=True):
    """A runtime was observed. Key: its uid."""

    wire_type: ClassVar[str] = "trainingruntime.observed"

    #: ``TrainingRuntime`` or, without a namespace, ``ClusterTrainingRuntime``.
    kind: str
    uid: str
    namespace: str = ""
    name: str
    resource_version: str
    #: None where it cannot be read.
    template: RuntimeTemplate | None = None


class TrainingRuntimeVanished(Fact, frozen=True, kw_only=True):
    """A runtime was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "trainingruntime.vanished"

    kind: str
    uid: str
    namespace: str = ""
    name: str
    resource_version: str

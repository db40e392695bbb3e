"""A control plane to try things on by hand, with three teams at work on twenty-four GPU nodes, of which four give cards by claim.

`python -m tests.cluster.demo [--data DIR]` stays in the foreground until Ctrl-C. With a folder
given it continues next time where it ended; without one nothing remains.
"""

import argparse
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from tests.cluster import build, devices, workloads
from tests.cluster.api import APPLY, ApiError, Json
from tests.cluster.plane import ControlPlane
from tests.cluster.processes import StartError

MODELS = {"NVIDIA-A100-SXM4-80GB": "a100", "NVIDIA-H100-80GB-HBM3": "h100"}
NODES_OF_EACH_MODEL = 10
#: Nodes whose cards are given out by claim, and whether their cards are divided.
CLAIMED = {"b200-0": False, "b200-1": False, "b200-2": True, "b200-3": True}
CLAIMED_MODEL, CLAIMED_CARDS = "NVIDIA-B200", 8
CHURN_SECONDS = 5


def main() -> int:
    """Runs until it is interrupted; 1 when no control plane can be had here."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.demo", description=__doc__)
    parser.add_argument("--data", type=Path, help="keep everything in this folder")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        build.build()
        with ControlPlane(arguments.data) as plane:
            populate(plane)
            print(_welcome(plane), flush=True)
            churn(plane)
    except KeyboardInterrupt:
        print("\ncontrol plane: ended", file=sys.stderr)
    except (build.BuildError, StartError) as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    return 0


def populate(plane: ControlPlane) -> None:
    """Nodes of two models, and what each team runs all day."""
    if not plane.api.request("GET", "/api/v1/nodes?limit=1")["items"]:
        for model, prefix in MODELS.items():
            plane.create_nodes(NODES_OF_EACH_MODEL, gpus=8, model=model, prefix=prefix)
        plane.create_nodes(len(CLAIMED), gpus=0, prefix="b200")
    offer(plane)
    for team in workloads.TEAMS:
        apply(plane, workloads.namespace(team))
        for person in team.people:
            apply(plane, workloads.notebook(team, person))
        for name in devices.CLASSES:
            apply(plane, devices.template(team.name, name))
        apply(plane, workloads.service(team, "inference", replicas=3))
        long = workloads.training(team, "pretraining", workers=2, gpus=8, seconds=3600)
        # A job's template may not change, so one that an earlier run left is left alone.
        if not plane.api.answers(workloads.path(long)):
            apply(plane, long)


def offer(plane: ControlPlane) -> None:
    """What the driver of the cards that are given out by claim would write."""
    for one in devices.classes():
        apply(plane, one)
    for name, divided in CLAIMED.items():
        for one in devices.slices(name, CLAIMED_MODEL, CLAIMED_CARDS, divided=divided):
            apply(plane, one)


def churn(plane: ControlPlane) -> None:
    """The rest of the day, for ever: jobs come and end, services grow and shrink."""
    dice = random.Random()
    # Names go on from the clock, so that a later run on the same data does not meet its own.
    number = int(time.time())
    while True:
        time.sleep(CHURN_SECONDS)
        number += 1
        try:
            _one_change(plane, dice, number)
        except (ApiError, OSError) as error:
            print(f"control plane: {error}", file=sys.stderr)


def apply(plane: ControlPlane, item: Json) -> None:
    """Server-side apply, so that doing it again changes nothing."""
    where = f"{workloads.path(item)}?fieldManager=demo&force=true"
    plane.api.request("PATCH", where, item, content_type=APPLY)


def _one_change(plane: ControlPlane, dice: random.Random, number: int) -> None:
    team = dice.choice(workloads.TEAMS)
    what = dice.choices(("train", "scale", "restart"), weights=(6, 3, 1))[0]
    if what == "train":
        claim = dice.choice(("", "", *devices.CLASSES))
        job = workloads.training(
            team,
            f"training-{number}",
            workers=dice.randint(1, 4),
            gpus=0 if claim else dice.choice((0, 1, 2, 4)),
            seconds=dice.randint(10, 120),
            model="" if claim else dice.choice(["", *MODELS]),
            claim=claim,
            failing=dice.random() < 0.15,
        )
        apply(plane, job)
    elif what == "scale":
        apply(plane, workloads.service(team, "inference", replicas=dice.randint(1, 6)))
    else:
        pod = f"notebook-{dice.choice(team.people)}-0"
        plane.api.request("DELETE", f"/api/v1/namespaces/{team.name}/pods/{pod}")


def _welcome(plane: ControlPlane) -> str:
    nodes = NODES_OF_EACH_MODEL * len(MODELS) + len(CLAIMED)
    teams = ", ".join(team.name for team in workloads.TEAMS)
    return f"""
A Kubernetes {build.kubernetes_version()} cluster is running: {plane.url}
  {nodes} simulated GPU nodes, {len(CLAIMED)} of them by claim, teams {teams}; something changes every {CHURN_SECONDS} s.

  export KUBECONFIG={plane.kubeconfig}
  {build.binary("kubectl")} get pods --all-namespaces --output=wide

Ctrl-C ends it."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

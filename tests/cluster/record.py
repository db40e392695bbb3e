"""Makes the bundled recording: a day of three teams, on a real control plane, written by `bursar export`.

`python -m tests.cluster.record [--minutes 12] [--out FILE]`. API server, scheduler and controllers are real, nodes are
simulated. Nobody waits a day for a recording: the day is lived in some minutes, and every stamp is then stretched
by the same factor around its beginning, so that orders, ids and amounts stay as they were observed.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import zstandard

from bus.clock import format_stamp, parse_stamp
from bus.envelope import from_line, to_line
from bus.sources.events import read_lines
from tests.cluster import build, demo, workloads
from tests.cluster.api import Json
from tests.cluster.plane import ControlPlane

#: The day that the recording shows: a Monday.
DAY = "2026-11-16T00:00:00Z"
OUT = Path(__file__).parents[2] / "deploy" / "recording" / "day.ndjson.zst"
STAMPS = ("created", "scheduled", "deletion", "disrupted")


def main() -> int:
    """Records, stretches and writes."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.record", description=__doc__)
    parser.add_argument("--minutes", type=float, default=12, help="how long the day is lived")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    build.build()
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as plane:
        exported = record(plane, Path(folder), arguments.minutes * 60)
        events = stretched(exported)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    packed = zstandard.ZstdCompressor(level=19).compress(b"".join(e + b"\n" for e in events))
    arguments.out.write_bytes(packed)
    print(f"{len(events)} events, {len(packed)} bytes: {arguments.out}", file=sys.stderr)
    return 0


def record(plane: ControlPlane, folder: Path, seconds: float) -> Path:
    """Lives the day in front of `bursar up` and exports what it saw."""
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "BURSAR_DATA": str(folder)}
    bursar = Path(sys.executable).with_name("bursar")
    for model, prefix in demo.MODELS.items():
        plane.create_nodes(4, gpus=8, model=model, prefix=prefix)
    for team in workloads.TEAMS:
        demo.apply(plane, workloads.namespace(team))
    up = subprocess.Popen([bursar, "up"], env=environment, stdout=subprocess.DEVNULL)
    try:
        time.sleep(3)
        live(plane, seconds)
        time.sleep(3)
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(30)
    out = folder / "day.ndjson"
    subprocess.run([bursar, "export", out], env=environment, check=True)
    return out


def live(plane: ControlPlane, seconds: float) -> None:
    """24 hours in so many seconds: services follow the daytime, people come and go, jobs run when they are sent."""
    dice = random.Random(16)
    hour_seconds = seconds / 24
    number = 0
    for hour in range(24):
        ends = time.monotonic() + hour_seconds
        for team in workloads.TEAMS:
            replicas = 2 + (hour in range(8, 20)) * dice.randint(1, 3)
            demo.apply(plane, workloads.service(team, "inference", replicas=replicas))
            for person in team.people:
                _attend(plane, team, person, hour, dice)
            for _ in range(dice.choice((0, 1, 1, 2)) + (hour in (9, 18))):
                number += 1
                demo.apply(plane, _job(team, number, hour_seconds, dice))
        time.sleep(max(0.0, ends - time.monotonic()))


def _attend(
    plane: ControlPlane, team: workloads.Team, person: str, hour: int, dice: random.Random
) -> None:
    notebook = workloads.notebook(team, person)
    if hour == 8 + (len(person) % 3):
        demo.apply(plane, notebook)
    # Two in three stop their notebook in the evening; the others hold their GPU all night.
    elif hour == 18 + (len(person) % 2) and dice.random() < 0.67:
        plane.api.request("DELETE", f"{workloads.path(notebook)}?propagationPolicy=Background")


def _job(team: workloads.Team, number: int, hour_seconds: float, dice: random.Random) -> Json:
    return workloads.training(
        team,
        f"training-{number}",
        workers=dice.randint(1, 4),
        gpus=dice.choice((0, 1, 2, 4)),
        seconds=max(2, int(hour_seconds * dice.choice((0.3, 0.5, 1, 2, 5)))),
        failing=dice.random() < 0.15,
    )


def stretched(exported: Path) -> list[bytes]:
    """The recording's lines with every stamp moved and stretched so that the first pod is created when the day begins
    and the last thing is seen when it ends.
    """
    events = list(read_lines(exported))
    pods = [msgspec.json.decode(e.body) for e in events if e.type == "pod.observed"]
    begin_us = min(parse_stamp(pod["created"]) for pod in pods)
    day_us = parse_stamp(DAY)
    factor = 86_399_000_000 / (max(event.time_us for event in events) - begin_us)

    def moved(time_us: int) -> int:
        return day_us + int((time_us - begin_us) * factor)

    def moved_stamp(text: str) -> str:
        return format_stamp(moved(parse_stamp(text)) // 1_000_000 * 1_000_000)

    lines = []
    for event in events:
        body = msgspec.json.decode(event.body)
        for field in STAMPS:
            if body.get(field):
                body[field] = moved_stamp(body[field])
        if body.get("finished"):
            body["finished"] = [moved_stamp(text) for text in body["finished"]]
        line = to_line(
            msgspec.structs.replace(
                event, time_us=moved(event.time_us), body=msgspec.json.encode(body)
            )
        )
        from_line(line)
        lines.append(line)
    return lines


if __name__ == "__main__":
    sys.exit(main())

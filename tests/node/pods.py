"""Pods for the real node, and the record of all that the API server told of them."""

import http.client
import json
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.acceptance.bookkeeping import second
from tests.cluster.api import Api, ApiError, Json, eventually
from tests.node.node import IMAGE

NAMESPACE = "real"
ENDED = ("Succeeded", "Failed")


def box(*words: str, name: str = "main", **more: Any) -> Json:
    """A container of the one program of the images."""
    command = ["/box", *words]
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": command, **more}


def pod(name: str, *containers: Json, annotations: Json | None = None, **spec: Any) -> Json:
    """A pod that is not started again, and has five seconds to end."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "containers": list(containers),
            **spec,
        },
    }


def amounts(cpu: str, memory: str) -> Json:
    """Equal requests and limits."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


class Record:
    """Every version of every pod of the namespace, as one watch of its own told it; also in a log, for people."""

    def __init__(self, api: Api, log: Path) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self._versions: dict[str, list[Json]] = defaultdict(list)
        self._is_over = threading.Event()
        self._log = log
        version = api.request("GET", self._path)["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._follow, args=(version,), daemon=True)
        self._thread.start()

    def _follow(self, version: str) -> None:
        while not self._is_over.is_set():
            with suppress(OSError, http.client.HTTPException):
                for line in self._api.lines(self._path, version, seconds=5):
                    event = json.loads(line)
                    found = event["object"]
                    assert event["type"] != "ERROR", found
                    version = found["metadata"]["resourceVersion"]
                    self._versions[found["metadata"]["name"]].append(event)
                    with self._log.open("ab") as file:
                        file.write(line)

    def stop(self) -> None:
        """Ends the watch."""
        self._is_over.set()
        self._thread.join(30)

    def create(self, body: Json) -> None:
        """Asks for a pod."""
        self._api.request("POST", self._path, body)

    def delete(self, name: str, **options: Any) -> None:
        """Asks for the end of a pod."""
        self._api.request("DELETE", f"{self._path}/{name}", options or None)

    def ask(self, method: str, path: str, body: Json, **options: Any) -> Json:
        """A request below a pod."""
        return self._api.request(method, f"{self._path}/{path}", body, **options)

    def names(self) -> set[str]:
        """The names of all pods that there were."""
        return set(self._versions)

    def versions(self, name: str) -> list[Json]:
        """All versions of a pod, in order."""
        return [event["object"] for event in list(self._versions[name])]

    def last(self, name: str) -> Json:
        """The newest version of a pod; empty where there is none yet."""
        return (self.versions(name) or [{}])[-1]

    def until(self, seen: Callable[[Json], Any], *names: str, seconds: float = 150) -> None:
        """Returns when `seen` holds of the newest version of each of these pods."""

        def left() -> list[str]:
            return [name for name in names if not (self.last(name) and seen(self.last(name)))]

        with suppress(AssertionError):
            return eventually(lambda: not left(), seconds=seconds) and None
        raise AssertionError(f"not within {seconds:g} s: {[self.last(name) for name in left()]}")

    def until_gone(self, *names: str, seconds: float = 150) -> None:
        """Returns when each of these pods was removed."""

        def left() -> list[str]:
            newest = {name: self._versions[name][-1:] for name in names}
            return [name for name, one in newest.items() if [e["type"] for e in one] != ["DELETED"]]

        with suppress(AssertionError):
            return eventually(lambda: not left(), seconds=seconds) and None
        raise AssertionError(f"not removed within {seconds:g} s: {left()}")

    # Moments, by the stamps of the API server and of the kubelet.

    def created(self, name: str) -> int:
        return second(self.last(name)["metadata"]["creationTimestamp"])

    def bound(self, name: str) -> int:
        """The binding, by the pod's own condition; the creation of one that names its node."""
        return min(
            (
                second(one["lastTransitionTime"])
                for version in self.versions(name)
                if version["spec"].get("nodeName")
                for one in version["status"].get("conditions", ())
                if (one["type"], one["status"]) == ("PodScheduled", "True")
            ),
            default=self.created(name),
        )

    def finished(self, name: str, *containers: str, kind: str = "containerStatuses") -> int:
        """The last end of these containers, by their own records; of all of one kind by default."""
        return max(
            second(one["state"]["terminated"]["finishedAt"])
            for one in self.last(name)["status"][kind]
            if not containers or one["name"] in containers
        )

    def removed(self, name: str) -> int:
        """The delete stamp of a pod that is gone."""
        metadata = self.last(name)["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == 0, metadata
        return second(metadata["deletionTimestamp"])


def phase(version: Json) -> str:
    return version["status"].get("phase", "")


def is_running(version: Json) -> bool:
    """Whether every container runs."""
    found = version["status"].get("containerStatuses", ())
    return bool(found) and all("running" in one["state"] for one in found)


def has_ended(version: Json) -> bool:
    return phase(version) in ENDED


def disruption(version: Json) -> str:
    """The reason of the condition `DisruptionTarget`; empty without it."""
    for one in version["status"].get("conditions", ()):
        if one["type"] == "DisruptionTarget":
            return one["reason"]
    return ""


def is_gone(api: Api, path: str) -> bool:
    """Whether the API server has no such object."""
    try:
        api.request("GET", path)
    except ApiError as error:
        return error.status == http.client.NOT_FOUND
    return False

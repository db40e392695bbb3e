"""Writes to an API server that may be killed meanwhile, and a gate that holds some of them back."""

import http.client
import itertools
import json
import threading
import time

from tests.cluster.api import ApiError, _decoded


class Client:
    """Writes of one thread on one connection, each until it is done, also while the server is killed."""

    def __init__(self, api):
        self._api, self._connection = api, None

    def write(self, method, path, body=None, content_type="application/json"):
        """What the server answers; of a write that an earlier try made already, what there is."""
        for tries in itertools.count():
            try:
                return self._once(method, path, body, content_type)
            except ApiError as error:
                if error.status >= 500 or error.status == 429:
                    time.sleep(0.1)
                elif tries and method == "DELETE" and error.status == 404:
                    return {}
                elif tries and method == "POST" and error.status == 409:
                    return (
                        {}
                        if path.endswith("/binding")
                        else self._once("GET", f"{path}/{body['metadata']['name']}", None, "")
                    )
                else:
                    raise
            except (OSError, http.client.HTTPException):
                self.close()
                time.sleep(0.1)

    def close(self):
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _once(self, method, path, body, content_type):
        if self._connection is None:
            self._connection = self._api._connect(15)
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, self._api._headers(content_type))
        answer = self._connection.getresponse()
        return _decoded(answer.status, answer.read())


class Gate:
    """Lets writes pass that are known by their observation alone; while it is closed none is under way."""

    def __init__(self):
        self._changed, self._passing, self._is_open = threading.Condition(), 0, True

    def enter(self):
        """Whether it is open; who entered leaves."""
        with self._changed:
            self._passing += self._is_open
            return self._is_open

    def leave(self):
        """What was to pass has passed."""
        with self._changed:
            self._passing -= 1
            self._changed.notify_all()

    def close(self):
        """Returns when nothing passes any more."""
        with self._changed:
            self._is_open = False
            self._changed.wait_for(lambda: not self._passing)

    def open(self):
        """All may pass again."""
        with self._changed:
            self._is_open = True

"""The processes of one installation as a cluster runs them: each with a folder of its own, started again when it has ended."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.pausing import pause

#: As a kubelet waits before it starts a container again.
AGAIN_SECONDS = 1.0
SAMPLE_SECONDS = 5.0
#: As docs/limits.md has a kubelet probe nats-server: what has no good answer so often in a row is killed.
PROBE_SECONDS, PROBE_WAITS_SECONDS, MISSES = 5.0, 5.0, 3


class Part:
    """One process. ``command`` gives what is run, when it is started; ``health`` a URL that says whether it is well."""

    def __init__(self, name, command, environment, log, health=""):
        self.name, self.command, self.environment, self.log = name, command, environment, log
        self.health = health
        self.process = None

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def pid(self):
        return self.process.pid

    def resident(self):
        """Bytes of memory; 0 where it does not run."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")  # fmt: skip
        except (OSError, IndexError):
            return 0


class Parts:
    """All parts, watched by a thread, and probed by another.

    ``ended``: how often each ended that nobody killed, by (name, exit status); ``unhealthy``: how often the probe killed it.
    """

    def __init__(self, folder):
        self.folder, self.parts, self.ended = folder, {}, Counter()
        self.memory, self._again = defaultdict(list), {}
        self._killed, self._is_over = set(), threading.Event()
        self.unhealthy = Counter()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._watch, self._probe)]  # fmt: skip

    def add(self, name, command, environment, health=""):
        """Start a part, and keep it running; with ``health`` also where its probe has no good answer."""
        part = Part(name, command, environment, self.folder / f"{name}.log", health)
        part.start()
        self.parts[name] = part

    def watch(self):
        for one in self._threads:
            one.start()

    def named(self, kind):
        """The names of the parts of a kind: `webhook` of `webhook-0`, `webhook-1`."""
        return sorted(name for name in self.parts if name.rpartition("-")[0] == kind)

    def end(self, name):
        """As a roll-out ends one: by a signal, and it is not started again."""
        part = self.parts.pop(name)
        part.process.terminate()
        return part.process.wait(30)

    def kill(self, name, seconds=AGAIN_SECONDS):
        """It starts again after so many seconds."""
        part = self.parts[name]
        self._again[name] = time.monotonic() + seconds
        self._killed.add((name, part.pid))
        part.process.kill()

    def pause(self, name):
        part = self.parts[name]
        if part.process.poll() is None:
            pause(part.pid)

    def resume(self, name):
        self.parts[name].process.send_signal(signal.SIGCONT)

    def _watch(self):
        sampled = 0.0
        while not self._is_over.wait(0.2):
            if time.monotonic() - sampled > SAMPLE_SECONDS:
                sampled = time.monotonic()
                for name, part in list(self.parts.items()):
                    self.memory[name].append(part.resident())
            for name, part in list(self.parts.items()):
                status = part.process.poll()
                if status is None:
                    continue
                if (name, part.pid) not in self._killed:
                    self.ended[name, status] += 1
                    self._killed.add((name, part.pid))
                    self._again[name] = time.monotonic() + AGAIN_SECONDS
                if time.monotonic() > self._again[name]:
                    part.start()

    def _probe(self):
        """As a kubelet: it counts anew for each process."""
        misses = Counter()
        while not self._is_over.wait(PROBE_SECONDS):
            for name, part in list(self.parts.items()):
                if not part.health or part.process.poll() is not None:
                    continue
                probed = name, part.pid
                misses[probed] = 0 if is_healthy(part.health) else misses[probed] + 1
                if misses[probed] == MISSES and probed == (name, part.pid):
                    self.unhealthy[name] += 1
                    self.kill(name)

    def stop(self):
        self._is_over.set()
        for one in self._threads:
            if one.ident is not None:
                one.join(10)
        for part in self.parts.values():
            self.resume(part.name)
            part.process.terminate()
        for part in self.parts.values():
            try:
                part.process.wait(15)
            except subprocess.TimeoutExpired:
                part.process.kill()


def is_healthy(url, seconds=PROBE_WAITS_SECONDS):
    """Whether a GET has a good answer in time."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def bursar(clock, *arguments):
    """The command of a process of Bursar whose clock the file ``clock`` shifts; by its path, as older checkouts lack it."""
    return [sys.executable, str(Path(__file__).with_name("shifted.py")), str(clock), *arguments]

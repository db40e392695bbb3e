"""One pass over a TFJob as the operator makes it, written down once more, slowly: one long walk over plain values.

It knows nothing of the product's rules but its words. Without gangs, adoption and managers, which the cases have.
"""

_NEVER, _EXIT = ("", "Never"), "ExitCode"
ORDER = ("Chief", "Evaluator", "Master", "PS", "Worker")


class Plainly:
    """``job``: fields of the spec by name; ``pods`` by (type, index, phase, code, restarts, deleting); conditions as pairs."""

    def __init__(self, job, pods, now):
        self.job, self.pods, self.now = job, pods, now
        self.conditions = list(job["conditions"])
        self.counts = dict(job["counts"])
        self.start, self.completion = job["start"], job["completion"]
        self.creates, self.removes = [], []

    def run(self):
        if self.holds("Succeeded") or self.holds("Failed"):
            self._finished()
        elif self.job["suspend"]:
            self.removes += [pod[:2] for pod in self.pods]
            self.counts = {type: (0, *rest) for type, (_, *rest) in self.counts.items()}
            if self.holds("Running"):
                self.set("Running", False)
            self.set("Suspended")
        else:
            if self.holds("Suspended"):
                self.set("Suspended", False)
                self.start = self.now
            if self._is_over():
                self.removes += [pod[:2] for pod in self.pods]
                self.completion = self.now if self.completion is None else self.completion
                self.set("Failed")
            else:
                self._replicas()
        return self

    def holds(self, type):
        return (type, True) in self.conditions

    def set(self, type, status=True):
        if self.holds("Failed") or (type, status) in self.conditions:
            return
        other = {"Running": "Restarting", "Restarting": "Running"}.get(type)
        kept = [one for one in self.conditions if one[0] not in (type, other)]
        if type in ("Succeeded", "Failed"):
            kept = [(name, False if name == "Running" else was) for name, was in kept]
        self.conditions = [*kept, (type, status)]

    def _finished(self):
        for type, index, phase, *_ in self.pods:
            policy = self.job["clean"]
            if policy == "All" or (policy == "Running" and phase in ("Running", "Pending")):
                self.removes.append((type, index))
        if self.holds("Succeeded"):
            self.counts = {type: (0, a + s, f) for type, (a, s, f) in self.counts.items()}

    def _is_over(self):
        job = self.job
        if (
            job["deadline"] is not None
            and self.start is not None
            and self.now - self.start >= job["deadline"]
        ):
            return True
        if job["backoff"] is None:
            return False
        restarts = sum(
            restarts
            for type, _, phase, _, restarts, _ in self.pods
            if phase == "Running" and job["types"][type][1] not in _NEVER
        )
        failed = sum(phase == "Failed" for _, _, phase, *_ in self.pods)
        known = sum(counts[2] for counts in self.counts.values())
        live = sum(p[2] not in ("Succeeded", "Failed") and not p[5] for p in self.pods)
        is_new = failed > known and live != sum(n for n, _ in job["types"].values())
        if job["backoff"] == 0:
            return restarts > 0 or is_new
        return restarts >= job["backoff"]

    def _replicas(self):
        types = self.job["types"]
        for type in (name for name in ORDER if name in types):
            wanted, policy = types[type]
            mine = [pod for pod in self.pods if pod[0] == type]
            self.counts[type] = self._type(type, wanted, policy, mine)
        if self.start is None:
            self.start = self.now
        self._status()

    def _type(self, type, wanted, policy, mine):
        active = succeeded = failed = 0
        for index in range(max([1, wanted, *(pod[1] + 1 for pod in mine)])):
            here = [pod for pod in mine if pod[1] == index]
            if not here:
                self.creates.append((type, index))
            if len(here) != 1:
                continue
            _, _, phase, code, _, deleting = here[0]
            if index >= wanted:
                self.removes.append((type, index))
            if phase == "Failed":
                if policy == _EXIT and code is not None and code < 128:
                    self.set("Failed")
                elif policy not in _NEVER:
                    self.removes.append((type, index))
                    self.set("Restarting")
            active += phase == "Running" and not deleting
            succeeded += phase == "Succeeded"
            failed += phase == "Failed" or (phase == "Running" and deleting)
        return active, succeeded, failed

    def _status(self):
        types = self.job["types"]
        was_restarting = "Restarting" in [name for name, _ in self.conditions]
        chief = "Chief" in types or "Master" in types
        for type in (name for name in ORDER if name in types):
            active, succeeded, failed = self.counts[type]
            done = succeeded == types[type][0]
            if type in ("Chief", "Master"):
                if active:
                    self.set("Running")
                if done:
                    self._end("Succeeded")
            elif type == "Worker" and not chief:
                first = ("Worker", 0, "Succeeded", 0) in [pod[:4] for pod in self.pods]
                if done or (first and not self.job["success"]):
                    self._end("Succeeded")
                elif active:
                    self.set("Running")
            if failed:
                if was_restarting:
                    self.set("Restarting")
                elif not (type == "Worker" and self.job["dynamic"]):
                    self._end("Failed")

    def _end(self, type):
        self.completion = self.now if self.completion is None else self.completion
        self.set(type)


class PlainlyTrained(Plainly):
    """The same of the other kinds: ``job["kind"]`` is theirs, ``job["elastic"]`` a PyTorchJob's."""

    def _status(self):
        types, kind = self.job["types"], self.job["kind"]
        for type in (name for name in ORDER if name in types):
            wanted, policy = types[type]
            active, succeeded, failed = self.counts[type]
            if kind == "XGBoostJob":
                if type == "Master":
                    if active:
                        self.set("Running")
                    if succeeded == wanted:
                        self.set("Running")
                        self._end("Succeeded")
                        return
                if failed:
                    self.set("Running")
                    if policy == _EXIT:
                        self.set("Restarting")
                    else:
                        self._end("Failed")
                continue
            if "Master" in types:
                if type == "Master":
                    if active:
                        self.set("Running")
                    if succeeded == wanted:
                        self._end("Succeeded")
                        return
            elif succeeded == wanted or (self.job["elastic"] and succeeded):
                self._end("Succeeded")
            elif active:
                self.set("Running")
            if failed and wanted > succeeded + active:
                if policy == "Never":
                    self._end("Failed")
                else:
                    self.set("Restarting")

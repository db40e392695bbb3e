"""The cards of the nodes of :mod:`tests.acceptance.claims_churn`: what their slices offer, and what of it is free.

A node has whole cards, cards that partitions divide by a counter, or cards whose memory several claims share.
"""

import threading

DRIVER = "gpu.nvidia.com"
#: GiB of a card, and of the parts into which a partitioned one may be divided.
CARD_GIB = 80
PARTS = (10, 10, 20, 20, 30, 40)


class Cards:
    """The devices of all nodes, and which are free. A device: (pool, name); a card is divided in GiB."""

    def __init__(self, rng, size):
        self._rng, self._lock = rng, threading.Lock()
        self._free = {}
        self._memory = {}
        for number in range(8 * size):
            self._add(f"whole-{number}", [f"gpu-{one}" for one in range(16)])
        for number in range(3 * size):
            self._add(f"parts-{number}", [part for part, *_ in parts()])
            self._memory |= {
                (f"parts-{number}", card): CARD_GIB for card in {card for _, card, _ in parts()}
            }
            self._add(f"shares-{number}", [])
            self._memory |= {(f"shares-{number}", f"gpu-{one}"): CARD_GIB for one in range(8)}

    def _add(self, pool, names):
        self._free[pool] = set(names)

    def pools(self):
        """Every pool, which is a node of its name."""
        return list(self._free)

    def whole(self, count):
        """Cards of one node, or none."""
        with self._lock:
            for pool in self._shuffled("whole"):
                if len(self._free[pool]) >= count:
                    taken = self._rng.sample(sorted(self._free[pool]), count)
                    self._free[pool] -= set(taken)
                    return [(pool, name, None) for name in taken]
        return []

    def part(self):
        """A part of a card whose counters have room for it, or none."""
        with self._lock:
            for pool in self._shuffled("parts"):
                fits = [
                    one
                    for one in parts()
                    if one[0] in self._free[pool] and one[2] <= self._memory[pool, one[1]]
                ]
                if fits:
                    name, card, gib = self._rng.choice(fits)
                    self._free[pool].remove(name)
                    self._memory[pool, card] -= gib
                    return [(pool, name, None)]
        return []

    def share(self):
        """Some GiB of a card that claims share, or none."""
        gib = self._rng.choice((3, 7, 10, 24, 40))
        with self._lock:
            for pool in self._shuffled("shares"):
                fits = [
                    card
                    for (where, card), left in self._memory.items()
                    if where == pool and left >= gib
                ]
                if fits:
                    card = self._rng.choice(fits)
                    self._memory[pool, card] -= gib
                    return [(pool, card, gib)]
        return []

    def give_back(self, devices):
        """These are free again."""
        of_part = {name: (card, gib) for name, card, gib in parts()}
        with self._lock:
            for pool, name, gib in devices:
                if gib is not None:
                    self._memory[pool, name] += gib
                    continue
                self._free[pool].add(name)
                if pool.startswith("parts"):
                    card, gib = of_part[name]
                    self._memory[pool, card] += gib

    def _shuffled(self, prefix):
        pools = [pool for pool in self._free if pool.startswith(prefix)]
        self._rng.shuffle(pools)
        return pools


def parts():
    """(device, card, GiB) of the partitions of a node of four cards."""
    return [
        (f"{card}-part-{n}", card, gib)
        for card in ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
        for n, gib in enumerate(PARTS)
    ]


def offered(pool):
    """The slices of a pool, as their driver writes them: counters in one of their own."""
    model = {"string": {"w": "NVIDIA-H100", "p": "NVIDIA-A100", "s": "NVIDIA-L40S"}[pool[0]]}
    full = {"memory": {"value": f"{CARD_GIB}Gi"}}
    attributes = {"productName": model}
    if pool.startswith("whole"):
        devices = [
            {"name": f"gpu-{n}", "attributes": attributes, "capacity": full} for n in range(16)
        ]
    elif pool.startswith("shares"):
        devices = [
            {
                "name": f"gpu-{n}",
                "attributes": attributes,
                "capacity": full,
                "allowMultipleAllocations": True,
            }
            for n in range(8)
        ]
    else:
        devices = [
            {
                "name": name,
                "attributes": attributes,
                "capacity": {"memory": {"value": f"{gib}Gi"}},
                "consumesCounters": [
                    {"counterSet": card, "counters": {"memory": {"value": f"{gib}Gi"}}}
                ],
            }
            for name, card, gib in parts()
        ]
    specs = [{"devices": devices}]
    if pool.startswith("parts"):
        sets = sorted({card for _, card, _ in parts()})
        specs.append({"sharedCounters": [{"name": one, "counters": full} for one in sets]})
    where = {"name": pool, "generation": 1, "resourceSliceCount": len(specs)}
    return [
        {
            "metadata": {"name": f"{pool}-{n}"},
            "spec": {"driver": DRIVER, "nodeName": pool, "pool": where, **one},
        }
        for n, one in enumerate(specs)
    ]

"""The quota keys of a demand, with the amounts.

Source: docs/quotas.md (charging; dot-boundary prefixes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Amounts = Mapping[str, int]


def prefixes(key: str) -> Iterator[str]:
    """``key`` and every shorter prefix up to one of its dots, longest first.

    A dot inside the resource's name (``limits.nvidia.com/gpu.A30``) ends no key, and neither does the
    one before it: ``limits.nvidia.com/gpu.A30`` and ``limits.nvidia.com/gpu``, no more.
    """
    start = key.find(".") + 1
    start = key.find("/", start) + 1 or start
    while True:
        yield key
        end = key.rfind(".", start)
        if end < 0:
            return
        key = key[:end]


def typed(key: str, model: str) -> Iterator[str]:
    """The keys of a demand with a model: ``key`` with the model, with each beginning of it, and ``key`` itself.

    The name of a class of devices may have dots of its own (``limits.dra/gpu.nvidia.com``). They end no key.
    """
    return (one for one in prefixes(f"{key}.{model}") if len(one) >= len(key))


def kind_of(resource: str) -> str:
    """The type label for a resource: ``cpu``, ``memory``, ``gpu``, or "" for none."""
    if resource.startswith("dra/") or resource == "gpu-memory":
        # Devices by claim: "dra/<class>".
        return "gpu"
    name = resource.rpartition("/")[2]
    return name if name in ("cpu", "memory", "gpu") else ""


def charged(demand: Mapping[str, int], types: Mapping[str, str]) -> dict[str, int]:
    """The charges of a demand, by key.

    ``demand`` has keys ``limits.<resource>`` and ``requests.<resource>``, ``types`` the model by ``cpu``,
    ``memory`` or ``gpu``. A demand with a type charges the typed key and every dot-boundary prefix of it; one
    without only the plain key. Zeros charge nothing. Keys without a limit are charged too, so a later limit has
    their usage.
    """
    if not types:
        return {key: amount for key, amount in demand.items() if amount}
    charge: dict[str, int] = {}
    for key, amount in demand.items():
        if not amount:
            continue
        model = types.get(kind_of(key.partition(".")[2]), "")
        for touched in typed(key, model) if model else (key,):
            charge[touched] = charge.get(touched, 0) + amount
    return charge


#: Largest amount of a journal (int64).
MOST = 2**63 - 1

#: Marks, in :func:`counted`, the part of a demand without a model.
UNNAMED = "?"

#: In a sum of :func:`counted`: how many of it were reviewed, and not seen yet.
EXPECTED = "#"

#: Marks, in a sum of :func:`counted`, the part of pods with a requested deletion: others may be made in their
#: place.
ENDING = "!"


def counted(demand: Mapping[str, int], types: Mapping[str, str]) -> dict[str, int]:
    """The share of one pod in the sum of its owner's pods: its charges by its own models.

    The part without a model is also listed alone, so :func:`summed` can charge it by the owner's.
    """
    found = charged(demand, types)
    for key, amount in demand.items():
        kind = kind_of(key.partition(".")[2])
        if amount and kind and not types.get(kind):
            found[UNNAMED + key] = amount
    return found


_MARKS = (UNNAMED, EXPECTED, ENDING)


def ending(counts: Mapping[str, int]) -> dict[str, int]:
    """The part of a sum from pods with a requested deletion."""
    return {key[1:]: amount for key, amount in counts.items() if key[0] == ENDING}


def summed(counts: Mapping[str, int], types: Mapping[str, str]) -> dict[str, int]:
    """The charges of a sum of :func:`counted`, by key, below an owner with these ``types``."""
    found = {key: n for key, n in counts.items() if key[0] not in _MARKS}
    for key, amount in counts.items():
        if not key.startswith(UNNAMED):
            continue
        plain = key.removeprefix(UNNAMED)
        if model := types.get(kind_of(plain.partition(".")[2]), ""):
            for touched in typed(plain, model):
                if touched != plain:
                    found[touched] = found.get(touched, 0) + amount
    # More than a journal holds is more than any limit.
    return {key: min(n, MOST) for key, n in found.items()}


def most_of(counts: Mapping[str, int], charge: Amounts) -> dict[str, int]:
    """The largest possible charge of a sum of :func:`counted` for the keys of ``charge``, whatever models its owner names."""
    found = summed(counts, {})
    for mark, amount in counts.items():
        plain = mark.removeprefix(UNNAMED)
        if plain != mark:
            for key in charge:
                if key.startswith(f"{plain}."):
                    found[key] = found.get(key, 0) + amount
    return found


def largest(*amounts: Amounts) -> Amounts:
    """The largest amount of each key."""
    given = [one for one in amounts if one]
    if len(given) < 2:
        return given[0] if given else {}
    found = dict(given[0])
    for one in given[1:]:
        for key, amount in one.items():
            if amount > found.get(key, 0):
                found[key] = amount
    return found


def added(one: Amounts, other: Amounts) -> dict[str, int]:
    """The sum of two amounts, by key."""
    return {key: one.get(key, 0) + other.get(key, 0) for key in one.keys() | other.keys()}


def less(one: Amounts, other: Amounts) -> dict[str, int]:
    """The excess of the first over the second, by key."""
    if not other:
        return {key: n for key, n in one.items() if n > 0}
    return {key: n - other.get(key, 0) for key, n in one.items() if n > other.get(key, 0)}


def missing(asked: Amounts, total: Amounts) -> dict[str, int]:
    """The part of ``asked`` missing in a sum of :func:`counted`. Amounts without a model never lack more than the
    total: pods may name one.
    """
    found = less(asked, total)
    for key in [key for key in found if key.startswith(UNNAMED)]:
        found[key] = min(found[key], found.get(key.removeprefix(UNNAMED), 0))
    return {key: n for key, n in found.items() if n}


def weighed(asked: Amounts, below: Amounts) -> Amounts:
    """The count of an object with the demand ``asked`` and ``below`` it, both as :func:`counted`: the larger of
    each.

    Its demand beyond the part below it names no model; of the rest each pod names its own or none.
    """
    found = largest(asked, below)
    if not (asked and below):
        return found
    found = dict(found)
    for key, unnamed in asked.items():
        if key.startswith(UNNAMED):
            plain = key.removeprefix(UNNAMED)
            beyond = max(0, asked.get(plain, 0) - below.get(plain, 0))
            found[key] = below.get(key, 0) + min(unnamed, beyond)
    return {key: n for key, n in found.items() if n}


def replaced(total: Amounts, before: Amounts, after: Amounts) -> Amounts:
    """A sum with ``after`` in the place of ``before``."""
    if before == after:
        return total
    found = dict(total)
    for sign, amounts in ((-1, before), (1, after)):
        for key, amount in amounts.items():
            found[key] = found.get(key, 0) + sign * amount
    return {key: amount for key, amount in found.items() if amount}

"""Answers to reviews in a history, and the same with other words."""

import msgspec

from bus.events.admissions import AdmissionDecided, entries, grouped


def decisions(cluster):
    """(place in the history, place in its group, fact) of every answer to a review of a workload."""
    for place, event in enumerate(cluster.transport.events):
        for within, one in enumerate(entries(event)):
            if one.type == AdmissionDecided.wire_type and b'"request"' in one.body:
                yield place, within, AdmissionDecided.read(one)


def forge(cluster, asker, **fields):
    """The first answer to ``asker`` with other ``fields``; its id."""
    place, within, fact = next(one for one in decisions(cluster) if one[2].uid == asker)
    event = cluster.transport.events[place]
    ours = list(entries(event))
    forged = msgspec.structs.replace(fact, **fields)
    ours[within] = msgspec.structs.replace(ours[within], body=msgspec.json.encode(forged))
    body = grouped(ours).body if len(ours) > 1 else ours[0].body
    cluster.is_tampered = True
    cluster.transport.events[place] = msgspec.structs.replace(event, body=body)
    return ours[within].id

"""Events and their transport: facts, their envelope, and the adapters they pass.

Glossary, one word for each thing:

* *stream, subject, sequence, consumer, ack, redelivery*: as in NATS.
* *id, source, type, subject, time*: attributes of an event, as in CloudEvents; our ``key`` is its ``subject``.
* *event*: one thing published, once. *Fact*: the body of an event. *Observation*: one watch or list record.
* *fold, projection, checkpoint, replay, upcast*: as in event sourcing. *Derivation*: rows computed from several
  rows.
* *adapter*: one of the few modules that do IO. *Archive*: the ledger's own copy of the history. *Parked*: kept aside,
  not folded, until driven again.
* *held, waiting, unknown*: the three kinds of time a pod has in the ledger.
* *segment*: an interval with an unchanged charge of a pod.
"""

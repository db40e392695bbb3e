"""The synthetic history is what a source would say, the same every time, and bounded in memory."""

import itertools

import msgspec

from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import pods
from tests.benchmarks import synthetic


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


def test_translating_the_watch_lines_gives_the_events():
    translated, made = [], []
    for seen in synthetic.pods(3_000, live=100):
        line = msgspec.json.decode(synthetic.watch_line(seen), type=_Line)
        record = Record(
            line.type, bytes(line.object), seen.time_us, synthetic.CLUSTER, synthetic.SOURCE
        )
        translated.append(pods.translate(record, LabelPolicy()))
        made.append(synthetic.pod_event(seen))

    assert translated == made


def test_the_same_seed_gives_the_same_history():
    assert list(synthetic.events(2_000, live=50)) == list(synthetic.events(2_000, live=50))


def test_every_stage_is_seen():
    stages = {seen.life.stage for seen in itertools.islice(synthetic.pods(2_000, live=50), 2_000)}

    assert stages == set(range(7))

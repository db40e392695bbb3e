"""The outline of a review: read piece by piece, of any size and any form that a tenant can give it."""

import json
import random
import tracemalloc

import pytest

from reactors.webhook.failure import UNAVAILABLE, UNREADABLE, unread
from reactors.webhook.outline import Outline, OutlineReader, outline_of
from reactors.webhook.scanner import Scanner
from tests.architecture.product import PACKAGES
from tests.architecture.purity import faults
from tests.reactors.webhook.forms import FORMS
from tests.reactors.webhook.reviews import deployment, encoded

QUOTA = "biz.group.resource.quota"


def read(raw, size=65_536):
    reader = OutlineReader()
    for at in range(0, len(raw), size):
        reader.feed(raw[at : at + size])
    return reader.outline()


def around(inner, **request):
    """A review whose object has these bytes in an annotation's place."""
    item = deployment(annotations="HERE", labels={QUOTA: "team"})
    return encoded(object=item, **request).replace(b'"HERE"', inner)


@pytest.mark.parametrize("inner", FORMS.values(), ids=FORMS)
def test_the_outline_of_any_object_names_the_review_and_its_quota(inner):
    found = read(around(inner, operation="UPDATE", oldObject=deployment()))

    assert (found.uid, found.operation, found.namespace) == ("review-1", "UPDATE", "team")
    assert (found.group, found.resource, found.kind) == ("apps", "deployments", "Deployment")
    assert (found.is_whole, found.names_quota, found.uids) == (True, True, {"object-1"})


def test_reading_the_outline_holds_a_few_kilobytes_whatever_the_size():
    piece = b"\\u003c" * 10_000
    begin, end = around(b'"HERE"').split(b"HERE")
    reader = OutlineReader()
    tracemalloc.start()
    reader.feed(begin)
    for _ in range(500):
        reader.feed(piece)
    reader.feed(end)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert reader.outline().is_whole
    assert most < 2_000_000


def test_members_are_those_of_a_decoder_wherever_the_pieces_are_cut():
    dice = random.Random(7)
    texts = ['a"b\\', '\\\\"', "{[", "<" * 300, "\\" * 257, '"' * 255, "", "\u2028", "]}", ","]

    def value(depth):
        kind = dice.randrange(8)
        if depth <= 0 or kind < 3:
            return dice.choice([1, -2.5, None, True, *texts])
        if kind < 5:
            return [value(depth - 1) for _ in range(dice.randrange(9))]
        return {dice.choice(texts) + str(n): value(depth - 1) for n in range(dice.randrange(9))}

    for _ in range(400):
        whole = {"a": value(4), "m": {"x": value(4), "y": value(5)}, "b": value(3)}
        raw = json.dumps(whole, indent=dice.choice([None, 1])).encode()
        scanner, at = Scanner({(), ("m",)}, {("a",), ("m", "y"), ("b",)}), 0
        while at < len(raw):
            size = dice.choice([1, 3, 50, 1000])
            scanner.feed(raw[at : at + size])
            at += size
        found = {path[-1]: one for path, one in scanner.members.items()}

        assert scanner.is_done and set(found) == {"a", "y", "b"}
        for name, member in found.items():
            want = whole["m"]["y"] if name == "y" else whole[name]
            assert member.raw is None or json.loads(member.raw) == want


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b'{"kind":"AdmissionReview"', b"}" * 9, b'"' * 9, b"{" * 99, b'{"a"']
)  # fmt: skip
def test_what_does_not_begin_as_a_review_has_no_outline(raw):
    assert outline_of(raw) is None


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_a_label_across_two_pieces_is_found(size):
    raw = encoded(object=deployment(labels={QUOTA: "team"}))

    assert read(raw, size).names_quota


@pytest.mark.parametrize(
    "object",
    [
        deployment(annotations={"note": json.dumps({QUOTA: "team"})}),
        deployment(annotations={QUOTA + "x": "team"}),
        deployment(managedFields=[{"fieldsV1": {f"f:{QUOTA}": {}}}]),
    ],
    ids=["in a text", "another key", "a managed field"],
)
def test_a_quota_in_a_text_is_no_label(object):
    assert not read(encoded(object=object)).names_quota


def update(new, old):
    """The outline of an update, whose annotation is too large for a decoder."""
    return outline_of(encoded(operation="UPDATE", object=new, oldObject=old))


OLD = deployment(
    2, finalizers=["a"], labels={"a": "b"}, annotations={"n": "<" * 99}, deletionTimestamp="now"
)


def test_an_update_that_removes_finalizers_and_notes_only_ends_what_is_being_deleted():
    new = deployment(2, labels={"a": "b"}, deletionTimestamp="now")
    found = update(new, OLD)

    assert (found.asks_alike, found.only_ends) == (False, True)
    assert unread(found, "larger").allowed
    assert update({**OLD, "metadata": {**OLD["metadata"], "finalizers": []}}, OLD).asks_alike


MORE = {
    "replicas": deployment(3, labels={"a": "b"}, deletionTimestamp="now"),
    "a label": deployment(2, labels={QUOTA: "other"}, deletionTimestamp="now"),
    "no label": deployment(2, deletionTimestamp="now"),
    "an owner": deployment(
        2, labels={"a": "b"}, ownerReferences=[{"uid": "u", "controller": True}], deletionTimestamp="now"
    ),
    "another template": {**deployment(2, labels={"a": "b"}), "spec": {"replicas": 2, "template": {}}},
}  # fmt: skip


@pytest.mark.parametrize("new", MORE.values(), ids=MORE)
def test_any_other_update_of_what_is_being_deleted_does_not_only_end_it(new):
    assert not unread(update(new, OLD), "larger").allowed


def test_an_update_of_notes_of_what_is_not_being_deleted_is_refused():
    old = deployment(2, annotations={"n": "<"})

    assert not unread(update(deployment(2), old), "larger").allowed
    assert unread(update(deployment(2, annotations={"n": "<"}, finalizers=[]), old), "x").allowed


def test_uids_are_those_of_both_objects_and_of_all_owners_that_they_name():
    def owned(uid, *more):
        references = [{"uid": uid, "controller": True}, {"uid": "other"}, *more]
        return deployment(ownerReferences=references)

    assert update(owned("a"), owned("b")).uids == {"object-1", "a", "b", "other"}
    many = [{"uid": "x" * 400}] * 100
    assert update(owned("a", *many), owned("a")).uids is None


def test_a_deletion_passes_and_what_is_late_is_told_to_ask_again():
    begun = Outline("review-1", "CREATE", "apps", "deployments", namespace="team")
    late, large = unread(begun, None), unread(begun, "larger than 3 bytes")

    assert (late.reason, late.code) == (UNAVAILABLE, 503)
    assert (large.reason, large.code) == (UNREADABLE, 422)
    assert "larger than 3 bytes" in large.message
    assert unread(Outline("review-1", "DELETE"), None).allowed


@pytest.mark.parametrize(
    "function", [outline_of, unread, OutlineReader.feed], ids=["of", "unread", "feed"]
)
def test_reading_outlines_is_pure(function):
    assert [] == faults(function, PACKAGES)

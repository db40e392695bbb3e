"""AdmissionReview v1: strict bytes in, a decided answer out."""

import json

import msgspec
import pytest

from reactors.webhook.review import (
    MAX_BYTES,
    MAX_DEPTH,
    Answer,
    Review,
    ReviewError,
    UnreadableObjectError,
    parse,
    render,
)
from tests.architecture.product import PACKAGES
from tests.architecture.purity import faults
from tests.reactors.webhook.reviews import deployment, encoded, review


def without(name):
    whole = review()
    del whole["request"][name]
    return msgspec.json.encode(whole)


def replaced(old, new):
    return encoded().replace(old, new)


def test_a_review_is_read_field_by_field():
    raw = encoded(
        operation="UPDATE",
        subResource="scale",
        dryRun=True,
        object=deployment(3),
        oldObject=deployment(2),
    )

    assert parse(raw) == Review(
        uid="review-1",
        operation="UPDATE",
        group="apps",
        version="v1",
        resource="deployments",
        subresource="scale",
        kind="Deployment",
        namespace="team",
        name="service",
        user="ada",
        groups=("system:authenticated",),
        dry_run=True,
        object=deployment(3),
        old_object=deployment(2),
        options={"kind": "CreateOptions"},
    )


def test_what_an_api_server_leaves_out_is_empty():
    whole = review(
        operation="DELETE", object=None, oldObject=deployment(), userInfo={}, options=None
    )
    for name in ("name", "namespace", "dryRun", "options", "object"):
        del whole["request"][name]
    found = parse(msgspec.json.encode(whole))

    assert ("", "", "", (), False, None, None) == (
        found.name,
        found.namespace,
        found.user,
        found.groups,
        found.dry_run,
        found.object,
        found.options,
    )


#: docs/wrong-input.md row D12, and other bytes that no API server sends.
NO_REVIEWS = {
    "empty": b"",
    "null": b"null",
    "an array": b"[" + encoded() + b"]",
    "a text": b'"AdmissionReview"',
    "an empty object": b"{}",
    "a byte order mark": b"\xef\xbb\xbf" + encoded(),
    "version v1beta1": replaced(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
    "another kind": replaced(b"AdmissionReview", b"ConversionReview"),
    "an answer": msgspec.json.encode({**review(), "request": None, "response": {"allowed": True}}),
    "no uid": without("uid"),
    "an empty uid": encoded(uid=""),
    "a uid that is a number": encoded(uid=1),
}
#: What begins as a review, whatever a tenant, or another version of the API server, makes of the rest.
BEGINNINGS = {
    "cut off": encoded()[:-1],
    "two reviews": encoded() * 2,
    "not UTF-8": replaced(b"ada", b"a\xff"),
    "NaN": replaced(b'"replicas":1', b'"replicas":NaN'),
    "Infinity": replaced(b'"replicas":1', b'"replicas":Infinity'),
    "equal keys in the request": replaced(b'"uid":"review-1"', b'"uid":"review-1","uid":"other"'),
    "equal keys in the object": replaced(b'"replicas":1', b'"replicas":1,"replicas":0'),
    "no kind": without("kind"),
    "no resource": without("resource"),
    "no user": without("userInfo"),
    "an unknown operation": encoded(operation="PATCH"),
    "an operation in lower case": encoded(operation="create"),
    "a dry run that is a text": encoded(dryRun="false"),
    "a dry run that is a number": encoded(dryRun=0),
    "groups that are a text": encoded(userInfo={"username": "ada", "groups": "system:masters"}),
    "an object that is a list": encoded(object=[deployment()]),
    "an object that is a text": encoded(object="{}"),
    "an old object that is a text": encoded(oldObject="{}"),
    "a create without an object": encoded(object=None),
    "an update without an object": encoded(operation="UPDATE", object=None),
}


@pytest.mark.parametrize("raw", NO_REVIEWS.values(), ids=NO_REVIEWS)
def test_bytes_that_no_api_server_sends_are_a_bad_request(raw):
    with pytest.raises(ReviewError) as found:
        parse(raw)

    assert 400 == found.value.status


@pytest.mark.parametrize("raw", BEGINNINGS.values(), ids=BEGINNINGS)
def test_whatever_begins_as_a_review_is_answered_by_its_outline(raw):
    """HTTP 400 would hand the decision to failurePolicy."""
    with pytest.raises(UnreadableObjectError) as found:
        parse(raw)

    assert ("review-1", "team") == (found.value.outline.uid, found.value.outline.namespace)


def test_a_review_that_is_too_large_is_answered_by_its_outline():
    padding = {"description": "x" * MAX_BYTES}
    with pytest.raises(UnreadableObjectError, match="larger than") as found:
        parse(encoded(object=deployment(annotations=padding)))

    assert ("review-1", True) == (found.value.outline.uid, found.value.outline.is_whole)


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


#: Any tenant can write these into a field that the API server does not look into.
UNREADABLE = {
    "NUL in a text": encoded(object=deployment(annotations={"a": "\0"})),
    "nested too deep": encoded(object=deployment(annotations=nested(MAX_DEPTH))),
    "an integer beyond 64 bits": replaced(b'"replicas":1', b'"replicas":9223372036854775808'),
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_an_object_that_cannot_be_read_exactly_is_told_with_its_review(raw):
    with pytest.raises(UnreadableObjectError) as found:
        parse(raw)

    assert "review-1" == found.value.outline.uid


def test_an_unreadable_object_in_no_review_is_a_bad_request():
    with pytest.raises(ReviewError):
        parse(UNREADABLE["NUL in a text"].replace(b"admission.k8s.io/v1", b"v1beta1"))


def test_errors_repeat_nothing_of_the_content():
    raw = encoded(operation="s3cret", object=deployment(annotations={"a": "\0s3cret"}))
    texts = []
    for bytes_ in (raw, raw.replace(b"\\u0000", b""), raw[:-1]):
        with pytest.raises((ReviewError, UnreadableObjectError)) as found:
            parse(bytes_)
        texts.append(str(found.value) + repr(found.value.__cause__))

    assert "s3cret" not in "".join(texts)


def test_an_allowed_answer_has_no_status():
    answer = json.loads(render("review-1", Answer(True, "fits", "never shown", warnings=("w",))))

    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "review-1", "allowed": True, "warnings": ["w"]},
    }


def test_a_denied_answer_tells_code_reason_and_message():
    answer = json.loads(render("review-1", Answer(False, "over-quota", "4 more cpu than is left")))

    assert answer["response"] == {
        "uid": "review-1",
        "allowed": False,
        "status": {"code": 403, "reason": "over-quota", "message": "4 more cpu than is left"},
    }


@pytest.mark.parametrize("function", [parse, render], ids=["parse", "render"])
def test_reading_and_writing_reviews_is_pure(function):
    assert [] == faults(function, PACKAGES)


def around(inner, uid="review-1"):
    """A review as an API server writes it, whose object has these bytes in an annotation's place."""
    whole = encoded(uid=uid, object=deployment(annotations="HERE"))
    return whole.replace(b'"HERE"', inner)


@pytest.mark.parametrize("depth", [65, 900, 1_100, 9_999])
def test_an_object_of_any_depth_is_denied_and_does_not_fall_under_the_failure_policy(depth):
    """From a thousand levels on no decoder could read the review's uid: HTTP 400, and with Ignore it passed unseen."""
    with pytest.raises(UnreadableObjectError) as caught:
        parse(around(b"[" * depth + b"]" * depth))

    assert (caught.value.outline.uid, caught.value.reason) == ("review-1", "too deep")


def test_an_object_of_very_many_values_is_denied_before_it_is_decoded():
    row = b"[" * 60 + b"]" * 60
    raw = around(b"[" + b",".join([row] * 24_000) + b"]")
    with pytest.raises(UnreadableObjectError) as caught:
        parse(raw)

    assert (caught.value.outline.uid, caught.value.reason) == ("review-1", "too many values")

"""Names of users under a key: found again with it, and by nobody else."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus.kube.watch.labels import LONGEST_TOKEN, LabelPolicy, kept_texts, user_named
from bus.user_names import LONGEST_BYTES, UserNames

KEY, OTHER = UserNames(b"k" * 32), UserNames(b"o" * 32)
POLICY = LabelPolicy(user="example.org/user", names=KEY)
texts = st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=63)
names = texts.filter(lambda name: len(name.encode()) <= LONGEST_BYTES)


@given(names)
def test_a_name_is_found_again_with_its_key_and_stays_a_token_without(name):
    token = KEY.sealed(name)
    assert KEY.opened(token) == name
    assert OTHER.opened(token) == token
    assert KEY.sealed(token) == token
    assert name not in token or len(name) < 4
    assert len(token) <= LONGEST_TOKEN


@given(texts)
@example("\U0001f600" * 63)
def test_a_longer_name_is_cut_so_that_its_token_may_be_part_of_a_key(name):
    token = KEY.sealed(name)
    assert name.startswith(KEY.opened(token)) and len(token) <= LONGEST_TOKEN


@given(names, names)
def test_the_same_name_has_the_same_token_and_another_one_another(one, other):
    assert (KEY.sealed(one) == KEY.sealed(other)) == (one == other)
    assert KEY.sealed(one) != OTHER.sealed(one)


@given(st.integers(1, 16), st.integers(1, 16))
def test_a_token_says_how_long_a_name_is_to_16_bytes_alone(one, other):
    assert len(KEY.sealed("x" * one)) == len(KEY.sealed("y" * other))


@given(names, st.text(max_size=30), st.text("~abcdefgh234567", max_size=80))
def test_tokens_are_found_wherever_they_stand(name, around, forged):
    token = KEY.sealed(name)
    assert KEY.opened(f"by {token}; {around}").startswith(f"by {name}; ")
    assert KEY.opened(forged) == forged


@pytest.mark.parametrize("secret", [b"", b"short", b"k" * 31 + b"\n"])
def test_what_is_too_short_is_no_key(secret):
    with pytest.raises(ValueError, match="at least 32 bytes"):
        UserNames(secret)


def test_neither_label_nor_annotation_says_the_name():
    labels = {"example.org/user": "amy", "bursar.io/team": "red", "app": "amy"}
    kept = kept_texts(labels | {}, {"owner": "amy@example.org"}, POLICY.__class__(
        user="example.org/user", names=KEY, label_keys=POLICY.label_keys | {"example.org/user"},
    ))  # fmt: skip
    assert kept.labels["example.org/user"] == KEY.sealed("amy")
    assert (kept.labels["bursar.io/team"], kept.labels["app"]) == ("red", "amy")
    assert user_named(POLICY, labels) == KEY.sealed("amy")
    assert user_named(POLICY, {}, {"owner": "amy@example.org"}) == KEY.sealed("amy@example.org")
    assert user_named(POLICY, {}) is None
    assert user_named(LabelPolicy(), {"bursar.io/user": "amy"}) == "amy"

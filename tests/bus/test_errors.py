"""Errors say what happened, what is known about it, and what their catcher should do."""

import inspect
import pickle

import pytest

from bus import errors

CLASSES = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, errors.BursarError)
]


def test_the_docstring_is_the_default_message():
    error = errors.LedgerNewerError()

    assert str(error) == "The ledger's schema is newer than this code: upgrade it"


def test_fields_are_attributes_and_end_the_message_as_name_and_value():
    error = errors.HistoryDivergedError("a sequence is missing", expected=7, found=9)

    assert (str(error), error.expected, error.found, error.fields) == (
        "a sequence is missing: expected=7 found=9",
        7,
        9,
        {"expected": 7, "found": 9},
    )


def test_a_foreign_text_cannot_start_a_new_log_line():
    error = errors.QuantityError(text="1\nERROR all is lost \ud800 \x1b[2J")

    assert str(error).isprintable()


def test_a_field_may_be_called_message():
    assert errors.LedgerError("said", message="x").fields == {"message": "x"}


def test_a_retryable_error_carries_its_delay():
    delays = [
        error.delay_seconds
        for error in (
            errors.BusUnavailableError(),
            errors.ClusterUnavailableError(delay_seconds=30.0, status=429),
        )
    ]

    assert delays == [1.0, 30.0]


def test_an_error_survives_its_way_to_another_process():
    error = errors.ClusterUnavailableError(delay_seconds=30.0, status=429)
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: f"{one.__name__} belongs to one branch")
def test_every_error_has_exactly_one_reaction(one):
    branches = [errors.RetryableError, errors.PermanentError]

    assert one is errors.BursarError or sum(issubclass(one, b) for b in branches) == 1


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: f"{one.__name__} tells its catcher")
def test_every_error_says_what_happened_and_then_what_to_do(one):
    message, _, reaction = inspect.getdoc(one).partition("\n\n")

    assert (message.endswith("."), len(message.splitlines()), bool(reaction)) == (True, 1, True)


def test_missing_permissions_and_offsets_have_typed_places():
    places = (
        errors.PermissionDeniedError(permission="list pods").permission,
        errors.MalformedJsonError(reason="truncated", offset=3).offset,
        errors.MalformedJsonError(reason="too deep").offset,
    )

    assert places == ("list pods", 3, None)

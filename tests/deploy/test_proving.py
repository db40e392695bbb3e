"""Does it enforce? A dry run through the API server has to come back with a denial that only Bursar can give."""

import pytest

from bus.errors import (
    ClusterUnavailableError,
    NotFoundError,
    PermissionDeniedError,
)
from deploy.cli.notes.proven import admission_lines, enforces_nothing
from deploy.errors import UnprovenWebhookError
from deploy.runtime.proving import Prover
from deploy.settings.admission import AdmissionSettings
from reactors.admitting import proving
from reactors.webhook import Answer, proof
from tests.reactors.webhook.reviews import deployment
from tests.reactors.webhook.reviews import review as reviewed
from tests.reactors.webhook.serving import Clock

ENFORCE = AdmissionSettings(mode="enforce", url="https://10.0.0.1:9443")
SERVICE = AdmissionSettings(mode="enforce")


def asked(body, **request):
    """What Bursar answers to a review of this object."""
    import msgspec

    from reactors.webhook.review import parse

    return parse(msgspec.json.encode(reviewed(object=body, **{"dryRun": True, **request})))


class Cluster:
    """An API server. ``way``: what becomes of the review on its way: `arrives`, or an error, or nothing."""

    def __init__(self, way="arrives"):
        self.way = way
        self.asked = []

    async def create(self, path, body, *, dry_run=False):
        self.asked.append((path, dry_run))
        if self.way == "arrives":
            said = proof.answer(asked(body))
            raise PermissionDeniedError(f"admission webhook denied the request: {said.message}")
        if self.way is not None:
            raise self.way


def prover(way="arrives", wanted=ENFORCE):
    return Prover(Cluster(way), wanted, Clock(7_000_000))


async def test_a_denial_with_our_token_proves_that_reviews_arrive():
    found = prover()
    await found.begin()

    assert (found.proof.problem, found.proof.proven_us) == ("", 7_000_000)
    assert found._cluster.asked == [("/apis/apps/v1/namespaces/bursar-probe/deployments", True)]


#: What an API server answers where no review arrives, and what is said of it.
WAYS = {
    "nobody is asked": (None, "a request passed without a review"),
    "nobody is asked, and nothing may be made": (
        PermissionDeniedError("exceeded quota: nothing-runs-here"),
        "a request passed without a review",
    ),
    "another webhook denies it": (
        PermissionDeniedError("the review 0123456789abcdef arrived at Bursar"),
        "not allowed",
    ),
    "no right": (PermissionDeniedError("deployments is forbidden"), "apply rbac/registrar.yaml"),
    "no namespace": (NotFoundError(), "there is no namespace bursar-probe"),
    "the policy Fail": (
        ClusterUnavailableError("failed calling webhook: connection refused", status=500),
        "connection refused",
    ),
}


@pytest.mark.parametrize(("way", "problem"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("wanted", "advice"), [(ENFORCE, "admission.url"), (SERVICE, "Service")])
async def test_enforce_does_not_start_where_no_review_arrives(way, problem, wanted, advice):
    found = prover(way, wanted)
    with pytest.raises(UnprovenWebhookError) as caught:
        await found.begin(seconds=0)

    for words in (problem, wanted.address, advice, "docs/webhook.md"):
        assert words in str(caught.value)


async def test_shadow_starts_and_says_that_no_review_arrives():
    found = prover(None, AdmissionSettings(mode="shadow"))
    await found.begin()
    await found.prove()

    assert found.proof.problem == "a request passed without a review"


@pytest.mark.simulated
async def test_a_registration_that_is_not_in_force_yet_warns_of_nothing(caplog, monkeypatch):
    """An API server takes a moment at each start. A problem that lasts, or comes later, is logged once."""
    found = prover(None, AdmissionSettings(mode="shadow"))
    await found.prove()
    found._cluster.way = "arrives"
    await found.prove()
    assert caplog.messages == []

    found._cluster.way = None
    await found.prove()
    await found.prove()
    assert ["no review arrives" in one for one in caplog.messages] == [True]

    caplog.clear()
    lasting = prover(None, AdmissionSettings(mode="shadow"))
    await lasting.prove()
    monkeypatch.setattr("deploy.runtime.proving.START_SECONDS", 0)
    await lasting.prove()
    await lasting.prove()
    assert ["no review arrives" in one for one in caplog.messages] == [True]


async def test_another_problem_at_the_start_is_logged_at_once(caplog):
    found = prover(
        PermissionDeniedError("deployments is forbidden"), AdmissionSettings(mode="shadow")
    )
    await found.prove()

    assert "apply rbac/registrar.yaml" in caplog.messages[0]


async def test_an_api_server_that_is_away_proves_nothing_and_ends_nothing():
    found = prover(ClusterUnavailableError("connection refused"))
    await found.begin(seconds=0)

    assert found.proof.proven_us == 0
    found._cluster.way = "arrives"
    assert await found.prove()


async def test_what_keeps_the_webhook_from_being_registered_is_the_problem():
    found = prover()
    found.registration = lambda: "patch validatingwebhookconfigurations: forbidden"
    with pytest.raises(UnprovenWebhookError, match="not registered: patch validating"):
        await found.begin(seconds=0)


async def test_enforce_starts_and_waits_until_an_administrator_registers_it():
    """Ended, its pod could not be asked what to register."""
    found = prover(None)
    found.registration, found.waits = lambda: "apply this", lambda: True
    await found.begin()

    assert found.proof.problem == "the webhook is not registered: apply this"
    found.registration, found.waits, found._cluster.way = str, bool, "arrives"
    assert await found.prove()


async def test_status_says_when_reviews_stop_to_arrive():
    import msgspec

    found = prover()
    await found.begin()
    well = msgspec.to_builtins(found.proof)
    found._cluster.way = None
    await found.prove()
    lost = msgspec.to_builtins(found.proof)

    assert "reviews arrive at https://10.0.0.1:9443, proven at 1970" in admission_lines(well, 0)[0]
    assert (
        "but no review arrives at https://10.0.0.1:9443 since 1970" in admission_lines(lost, 0)[0]
    )
    assert [enforces_nothing(one) for one in (well, lost, None)] == [False, True, False]


async def test_a_certificate_that_has_ended_is_the_problem_until_a_new_one_is_used():
    """The API server would only say that a request passed without a review, or that calling failed."""
    import msgspec

    found = prover()
    now_us = found._clock.now_us()
    found.ends = lambda: {"/etc/tls.crt": now_us + 60_000_000, "/etc/ca.crt": now_us + 1}
    assert await found.prove()
    line = admission_lines(msgspec.to_builtins(found.proof), 0)[0]
    found.ends = lambda: {"/etc/tls.crt": now_us, "/etc/ca.crt": now_us + 1}
    with pytest.raises(UnprovenWebhookError, match=r"certificate of /etc/tls.crt ended at 1970"):
        await prover_of(found.ends).begin(seconds=0)
    assert not await found.prove()
    ended = msgspec.to_builtins(found.proof)
    found.ends = lambda: {"/etc/tls.crt": now_us + 1}

    assert "its certificates end at 1970" in line
    assert "the certificate of /etc/tls.crt ended at 1970" in admission_lines(ended, 0)[0]
    assert enforces_nothing(ended)
    assert await found.prove()


def prover_of(ends):
    found = prover()
    found.ends = ends
    return found


PROBE = proof.probe("0123456789abcdef")
NO_PROBES = {
    "no dry run": {"dryRun": False},
    "another kind": {"resource": {"group": "batch", "version": "v1", "resource": "jobs"}},
    "an update": {"operation": "UPDATE", "oldObject": PROBE},
}


@pytest.mark.parametrize("request_", NO_PROBES.values(), ids=NO_PROBES)
async def test_only_a_dry_run_is_answered_as_a_probe(request_):
    """Whatever is annotated, what could be stored is decided as everything else."""

    async def handler(review):
        return Answer(True)

    assert await proving(handler)(asked(PROBE, **request_)) == Answer(True)
    assert not (await proving(handler)(asked(PROBE))).allowed


@pytest.mark.parametrize("token", ["", "x", "0123456789abcdef\n", 7, None, {}])
def test_an_annotation_of_another_form_is_no_probe(token):
    item = deployment(annotations={proof.ANNOTATION: token})

    assert proof.answer(asked(item)) is None

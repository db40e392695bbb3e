"""The webhook on a real port: TLS, keep-alive, rotation without a failed request, an orderly end."""

import asyncio
import ssl
from contextlib import suppress

import pytest
import uvloop
from cryptography import x509

from bus.errors import ClusterUnavailableError
from reactors.webhook import Answer, server
from reactors.webhook.certificates import SETTLE_SECONDS, GivenCertificates
from reactors.webhook.rotation import Rotation
from reactors.webhook.server import ListenError, ServerSettings, WebhookServer
from tests.benchmarks.reviews import Client, closed_loop, create, fixed_rate
from tests.reactors.webhook.reviews import application
from tests.reactors.webhook.serving import DUE, client_certificate, serving


async def test_reviews_are_answered_over_tls_on_connections_that_stay(tmp_path):
    async with serving(tmp_path, application()) as webhook:
        outcome = await closed_loop(webhook.target(), create, connections=4, count=100)

    assert outcome.answers == {"allowed": 100}


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_certificate_changes_without_a_failed_request(tmp_path, run):
    run(rotate_under_load(tmp_path))


async def rotate_under_load(tmp_path):
    async with serving(tmp_path, application()) as webhook:
        flowing = asyncio.create_task(
            fixed_rate(webhook.target(), create, connections=4, rate=200, count=300)
        )
        before = await webhook.served()
        webhook.clock.after(DUE)
        seen = []
        for _ in range(4):
            await webhook.rotation.turn()
            webhook.clock.after(SETTLE_SECONDS)
            seen.append(await webhook.served())
            fresh = await closed_loop(webhook.target(), create, connections=3, count=30)
            assert fresh.answers == {"allowed": 30}
        outcome = await flowing

    assert outcome.answers == {"allowed": 300}
    assert before not in seen and len(set(seen)) == 1
    assert [len(x509.load_pem_x509_certificates(bundle)) for bundle in webhook.bundles] == [1]


async def test_an_authority_is_not_used_before_the_api_server_trusts_it(tmp_path):
    async def away(bundle):
        raise ClusterUnavailableError(reason="away")

    async with serving(tmp_path, application()) as webhook:
        before = await webhook.served()
        replace_authority(webhook)
        webhook.tell = away
        for _ in range(3):
            await webhook.rotation.turn()
            webhook.clock.after(SETTLE_SECONDS)
        meanwhile, problem = await webhook.served(), webhook.rotation.problem
        webhook.tell = None
        await webhook.rotation.turn()
        await webhook.rotation.turn()

        assert (meanwhile, "away" in problem) == (before, True)
        assert (await webhook.served() != before, webhook.rotation.problem) == (True, "")


def replace_authority(webhook):
    """Has the next authority made: the key of the present one is lost."""
    current = webhook.rotation._certificates.certificate
    text = current.read_bytes()
    current.write_bytes(text[: text.rindex(b"-----BEGIN PRIVATE KEY")])


async def test_who_registers_serves_a_new_authority_first(tmp_path):
    """A process that shares the folder and registers nothing would serve what the API server does not trust yet."""
    async with serving(tmp_path, application()) as webhook:
        replace_authority(webhook)
        other = Rotation(webhook.rotation._certificates, None)
        other.begin()
        before = await webhook.served()
        for _ in range(3):
            await other.turn()
            webhook.clock.after(SETTLE_SECONDS)

        assert await webhook.served() == before
        for _ in range(2):
            await webhook.rotation.turn()
        assert await webhook.served() != before


async def test_a_changed_file_that_cannot_be_used_leaves_the_certificate_as_it_was(tmp_path):
    async with serving(tmp_path, application()) as webhook:
        before = await webhook.served()
        webhook.rotation._certificates.renew = lambda: webhook.bundles[-1]
        current = webhook.rotation._certificates.certificate
        kept = current.read_bytes()
        current.write_bytes(b"half")
        await webhook.rotation.turn()

        assert await webhook.served() == before
        assert "cannot be used" in webhook.rotation.problem

        current.write_bytes(kept)
        await webhook.rotation.turn()

        assert webhook.rotation.problem == ""


async def test_a_secret_that_is_exchanged_is_served_without_a_restart(tmp_path):
    """As the kubelet does it: the file is a link through a link, of which the second is exchanged."""
    before, after = (client_certificate(tmp_path / f"{name}.pem") for name in "ab")
    for version, file in (("1", before), ("2", after)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "tls.pem").write_bytes(file.read_bytes())
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "tls.pem").symlink_to("data/tls.pem")
    given = GivenCertificates(tmp_path / "tls.pem", tmp_path / "tls.pem", tmp_path / "tls.pem")

    async def trust(bundle):
        pass

    rotation = Rotation(given, trust)
    listening = WebhookServer(application(), ServerSettings("127.0.0.1", 0), rotation.begin())
    await listening.start()
    try:
        shown = [await shown_at(listening.port)]
        (tmp_path / "new").symlink_to("2")
        (tmp_path / "new").rename(tmp_path / "data")
        await rotation.turn()
        shown.append(await shown_at(listening.port))
        [metric] = rotation.metrics()
    finally:
        await listening.stop()

    files = [x509.load_pem_x509_certificate(file.read_bytes()) for file in (before, after)]
    assert shown == files
    ends = int(files[1].not_valid_after_utc.timestamp())
    assert rotation.ends == {str(tmp_path / "tls.pem"): ends * 1_000_000}
    assert [(one.value, one.labels) for one in metric.samples] == [
        (ends, {"file": str(tmp_path / "tls.pem")})
    ]


async def shown_at(port):
    """The certificate that a new connection is shown, whoever made it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown)


@pytest.fixture
def clients(tmp_path):
    """Two clients' certificates, of two authorities."""
    return [client_certificate(tmp_path / f"{name}.pem") for name in ("ours", "other")]


async def answers(webhook, certificate=""):
    load = closed_loop(webhook.target(certificate), create, connections=1, count=1)
    try:
        return dict((await load).answers)
    except OSError:  # in the handshake of TLS 1.2
        return {"lost": 1}


async def test_only_clients_of_the_authority_get_through(tmp_path, clients):
    ours, other = clients
    async with serving(tmp_path, application(), client_ca=ours) as webhook:
        seen = [await answers(webhook, certificate) for certificate in ("", other, ours)]

    assert seen == [{"lost": 1}, {"lost": 1}, {"allowed": 1}]


async def test_a_changed_client_authority_needs_no_restart(tmp_path, clients):
    ours, other = clients
    authority = tmp_path / "authority.pem"
    authority.write_bytes(ours.read_bytes())
    async with serving(tmp_path, application(), client_ca=authority) as webhook:
        authority.write_bytes(other.read_bytes())
        await webhook.rotation.turn()
        seen = [await answers(webhook, certificate) for certificate in clients]

    assert seen == [{"lost": 1}, {"allowed": 1}]


async def test_a_review_under_way_is_answered_before_the_end(tmp_path):
    asked = asyncio.Event()

    async def slow(review):
        asked.set()
        await asyncio.sleep(0.2)
        return Answer(True)

    async with serving(tmp_path, application(slow)) as webhook:
        load = closed_loop(webhook.target(), create, connections=1, count=1)
        waiting = asyncio.create_task(load)
        await asked.wait()
        await webhook.server.stop()

        assert (await waiting).answers == {"allowed": 1}


async def test_an_open_connection_is_answered_while_the_server_ends(tmp_path):
    async with serving(tmp_path, application()) as webhook:
        client = Client(webhook.target())
        await client.connect()
        await client.post(create(0))
        stopping = asyncio.create_task(webhook.server.stop())
        await asyncio.sleep(0.1)
        answer = await client.post(create(1))
        await stopping

    assert answer is not None and answer[0] == 200


async def test_a_handler_that_never_ends_does_not_keep_the_server_from_ending(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "END_SECONDS", 0.2)
    begun, over = asyncio.Event(), asyncio.Event()

    async def stubborn(review):
        begun.set()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()
        return Answer(True)

    async with serving(tmp_path, application(stubborn, deadline_seconds=0.1)) as webhook:
        outcome = await closed_loop(webhook.target(), create, connections=1, count=1)
        try:
            async with asyncio.timeout(8):
                await webhook.server.stop()
        finally:
            over.set()

    assert (outcome.answers, begun.is_set()) == ({"denied": 1}, True)


async def test_a_port_that_is_taken_is_an_error(tmp_path, caplog):
    async with serving(tmp_path, application()) as webhook:
        settings = ServerSettings("127.0.0.1", webhook.server.port)
        second = WebhookServer(application(), settings, None)
        with pytest.raises(ListenError):
            await second.start()


async def test_a_slow_answer_is_counted_from_when_its_request_was_due(tmp_path):
    async def slow_once(review):
        await asyncio.sleep(0.5 if review.name == "service-0" else 0)
        return Answer(True)

    async with serving(tmp_path, application(slow_once)) as webhook:
        outcome = await fixed_rate(webhook.target(), create, connections=1, rate=100, count=20)

    # All twenty were due within 0.2 s, and had to wait for the first.
    assert min(outcome.latencies_us) > 250_000

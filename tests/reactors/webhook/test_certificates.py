"""Serving certificates: made, renewed in two steps, given and watched."""

import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from bus.errors import ForeignFileError
from reactors.webhook.certificates import (
    AUTHORITY_SECONDS,
    LIFE_SECONDS,
    NOTICE_SECONDS,
    SETTLE_SECONDS,
    GivenCertificates,
    OwnCertificates,
)
from reactors.webhook.tls import CertificateError, server_context
from tests.factories import START_US
from tests.reactors.webhook.serving import Clock

NAMES = ("bursar-webhook.bursar.svc", "127.0.0.1")
DAY = 86_400
DUE = LIFE_SECONDS * 2 // 3


@pytest.fixture
def clock():
    return Clock(START_US)


@pytest.fixture
def own(tmp_path, clock):
    return OwnCertificates(tmp_path / "webhook", NAMES, clock)


def serving(certificates):
    return x509.load_pem_x509_certificate(certificates.certificate.read_bytes())


def authorities(bundle):
    return x509.load_pem_x509_certificates(bundle)


def test_the_first_certificate_is_served_at_once(own):
    [authority] = authorities(own.renew())
    leaf = serving(own)
    leaf.verify_directly_issued_by(authority)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [str(name.value) for name in names] == list(NAMES)
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days == 90
    server_context(own.certificate, own.key)


def test_nothing_is_made_twice(own, clock):
    bundle, digest = own.renew(), own.digest()
    clock.after(DUE - 1)

    assert (own.renew(), own.digest()) == (bundle, digest)


def test_files_are_readable_by_their_owner_alone(own, clock):
    own.renew()
    clock.after(AUTHORITY_SECONDS - NOTICE_SECONDS)
    own.renew()
    clock.after(SETTLE_SECONDS)
    own.promote()
    folder = own.certificate.parent
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    assert (modes, stat.S_IMODE(folder.stat().st_mode)) == ({0o600}, 0o700)


def test_an_authority_signs_for_the_names_of_the_webhook_alone(own):
    """Its key lies beside that of the serving certificate, and is worth no more."""
    [authority] = authorities(own.renew())
    only = authority.extensions.get_extension_for_class(x509.NameConstraints)
    permitted = [str(one.value) for one in only.value.permitted_subtrees]
    basic = authority.extensions.get_extension_for_class(x509.BasicConstraints).value

    assert (only.critical, only.value.excluded_subtrees) == (True, None)
    assert permitted == ["bursar-webhook.bursar.svc", "127.0.0.1/32"]
    assert (basic.ca, basic.path_length) == (True, 0)


def test_certificates_change_for_nine_years_without_another_authority(own, clock):
    """Nothing has to be registered anew: the right to do so is nobody's in the cluster."""
    bundle, seen = own.renew(), set()
    [authority] = authorities(bundle)
    for _ in range((AUTHORITY_SECONDS - NOTICE_SECONDS) // DUE):
        clock.after(DUE)
        assert own.renew() == bundle
        leaf = serving(own)
        leaf.verify_directly_issued_by(authority)
        server_context(own.certificate, own.key)
        seen.add(leaf.serial_number)
        assert leaf.not_valid_after_utc.timestamp() > clock.now_us() // 1_000_000 + LIFE_SECONDS - 2

    assert len(seen) == 54


def test_a_year_before_its_end_the_next_authority_is_trusted_beside_it_and_served_later(own, clock):
    [first] = authorities(own.renew())
    clock.after(AUTHORITY_SECONDS - NOTICE_SECONDS)
    old, new = authorities(own.renew())

    assert old == first
    serving(own).verify_directly_issued_by(first)

    own.promote()

    serving(own).verify_directly_issued_by(first)  # not yet settled

    clock.after(SETTLE_SECONDS)
    own.promote()
    serving(own).verify_directly_issued_by(new)

    assert set(authorities(own.renew())) == {old, new}
    clock.after(NOTICE_SECONDS)
    assert authorities(own.renew()) == [new]


def test_an_authority_of_an_older_version_is_served_until_the_next_one_is_registered(own, clock):
    """It signed one certificate, and its key was thrown away."""
    [first] = authorities(own.renew())
    text = own.certificate.read_bytes()
    own.certificate.write_bytes(text[: text.rindex(b"-----BEGIN PRIVATE KEY")])
    old, new = authorities(own.renew())

    assert old == first and new != first
    serving(own).verify_directly_issued_by(first)
    clock.after(SETTLE_SECONDS)
    own.promote()
    serving(own).verify_directly_issued_by(new)


@pytest.mark.parametrize(
    "days", [LIFE_SECONDS // DAY + 1, -1], ids=["expired", "made in the future"]
)
def test_a_certificate_that_is_not_valid_is_replaced_at_once_by_the_same_authority(
    own, clock, days
):
    bundle, digest = own.renew(), own.digest()
    clock.after(days * DAY)

    assert own.renew() == bundle
    assert own.digest() != digest


def test_an_authority_that_has_ended_is_replaced_at_once(own, clock):
    bundle = own.renew()
    clock.after(AUTHORITY_SECONDS)

    assert own.renew() != bundle
    serving(own).verify_directly_issued_by(authorities(own.renew())[0])


def test_only_a_folder_with_an_authority_has_one_to_print(tmp_path, own):
    with pytest.raises(CertificateError):
        own.trusted()

    assert not (tmp_path / "webhook").exists()
    assert own.renew() == own.trusted()


def test_another_name_needs_another_certificate(tmp_path, own, clock):
    own.renew()
    renamed = OwnCertificates(tmp_path / "webhook", (*NAMES, "localhost"), clock)

    assert len(authorities(renamed.renew())) == 2


def test_a_damaged_file_is_made_anew(own, caplog):
    own.renew()
    for content in (b"", b"rubbish", own.certificate.read_bytes()[:300]):
        own.certificate.write_bytes(content)
        [authority] = authorities(own.renew())

        serving(own).verify_directly_issued_by(authority)


def test_processes_that_share_a_folder_share_a_certificate(tmp_path, own, clock):
    bundle = own.renew()
    other = OwnCertificates(tmp_path / "webhook", NAMES, clock)

    assert (other.renew(), other.digest()) == (bundle, own.digest())


def test_given_files_are_watched_by_their_content(tmp_path, own):
    bundle = own.renew()
    certificate, authority = tmp_path / "tls.pem", tmp_path / "ca.pem"
    certificate.write_bytes(own.certificate.read_bytes())
    authority.write_bytes(bundle)
    given = GivenCertificates(certificate, certificate, authority)
    before = given.digest()
    certificate.write_bytes(own.certificate.read_bytes() + b"\n")

    assert (given.renew(), given.digest() != before) == (bundle, True)


def test_an_authority_that_is_not_ours_to_tell_is_not_told(own):
    own.renew()

    assert GivenCertificates(own.certificate, own.key).renew() == b""


@pytest.mark.parametrize("content", [None, b"rubbish"], ids=["missing", "damaged"])
def test_given_files_that_cannot_be_used_are_an_error(tmp_path, content):
    certificate = tmp_path / "tls.pem"
    if content is not None:
        certificate.write_bytes(content)
    with pytest.raises(CertificateError):
        server_context(certificate, certificate)


def test_only_tls_1_2_and_newer_is_spoken(own):
    own.renew()
    context = server_context(own.certificate, own.key)

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


def test_a_folder_that_others_may_write_holds_no_key(tmp_path, clock):
    """Who may write it could exchange the key of the webhook, and answer reviews in its place."""
    folder = tmp_path / "certificates"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ForeignFileError, match="others may write"):
        OwnCertificates(folder, NAMES, clock).renew()

    assert not list(folder.iterdir())

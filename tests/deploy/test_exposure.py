"""Who may send reviews: what is refused at the start, and what is said."""

from pathlib import Path

import pytest

from deploy.errors import SettingsError
from deploy.runtime import files
from deploy.settings.admission import AdmissionSettings, announcement_of

ENFORCE = {"mode": "enforce"}
CA = {"client_ca": Path("ca.pem")}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "bursar.example.org", ""])
def test_enforcing_where_anybody_can_forge_a_review_is_refused(host):
    with pytest.raises(SettingsError) as caught:
        AdmissionSettings(**ENFORCE, host=host).require_authenticated()

    for name in ("admission.client_ca", "admission.host", "admission.allow_unauthenticated"):
        assert name in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {**ENFORCE, "host": "127.0.0.1"},
        {**ENFORCE, "host": "::1"},
        {**ENFORCE, "host": "localhost"},
        {**ENFORCE, **CA},
        {**ENFORCE, "allow_unauthenticated": True},
        {"mode": "shadow"},
        {"mode": "watch"},
        {"mode": "off"},
    ],
    ids=str,
)
def test_everything_else_may_start(settings):
    AdmissionSettings(**settings).require_authenticated()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "shadow"}, "whoever reaches the port may send reviews"),
        ({**ENFORCE, "host": "127.0.0.1"}, "only this machine asks"),
        ({**ENFORCE, **CA}, "only clients of ca.pem ask (any name)"),
        ({**ENFORCE, **CA, "client_names": ("apiserver",)}, "ask (apiserver)"),
        ({**ENFORCE, "url": "https://10.0.0.1:9443"}, "the API server calls https://10.0.0.1:9443"),
        (ENFORCE, "the API server calls https://bursar-webhook.bursar-system.svc:443"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_start_says_the_mode_the_address_and_who_may_ask(settings, words):
    said = announcement_of(AdmissionSettings(**settings))

    assert words in said
    assert said.startswith(settings["mode"])


def test_connections_leave_files_for_everything_else(monkeypatch):
    limit = files.resource.RLIMIT_NOFILE
    found = {}
    for soft in (1_024, 20_000, files.resource.RLIM_INFINITY):
        monkeypatch.setattr(files.resource, "getrlimit", {limit: (soft, soft)}.__getitem__)
        found[soft] = files.connections(1_000)

    assert list(found.values()) == [640, 1_000, 1_000]

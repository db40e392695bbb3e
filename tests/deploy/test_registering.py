"""Registration of the webhook: read by Bursar's accounts, written by administrators."""

import copy
import json

import pytest
import yaml

from bus.clock import SystemClock
from bus.errors import NotFoundError, PermissionDeniedError
from deploy.runtime.registering import COMMAND, Registrar, UnregisteredError, configurations
from reactors.webhook.certificates import OwnCertificates
from reactors.webhook.registration import MUTATING_PATH, PATH, RegistrationSettings
from tests.deploy.ledgers import bursar

WANTED = RegistrationSettings("bursar-system")


class Cluster:
    """What an API server has, and whether the account may write it."""

    def __init__(self, found=None, *, is_administrator=False):
        self.found, self.is_administrator, self.written = found or {}, is_administrator, []

    async def get(self, path):
        if path not in self.found:
            raise NotFoundError
        return self.found[path]

    async def apply(self, path, body):
        if not self.is_administrator:
            raise PermissionDeniedError("forbidden", permission=f"patch {path}")
        self.written.append(path)
        self.found[path] = body


@pytest.fixture
def bundle(tmp_path):
    return OwnCertificates(tmp_path / "webhook", ("a.b.svc",), SystemClock()).renew()


def stored(bundle, **changes):
    """Both configurations as an API server has them: with its defaults, and without what is empty."""
    found = copy.deepcopy(configurations(WANTED, bundle))
    for one in found.values():
        one["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": [{}]}
        for webhook in one["webhooks"]:
            webhook |= {"reinvocationPolicy": "Never"} | changes
            for key in [k for k, v in webhook.items() if v == []]:
                del webhook[key]
    return found


async def test_what_an_administrator_registered_needs_no_right(bundle):
    cluster = Cluster(stored(bundle))
    found = Registrar(cluster, WANTED, is_shadow=False)
    await found.register(bundle)

    assert (found.waits, cluster.written) == (False, [])


CHANGES = [
    {"failurePolicy": "Fail"},
    {"rules": []},
    {"timeoutSeconds": 30},
    {"namespaceSelector": {}},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
async def test_what_differs_waits_for_an_administrator_and_says_the_command(bundle, changes):
    cluster = Cluster(stored(bundle, **changes))
    found = Registrar(cluster, WANTED, is_shadow=False)
    with pytest.raises(UnregisteredError) as caught:
        await found.register(bundle)

    assert found.waits
    assert COMMAND in str(caught.value)
    assert "validatingwebhookconfigurations/bursar" in str(caught.value)
    cluster.found = stored(bundle)
    await found.register(bundle)
    assert not found.waits


async def test_an_administrator_registers_by_starting_bursar(bundle):
    cluster = Cluster(is_administrator=True)
    await Registrar(cluster, WANTED, is_shadow=True).register(bundle)
    assert cluster.written == [PATH]
    await Registrar(cluster, WANTED, is_shadow=False).register(bundle)

    assert cluster.written == [PATH, MUTATING_PATH]


async def test_more_authorities_than_wanted_are_trusted_and_fewer_are_not(tmp_path, bundle):
    other = OwnCertificates(tmp_path / "other", ("a.b.svc",), SystemClock()).renew()
    both = Cluster(stored(other + bundle))
    await Registrar(both, WANTED, is_shadow=False).register(bundle)
    with pytest.raises(UnregisteredError):
        await Registrar(Cluster(stored(bundle)), WANTED, is_shadow=False).register(bundle + other)


async def test_a_bundle_of_another_program_is_left_to_it(bundle):
    """cert-manager fills in `caBundle`, and Bursar wants none."""
    await Registrar(Cluster(stored(bundle)), WANTED, is_shadow=False).register(b"")


@pytest.fixture
def pod(tmp_path, monkeypatch):
    """The settings of a pod of `bursar up`; its data folder."""

    def variables(**settings):
        for name, value in settings.items():
            monkeypatch.setenv(f"BURSAR_ADMISSION__{name.upper()}", value)
        return tmp_path

    return variables


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
def test_what_is_printed_is_what_the_process_wants(pod, capsys, mode):
    """With the authority of its own folder; a step back to shadow takes the second webhook away."""
    data = pod(mode=mode, failure_policy="Fail", exempt_namespaces='["infra"]', client_ca="/etc/ca")
    service = "bursar-webhook.bursar-system.svc"
    bundle = OwnCertificates(data / "webhook", (service,), SystemClock()).renew()
    assert bursar("manifests", "--registration", "--data", data) == 0
    found = {one["kind"]: one for one in yaml.safe_load_all(capsys.readouterr().out)}
    wanted = RegistrationSettings(
        "bursar-system", failure_policy="Fail", exempt_namespaces=("infra",)
    )
    validating, mutating = configurations(wanted, bundle).values()

    assert found["ValidatingWebhookConfiguration"] == validating
    webhooks = mutating["webhooks"] if mode == "enforce" else []
    assert found["MutatingWebhookConfiguration"] == mutating | {"webhooks": webhooks}


def test_a_given_certificate_registers_its_authority(pod, capsys, bundle, tmp_path):
    authority = tmp_path / "ca.crt"
    authority.write_bytes(bundle)
    data = pod(mode="enforce", certificate="/etc/tls.crt", authority=str(authority), client_ca="/x")
    assert bursar("manifests", "--registration", "-o", "json", "--data", data / "none") == 0
    found = json.loads(capsys.readouterr().out)["items"]

    assert found == json.loads(json.dumps([*configurations(WANTED, bundle).values()]))


def test_where_bursar_does_not_run_there_is_no_authority_to_print(pod, capsys):
    """A new one would be trusted, and another one served."""
    data = pod(mode="shadow")
    assert bursar("manifests", "--registration", "--data", data) != 0
    said = capsys.readouterr()
    assert "kubectl -n bursar-system exec" in said.err and said.out == ""
    assert not (data / "webhook").exists()
    pod(mode="watch")
    assert bursar("manifests", "--registration", "--data", data) != 0
    assert "admission.mode is watch" in capsys.readouterr().err
    assert bursar("manifests", "--registration", "--mode", "enforce") != 0

"""The settings of Bursar.

Four places, the stronger first: options of the command line, ``BURSAR_<PART>__<FIELD>``, one YAML file (``--config`` or
``BURSAR_CONFIG``), the defaults below. Short forms: ``BURSAR_DATA``, ``BURSAR_LEDGER``, ``BURSAR_BUS`` and
``BURSAR_NATS_SERVER``. Everything is strict: an unknown name is an error, since a misspelt setting would
silently keep its default. URLs may hold passwords, so they are shown through
:func:`deploy.settings.addresses.masked` only.

Source: docs/architecture.md (deploy); docs/reliability.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from bus.kube.kinds import SELECTABLE
from bus.kube.watch.labels import LabelPolicy
from bus.user_names import UserNames
from deploy.logs import Form
from deploy.settings.addresses import (
    EMBEDDED,
    SHORT_FORMS,
    bus_address,
    bus_tls,
    check_bus_tls,
    check_bus_url,
    ledger_url,
)
from deploy.settings.admission import AdmissionSettings
from deploy.settings.api import ApiSettings
from deploy.settings.devices import DeviceSettings
from deploy.settings.environment import environment
from deploy.settings.file import SettingsFile
from deploy.settings.history import HistorySettings
from deploy.settings.user_key import user_names
from reactors.catalogue import REACTORS

if TYPE_CHECKING:
    from bus.events.policies import Mode
    from bus.jetstream import Credentials, Tls
    from reactors.engine.contract import Reactor
    from reactors.engine.settings import ReactorPolicy, ReactorSettings


_CLUSTER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_POLICY = LabelPolicy()


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LedgerSettings(_Part):
    """Where the ledger is kept."""

    #: SQLAlchemy URL, SQLite or PostgreSQL. Empty = ``ledger.db`` in the data folder.
    url: SecretStr = SecretStr("")
    #: Where signed heads of the history are also written; best on another disk. None = ``heads.jsonl`` in the data folder.
    heads_file: Path | None = None
    #: Where the newest signed head is kept: ``s3://BUCKET/PREFIX`` of an S3-compatible store, once an hour;
    #: ``configmap://NAMESPACE``, in a ConfigMap of each day (``configmap://NAMESPACE/NAME`` where several ledgers have theirs
    #: there); or ``rekor+https://HOST``, a transparency log, once a day. Empty = nowhere.
    anchor: str = Field(
        "",
        pattern=r"^(s3://[^/\s]+(/\S*)?|configmap://[a-z0-9-]{1,63}(/[a-z0-9-]{1,40})?|rekor\+https?://[^/\s]\S*)?$",
    )
    #: The public key of that log (PEM). None = what it says itself over HTTPS.
    anchor_key: Path | None = None
    #: The key that signs them, made if missing. None = ``signing.key`` in the data folder.
    signing_key: Path | None = None

    @field_validator("url")
    @classmethod
    def _known(cls, url: SecretStr) -> SecretStr:
        return SecretStr(ledger_url(url.get_secret_value()))


class BusSettings(_Part):
    """Where the history is kept."""

    #: ``embedded``, or ``nats://[user:password@]host:port`` of a server of one's own; with ``tls://`` nothing is sent unencrypted.
    url: SecretStr = SecretStr(EMBEDDED)
    #: NATS credentials file (JWT and seed), where the URL has no user.
    credentials: Path | None = None
    #: Who signs the server's certificate (PEM). None = whom this machine trusts. With one nothing is sent unencrypted.
    tls_ca: Path | None = None
    #: The certificate that is shown to the server (PEM). Read anew with each connection, as the others are.
    tls_cert: Path | None = None
    #: Its key, where that is in another file.
    tls_key: Path | None = None
    #: Addresses of one's own servers that prove the sync interval: ``nats://`` or ``tls://`` with a user of the system account, or
    #: ``http://`` of a monitoring port.
    monitor_urls: tuple[SecretStr, ...] = ()
    #: Replicas of the stream; 3 where the servers form a cluster of three.
    replicas: int = Field(1, ge=1, le=5)
    #: Another nats-server than the bundled one, for ``embedded``.
    server: Path | None = None

    @field_validator("url")
    @classmethod
    def _known(cls, url: SecretStr) -> SecretStr:
        check_bus_url(url.get_secret_value())
        return url

    @model_validator(mode="after")
    def _files(self) -> BusSettings:
        check_bus_tls(self.url.get_secret_value(), self.tls_ca, self.tls_cert, self.tls_key)
        return self

    @property
    def monitors(self) -> tuple[str, ...]:
        """``monitor_urls``, possibly with passwords."""
        return tuple(url.get_secret_value() for url in self.monitor_urls)

    @property
    def is_embedded(self) -> bool:
        """Whether Bursar runs the server itself."""
        return self.url.get_secret_value() == EMBEDDED

    @property
    def address(self) -> tuple[str, Credentials]:
        """URL without its user, and the login."""
        return bus_address(self.url.get_secret_value(), self.credentials)

    @property
    def tls(self) -> Tls | None:
        """How the connection has to be encrypted; None = as the server asks."""
        return bus_tls(self.url.get_secret_value(), self.tls_ca, self.tls_cert, self.tls_key)


class ClusterSettings(_Part):
    """Which cluster is followed, and how."""

    #: Its name in the history: every event carries it. Changing it later begins another cluster's ledger.
    name: str = "default"
    #: Kubeconfig file; empty = ``KUBECONFIG``, ``~/.kube/config``, else this pod's service account.
    kubeconfig: str = ""
    #: A context of the kubeconfig; empty = its current one.
    context: str = ""
    #: Longest time between two complete lists, seconds: how long an unseen delete may stay unknown.
    relist_seconds: float = Field(600.0, ge=10, le=86_400)
    #: Use proxies of the environment. Off: an API server is reached directly.
    trust_env: bool = False

    @field_validator("name")
    @classmethod
    def _token(cls, name: str) -> str:
        if not _CLUSTER_NAME.match(name):
            raise ValueError("a cluster's name is 1 to 64 letters, digits, '_' or '-'")
        return name


class LogSettings(_Part):
    """What a process that runs on says on stderr: `up`, `watch`, `ledger`, `act`, `webhook`, `api` and `hub`."""

    #: `text`: lines for people. `json`: one object a line, see docs/operating.md (logs). Commands that end say text.
    format: Form = "text"


class TracingSettings(_Part):
    """Traces of reviews, and of decisions to their effects, to an OpenTelemetry collector."""

    #: Its address for OTLP over HTTP, as in `http://collector:4318`. Empty = no traces. Headers, such as a token, are named as for
    #: every OpenTelemetry SDK: `OTEL_EXPORTER_OTLP_HEADERS`.
    url: str = Field("", pattern=r"^(https?://[^\s/]+(/\S*)?)?$")
    #: Which share of all traces is sent, whole ones.
    share: float = Field(1.0, ge=0, le=1)


class HubSettings(_Part):
    """Which clusters a hub follows. See ``bursar hub``."""

    #: Cluster to the JetStream domain of its NATS, reached by a leaf node or a gateway.
    clusters: dict[str, str] = {}

    @field_validator("clusters")
    @classmethod
    def _tokens(cls, clusters: dict[str, str]) -> dict[str, str]:
        if not all(_CLUSTER_NAME.match(name) for one in clusters.items() for name in one):
            raise ValueError("clusters and domains are 1 to 64 letters, digits, '_' or '-'")
        return clusters


class LabelSettings(_Part):
    """Which labels name team and user, and which others leave the cluster. See :class:`LabelPolicy`."""

    #: Label of pods and namespaces that names the team.
    team: str = _POLICY.team
    #: Label of pods and namespaces that names the user.
    user: str = _POLICY.user
    #: Annotations and labels of pods that name the user where the label does not, in this order; of one key the annotation first.
    pod_users: tuple[str, ...] = _POLICY.pod_users
    #: Annotation of namespaces that names the user where the label does not (Kubeflow profiles).
    owner_annotation: str = _POLICY.owner_annotation
    #: A file of at least 32 random bytes: names of users, and of authors of orders, stand in the history under this key alone.
    #: None = as they are.
    user_key: Path | None = None
    #: More label keys to keep, for ``--by label:KEY``.
    keep: frozenset[str] = frozenset()
    #: More prefixes of label keys to keep.
    keep_prefixes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_selected_by_nobody(self) -> LabelSettings:
        if self.user_key is not None and self.user.startswith(SELECTABLE):
            raise ValueError(
                f"with labels.user_key labels.user may not begin with {' or '.join(SELECTABLE)}: quotas select namespaces by such "
                "labels, and would not find a name under a key; let another label name the user"
            )
        return self

    def names(self) -> UserNames | None:
        """How names of users are written; None = as they are. Raises SettingsError where the key cannot be read."""
        return None if self.user_key is None else user_names(self.user_key)

    def author(self, name: str) -> str:
        """The author of an order as the history has it. Raises SettingsError where the key cannot be read."""
        names = self.names()
        return name if names is None else names.sealed(name)

    def policy(self) -> LabelPolicy:
        """The labels that sources may record. Raises SettingsError for an unreadable key of users' names."""
        return LabelPolicy(
            names=self.names(),
            team=self.team,
            user=self.user,
            pod_users=self.pod_users,
            owner_annotation=self.owner_annotation,
            label_keys=_POLICY.label_keys | self.keep | {self.team, self.user},
            label_prefixes=(*_POLICY.label_prefixes, *self.keep_prefixes),
        )


class Settings(BaseSettings):
    """Everything that may be set. Immutable; make it with :func:`load`."""

    model_config = SettingsConfigDict(
        env_prefix="BURSAR_", env_nested_delimiter="__", extra="forbid", frozen=True
    )
    #: The file's content, by line; set during :func:`deploy.settings.load.load`.
    file: ClassVar[SettingsFile | None] = None

    #: Folder of everything embedded: the ledger, the bus, locks.
    data: Path
    ledger: LedgerSettings = LedgerSettings()
    history: HistorySettings = HistorySettings()
    bus: BusSettings = BusSettings()
    cluster: ClusterSettings = ClusterSettings()
    labels: LabelSettings = LabelSettings()
    devices: DeviceSettings = DeviceSettings()
    admission: AdmissionSettings = AdmissionSettings()
    api: ApiSettings = ApiSettings()
    hub: HubSettings = HubSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()

    def section(self, reactor: Reactor) -> ReactorSettings:
        """The section of a reactor."""
        found: ReactorSettings = getattr(self, reactor.name)
        return found

    @property
    def wanted(self) -> dict[str, tuple[Mode, ReactorPolicy]]:
        """Reactor to its wanted mode and policy, for those with a policy. Raises CullerEnvironmentError."""
        found = {one.name: self.section(one).wanted(environment()) for one in REACTORS}
        return {name: wanted for name, wanted in found.items() if wanted is not None}

    def observed(self) -> LabelPolicy:
        """The parts of objects that sources may record. Raises SettingsError for an unreadable key of users' names."""
        return replace(self.labels.policy(), accelerators=self.devices.policy())

    @property
    def ledger_url(self) -> str:
        """The ledger's URL. May hold a password: show it :func:`masked`."""
        return self.ledger.url.get_secret_value() or f"sqlite:///{self.data / 'ledger.db'}"

    @property
    def state_file(self) -> Path:
        """The state of the sources of a running ``bursar up``, for ``bursar status``."""
        return self.data / "up.json"

    @property
    def heads_file(self) -> Path:
        """Where signed heads are also written."""
        return self.ledger.heads_file or self.data / "heads.jsonl"

    @property
    def segments_folder(self) -> Path | str:
        """Where sealed segments lie: a folder, or the address of a bucket."""
        folder = self.history.folder or self.data / "segments"
        return folder if isinstance(folder, str) else folder.expanduser().absolute()

    @property
    def seals(self) -> bool:
        """Whether segments are written. Of a ledger on a server only where a folder is named, as others read it elsewhere."""
        is_beside = self.ledger_url.startswith("sqlite") or self.history.folder is not None
        return is_beside and self.history.segment_events > 0

    @property
    def sealed_events(self) -> int:
        """Events of one segment; 0 where none is written."""
        return self.history.segment_events if self.seals else 0

    @property
    def signing_key(self) -> Path:
        """The key of the signatures."""
        return self.ledger.signing_key or self.data / "signing.key"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Options, environment, file; no ``.env`` file, since a working folder must not change bookings."""
        found = [init_settings, _Environment(settings_cls)]
        if cls.file is not None:
            found.append(InitSettingsSource(settings_cls, cls.file.values))
        return tuple(found)


if not TYPE_CHECKING:
    # Each reactor brings a section of its own.
    Settings = create_model(
        "Settings", __base__=Settings, __doc__=Settings.__doc__,
        **{one.name: (one.settings, one.settings()) for one in REACTORS},
    )  # fmt: skip


class _Environment(EnvSettingsSource):
    """The environment, with the short forms spelt out and ``BURSAR_CONFIG`` left out."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        known = dict(super()._load_env_vars())
        for short, full in SHORT_FORMS.items():
            if (value := known.pop(short, None)) is not None:
                known.setdefault(full, value)
        return known

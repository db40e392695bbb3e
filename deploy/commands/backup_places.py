"""ADAPTER: where a backup lies: in a folder, or below a prefix of a bucket of an S3-compatible store.

What a bucket has is worked on in a private folder of this machine, one file at a time: a file of events is brought, read and
removed. Every file of events is compared with the SHA-256 that the manifest names, so no store is believed. Such a file is named
by its content, so of two backups at once each is whole, and the manifest that was written last is the backup.

Credentials, region and endpoint are named as for the AWS tools: environment, files, or the service account's role.

Source: Amazon S3 API reference; docs/operating.md.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from bus import private_files
from deploy.errors import SettingsError
from deploy.settings.environment import environment

if TYPE_CHECKING:
    from minio import Minio

T = TypeVar("T")

SCHEME = "s3://"
#: What a killed backup leaves: files that were not renamed yet (``private_files.draft``).
_DRAFT = re.compile(r"(events-\d{12}\.zst|backup\.json|heads\.jsonl|signing\.key)\.[0-9a-f]{16}\.new")  # fmt: skip
#: Seconds for a connection, for the next bytes of an answer, and for a whole file; and how often a request is made.
CONNECT_SECONDS, ANSWER_SECONDS, FILE_SECONDS = 10.0, 60.0, 1800.0
ATTEMPTS = 4
#: Seconds for a connection to whoever hands out the role of a machine or account.
ROLE_SECONDS = 2.0
#: Bytes that are written at a time.
CHUNK = 2**20
#: Without the right to list, a store says this of what is not there.
_DENIED = "the store denies it: the credentials need ListBucket, GetObject and PutObject"
#: Codes of a store, and what they mean to its user.
_WORDS = {
    "NoSuchBucket": "there is no such bucket",
    "AccessDenied": _DENIED,
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the secret key is not that of the access key",
    "RequestTimeTooSkewed": "this machine's clock and the store's differ by too much",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
}


class Place(Protocol):
    """Where a backup lies."""

    #: Where its files are while they are worked on.
    folder: Path
    #: Whether another machine may write it: then files of events are named by their content, too.
    is_shared: bool

    @property
    def is_secret(self) -> bool:
        """Whether nobody on the way can read what is written."""

    def held(self) -> AbstractContextManager[None]:
        """A context in which nobody else of this machine writes it. Raises SettingsError."""

    def fetch(self, name: str) -> bool:
        """Bring a file to the folder; False where there is none. Raises SettingsError."""

    def keep(self, name: str) -> None:
        """Have a file that was written in the folder where the backup lies. Raises SettingsError."""

    def drop(self, name: str) -> None:
        """A file is not needed in the folder any more; it stays where the backup lies."""

    def sizes(self) -> dict[str, int]:
        """Bytes of each file of the backup, by name. Raises SettingsError."""

    def named(self, name: str = "") -> str:
        """What a file, or the place itself, is called."""


@contextmanager
def place_of(where: str) -> Iterator[Place]:
    """The place that a user names. Raises SettingsError."""
    if not where.startswith(SCHEME):
        yield FolderPlace(Path(where))
        return
    bucket, _, prefix = where.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise SettingsError(f"{where}: name a bucket, as in s3://backups/bursar")
    with tempfile.TemporaryDirectory(prefix="bursar-backup-") as folder:
        yield Bucket(*_client(), bucket, prefix.strip("/"), Path(folder))


class FolderPlace:
    """A folder of this machine."""

    is_shared = False
    is_secret = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for one backup, without what a killed one left. Raises SettingsError where another one writes it."""
        private_files.own_folder(self.folder)
        descriptor = private_files.descriptor(self.folder / "lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in [one for one in self.folder.iterdir() if _DRAFT.fullmatch(one.name)]:
                left.unlink()
            yield
        except BlockingIOError:
            raise SettingsError(f"{self.folder}: another backup writes it at this moment") from None
        finally:
            os.close(descriptor)

    def fetch(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.folder / name).is_file()

    def keep(self, name: str) -> None:
        """Nothing: it is where it shall be."""

    def drop(self, name: str) -> None:
        """Nothing: it stays."""

    def sizes(self) -> dict[str, int]:
        """Bytes of each file, by name."""
        return {one.name: one.stat().st_size for one in self.folder.iterdir() if one.is_file()}

    def named(self, name: str = "") -> str:
        """Its path."""
        return str(self.folder / name if name else self.folder)


class Bucket:
    """Objects below a prefix of a bucket."""

    is_shared = True

    def __init__(
        self, client: Minio, is_secret: bool, bucket: str, prefix: str, folder: Path
    ) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix
        self.is_secret, self.folder = is_secret, folder

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing: the folder is nobody else's, and who else writes the bucket does no harm."""
        yield

    def fetch(self, name: str) -> bool:
        """Bring an object to the folder; False where there is none. Raises SettingsError."""
        return self._asked(self._brought, name)

    def _brought(self, name: str) -> bool:
        from minio.error import S3Error

        path, end = self.folder / name, time.monotonic() + FILE_SECONDS
        path.unlink(missing_ok=True)
        try:
            answer = self._client.get_object(self._bucket, self._key(name))
        except S3Error as error:
            if error.code == "NoSuchKey":
                return False
            raise
        with closing(answer), private_files.create(path) as file:
            for part in answer.stream(CHUNK):
                file.write(part)
                if time.monotonic() > end:
                    raise TimeoutError(f"not all of it came in {FILE_SECONDS:.0f} s")
        return True

    def keep(self, name: str) -> None:
        """Put a file into the bucket. Raises SettingsError."""
        self._asked(self._put, name)

    def _put(self, name: str) -> None:
        self._client.fput_object(self._bucket, self._key(name), str(self.folder / name))

    def drop(self, name: str) -> None:
        """Remove the file from this machine."""
        (self.folder / name).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """Bytes of each object below the prefix, by name, a request for each thousand. Raises SettingsError."""
        return self._asked(self._listed, "")

    def _listed(self, name: str) -> dict[str, int]:
        prefix = self._key(name)
        found = self._client.list_objects(self._bucket, prefix=prefix, recursive=True)
        return {str(one.object_name).removeprefix(prefix): one.size or 0 for one in found}

    def named(self, name: str = "") -> str:
        """Its address."""
        return f"{SCHEME}{self._bucket}/{self._key(name)}".rstrip("/")

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _asked(self, ask: Callable[[str], T], name: str) -> T:
        """Ask again where an answer broke off. Raises SettingsError where the store does not do it."""
        from minio.error import MinioException, S3Error
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
        from urllib3.exceptions import HTTPError, ProtocolError

        broken = retry_if_exception_type(ProtocolError)
        stop, wait = stop_after_attempt(ATTEMPTS), wait_exponential(0.2, max=5)
        try:
            return Retrying(retry=broken, stop=stop, wait=wait, reraise=True)(ask, name)
        except S3Error as error:
            said = _WORDS.get(error.code or "") or f"{error.code}: {error.message}"
            raise SettingsError(f"{self.named(name)}: {said}") from None
        except (MinioException, HTTPError, OSError, ValueError) as error:
            raise SettingsError(f"{self.named(name)}: {error}") from None


def _client() -> tuple[Minio, bool]:
    """A client by the settings of the AWS tools, and whether it encrypts. Raises SettingsError where the extra is not installed."""
    try:
        import certifi
        import urllib3
        from minio import Minio
        from minio.credentials import providers
        from minio.error import MinioException
    except ImportError:
        raise SettingsError("s3://: minio is not installed: pip install 'bursar[s3]'") from None
    said = environment()
    url = said.get("AWS_ENDPOINT_URL_S3") or said.get("AWS_ENDPOINT_URL") or "https://s3.amazonaws.com"  # fmt: skip
    endpoint = urlsplit(url)
    if endpoint.scheme not in ("http", "https") or not endpoint.netloc or endpoint.path.strip("/"):
        raise SettingsError("AWS_ENDPOINT_URL is no address, as in https://store.example:9000")
    tls: dict[str, Any] = {
        "cert_reqs": "CERT_REQUIRED",
        "ca_certs": said.get("AWS_CA_BUNDLE") or said.get("SSL_CERT_FILE") or certifi.where(),
    }
    pool = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS),
        retries=urllib3.Retry(ATTEMPTS, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504)),
        **tls,
    )
    # Who hands out a role is near, or not there at all, and then nothing answers.
    near = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=ROLE_SECONDS, read=CONNECT_SECONDS),
        retries=urllib3.Retry(1),
        **tls,
    )
    known = providers.ChainedProvider(
        [
            providers.EnvAWSProvider(),
            providers.AWSConfigProvider(profile=said.get("AWS_PROFILE")),
            providers.IamAwsProvider(http_client=near),
        ]
    )
    try:
        known.retrieve()
    except (ValueError, KeyError, OSError, urllib3.exceptions.HTTPError, MinioException) as error:
        way = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, or give the account a role"
        raise SettingsError(f"s3://: no credentials ({error}): {way}") from None
    is_secret = endpoint.scheme == "https"
    client = Minio(
        endpoint.netloc,
        secure=is_secret,
        region=said.get("AWS_REGION") or said.get("AWS_DEFAULT_REGION"),
        http_client=pool,
        credentials=known,
    )
    return client, is_secret

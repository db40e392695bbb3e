"""ADAPTER: objects below a prefix of a bucket of an S3-compatible store.

A store's claims about its content are neither trusted nor needed: the reader of an object knows its digest. An
object appears under its name when it is whole. Credentials, region and endpoint are named as for the AWS tools:
environment, files, or the role of the machine or service account. They are no settings of Bursar: a ledger names
the places of its segments on every machine, and each reader reaches them in its own way.

Source: Amazon S3 API reference; docs/operating.md.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from bus import private_files
from bus.errors import ObjectStoreError

if TYPE_CHECKING:
    from minio import Minio

T = TypeVar("T")

SCHEME = "s3://"
#: Seconds for a connection, for the next bytes of an answer, and for a whole object; and how often a request is made.
CONNECT_SECONDS, ANSWER_SECONDS, OBJECT_SECONDS = 10.0, 60.0, 1800.0
ATTEMPTS = 4
#: A store without an answer counts as away for this long.
AWAY_SECONDS = 5.0
#: Seconds for a connection to whoever hands out the role of a machine or account.
ROLE_SECONDS = 2.0
#: Bytes written at a time.
CHUNK = 2**20
#: A store's code for a missing object, if the right to list is missing.
_DENIED = "the store denies it: the credentials need ListBucket, GetObject and PutObject"
#: Codes of a store, and their meaning for its user.
_WORDS = {
    "NoSuchBucket": "there is no such bucket",
    "AccessDenied": _DENIED,
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the secret key is not that of the access key",
    "RequestTimeTooSkewed": "this machine's clock and the store's differ by too much",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
}
#: Codes about the key in use.
_KEYS = ("AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")
#: Prefixes of the variables for stores and their credentials.
_NAMES = ("AWS_", "SSL_CERT_FILE")


class _Store:
    """The store named by these variables. After a missing answer it is not asked again for a moment: questions ask
    by segment.
    """

    def __init__(self, client: Minio, is_secret: bool) -> None:
        self.client, self.is_secret = client, is_secret
        self.away_until, self.why = 0.0, ""


def bucket_of(where: str) -> Bucket:
    """The bucket at s3://BUCKET/PREFIX. Raises ObjectStoreError if it cannot be asked: no name, no credentials, no minio."""
    name, _, prefix = where.removeprefix(SCHEME).partition("/")
    if not (where.startswith(SCHEME) and name):
        raise ObjectStoreError(f"{where}: name a bucket, as in s3://backups/bursar")
    variables = {key: text for key, text in os.environ.items() if key.startswith(_NAMES)}
    return Bucket(_store(frozenset(variables.items())), name, prefix.strip("/"))


class Bucket:
    """Objects below a prefix of a bucket, by the rest of their names. Every method raises ObjectStoreError."""

    def __init__(self, store: _Store, bucket: str, prefix: str) -> None:
        self._store, self._client, self._bucket, self._prefix = store, store.client, bucket, prefix

    @property
    def is_secret(self) -> bool:
        """Whether the connection is encrypted."""
        return self._store.is_secret

    def get(self, name: str, most: int, version: str | None = None) -> bytes | None:
        """An object, of one larger than ``most`` bytes only its beginning; None where there is none.

        ``version``: as it was then (:meth:`versions`); None = as it is.
        """
        found = io.BytesIO()
        is_there = self._asked(lambda: self._brought(name, found, most, version), name)
        return found.getvalue() if is_there else None

    def fetch(self, name: str, path: Path, most: int) -> bool:
        """Bring an object to a file, for its owner alone, as :meth:`get` does; False where there is none."""
        return self._asked(lambda: self._fetched(name, path, most), name)

    def _fetched(self, name: str, path: Path, most: int) -> bool:
        path.unlink(missing_ok=True)
        with private_files.create(path) as file:
            is_there = self._brought(name, file, most)
        if not is_there:
            path.unlink()
        return is_there

    def _brought(self, name: str, file: BinaryIO, most: int, version: str | None = None) -> bool:
        from minio.error import S3Error

        end = time.monotonic() + OBJECT_SECONDS
        file.seek(0)
        file.truncate()
        try:
            answer = self._client.get_object(self._bucket, self._key(name), version_id=version)
        except S3Error as error:
            if error.code == "NoSuchKey":
                return False
            raise
        with closing(answer):
            # Bytes as stored: an object of a store with an encoding could stand for any size.
            for part in answer.stream(CHUNK, decode_content=False):
                file.write(part)
                if file.tell() > most:
                    break
                if time.monotonic() > end:
                    raise TimeoutError(f"not all of it came in {OBJECT_SECONDS:.0f} s")
        return True

    def put(self, name: str, content: bytes) -> None:
        """Write a whole object, in place of one of this name."""
        key, size = self._key(name), len(content)
        self._asked(
            lambda: self._client.put_object(self._bucket, key, io.BytesIO(content), size), name
        )

    def put_file(self, name: str, path: Path) -> None:
        """The same, of a file."""
        key, file = self._key(name), os.fspath(path)
        self._asked(lambda: self._client.fput_object(self._bucket, key, file), name)

    def exists(self) -> bool:
        """Whether there is such a bucket."""
        return self._asked(lambda: self._client.bucket_exists(self._bucket))

    def sizes(self) -> dict[str, int]:
        """Bytes of each object below the prefix, by name: a request for each thousand."""
        return self._asked(self._listed)

    def _listed(self) -> dict[str, int]:
        prefix = self._key("")
        found = self._client.list_objects(self._bucket, prefix=prefix, recursive=True)
        return {str(one.object_name).removeprefix(prefix): one.size or 0 for one in found}

    def versions(self) -> list[tuple[str, str | None]]:
        """(name, version) of everything kept by the store below the prefix, overwritten and deleted objects
        included; version None = as it is now. A store without versions gives the current objects.
        """
        return sorted(self._asked(self._kept), key=lambda one: (one[0], one[1] or ""))

    def _kept(self) -> list[tuple[str, str | None]]:
        prefix = self._key("")
        found = self._client.list_objects(
            self._bucket, prefix=prefix, recursive=True, include_version=True
        )
        return [
            # In a bucket without versions each object's version is "null", and some stores refuse that name.
            (str(one.object_name).removeprefix(prefix), None if one.version_id == "null" else one.version_id)
            for one in found
            if not one.is_delete_marker
        ]  # fmt: skip

    def named(self, name: str = "") -> str:
        """The address of an object, or of the prefix."""
        return f"{SCHEME}{self._bucket}/{self._key(name)}".rstrip("/")

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _asked(self, ask: Callable[[], T], name: str = "") -> T:
        """Ask again where an answer broke off. A refused key may have been changed since it was read: it is read anew next time."""
        from minio.error import MinioException, S3Error
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
        from urllib3.exceptions import HTTPError, ProtocolError

        store = self._store
        if time.monotonic() < store.away_until:
            raise ObjectStoreError(f"{self.named(name)}: {store.why}")
        broken = retry_if_exception_type(ProtocolError)
        stop, wait = stop_after_attempt(ATTEMPTS), wait_exponential(0.2, max=5)
        try:
            return Retrying(retry=broken, stop=stop, wait=wait, reraise=True)(ask)
        except S3Error as error:
            if error.code in _KEYS:
                _store.cache_clear()
            reason = _WORDS.get(error.code or "") or f"{error.code}: {error.message}"
            raise ObjectStoreError(f"{self.named(name)}: {reason}") from None
        except HTTPError as error:
            store.away_until, store.why = time.monotonic() + AWAY_SECONDS, str(error)
            raise ObjectStoreError(f"{self.named(name)}: {error}") from None
        except (MinioException, OSError, ValueError) as error:
            raise ObjectStoreError(f"{self.named(name)}: {error}") from None


@lru_cache(maxsize=8)
def _store(variables: frozenset[tuple[str, str]]) -> _Store:
    """The store by the settings of the AWS tools. Raises ObjectStoreError."""
    try:
        import certifi
        import urllib3
        from minio import Minio
        from minio.credentials import providers
        from minio.error import MinioException
    except ImportError:
        raise ObjectStoreError("s3://: minio is not installed: pip install 'bursar[s3]'") from None
    given = dict(variables)
    url = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or "https://s3.amazonaws.com"  # fmt: skip
    endpoint = urlsplit(url)
    if endpoint.scheme not in ("http", "https") or not endpoint.netloc or endpoint.path.strip("/"):
        raise ObjectStoreError("AWS_ENDPOINT_URL is no address, as in https://store.example:9000")
    tls: dict[str, Any] = {
        "cert_reqs": "CERT_REQUIRED",
        "ca_certs": given.get("AWS_CA_BUNDLE") or given.get("SSL_CERT_FILE") or certifi.where(),
    }
    pool = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS),
        retries=urllib3.Retry(ATTEMPTS, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504)),
        **tls,
    )
    # A service for roles is near, or absent, and then nothing answers.
    near = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=ROLE_SECONDS, read=CONNECT_SECONDS),
        retries=urllib3.Retry(1),
        **tls,
    )
    known = providers.ChainedProvider(
        [
            providers.EnvAWSProvider(),
            providers.AWSConfigProvider(profile=given.get("AWS_PROFILE")),
            providers.IamAwsProvider(http_client=near),
        ]
    )
    try:
        known.retrieve()
    except (ValueError, KeyError, OSError, urllib3.exceptions.HTTPError, MinioException) as error:
        way = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, or give the account a role"
        raise ObjectStoreError(f"s3://: no credentials ({error}): {way}") from None
    is_secret = endpoint.scheme == "https"
    client = Minio(
        endpoint.netloc,
        secure=is_secret,
        region=given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION"),
        http_client=pool,
        credentials=known,
    )
    return _Store(client, is_secret)

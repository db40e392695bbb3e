"""The address of a cluster, and the credentials for it.

Bursar uses only the hard parts of the client library: kubeconfig files, credentials and their renewal, TLS.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from bus.errors import PermissionDeniedError

#: Credentials renewed outside (exec plugins, token files) are read again after this time.
RENEW_SECONDS = 60.0

#: Errors of the library for a file without a kubeconfig, or with unreadable parts.
_UNUSABLE = (
    config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)


class Access(msgspec.Struct, frozen=True):
    """The place of a cluster: a kubeconfig (path or list of paths), or the service account of this pod."""

    kubeconfig: str = ""
    #: A context of the kubeconfig; "" = its current one.
    context: str = ""


def discover(
    environ: Mapping[str, str], kubeconfig: Path | str = "", context: str = ""
) -> Access | None:
    """Where a cluster is, None where nothing points to one. Opens no connection.

    In this order: ``kubeconfig`` (taken as it is: a wrong path is an error later, not another cluster), the files
    in ``KUBECONFIG``, ``~/.kube/config``, the service account of this pod.
    """
    if kubeconfig:
        return Access(str(kubeconfig), context)
    listed = environ.get("KUBECONFIG", "")
    if any(Path(path).expanduser().is_file() for path in listed.split(os.pathsep) if path):
        return Access(listed, context)
    home = Path(environ["HOME"]) / ".kube" / "config" if environ.get("HOME") else None
    if not listed and home is not None and home.is_file():
        return Access(str(home), context)
    named = environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT")
    if named and Path(SERVICE_TOKEN_FILENAME).is_file():
        return Access()
    return None


async def open_api(access: Access, *, trust_env: bool) -> tuple[Any, Credentials]:
    """A session of the client library with the credentials of ``access``, and their renewal.

    Raises PermissionDeniedError with the reason when the credentials are unreadable.
    """
    credentials = Credentials(access)
    try:
        configuration = client.Configuration(client_session_kwargs={"trust_env": trust_env})
        await credentials.load(configuration)
        return client.ApiClient(configuration), credentials
    except _UNUSABLE as error:
        # Other texts may quote the file, and with it a token.
        is_config = isinstance(error, config.ConfigException)
        raise PermissionDeniedError(
            "the credentials cannot be used",
            kubeconfig=access.kubeconfig or "service account",
            reason=str(error)[:200] if is_config else type(error).__name__,
        ) from None


class Credentials:
    """Reads credentials, and reads them again when they are old or refused."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._renewed = 0.0

    async def load(self, configuration: Any) -> None:
        """Reads the credentials into ``configuration``. Raises the library's errors."""
        if self._access.kubeconfig:
            load: Any = config.load_kube_config
            await load(
                config_file=self._access.kubeconfig,
                context=self._access.context or None,
                client_configuration=configuration,
                persist_config=False,
            )
            configuration.refresh_api_key_hook = self._refresh
        else:
            # The library's own hook reads the mounted token again every minute.
            loader: Any = InClusterConfigLoader
            loader(SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME).load_and_set(configuration)
        self._renewed = asyncio.get_running_loop().time()

    async def _refresh(self, configuration: Any) -> None:
        if asyncio.get_running_loop().time() - self._renewed >= RENEW_SECONDS:
            await self.renew(configuration)

    async def renew(self, configuration: Any) -> None:
        """Reads the credentials again; on failure the old ones stay, so the server reports the reason."""
        fresh = client.Configuration()
        try:
            await self.load(fresh)
        except _UNUSABLE:
            return
        configuration.api_key.update(fresh.api_key)

"""Registration of the webhook, as an administrator does it."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from bus.clock import SystemClock
from reactors.webhook.certificates import OwnCertificates

_GROUP = "admissionregistration.k8s.io"


def register(plane, environment):
    """Apply what `bursar manifests --registration` prints with the settings of a process that is about to start."""
    named = {name.removeprefix("BURSAR_ADMISSION__"): one for name, one in environment.items()}
    if named["MODE"] not in ("shadow", "enforce"):
        return
    if "CERTIFICATE" not in named:
        host = urlsplit(named["URL"]).hostname or "bursar-webhook.bursar-system.svc"
        OwnCertificates(Path(environment["BURSAR_DATA"]) / "webhook", (host,), SystemClock()).renew()  # fmt: skip
    printed = subprocess.run(
        [str(Path(sys.executable).parent / "bursar"), "manifests", "--registration"],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    apply(plane, printed)


def apply(plane, printed):
    """What the second half of the documented line does."""
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=printed)


def allow_registration(plane):
    """Let the accounts register the webhook by themselves: for processes whose address or authority changes."""
    kinds = f"validatingwebhookconfigurations.{_GROUP},mutatingwebhookconfigurations.{_GROUP}"
    plane.kubectl("create", "clusterrole", "registers", "--verb=create,patch", f"--resource={kinds}")  # fmt: skip
    accounts = [f"--serviceaccount=bursar-system:{one}" for one in ("bursar", "bursar-actor")]
    plane.kubectl("create", "clusterrolebinding", "registers", "--clusterrole=registers", *accounts)

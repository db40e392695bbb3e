"""The configuration of an API server that asks a webhook."""

import json


def admission_configuration(folder, client):
    """Files that make an API server show a client's certificate to every webhook."""
    user = {"client-certificate": str(client), "client-key": str(client)}
    config = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}
    kubeconfig, path = folder / "webhooks.json", folder / "admission.json"
    kubeconfig.write_text(json.dumps(config))
    plugin = {
        "name": "ValidatingAdmissionWebhook",
        "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(kubeconfig),
        },
    }
    path.write_text(
        json.dumps(
            {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "AdmissionConfiguration",
                "plugins": [plugin],
            }
        )
    )
    return path

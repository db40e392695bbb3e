"""The manifests of this repository, and the rights that they grant."""

from pathlib import Path

import yaml

FOLDER = Path(__file__).parents[2] / "deploy" / "manifests"


#: Roles by name; the last is applied by itself.
FILES = [*sorted(FOLDER.glob("rbac/*.yaml")), FOLDER / "training" / "jobs.yaml"]
OBJECTS = [found for file in FILES for found in yaml.safe_load_all(file.read_text())]


ROLES = {
    found["metadata"]["name"]: found["rules"]
    for found in OBJECTS
    if found["kind"] in ("ClusterRole", "Role")
}


#: Roles that change what runs: theirs is an account of its own.
ACTING = {
    "bursar-culler", "bursar-evictor", "bursar-jobs", "bursar-migrator", "bursar-queue", "bursar-scheduler",
}  # fmt: skip


def named(group, resource):
    """As :func:`resource_of` names it."""
    name, _, subresource = resource.partition("/")
    return (f"{name}.{group}" if group else name) + (f"/{subresource}" if subresource else "")


def granted(role):
    return {
        (named(group, resource), verb)
        for rule in ROLES[role]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

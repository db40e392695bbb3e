"""Containers of pods, as JSON has them."""


def resources(requests=None, limits=None, **container):
    return {"resources": {"requests": requests or {}, "limits": limits or {}}, **container}

"""Training runtimes as administrators write them."""

from bus.kube.kinds.runtimes import STEP_LABEL


def container(name, cpu=None, gpu=0):
    amounts = ({"cpu": cpu} if cpu else {}) | ({"nvidia.com/gpu": str(gpu)} if gpu else {})
    made = {"name": name, "image": "i", "command": ["canary"], "env": [{"name": "canary"}]}
    return made | ({"resources": {"requests": amounts, "limits": amounts}} if amounts else {})


def job(name, *containers, step=None, labels=None, replicas=None, **spec):
    found = (labels or {}) | ({STEP_LABEL: step} if step else {})
    metadata = {"metadata": {"labels": found}} if found else {}
    pods = {"template": {"spec": {"containers": list(containers)}}}
    counted = {} if replicas is None else {"replicas": replicas}
    return {"name": name, **counted, "template": {**metadata, "spec": {**spec, **pods}}}


def runtime(*jobs, policy=None):
    said = {} if policy is None else {"mlPolicy": policy}
    return {"spec": {**said, "template": {"spec": {"replicatedJobs": list(jobs)}}}}

"""Runs `culling` cases: the fields of a case become arguments of the product's own functions, no more."""

import json

import msgspec

from bus.clock import format_stamp, parse_stamp
from bus.notebooks.go_json import kernels_in
from bus.notebooks.prober import ProbeResponse
from reactors.culling import fusion, hub, kubeflow, policy, workspaces
from reactors.culling.kubeflow import environment


def check(case):
    """Asserts that the product does what the case expects."""
    expected, given = case["expect"], case["given"]
    if expected.get("startup_error"):
        assert refuses(environment.CullerEnvironmentError, RULES[case["rule"]], given)
    elif "error" in expected:
        assert refuses(workspaces.SelectorError, RULES[case["rule"]], given)
    else:
        assert plain(expected) == plain(RULES[case["rule"]](given))


def plain(answer):
    """An answer with no annotation map where the map is empty: an API server stores both alike."""
    return {k: (v or None) if k == "annotations" else v for k, v in answer.items()}


def refuses(error, rule, given):
    try:
        rule(given)
    except error:
        return True
    return False


def stamp(given):
    offset = given.get("controller_utc_offset_minutes", 0)
    return msgspec.structs.replace(kubeflow.Stamp.parse(given["now"]), offset_minutes=offset)


def reply(probe):
    if probe is None or "error" in probe:
        return None
    body = probe["raw"] if "raw" in probe else json.dumps(probe["body"])
    return ProbeResponse(probe["status"], body.encode())


def reconciled(given, controller, **answers):
    notebook = kubeflow.Notebook(given["namespace"], given["name"], given["annotations"])
    done = controller(
        notebook if given["notebook_exists"] else None,
        pod_exists=given["pod_exists"],
        idle_minutes=given["idle_minutes"],
        period_minutes=given["check_period_minutes"],
        now=stamp(given),
        **answers,
    )
    return msgspec.to_builtins(done) | {"probed": list(done.probed)}


def reconcile_kubeflow_1_8(given):
    return reconciled(given, kubeflow.reconcile, kernels=kernels_in(reply(given["kernels_probe"])))


def reconcile_odh_terminals(given):
    terminals = reply(given["terminals_probe"])
    kernels = reply(given["kernels_probe"])
    fork = kubeflow.reconcile_with_terminals
    return reconciled(given, fork, kernels=kernels, terminals=terminals)


def set_stop(given):
    if (annotations := given["annotations"]) == "no object":
        # Only what is there is stopped.
        return {"annotations": "no object"}
    stopped = kubeflow.stop(kubeflow.Notebook("n", "n", annotations), stamp(given))
    return {"annotations": stopped.annotations}


def is_idle(given):
    return {"idle": kubeflow.is_idle(given["annotations"], given["idle_minutes"], stamp(given))}


def config_env(given):
    settings = msgspec.to_builtins(environment.culler_environment(given["env"]))
    return settings | {"startup_error": False}


def pause_decision(given):
    decision = workspaces.pause_decision(
        msgspec.convert(given["rules"], list[workspaces.PauseRule]),
        namespace_labels=given["namespace_labels"],
        size_labels=given["size_labels"],
        **{
            name: given[name]
            for name in ("last_activity_ms", "last_running_ms", "now_ms", "fresh_probe")
        },
    )
    return msgspec.to_builtins(decision)


def probe_due(given):
    wait_ms = workspaces.probe_due_after_ms(
        now_ms=given["now_ms"],
        last_start_ms=given["last_start_ms"],
        succeeded=given["last_result"] == "Success",
        min_interval_ms=given["min_interval_seconds"] * 1_000,
        probe_interval_ms=given["probe_interval_seconds"] * 1_000,
    )
    return {"due": not wait_ms, "remaining_seconds": wait_ms / 1_000}


def exec_probe_output(given):
    found = msgspec.to_builtins(workspaces.script_activity(given["stdout"].encode()))
    return {name: value for name, value in found.items() if value is not None}


def hub_pass(given):
    requests = hub.hub_requests(
        msgspec.convert(given["users"], list[hub.HubUser]),
        options=msgspec.convert(given["options"], hub.HubOptions),
        stop_status=given["stop_status"],
        now_us=parse_stamp(given["now"]),
    )
    plain = msgspec.to_builtins(requests)
    return {"requests": sorted(plain, key=lambda request: request["delete"])}


def us(text):
    return None if text is None else parse_stamp(text)


def limits(fields):
    """The limits that a case's policy fields mean; what is absent keeps the product's default."""
    seconds = {
        "limit_minutes": "idle_seconds",
        "warn_minutes": "warning_seconds",
        "min_running_minutes": "min_running_seconds",
        "max_age_minutes": "max_age_seconds",
        "fresh_minutes": "fresh_seconds",
        "starting_grace_minutes": "starting_grace_seconds",
    }
    found = {
        ours: fields[theirs] if fields[theirs] is None else fields[theirs] * 60
        for theirs, ours in seconds.items()
        if theirs in fields
    }
    found |= {name: fields[name] for name in ("skew_seconds", "exempt") if name in fields}
    quiet = tuple(window(fields) for fields in fields.get("quiet", ()))
    return policy.Limits(**found, quiet=quiet, keep_until_us=us(fields.get("keep_until")))


def window(fields):
    names = {"tz": "zone", "timezone": "zone", "from": "start", "to": "end", "until": "end"}
    ours = {names.get(name, name): value for name, value in fields.items()}
    if ours.get("days"):
        ours["days"] = [day.lower()[:3] for day in ours["days"]]
    return policy.QuietWindow.model_validate(ours)


def sample(seen):
    return fusion.Sample(
        source=seen["source"],
        observed_us=us(seen["observed_at"]),
        outcome=seen["outcome"],
        busy=seen.get("busy", False),
        active_us=us(seen.get("active_at")),
        starting_since_us=us(seen.get("starting_since")),
    )


def proposed_fusion(given):
    warned = None
    if given["warned_at"]:
        warned = fusion.Warned(us(given["warned_at"]), given["warned_reason"])
    verdict = fusion.evaluate(
        [sample(seen) for seen in given["evidence"]],
        running_since_us=us(given["running_since"]),
        warned=warned,
        limits=limits(given["policy"]),
        now_us=us(given["now"]),
    )
    return {
        "decision": verdict.decision,
        "reason": verdict.reason,
        "last_activity": format_stamp(verdict.last_activity_us),
        "last_source": verdict.last_source,
        "idle_limit_at": format_stamp(verdict.idle_limit_us),
    }


RULES = {
    "reconcile_kubeflow_1_8": reconcile_kubeflow_1_8,
    "reconcile_odh_terminals": reconcile_odh_terminals,
    "stop_is_set": lambda given: {"stopped": kubeflow.is_stopped(given["annotations"])},
    "all_idle": lambda given: {"all_idle": kubeflow.all_idle(given["states"])},
    "set_stop": set_stop,
    "is_idle": is_idle,
    "config_env": config_env,
    "pause_decision": pause_decision,
    "probe_due": probe_due,
    "exec_probe_output": exec_probe_output,
    "hub_pass": hub_pass,
    "proposed_fusion": proposed_fusion,
}

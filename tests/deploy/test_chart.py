"""The Helm chart renders to the objects that `bursar manifests` prints, for all values that go together and no others."""

import itertools
import json
from functools import cache

import pytest
import yaml

from deploy.cli.program.program import run_command
from deploy.commands.chart import chart
from deploy.commands.installation import NAMESPACE, Act, Mode, Size, identity, installation
from deploy.errors import SettingsError
from tests.deploy.templates import render

FILES = chart("1.2.3")
TEMPLATES = {name: text for name, text in FILES.items() if name.endswith(".yaml") and "/" in name}
USUAL = yaml.safe_load(FILES["values.yaml"])
SCHEMA = json.loads(FILES["values.schema.json"])


@cache
def parsed(text):
    return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one is not None]


def rendered(**values):
    texts = (render(text, USUAL | values) for text in TEMPLATES.values())
    found = {identity(one): one for text in texts for one in parsed(text)}
    return {name: _without_notes(one) for name, one in found.items()}


def _without_notes(one):
    """Kinds outlive an uninstall: nothing else has an annotation."""
    metadata = dict(one["metadata"])
    notes = metadata.pop("annotations", {})
    kept = {"helm.sh/resource-policy": "keep"}
    assert notes == (kept if one["kind"] == "CustomResourceDefinition" else {})
    return {**one, "metadata": metadata}


def printed(size, mode, act, floor, api, image):
    made = installation(Size(size), Mode(mode), map(Act, act), image, floor=floor, api=api)
    found = {identity(one.object): one.object for one in made}
    del found["Namespace", "", NAMESPACE]
    return found


def goes_together(**values):
    try:
        return printed(**USUAL | values)
    except SettingsError:
        return None


ACTS = [acts for n in range(len(Act) + 1) for acts in itertools.combinations(sorted(Act), n)]
#: Every act by itself and all of them, in each size and mode; all combinations of acts in one.
CASES = [
    *itertools.product(Size, Mode, [(), *((one,) for one in Act), tuple(sorted(Act))], [False, True]),
    *itertools.product([Size.STANDARD], [Mode.ENFORCE], ACTS, [False]),
]  # fmt: skip


@pytest.mark.parametrize("size", Size)
def test_it_renders_to_what_is_printed(size):
    for each, mode, acts, floor in CASES:
        values = {"mode": str(mode), "act": list(acts), "floor": floor, "image": "r/b:2"}
        wanted = goes_together(size=size, **values) if each == size else None
        if wanted is not None:
            assert rendered(size=str(size), **values) == wanted


@pytest.mark.parametrize("size", Size)
def test_the_notes_name_a_pod_that_answers(size):
    notes = render(FILES["templates/NOTES.txt"], USUAL | {"size": str(size), "mode": "enforce"})
    named = "bursar-0" if size == Size.SMALL else "bursar-act-0"
    of_set = named.removesuffix("-0")

    assert f"kubectl -n {NAMESPACE} exec {named} -- bursar status" in notes
    assert f"POD={named}\n" in notes and "bursar manifests --registration |" in notes
    watch = render(FILES["templates/NOTES.txt"], USUAL | {"size": str(size), "mode": "watch"})
    assert "registration" not in watch
    assert "refuses workloads above their quota" in notes and "changes nothing" not in notes
    assert ("StatefulSet", NAMESPACE, of_set) in rendered(size=str(size), mode="enforce")


@pytest.mark.parametrize("floor", [False, True])
@pytest.mark.parametrize("mode", Mode)
def test_the_schema_takes_what_goes_together_and_nothing_else(mode, floor):
    import jsonschema

    valid = jsonschema.Draft7Validator(SCHEMA).is_valid
    for acts in ACTS:
        values = {"mode": str(mode), "act": [str(one) for one in acts], "floor": floor}
        assert valid(USUAL | values) == (goes_together(**values) is not None), values


@pytest.mark.parametrize(
    "values",
    [
        {"size": "huge"}, {"mode": "Enforce"}, {"act": ["culling", "culling"]}, {"act": "culling"},
        {"floor": "yes"}, {"replicas": 3}, {"image": ""}, {"image": "x\n    command: [sh]"},
        {"image": 'x"'}, {"image": "{{ .Release.Name }}"}, {"image": None},
    ],
    ids=str,
)  # fmt: skip
def test_the_schema_refuses_other_values(values):
    import jsonschema

    jsonschema.validate(USUAL, SCHEMA)
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(USUAL | values)


@pytest.mark.parametrize("size", Size)
@pytest.mark.parametrize("mode", [Mode.WATCH, Mode.ENFORCE])
def test_who_answers_questions_is_rendered_as_it_is_printed(size, mode):
    wanted = goes_together(size=size, mode=mode, api=True)

    assert rendered(size=str(size), mode=str(mode), api=True) == wanted
    assert ("ServiceAccount", NAMESPACE, "bursar-api") in wanted


def test_no_text_of_an_object_is_taken_for_a_template():
    for case in itertools.product(Size, Mode, [False]):
        for one in installation(case[0], case[1], [], "x"):
            assert "{{" not in json.dumps(one.object)


def test_the_command_writes_it_into_a_new_folder(tmp_path, capsys):
    folder = tmp_path / "charts" / "bursar"
    assert run_command(["manifests", "--chart", str(folder)]) == 0
    written = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    version = yaml.safe_load(written["Chart.yaml"])["version"]

    assert written == chart(version)
    assert run_command(["manifests", "--chart", str(folder)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert run_command(["manifests", "--chart", str(tmp_path / "b"), "--size", "large"]) == 2

"""Which quota an object belongs to: the webhook and the ledger say the same."""

from itertools import product

import pytest

from projections.attribution import AttributionRule, attributed, names
from reactors.admission.deciding.mapping import ELASTIC_LABEL, LABEL, place

LABELS = [
    {key: value for key, value in zip((LABEL, ELASTIC_LABEL), values, strict=True) if value}
    for values in product(("", "q"), ("", "k"))
]


@pytest.mark.parametrize(("own", "namespace"), list(product(LABELS, LABELS)))
def test_the_quota_that_is_charged_is_the_quota_that_spends(own, namespace):
    charged = place(own, "ns", namespace, {"q": AttributionRule()}.get)
    spends = attributed(names(own), None, names(namespace))[0]

    assert (charged.quota if charged else "") == spends


def test_nobody_leaves_the_quota_of_his_namespace_by_a_label():
    own, namespace = {ELASTIC_LABEL: "k"}, {LABEL: "q"}

    assert place(own, "ns", namespace, {"q": AttributionRule()}.get).quota == "q"
    assert attributed(names(own), names(own), names(namespace))[0] == "q"

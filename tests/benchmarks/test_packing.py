"""The picture of the packing policies."""

from xml.etree import ElementTree

from tests.benchmarks.packing import curves, picture, table

ROWS = [
    {"policy": "FGD", "speed": 10, "allocation": {"80": 80.0, "100": 94.0, "130": 95.0}},
    {"policy": "FGD", "speed": 30, "allocation": {"80": 80.0, "100": 96.0, "130": 97.0, "131": 97.0}},
]  # fmt: skip


def test_curves_are_means_where_all_seeds_have_a_point():
    assert curves(ROWS) == {"FGD": {80: 80.0, 100: 95.0, 130: 96.0}}


def test_the_table_has_means_and_how_far_seeds_lie_apart():
    assert table(ROWS) == "| FGD | 80.00 | 95.00 | 94.00 to 96.00 | 96.00 | 30 |"


def test_the_picture_names_each_policy_with_its_figure():
    texts = [one.text for one in ElementTree.fromstring(picture(curves(ROWS))).iter() if one.text]

    assert "FGD: 95.00 % at 100 %" in texts

"""Runs `scheduler_diagnosis` cases: the table of scores, as `bursar schedule scores` makes it."""

from reactors.scheduling.score_table import score_table


def check(case):
    """The operation of the case gives what it says."""
    OPERATIONS[case["given"]["op"]](case["given"], case["expect"])


def _score_table(given, expect):
    header, rows = score_table(
        given["pod"], given["nodes"], given["plugin_scores_by_node_index"], given["top_n"]
    )

    assert {"header": header, "rows": rows} == expect


OPERATIONS = {"score_table": _score_table}

"""Names that filters know, where nothing was found by them."""

import pytest
import sqlalchemy as sa

from deploy.cli.filters import require
from deploy.errors import AbsentObjectError
from projections.pod_runs import held_segments


def test_a_model_that_is_never_the_first_of_a_pod_is_known():
    texts = {column.name: "" for column in held_segments.c if isinstance(column.type, sa.Text)}
    row = {
        **texts, "uid": "a", "start_s": 1, "cpu_milli": 1, "memory_mib": 1, "gpu_milli": 2000, "sequence": 1,
        "model": "A100", "devices": '{"A100":1000,"H100":1000}',
    }  # fmt: skip
    with sa.create_engine("sqlite://").begin() as connection:
        held_segments.create(connection)
        connection.execute(held_segments.insert(), row)
        require(connection, {"model": "H100"})
        with pytest.raises(AbsentObjectError, match="H100"):
            require(connection, {"model": "H10"})

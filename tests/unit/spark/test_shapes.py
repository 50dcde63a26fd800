"""The checks of the shapes that functions state of their frames."""

from __future__ import annotations

from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from tests.shapes import checked, differences
from tidemark.project import shapes
from tidemark.project.acceptance import gaps, rule
from tidemark.spark.shapes import Shapes


def test_a_frame_of_another_shape_is_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("p|1", 1)], "persistence_id string, sequence_nr int")
    assert differences(frame, shapes.ID) == {}
    assert differences(frame, shapes.EVENT) == {"sequence_nr": ("bigint", "int")}
    function = checked(lambda rows: rows, Shapes({}, {**shapes.ID, "tag": "string"}))
    with pytest.raises(AssertionError, match=r"the result: \{'tag': \('string', None\)\}"):
        function(frame)


@pytest.mark.parametrize("module", [rule, gaps])
def test_the_functions_of_all_modules_are_checked(module: ModuleType, spark: SparkSession) -> None:
    """The module `gaps` has imported the function by its name."""
    frame = spark.createDataFrame([("p|1",)], "persistence_id string")
    with pytest.raises(AssertionError, match=r"rule\.held_back: validated: .*sequence_nr"):
        vars(module)["held_back"](frame)

import numpy as np
import numpy_reference
import pytest

from tf_transformer.importing._assembly import position_fields


@pytest.mark.parametrize("kind", ["sinusoidal", "t2t", "marian"])
def test_tables_of_known_formulas_are_recognised(kind):
    table = numpy_reference.position(600, 26, kind).astype("float32")
    layers = {}
    assert position_fields(table, table, layers, 26) == {"positions": kind}
    assert position_fields(table.astype("float16"), table, layers, 26) == {"positions": kind}
    assert layers == {}


def test_other_tables_are_learned_and_without_one_ctranslate2_counts_from_one():
    layers = {}
    fields = position_fields(None, None, layers, 26)
    assert fields == {"positions": "learned", "max_positions": 2048}
    expected = numpy_reference.position(5, 26, "t2t", start=1)
    np.testing.assert_allclose(layers["source_positions/table"][:5], expected, atol=1e-6)
    table = np.random.default_rng(3).normal(size=(11, 26))
    assert position_fields(table, table[:7], layers, 26) == {"positions": "learned", "max_positions": 7}
    np.testing.assert_allclose(layers["target_positions/table"], table[:7], atol=1e-6)

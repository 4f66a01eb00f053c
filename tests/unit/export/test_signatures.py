"""The signatures: names and shapes as promised, and what is not a list of strings is rejected by the graph."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from toy_saved_model import Toy

from tf_transformer.export._signatures import INPUTS, trace_signatures

ROWS = ["ab", "cde", ""]
CARD = '{"languages": {"source": "en", "target": "de"}}'


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("signatures") / "model")
    toy = Toy()
    tf.saved_model.save(toy, directory, signatures=trace_signatures(toy, card=CARD))
    return directory


@pytest.fixture(scope="module")
def run(saved):
    """Calls a signature in a session without the checks that Python makes of fed values, as the server's C++ does."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], saved)

        def call(name, **inputs):
            signature = graph.signature_def[name]
            options = config_pb2.CallableOptions(
                feed=[signature.inputs[key].name for key in inputs],
                fetch=[value.name for value in signature.outputs.values()],
            )
            found = session._make_callable_from_options(options)(
                *(np.array(value, object) for value in inputs.values())
            )
            return dict(zip(signature.outputs, found))

        yield call


def test_names_of_signatures_and_inputs(saved):
    signatures = tf.saved_model.load(saved).signatures
    assert set(signatures) == set(INPUTS) - {"translate_to"}  # of multilingual models alone
    for name, function in signatures.items():
        specs = function.structured_input_signature[1]
        assert set(specs) == set(INPUTS[name])
        assert all(spec.shape.as_list() == [None] and spec.dtype == tf.string for spec in specs.values())
        assert all(value.shape.rank >= 1 and value.shape[0] is None for value in function.structured_outputs.values())


def test_answers(run):
    assert run("serving_default", text=ROWS)["translation"].tolist() == [b"AB", b"CDE", b""]
    assert run("score", source=ROWS, target=ROWS)["tokens"].tolist() == [2, 3, 0]
    assert run("nbest", text=ROWS)["translations"].shape == (3, 3)
    assert run("model_card", text=ROWS)["model_card"].tolist() == [CARD.encode()] * 3


@pytest.mark.parametrize("name", [name for name in INPUTS if name != "translate_to"])
@pytest.mark.parametrize("wrong", ["a scalar", [["a", "matrix"]]])
def test_wrong_ranks_are_rejected_and_the_next_request_works(run, name, wrong):
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not compatible with expected shape"):
        run(name, **dict.fromkeys(INPUTS[name], wrong))
    run(name, **dict.fromkeys(INPUTS[name], ROWS))


def test_sides_of_different_length_are_rejected(run):
    with pytest.raises(tf.errors.InvalidArgumentError, match="source and target must have the same number of rows"):
        run("score", source=["a", "b"], target=["c"])


def test_nbest_narrows_its_signature_alone():
    found = trace_signatures(Toy(), nbest=2)["nbest"](tf.constant(ROWS))
    assert (found["translations"].shape, found["scores"].shape, found["truncated"].shape) == ((3, 2), (3, 2), (3,))


def test_without_segmentation_there_is_no_document():
    assert set(trace_signatures(Toy(), segmentation=False)) == set(INPUTS) - {
        "document",
        "segments",
        "model_card",
        "translate_to",
    }

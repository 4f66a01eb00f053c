"""Findings of `inspect` in good SavedModels and in every kind of bad one."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from toy_saved_model import TEXT, write_toy

from tf_transformer.export.inspection import _releases as serving_releases
from tf_transformer.export.inspection._inspect import NotASavedModel, inspect_saved_model
from tf_transformer.pipelines import cli

FILES = ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    directory = tmp_path_factory.mktemp("inspect") / "1"
    write_toy(directory, checksums=False)
    return directory


@pytest.fixture
def listed(tmp_path):
    write_toy(tmp_path / "listed")
    return tmp_path / "listed"


@pytest.fixture
def copy(good, tmp_path):
    return shutil.copytree(good, tmp_path / "copy")


def save(directory, function, spec=TEXT):
    module = tf.Module()
    module.serve = tf.function(function, input_signature=[spec])
    tf.saved_model.save(module, str(directory), signatures=module.serve)
    return inspect_saved_model(directory)


def kinds(report):
    return sorted({problem.kind for problem in report.problems})


def test_a_good_one_has_no_problems_and_loads_in_the_oldest_server(good):
    report = inspect_saved_model(good)
    assert report.problems == ()
    assert report.oldest_server == serving_releases.RELEASES[0]
    assert report.sizes.variables == 1 and report.sizes.parameters == 7
    assert report.sizes.graph_bytes == (good / "saved_model.pb").stat().st_size
    named = {signature.name: signature for signature in report.signatures}
    assert "__saved_model_init_op" not in named
    assert [str(tensor) for tensor in named["nbest"].outputs] == [
        "scores: float [N, 3]",
        "translations: string [N, 3]",
        "truncated: bool [N]",
    ]
    assert [str(tensor) for tensor in named["score"].inputs] == ["source: string [N]", "target: string [N]"]


def test_the_walk_enters_functions_and_leaves_out_what_restores(good):
    ops = inspect_saved_model(good).ops
    assert ops["StringUpper"] >= 4  # inside functions, not in the main graph
    assert not {"RestoreV2", "SaveV2", "MergeV2Checkpoints"} & ops.keys()


def test_a_saved_model_of_tensorflow_1_restores_in_its_main_graph(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3])
        y = tf.matmul(x, v1.get_variable("w", [3, 2]))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": y})
    report = inspect_saved_model(tmp_path / "m")
    assert report.problems == () and report.sizes.parameters == 6
    assert "MatMul" in report.ops and "RestoreV2" not in report.ops


def test_the_report_goes_through_json(good):
    data = json.loads(json.dumps(inspect_saved_model(good).to_dict()))
    assert data["ok"] is True and data["oldest_server"] == "2.12.1"
    assert data["signatures"][-1]["outputs"][0] == {"name": "translation", "dtype": "string", "shape": [-1]}


def test_python_in_the_graph(tmp_path):
    report = save(
        tmp_path / "m", lambda text: tf.ensure_shape(tf.numpy_function(lambda x: x, [text], tf.string), [None])
    )
    assert kinds(report) == ["python"]
    assert "PyFunc" in report.problems[0].message


def test_files_in_the_graph_even_inside_a_loop(tmp_path):
    report = save(tmp_path / "m", lambda text: tf.map_fn(tf.io.read_file, text))
    assert kinds(report) == ["files"]
    assert "ReadFile" in report.problems[0].message and "_body_" in report.problems[0].message


def test_jit_compile(tmp_path):
    @tf.function(jit_compile=True)
    def compiled(x):
        return x * 2.0

    report = save(tmp_path / "m", compiled, tf.TensorSpec([None], tf.float32))
    assert kinds(report) == ["jit_compile"]
    assert "compiled" in report.problems[0].message


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda text: {"translation": text, "count": tf.size(text)}, "output 'count'.*is a scalar"),
        (lambda text: {"first": tf.ensure_shape(text[:1], [1])}, "output 'first'.*fixed size 1 in dimension 0"),
        (lambda text: {"strange": tf.reshape(text, tf.shape(text)[: tf.size(text)])}, "output 'strange'.*unknown rank"),
    ],
    ids=["scalar", "fixed size", "unknown rank"],
)
def test_outputs_that_break_batching(tmp_path, function, what):
    report = save(tmp_path / "m", function)
    assert kinds(report) == ["batching"]
    assert len(report.problems) == 1 and re.search(what, report.problems[0].message)


def rewrite(directory, change):
    """Changes the graph on disk; the fingerprint goes, or it would tell."""
    message = saved_model_pb2.SavedModel()
    message.ParseFromString((directory / "saved_model.pb").read_bytes())
    change(message.meta_graphs[0])
    (directory / "saved_model.pb").write_bytes(message.SerializeToString())
    (directory / "fingerprint.pb").unlink()
    return inspect_saved_model(directory)


def rename_upper(op):
    def change(graph):
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                node.op = op if node.op == "StringUpper" else node.op

    return change


@pytest.mark.parametrize(
    ("op", "oldest"),
    [
        ("SentencepieceTokenizeOp", "2.12.1"),
        ("SegmentMaxV2", "2.13.0"),
        ("FFTND", "2.15.1"),
        ("TFText>RoundRobinTrim", "2.20.0"),
    ],
)
def test_the_newest_op_decides_the_oldest_server(copy, op, oldest):
    report = rewrite(copy, rename_upper(op))
    assert report.oldest_server == oldest and report.problems == ()


def test_an_op_of_nobody(copy):
    report = rewrite(copy, rename_upper("FrobnicateV3"))
    assert report.oldest_server is None
    assert kinds(report) == ["unknown_op"] and "FrobnicateV3" in report.problems[0].message


def test_an_op_newer_than_every_server(copy):
    report = rewrite(copy, rename_upper("DecodeJxl"))
    assert report.oldest_server is None and kinds(report) == ["server"]


def test_a_graph_for_newer_readers(copy):
    report = rewrite(copy, lambda graph: setattr(graph.graph_def.versions, "min_consumer", 1_700))
    assert report.oldest_server == "2.16.1"


def test_no_signatures_and_no_serving_tag(copy):
    def strip(graph):
        graph.signature_def.clear()
        graph.meta_info_def.tags[:] = ["train"]

    assert [problem.message.split(":")[0] for problem in rewrite(copy, strip).problems] == [
        "there is no signature",
        "no graph is tagged 'serve' (there are [['train']])",
    ]


def flip_bit(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 0b100
    path.write_bytes(data)


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_of_an_export_is_noticed(listed, name):
    size = (listed / name).stat().st_size
    for place in (0, size // 3, size - 1):
        flip_bit(listed / name, place)
        messages = [each.message for each in inspect_saved_model(listed).problems if each.kind == "damaged"]
        assert any(name in message for message in messages), f"bit flipped at {place} of {size}"
        flip_bit(listed / name, place)
    assert inspect_saved_model(listed).problems == ()


def test_one_flipped_bit_without_a_list(copy):
    """Damage is detected by fingerprint.pb and the checksums of the variables."""
    graph, data = copy / "saved_model.pb", copy / "variables/variables.data-00000-of-00001"
    for path, place in ((graph, graph.read_bytes().index(b"StringUpper")), (data, 5), (copy / FILES[1], 40)):
        flip_bit(path, place)
        assert "damaged" in kinds(inspect_saved_model(copy)), path
        flip_bit(path, place)
    assert inspect_saved_model(copy).problems == ()


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_noticed(copy, name):
    with open(copy / name, "r+b") as file:
        file.truncate((copy / name).stat().st_size * 2 // 3)
    assert kinds(inspect_saved_model(copy)) == ["damaged"]


def test_a_torn_list_of_files(listed):
    (listed / "model.json").write_text('{"files": {"saved_model.pb": "abc"}}')  # somebody else's
    assert inspect_saved_model(listed).problems == ()
    (listed / "model.json").write_text('{"files": {')
    assert "model.json cannot be read" in inspect_saved_model(listed).problems[0].message


def test_missing_variables_and_assets(copy, tmp_path):
    shutil.rmtree(copy / "variables")
    assert kinds(inspect_saved_model(copy)) == ["damaged"]
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    module = tf.Module()
    module.table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(str(words), tf.string, 0, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 1
    )
    module.serve = tf.function(lambda text: module.table.lookup(text), input_signature=[TEXT])
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.serve)
    assert inspect_saved_model(tmp_path / "m").problems == ()
    (tmp_path / "m" / "assets" / "words.txt").unlink()
    assert "assets/words.txt" in inspect_saved_model(tmp_path / "m").problems[0].message


def test_weights_that_are_not_numbers(tmp_path):
    write_toy(tmp_path / "m", weight=np.nan)
    report = inspect_saved_model(tmp_path / "m")
    assert kinds(report) == ["numbers"] and "7 values" in report.problems[0].message


def test_not_a_saved_model(good, tmp_path):
    with pytest.raises(NotASavedModel, match="does not exist"):
        inspect_saved_model(tmp_path / "nowhere")
    with pytest.raises(NotASavedModel, match=f"did you mean {good}"):
        inspect_saved_model(good.parent)


def test_exit_codes_for_scripts(good, copy, tmp_path, capsys):
    assert cli.main(["inspect", str(good)]) == 0
    assert "Problems: none" in capsys.readouterr().out
    (copy / "saved_model.pb").write_bytes(b"nonsense")
    assert cli.main(["inspect", str(copy), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"][0]["kind"] == "damaged"
    assert cli.main(["inspect", str(tmp_path)]) == 2
    assert capsys.readouterr().out == ""

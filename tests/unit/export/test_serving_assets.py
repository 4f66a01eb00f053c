"""The files for servers: warm-up requests of every signature, and parameters of batching."""

import re

from tf_transformer.export._serving_assets import BATCHING_FILE, read_warmup_requests, write_serving_assets
from tf_transformer.export._signatures import INPUTS

PAIRS = [(f"source {i}".encode(), f"target {i}".encode()) for i in range(11)]


def test_every_signature_is_warmed_up_with_one_row_and_with_several(tmp_path):
    write_serving_assets(tmp_path, "name", PAIRS)
    requests = list(read_warmup_requests(tmp_path))
    sizes = {name: sorted(len(inputs[INPUTS[name][0]]) for each, inputs in requests if each == name) for name in INPUTS}
    assert sizes == {name: [1, 8] for name in INPUTS}
    assert {frozenset(inputs) for name, inputs in requests if name == "score"} == {frozenset({"source", "target"})}
    score = next(inputs for name, inputs in requests if name == "score")
    assert (score["source"].tolist(), score["target"].tolist()) == ([b"source 0"], [b"target 0"])


def test_one_sentence_is_enough(tmp_path):
    write_serving_assets(tmp_path, "name", PAIRS[:1])
    assert len(list(read_warmup_requests(tmp_path))) == len(INPUTS)


def test_batching_parameters_are_of_the_form_the_server_reads(tmp_path):
    write_serving_assets(tmp_path, "name", PAIRS)
    lines = (tmp_path / BATCHING_FILE).read_text().splitlines()
    fields = [re.fullmatch(r"(\w+) \{ value: (\d+) \}", line) for line in lines if not line.startswith("#")]
    assert {field[1] for field in fields} == {"max_batch_size", "batch_timeout_micros", "max_enqueued_batches"}

"""The parity check: what counts as the same answer, and what is shown when one is not."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from running_server import GUARD_SECONDS
from toy_saved_model import write_toy

from tf_transformer.export import _verify as verify
from tf_transformer.export._signatures import INPUTS
from tf_transformer.export._trial_rows import SCRIPTS
from tf_transformer.export._verify import ExportRejected, require_sound, trial_requests, verify_export

pytestmark = pytest.mark.long

TEXTS = [b"ab", b"c \xff d", b"", b"\x00e"]


def objects(*values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


ASKED = [("nbest", {"text": [b"one", b"two"]})]
EXPECTED = {
    "translations": objects(b"eins", b"zwei").reshape(2, 1),
    "scores": np.float32([[-1.5], [-np.inf]]),
    "truncated": np.array([False, True]),
}


def check(monkeypatch, **changes):
    """Run the parity check on answers that are as expected but for `changes`."""
    monkeypatch.setattr(verify, "answers_of_clean_process", lambda *_: ([EXPECTED | changes], 0.5))
    return verify_export("model", ASKED, [EXPECTED])


def test_the_same_answers_pass(monkeypatch):
    trial = check(monkeypatch, scores=np.float32([[-1.50009], [-np.inf]]))
    assert (trial.requests, trial.rows, trial.load_seconds) == (1, 2, 0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"translations": objects(b"eins", b"zwo").reshape(2, 1)},
        {"scores": np.float32([[-1.5], [-1e9]])},
        {"scores": np.float32([[np.nan], [-np.inf]])},
        {"scores": np.float32([[-1.502], [-np.inf]])},
        {"truncated": np.array([True, True])},
        {"truncated": np.array([False])},
        {"truncated": np.float32([0, 1])},
        {"more": np.zeros(2)},
    ],
)
def test_other_answers_are_rejected(monkeypatch, changes):
    with pytest.raises(ExportRejected, match="differ from the checkpoint's; nothing was published"):
        check(monkeypatch, **changes)


def test_a_nan_is_rejected_even_if_the_checkpoint_gives_it_too(monkeypatch):
    nan = {"scores": np.float32([[np.nan], [0]])}
    monkeypatch.setattr(verify, "answers_of_clean_process", lambda *_: ([EXPECTED | nan], 0.5))
    with pytest.raises(ExportRejected):
        verify_export("model", ASKED, [EXPECTED | nan])


def test_the_message_shows_the_row_and_both_sides(monkeypatch):
    with pytest.raises(ExportRejected) as rejected:
        check(monkeypatch, translations=objects(b"eins", b"zwo").reshape(2, 1))
    message = str(rejected.value)
    assert "nbest.translations of text='two'" in message
    assert "checkpoint: ['zwei']" in message and "export:     ['zwo']" in message


def test_a_clean_process_answers_and_a_wrong_model_is_noticed(tmp_path, monkeypatch):
    toy = write_toy(tmp_path / "right", "<")
    requests, expected = trial_requests(toy.signatures(), [TEXTS], [[]])
    assert {name for name, _ in requests} == set(INPUTS) - {"model_card", "translate_to"}
    monkeypatch.chdir(tmp_path)  # relative paths: the process has another working directory
    trial = verify_export(pathlib.Path("right"), requests, expected, scratch=pathlib.Path())
    assert trial.rows == 5 * len(TEXTS) + 2 * 3 + len(SCRIPTS)

    write_toy(tmp_path / "wrong", ">")
    with pytest.raises(ExportRejected, match="checkpoint: '<AB'\n    export:     '>AB'"):
        verify_export(tmp_path / "wrong", requests, expected)


def test_what_does_not_load_is_rejected_with_the_reason(tmp_path):
    write_toy(tmp_path / "model")
    (tmp_path / "model" / "variables" / "variables.index").unlink()
    with pytest.raises(ExportRejected, match=r"does not load and answer in a separate process(?s:.)*variables"):
        verify_export(tmp_path / "model", ASKED, [EXPECTED])


def test_what_inspect_objects_to_is_rejected(tmp_path):
    write_toy(tmp_path / "model")
    assert require_sound(tmp_path / "model").oldest_server == "2.12.1"
    write_toy(tmp_path / "nan", weight=float("nan"))
    with pytest.raises(ExportRejected, match=r"has problems; nothing was published(?s:.)*NaN or infinite"):
        require_sound(tmp_path / "nan")


@pytest.mark.slow
def test_the_clean_process_ends_with_the_one_that_started_it(tmp_path):
    os.mkfifo(tmp_path / "requests")  # nobody writes to it: the script waits
    words = [str(tmp_path / "model"), str(tmp_path / "requests"), str(tmp_path / "answers")]
    process = subprocess.Popen([sys.executable, "-P", str(verify._SCRIPT), *words], stdin=subprocess.PIPE)
    process.stdin.close()
    assert process.wait(GUARD_SECONDS) == 1

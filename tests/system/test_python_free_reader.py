"""A C++ program answers from a SavedModel exactly as Python does: nothing of Python is in it."""

import io

import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text
from cpp_reader import build_reader, has_compiler, translate_with_cpp

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler (g++)")]

LINES = ["the cat sat on the mat", "a small dog ran home", "Übergröße ist schön", "one two three four"]
TEXTS = [line.encode() for line in [*LINES, "", "   ", "hello world", "a\x00b", "a\nb", "日本語 \U0001f600"]] + [
    b"\xff\xfe"
]


class Reversing(tf.Module):
    """A tokenizer of tensorflow_text, a variable and a loop: what an export is made of, in small."""

    def __init__(self):
        super().__init__()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES), model_writer=model, vocab_size=61, model_type="bpe", minloglevel=2
        )
        self.tokenizer = tensorflow_text.SentencepieceTokenizer(model.getvalue(), out_type=tf.int32)
        self.shift = tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def translate(self, text):
        ids = self.tokenizer.tokenize(text) + self.shift
        return {"translation": self.tokenizer.detokenize(ids[:, ::-1])}


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    return build_reader(tmp_path_factory.mktemp("reader"))


def test_a_saved_model_with_a_tokenizer(reader, tmp_path):
    module = Reversing()
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"serving_default": module.translate})
    expected = module.translate(tf.constant(TEXTS))["translation"].numpy().tolist()
    assert translate_with_cpp(reader, tmp_path / "1", TEXTS) == expected
    assert expected[0] != TEXTS[0]


def test_a_damaged_saved_model_is_an_error(reader, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"nonsense")
    with pytest.raises(RuntimeError, match="ended with 3"):
        translate_with_cpp(reader, tmp_path, [b"a"])

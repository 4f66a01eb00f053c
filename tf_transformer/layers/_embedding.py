"""The embedding that is also the projection onto the vocabulary (section 3.4)."""

import math

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class SharedEmbedding(keras.layers.Layer):
    """One matrix for ids in and logits out: rows times sqrt(D) on the way in, its transpose on the way out.

    Makes the Keras mask of its outputs: False where an id is `pad_id`.

    Args:
        vocab_size: number of rows V.
        dim: width of the model D.
        scale: whether embeddings are multiplied by sqrt(D).
        pad_id: the id that is padding; None: no id is, and no mask is made.

    Call arguments:
        ids: integers (B, S), each in [0, V).

    Returns:
        (B, S, D). `logits` turns (B, T, D) into float32 (B, T, V).

    Example:
        >>> embedding = SharedEmbedding(100, 8)
        >>> embedding.logits(embedding(keras.ops.array([[5, 3, 0]]))).shape
        TensorShape([1, 3, 100])
    """

    def __init__(self, vocab_size, dim, scale=True, pad_id=0, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.dim = dim
        self.scale = scale
        self.pad_id = pad_id
        self.supports_masking = True

    def build(self, input_shape=None):
        spread = keras.initializers.RandomNormal(stddev=self.dim**-0.5)
        self.table = self.add_weight(shape=(self.vocab_size, self.dim), initializer=spread, name="table")

    def call(self, ids):
        check_ids(ids, self.vocab_size, self.name)
        rows = ops.take(self.table, ids, axis=0)
        return rows * math.sqrt(self.dim) if self.scale else rows

    def logits(self, hidden):
        """Similarity of hidden states (…, D) to every word: (…, V), float32."""
        table = ops.cast(self.table, hidden.dtype)
        return ops.cast(ops.matmul(hidden, ops.transpose(table)), "float32")

    def compute_mask(self, ids, previous_mask=None):
        return None if self.pad_id is None else ops.not_equal(ids, self.pad_id)

    def compute_output_shape(self, input_shape):
        return (*input_shape, self.dim)

    def get_config(self):
        config = {"vocab_size": self.vocab_size, "dim": self.dim, "scale": self.scale, "pad_id": self.pad_id}
        return super().get_config() | config


def check_ids(ids, vocab_size: int, name: str) -> None:
    """Rejects ids that are not integers and, where values can be seen (not while tracing), ids outside [0, V)."""
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if "int" not in dtype:
        raise ValueError(f"{name} expects integer ids, not {dtype}: tokenize the text first.")
    try:
        values = ops.convert_to_numpy(ids)
    except Exception:  # a traced or symbolic tensor: each backend has its own exception, and no values
        return
    if values.size and (values.min() < 0 or values.max() >= vocab_size):
        raise ValueError(
            f"{name} expects ids from 0 to {vocab_size - 1}; got ids from {values.min()} to {values.max()}. "
            "Were they made with the tokenizer this model was built for?"
        )

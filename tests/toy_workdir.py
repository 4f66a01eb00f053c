"""A work directory with a tokenizer of a few hundred pieces and a tiny model with random weights."""

import dataclasses
import random

import keras
import numpy as np

from tf_transformer.config import Config, DecodingConfig, ModelConfig
from tf_transformer.model import Transformer
from tf_transformer.text._tokenizer import TokenizerPair, train_tokenizer
from tf_transformer.workdir._weights import model_tensors
from tf_transformer.workdir._workdir import Workdir
from tf_transformer.workdir.checkpoints import save_checkpoint

# Primes wherever a transposed axis could hide; key and value widths differ, and neither is model_dim / num_heads.
TOY = ModelConfig(
    num_layers=2, num_decoder_layers=3, model_dim=26, feed_forward_dim=37, num_heads=3, key_dim=5, value_dim=7
)
_WORDS = [
    "the",
    "a",
    "my",
    "small",
    "big",
    "red",
    "old",
    "house",
    "tree",
    "dog",
    "cat",
    "river",
    "is",
    "was",
    "sees",
    "likes",
    "and",
    "or",
    "in",
    "on",
    "under",
    "not",
    "very",
]


def toy_sentences(count: int, seed: int = 1) -> list[str]:
    """Made-up sentences of 1 to 12 words, the same for the same seed."""
    choose = random.Random(seed)
    return [" ".join(choose.choices(_WORDS, k=choose.randint(1, 12))) + "." for _ in range(count)]


def toy_tokenizers() -> TokenizerPair:
    return TokenizerPair.of(train_tokenizer(toy_sentences(300), 160, exact=False))


def randomize(model: Transformer, scale: float = 1.0, seed: int = 5) -> None:
    """Random values for all weights, biases and norms too: fresh zeros and ones would hide mistakes."""
    generator = np.random.default_rng(seed)
    for variable in model.weights:
        spread = 0.1 if len(variable.shape) == 1 else scale * variable.shape[0] ** -0.5
        centre = 1.0 if variable.path.endswith("gamma") else 0.0
        variable.assign(generator.normal(centre, spread, variable.shape).astype("float32"))


def toy_workdir(path, model: ModelConfig = TOY, seed: int = 5, **decoding) -> Workdir:
    """A work directory at `path` with one checkpoint of random weights, `step-00000007`."""
    keras.utils.set_random_seed(seed)
    tokenizers = toy_tokenizers()
    size = tokenizers.source.vocab_size
    target = None if model.target_vocab_size is None else size
    model = dataclasses.replace(model, vocab_size=size, target_vocab_size=target)
    # Failure detection would search again for nearly every output of random weights.
    search = DecodingConfig(**{"failure_detection": False} | decoding)
    config = Config(preset="toy", model=model, decoding=search)
    workdir = Workdir.create(path, config, tokenizers, {})
    transformer = Transformer(model)
    randomize(transformer, seed=seed)
    save_checkpoint(workdir.checkpoints / "step-00000007", model_tensors(transformer), step=7)
    return workdir

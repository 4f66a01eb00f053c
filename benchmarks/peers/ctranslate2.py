"""CTranslate2, float32 and int8: beam search."""

import argparse
import copy
import tempfile

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

from benchmarks.peers.measurement import parse, report


class RandomModel:
    """A Transformer's specification with random weights, of the size that the options give."""

    def __init__(self, options: argparse.Namespace):
        self.random = np.random.RandomState(0)
        self.width, self.inner, self.size = options.width, options.inner, options.vocab
        self.words = ["<blank>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(options.vocab - 4))]
        self.spec = transformer_spec.TransformerSpec.from_config(
            num_layers=(options.layers, options.layers),
            num_heads=options.heads,
            pre_norm=False,
            activation=common_spec.Activation.RELU,
        )
        self._fill()

    def _fill(self) -> None:
        embedding = self._normal(self.size, self.width)
        for side in (self.spec.encoder, self.spec.decoder):
            table = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
            table.weight = embedding
            side.scale_embeddings = True
            side.position_encodings.encodings = np.zeros((256, self.width), np.float32)
            for layer in side.layer:
                self._attention(layer.self_attention, (3 * self.width, self.width))
                self._dense(layer.ffn.linear_0, self.inner, self.width)
                self._dense(layer.ffn.linear_1, self.width, self.inner)
                self._norm(layer.ffn.layer_norm)
        for layer in self.spec.decoder.layer:
            self._attention(layer.attention, (self.width, 2 * self.width, self.width))
        self.spec.decoder.projection.weight = embedding
        self.spec.decoder.projection.bias = np.zeros(self.size, np.float32)
        self.spec.register_source_vocabulary(self.words)
        self.spec.register_target_vocabulary(self.words)
        self.spec.config.bos_token, self.spec.config.eos_token, self.spec.config.unk_token = "<s>", "</s>", "<unk>"
        self.spec.validate()

    def _normal(self, rows: int, columns: int) -> np.ndarray:
        return (self.random.randn(rows, columns) * 0.05).astype(np.float32)

    def _dense(self, spec, rows: int, columns: int) -> None:
        spec.weight = self._normal(rows, columns)
        spec.bias = np.zeros(rows, np.float32)

    def _norm(self, spec) -> None:
        spec.gamma, spec.beta = np.ones(self.width, np.float32), np.zeros(self.width, np.float32)

    def _attention(self, spec, outputs: tuple[int, ...]) -> None:
        for linear, rows in zip(spec.linear, outputs, strict=True):
            self._dense(linear, rows, self.width)
        self._norm(spec.layer_norm)


def main() -> None:
    options = parse()
    if options.only == "train":
        return
    model = RandomModel(options)
    ids = model.random.randint(4, options.vocab, (options.batch, options.source))
    batch = [[model.words[i] for i in row] for row in ids]
    for kind in ("float32", "int8"):
        spec = copy.deepcopy(model.spec)
        spec.optimize(quantization=None if kind == "float32" else kind)
        with tempfile.TemporaryDirectory() as folder:
            spec.save(folder)
            translator = ctranslate2.Translator(
                folder,
                device="cpu",
                inter_threads=options.inter_threads,
                intra_threads=options.threads // options.inter_threads,
            )

        def decode(translator=translator):
            translator.translate_batch(
                batch,
                beam_size=options.beam,
                length_penalty=0.6,
                min_decoding_length=options.target,
                max_decoding_length=options.target,
                max_batch_size=-(-options.batch // options.inter_threads),
            )

        report(f"ctranslate2_{kind}", "decode", options.batch * options.target, decode, options)


if __name__ == "__main__":
    main()

"""Source ids to hypotheses: encoder, cached decoder and the search that was asked for, over any number of rows."""

import tensorflow as tf

from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.chunks import search_in_chunks
from tf_transformer.decoding.decoder_step import DecoderStep
from tf_transformer.decoding.options import Hypotheses, SearchOptions
from tf_transformer.decoding.sampling import SamplingOptions, sample
from tf_transformer.layers import padding_mask
from tf_transformer.model import Transformer


def search_ids(
    model: Transformer, rows: dict[str, tf.Tensor], options: SearchOptions, sampling: SamplingOptions | None = None
) -> Hypotheses:
    """The K best, or sampled, outputs of each row.

    Args:
        rows: "source" (N, S) int32, padded; "lengths" (N,) int32, of the source; "max_lengths" (N,) int32, of the
            output, 0 where none is wanted. If the output is to begin with given ids: "prefix" (N, P) and
            "prefix_lengths" (N,) int32. For sampling: "seeds" (N, 2) int32.
        sampling: None is beam search.
    """

    def search(rows):
        return _search(model, rows, options, sampling)

    return search_in_chunks(search, rows, options.beam_size)


def _search(model, rows, options, sampling) -> Hypotheses:
    decoder = DecoderStep(model, options.beam_size, with_attention=options.coverage_penalty > 0)
    source, lengths = rows["source"], rows["max_lengths"]
    state = decoder.start(model.encode(source), padding_mask(source, model.config.pad_id))
    start = tf.fill(tf.shape(lengths), model.config.start_id)
    arguments = {name: rows[name] for name in ("prefix", "prefix_lengths") if name in rows}
    arguments |= {"grow": decoder.grow, "source_length": tf.shape(source)[1]}
    if sampling is None:
        return beam_search(decoder.step, state, start, lengths, options, **arguments)
    return sample(decoder.step, state, start, lengths, rows["seeds"], options, sampling, **arguments)

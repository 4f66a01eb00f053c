"""Search and scores of sentences in the graph: strings in, strings out, with the source's text for unknown pieces."""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding._batching import map_batches
from tf_transformer.decoding._checks import Checked, CheckedSearch, LengthRange, unchecked
from tf_transformer.decoding._documents import count_sentences
from tf_transformer.decoding._options import Hypotheses
from tf_transformer.decoding._sampling import SamplingOptions
from tf_transformer.decoding._search import (
    Ids,
    check_tokenizers,
    either_truncated,
    require_tensorflow,
    score_ids,
    search_ids,
    search_options,
    search_rows,
    text_read,
    text_to_ids,
    with_seeds,
)
from tf_transformer.decoding._shortlist import CandidateTable, Shortlist, candidate_table
from tf_transformer.model import Transformer
from tf_transformer.text import LanguageTokens, Segmenter, Tokenizer, TokenizerPair, two_letters


class Written(NamedTuple):
    """Outputs as text.

    text: [N] string.
    starts, ends: (N, T) int32, of the pieces, in bytes of the text.
    """

    text: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


class SentenceTranslator(tf.Module):
    """The part of a `Translator` that treats each text as one sentence; see there for the arguments."""

    def __init__(
        self,
        model: Transformer,
        tokenizers: TokenizerPair,
        decoding: DecodingConfig | None = None,
        source_language: str | None = None,
        shortlist: Shortlist | CandidateTable | None = None,
        usual_lengths: LengthRange | None = None,
        target_language: str | None = None,
    ):
        super().__init__(name="translator")
        require_tensorflow()
        check_tokenizers(model.config, tokenizers)
        self.decoding = decoding or DecodingConfig()
        self.model = model
        self.source_tokenizer, self.target_tokenizer = tokenizers.source, tokenizers.target
        self._tokens = LanguageTokens(tokenizers.languages, source_language, target_language, model.config.pad_id)
        self._segmenter = Segmenter(two_letters(source_language))
        if shortlist is not None and self._tokens.target_tokens:
            raise ValueError(
                "Expected no shortlist with a model whose translations begin with the token of their language. "
                "Received: one. Leave it out."
            )
        self.shortlist = candidate_table(shortlist, tokenizers, self.decoding.sampling)
        self._checked_search = CheckedSearch(model, usual_lengths or LengthRange(), self.shortlist)

    def _sentences(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Number of sentences in each text, where it should be one; nothing if segmentation is off."""
        return {"sentences": count_sentences(self._segmenter.segment(text))} if self.decoding.segmentation else {}

    def _of_sentences(
        self, text: tf.Tensor, prefix: tf.Tensor | None = None, target: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Each text as one sentence. It stops earlier than `nbest`, which needs all K.

        Args:
            prefix: [N] string, what each translation begins with.
            target: [N] string, the target language of each; None: that of the translator.
        """
        source = self._read(text, target)
        forced = self._read_prefix(prefix, source, target)
        found, failed, retried = self._search_checked(source, text, nbest=1, prefix=forced)
        outputs = {"translation": self._texts(found.ids[:, 0], source, text), "failed": failed, "retried": retried}
        return outputs | {"truncated": either_truncated(source, forced)}

    def _nbest(self, text: tf.Tensor, prefix: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """The signature `nbest`."""
        source = self._read(text)
        forced = self._read_prefix(prefix, source)
        found = self._search(source, text, prefix=forced)
        shape = tf.shape(found.lengths)
        flat = tf.reshape(found.ids, [shape[0] * shape[1], tf.shape(found.ids)[2]])
        repeated = Ids(*(tf.repeat(column, shape[1], axis=0) for column in source))
        texts = tf.reshape(self._texts(flat, repeated, tf.repeat(text, shape[1])), shape)
        scores = tf.where(found.lengths > 0, found.log_probs, -1e9)
        scores = tf.where(source.empty[:, None], 0.0, scores)
        texts, scores = (tf.ensure_shape(tensor, [None, self.decoding.beam_size]) for tensor in (texts, scores))
        outputs = {"translations": texts, "scores": scores, "truncated": either_truncated(source, forced)}
        return outputs | self._sentences(text)

    def _score(self, sources: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `score`, and "truncated" [N] bool: whether source or target was truncated."""
        source, first = self._read(sources), self._tokens.target_tokens
        target = text_to_ids(targets, self.target_tokenizer, self.longest_target - first)
        given = self._tokens.begin(target, source) or target
        score = score_ids(self.model, source.ids, given.ids, given.lengths, first)
        score = tf.where(source.empty & target.empty, 0.0, score)
        return {"score": score, "tokens": target.lengths, "truncated": either_truncated(source, target)}

    def _texts(self, ids: tf.Tensor, source: Ids, text: tf.Tensor) -> tf.Tensor:
        return self._written(ids, source, text).text if self._copies else self.target_tokenizer.detokenize(ids)

    def _written(self, ids: tf.Tensor, source: Ids, text: tf.Tensor) -> Written:
        """Outputs as text; with `decoding.unknown` "copy", with source text in place of UNK."""
        if not self._copies:
            return written_pieces(ids, self.target_tokenizer)
        tokenizers = TokenizerPair(self.source_tokenizer, self.target_tokenizer)
        read, around = text_read(text, self._longest_text), self._tokens.around_source
        return copy_unknown(self.model, tokenizers, read, source, ids, around)

    @property
    def _copies(self) -> bool:
        return self.decoding.unknown == "copy" and not self.target_tokenizer.byte_fallback

    def _read(self, text: tf.Tensor, target: tf.Tensor | None = None) -> Ids:
        """The ids of texts, with their language token where the model has one."""
        return self._tokens.read(text_to_ids(text, self.source_tokenizer, self._longest_text), target)

    def _read_prefix(self, prefix: tf.Tensor | None, source: Ids, target: tf.Tensor | None = None) -> Ids | None:
        """The ids that each translation begins with; EOS, the last of them, is not part of it."""
        longest = self.longest_target - 1 - self._tokens.target_tokens
        given = None if prefix is None else text_to_ids(prefix, self.target_tokenizer, longest)
        return self._tokens.begin(given, source, target)

    @property
    def longest_source(self) -> int:
        """Tokens of a source with EOS and the token of its language; longer ones are truncated."""
        return self._within_positions(self.decoding.max_source_length + self._tokens.source_tokens)

    @property
    def _longest_text(self) -> int:
        """Tokens of a source with EOS."""
        return self.longest_source - self._tokens.source_tokens

    @property
    def longest_target(self) -> int:
        """Tokens of a translation with EOS and the token of its language."""
        extra = self.decoding.max_extra_length + self._tokens.target_tokens
        return self._within_positions(self.decoding.max_source_length + extra)

    def _within_positions(self, length: int) -> int:
        return min(length, self.model.config.max_positions) if self.model.config.positions == "learned" else length

    def _search(self, source: Ids, text: Any = None, nbest: int | None = None, prefix: Any = None) -> Hypotheses:
        return self._search_checked(source, text, nbest, prefix).found

    def _search_checked(self, source: Ids, text: Any, nbest: int | None = None, prefix: Ids | None = None) -> Checked:
        config, first = self.decoding, self._tokens.target_tokens
        extra = config.max_extra_length - self._tokens.source_tokens + first
        longest = min(self.longest_target, first + (config.max_length or self.longest_target))
        rows = search_rows(source, prefix, extra, longest, config.max_length_factor)
        forbidden = forbidden_unk(config, self.target_tokenizer)
        options = search_options(config, self.model.config, nbest, forbidden, first)
        if config.sampling:
            sampling = SamplingOptions(config.temperature, config.top_k, config.top_p)
            return unchecked(search_ids(self.model, with_seeds(rows, text, config.seed), options, sampling))
        if not config.failure_detection:
            return unchecked(search_ids(self.model, rows, options, shortlist=self.shortlist))
        return self._checked_search(rows, options)


def forbidden_unk(decoding: DecodingConfig, target: Tokenizer) -> list[int]:
    """UNK, unless it may be produced: to be kept, or to be replaced if the vocabulary has no byte fallback."""
    allowed = decoding.unknown == "keep" or (decoding.unknown == "copy" and not target.byte_fallback)
    return [] if allowed else [target.unk_id]


def written_pieces(ids: tf.Tensor, tokenizer: Tokenizer) -> Written:
    """The texts of outputs (N, T) int32, UNK as `detokenize` writes it."""
    stops = tf.cast((ids == tokenizer.eos_id) | (ids == tokenizer.pad_id), tf.int32)
    written = (tf.cumsum(stops, axis=1) == 0) & (ids != tokenizer.bos_id)
    sizes, spaces = (tf.where(written, size, 0) for size in tokenizer.surface_sizes(ids))
    only_spaces = tf.cast(sizes == spaces, tf.int32)
    lead = tf.reduce_sum(tf.math.cumprod(only_spaces, axis=1, exclusive=True) * spaces, axis=1, keepdims=True)
    ends = tf.cumsum(sizes, axis=1) - lead
    return Written(tokenizer.detokenize(ids), tf.maximum(ends - sizes, 0), ends)


def copy_unknown(
    model: Transformer,
    tokenizers: TokenizerPair,
    text: tf.Tensor,
    source: Ids,
    ids: tf.Tensor,
    around: tuple[int, int] = (0, 0),
) -> Written:
    """Outputs as text, with the aligned source text in place of UNK.

    A piece is aligned with the source piece that the decoder attended to most, on average over layers and heads, when
    it wrote the piece. If there are unknown pieces in the source, only these are considered.

    Args:
        text: [N] string, as it was tokenized.
        source: its ids.
        ids: (N, T) int32, the outputs.
        around: language tokens of a source before its text and behind EOS.
    """
    unk_id, plain = tokenizers.target.unk_id, written_pieces(ids, tokenizers.target)
    has_unk = tf.reduce_any(ids == unk_id, axis=1)

    def replaced() -> tuple[tf.Tensor, ...]:
        places = tf.where(has_unk)
        some = [tf.gather(column, places[:, 0]) for column in (text, source.ids, source.lengths, ids)]
        copied = _with_source_text(model, tokenizers, around, *some)
        return tuple(tf.tensor_scatter_nd_update(one, places, other) for one, other in zip(plain, copied))

    return Written(*tf.cond(tf.reduce_any(has_unk), replaced, lambda: tuple(plain)))


def _with_source_text(
    model: Transformer,
    tokenizers: TokenizerPair,
    around: tuple[int, int],
    text: tf.Tensor,
    source: tf.Tensor,
    lengths: tf.Tensor,
    target: tf.Tensor,
) -> Written:
    """`copy_unknown` for rows that have UNK."""
    unk_id, pad_id = tokenizers.target.unk_id, tokenizers.target.pad_id
    written = lengths - int(tokenizers.source.add_eos) - around[1]
    places = tf.range(tf.shape(source)[1])
    usable = (places >= around[0]) & (places < written[:, None])
    unknown = usable & (source == tokenizers.source.unk_id)
    usable = tf.where(tf.reduce_any(unknown, axis=1, keepdims=True), unknown, usable)
    target_lengths = tf.reduce_sum(tf.cast(target != pad_id, tf.int32), axis=1)
    rows = {"source": source, "usable": usable, "target": target, "lengths": tf.maximum(lengths, target_lengths)}
    width = tf.shape(target)[1]

    def aligned(some: dict[str, tf.Tensor], longest: tf.Tensor) -> list[tf.Tensor]:
        found = _aligned(model, *(some[name][:, :longest] for name in ("source", "usable", "target")))
        return [tf.pad(found, [[0, 0], [0, width - tf.shape(found)[1]]])]

    places = map_batches(aligned, rows, [tf.TensorSpec([None, None], tf.int32)])[0]
    surfaces = _surfaces(tokenizers.source, text, tf.shape(source)[1] - around[0])
    surfaces = tf.gather(tf.pad(surfaces, [[0, 0], [around[0], 0]], constant_values=""), places, batch_dims=1)
    pieces = tf.where(target == unk_id, surfaces, tokenizers.target.piece_texts(target))
    return _joined(pieces)


def _joined(pieces: tf.Tensor) -> Written:
    """The text of pieces (N, T) string, with one space where several meet and none around it."""
    pieces = tf.strings.regex_replace(pieces, " +", " ")
    # What stands before a piece: 2 t + 1 of the last piece t that is not empty if that ends in a space, otherwise 2 t.
    marks = 2 * tf.range(tf.shape(pieces)[1]) + tf.cast(tf.strings.regex_full_match(pieces, r"(?s).* "), tf.int32)
    counts = tf.cumsum(tf.cast(pieces != "", tf.int32), axis=1)
    rows = tf.cumsum(tf.reduce_sum(tf.cast(pieces != "", tf.int32), axis=1, keepdims=True), exclusive=True)
    marks = tf.pad(tf.boolean_mask(marks, pieces != ""), [[1, 0]], constant_values=-1)
    last = tf.gather(marks, tf.where(counts > 0, rows + counts, 0))
    before = tf.pad(last, [[0, 0], [1, 0]], constant_values=-1)
    doubled = tf.strings.regex_full_match(pieces, "(?s) .*") & (before[:, :-1] % 2 == 1)  # -1 % 2 is 1
    pieces = tf.where(doubled, tf.strings.regex_replace(pieces, r"\A ", ""), pieces)
    joined = tf.strings.reduce_join(pieces, axis=1)
    text = tf.strings.strip(joined)
    lead = tf.strings.length(joined) - tf.strings.length(tf.strings.regex_replace(joined, r"\A[ \t\n\v\f\r]+", ""))
    sizes = tf.strings.length(pieces)
    ends = tf.cumsum(sizes, axis=1) - lead[:, None]
    starts, ends = (tf.clip_by_value(place, 0, tf.strings.length(text)[:, None]) for place in (ends - sizes, ends))
    return Written(text, starts, ends)


def _aligned(model: Transformer, source: tf.Tensor, usable: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """The usable source position that each target position is aligned with: (B, T) int32."""
    start = tf.fill([tf.shape(target)[0], 1], model.config.bos_id)
    inputs = tf.concat([start, target], axis=1)[:, : tf.shape(target)[1]]
    _, weights = model({"source": source, "target": inputs}, training=False, return_attention_scores=True)
    each = [tf.reduce_mean(tf.cast(layer, tf.float32), axis=1) for layer in weights["cross"]]
    return tf.argmax(tf.where(usable[:, None], tf.add_n(each), -1.0), axis=2, output_type=tf.int32)


def _surfaces(tokenizer: Tokenizer, text: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """The part of the text that each source piece stands for: [N] string -> (N, width) string."""
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
    starts, ends = (spans.to_tensor(shape=[None, None])[:, :width] for spans in tokenizer.piece_spans(text))
    missing = [[0, 0], [0, width - tf.shape(starts)[1]]]
    starts, ends = tf.pad(starts, missing), tf.pad(ends, missing)
    return tf.strings.substr(tf.broadcast_to(text[:, None], tf.shape(starts)), starts, ends - starts)

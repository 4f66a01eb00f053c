"""Search options, the step function that a search calls, one for any model, and the hypotheses it returns."""

import dataclasses
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

LENGTH_PENALTIES = ("gnmt", "average")


def length_penalty(length: tf.Tensor, alpha: float, kind: Any = "gnmt") -> tf.Tensor:
    """Length penalty, the divisor of a log-probability: int (…) -> float32 (…).

    "gnmt": ((5 + length) / 6) ** alpha of Wu et al. (2016), section 6.1 of the paper. "average": length ** alpha, as in
    Marian, CTranslate2 and Hugging Face; with an alpha of 1 the score is the average over the tokens.
    """
    length = tf.cast(length, tf.float32)
    return (tf.maximum(length, 1.0) if kind == "average" else (5.0 + length) / 6.0) ** alpha


def coverage_penalty(coverage: tf.Tensor, beta: float) -> tf.Tensor:
    """beta * sum over the source of log(min(attention so far, 1)): (…, S) -> (…), at most 0."""
    return beta * tf.reduce_sum(tf.math.log(tf.clip_by_value(coverage, 1e-9, 1.0)), axis=-1)


NEG_INF = -1e9
"""Log-probability of impossible ids. Finite, so that sums and differences are never NaN."""


class Step(NamedTuple):
    """Input of a step function.

    tokens: (B, K) int32, the last id of each active beam. In the first step of a beam search one beam is active, BOS;
        K is not static.
    index: scalar int32, the position these ids have in the decoder's input; 0 is BOS's.
    ancestors: (B, K, C) int32. Beam k continues what slot `ancestors[b, k, t]` held at position t. Entries behind
        `index` are undefined. C grows while the search runs.
    """

    tokens: tf.Tensor
    index: tf.Tensor
    ancestors: tf.Tensor


class CandidateVocabulary(NamedTuple):
    """The ids that have logits, where these are not all ids.

    ids: (U,) int32, the id of each column, ascending; columns of padding have the id 0 and logits of NEG_INF.
    places: (V,) int32, the column of each id, -1 where it has none.
    """

    ids: tf.Tensor
    places: tf.Tensor


class StepResult(NamedTuple):
    """Result of a step function.

    logits: (B, K, V) float32 of the next id, with a static V; (B, K, U) with a `vocabulary`.
    state: the new state, of the structure, types and ranks of the old one.
    attention: (B, K, S) float32, only where `SearchOptions.needs_attention`: how much of each source position this
        step looked at. Positions that need no covering, such as padding, hold 1.
    vocabulary: the ids that have logits; None: all, from 0 to V - 1.
    """

    logits: tf.Tensor
    state: Any
    attention: tf.Tensor | None = None
    vocabulary: CandidateVocabulary | None = None


StepFunction = Callable[[Step, Any], StepResult]
GrowFunction = Callable[[Any, tf.Tensor], Any]


def check_integer(name: str, value: Any, least: int) -> None:
    """Raise ValueError unless `value` is an integer of at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least {least}. Received: {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}. Received: {value}.")


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """The options that beam search, greedy search and sampling share.

    beam_size: K, the number of hypotheses kept alive.
    nbest: how many of the K results must be what the search would find if it never stopped early; None: all.
    length_penalty: "gnmt", ((5 + length) / 6) ** alpha, or "average", length ** alpha; the length counts EOS.
    alpha: its exponent.
    length_reward: added to the score for each token (He et al. 2016).
    early_stopping: whether a row stops when K hypotheses are finished, though better ones may be alive.
    min_length: ids before EOS, at the least.
    no_repeat_ngram: no run of so many ids occurs twice; 0: any may.
    coverage_penalty: beta of Wu et al. (2016), equation 14; 0: none.
    diversity: taken off a candidate for each better one with the same parent (Li et al. 2016); 0: none.
    forbidden_ids: ids that are never produced.
    track_coverage: whether to return how much each hypothesis attended to each source position.
    free_prefix: how many ids of a prefix count nothing in log-probabilities, as the token of the target language.
    """

    eos_id: int
    pad_id: int = 0
    beam_size: int = 4
    nbest: int | None = None
    length_penalty: str = "gnmt"
    alpha: float = 0.6
    length_reward: float = 0.0
    early_stopping: bool = False
    min_length: int = 0
    no_repeat_ngram: int = 0
    coverage_penalty: float = 0.0
    diversity: float = 0.0
    forbidden_ids: tuple[int, ...] = ()
    track_coverage: bool = False
    free_prefix: int = 0

    def __post_init__(self) -> None:
        for name in ("eos_id", "beam_size", "min_length", "no_repeat_ngram", "free_prefix"):
            check_integer(name, getattr(self, name), 1 if name == "beam_size" else 0)
        for name, least in (("alpha", 0), ("length_reward", 0), ("coverage_penalty", 0), ("diversity", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}. Received: {getattr(self, name)}.")
        if self.length_penalty not in LENGTH_PENALTIES:
            raise ValueError(f"length_penalty must be one of {LENGTH_PENALTIES}. Received: {self.length_penalty!r}.")
        if not 1 <= self.wanted <= self.beam_size:
            raise ValueError(
                f"nbest must be from 1 to beam_size = {self.beam_size}. Received: {self.nbest}. Lower it or raise "
                "beam_size."
            )
        if self.eos_id in self.forbidden_ids:
            raise ValueError(f"forbidden_ids must not contain eos_id = {self.eos_id}. Received: {self.forbidden_ids}.")

    @property
    def wanted(self) -> int:
        return self.beam_size if self.nbest is None else self.nbest

    @property
    def needs_attention(self) -> bool:
        """Whether a search adds up `StepResult.attention`."""
        return self.track_coverage or self.coverage_penalty > 0


class Hypotheses(NamedTuple):
    """The results of a search, the best first.

    ids: (B, K, L) int32; EOS is there if the hypothesis is finished; padding follows.
    lengths: (B, K) int32, EOS counted. 0 where fewer than K hypotheses exist.
    scores: (B, K) float32, what they are ranked by: log-probability by length penalty, plus length reward and coverage
        penalty.
    log_probs: (B, K) float32, the sums of the ids' log-probabilities under the model.
    finished: (B, K) bool, whether EOS came within the maximum length. These rank before truncated ones.
    coverage: (B, K, S) float32 with `track_coverage`, the attention to each source position, summed over the steps.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    scores: tf.Tensor
    log_probs: tf.Tensor
    finished: tf.Tensor
    coverage: tf.Tensor | None = None


def length_scores(log_probs: tf.Tensor, lengths: tf.Tensor, options: SearchOptions) -> tf.Tensor:
    """Scores by the length penalty and the length reward, without coverage; shapes broadcast."""
    scores = log_probs / length_penalty(lengths, options.alpha, options.length_penalty)
    return scores + options.length_reward * tf.cast(lengths, tf.float32) if options.length_reward else scores


class SearchArguments(NamedTuple):
    """The tensors that a search is called with; all int32."""

    start_ids: tf.Tensor
    max_lengths: tf.Tensor
    prefix: tf.Tensor | None = None
    prefix_lengths: tf.Tensor | None = None
    source_length: tf.Tensor | None = None
    min_lengths: tf.Tensor | None = None

    def check(self, step_fn: StepFunction, beams: int) -> "SearchArguments":
        """The arguments as int32 tensors, if they fit each other and the step function has room for `beams`."""
        room = getattr(step_fn, "beam_size", beams)
        if room < beams:
            raise ValueError(
                f"Expected a step function with a beam_size of at least {beams}, the search's. Received: beam_size = "
                f"{room}. Pass beam_size={beams} to {type(step_fn).__name__}."
            )
        if (self.prefix is None) != (self.prefix_lengths is None):
            given, missing = ("prefix_lengths", "prefix") if self.prefix is None else ("prefix", "prefix_lengths")
            raise ValueError(
                f"Expected prefix and prefix_lengths, or neither. Received: {given} alone. Pass {missing} as well."
            )
        return SearchArguments(*(None if value is None else tf.cast(value, tf.int32) for value in self))

    def constraints(self) -> dict[str, tf.Tensor]:
        """Those of prefix, prefix_lengths and min_lengths that are given, by name."""
        named = self._asdict()
        names = ("prefix", "prefix_lengths", "min_lengths")
        return {name: named[name] for name in names if named[name] is not None}


class UncachedStep:
    """Step function for beam search, greedy search and sampling from a model of ids (N, T) to logits (N, T, V).

    It works with every causal model, such as a functional Keras model, and computes each sequence from its beginning at
    every step. `DecoderStep` is the faster step function of a `layers.Decoder`, with a cache.

    Args:
        model: causal: logits at t depend on the ids 0 … t only. V must be static.
        beam_size: K, that of the search.

    Example:
        step = UncachedStep(gpt, beam_size=4)
        options = SearchOptions(eos_id=3, beam_size=4)
        found = beam_search(step, step.start(batch_size), start_ids, max_lengths, options, grow=step.grow)
    """

    def __init__(self, model: Callable[[tf.Tensor], Any], beam_size: int):
        check_integer("beam_size", beam_size, 1)
        self.model = model
        self.beam_size = beam_size

    def start(self, batch_size: Any) -> tf.Tensor:
        """Create the state before the first step: the ids by slot and position (B, K, 0)."""
        return tf.zeros([batch_size, self.beam_size, 0], tf.int32)

    def grow(self, state: tf.Tensor, capacity: tf.Tensor) -> tf.Tensor:
        """The state with room for `capacity` positions."""
        return tf.pad(state, [[0, 0], [0, 0], [0, capacity - tf.shape(state)[2]]])

    def __call__(self, step: Step, state: tf.Tensor) -> StepResult:
        """Compute the logits (B, K, V) of the token after each beam, and the state with the beams' last ids."""
        batch, active, capacity = tf.unstack(tf.shape(step.ancestors))
        tokens = tf.pad(step.tokens, [[0, 0], [0, self.beam_size - active]])
        state = tf.where(tf.range(capacity) == step.index, tokens[..., None], state)
        # Beam k continues slot ancestors[b, k, t] of position t: (B, C, K) by (B, C, active).
        by_position, ancestors = (tf.transpose(x, [0, 2, 1]) for x in (state, step.ancestors))
        sequences = tf.transpose(tf.gather(by_position, ancestors, batch_dims=2), [0, 2, 1])
        sequences = tf.reshape(sequences[:, :, : step.index + 1], [batch * active, step.index + 1])
        logits = tf.cast(self.model(sequences), tf.float32)[:, -1]
        return StepResult(tf.reshape(logits, [batch, active, logits.shape[-1]]), state)

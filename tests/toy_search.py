"""A toy model of five words with a real cache, and slow searches over it that are plainly right."""

import itertools

import numpy as np
import tensorflow as tf

from tf_transformer.decoding._options import StepResult

VOCAB, EOS, BOS, SOURCE, WIDTH = 5, 1, 2, 3, 7


class ToyModel:
    """Logits that depend on every earlier id and on the row; as a step function and as plain NumPy."""

    def __init__(self, rows, seed=0, sharpness=1.5):
        random = np.random.RandomState(seed)
        self.embedding = random.randn(VOCAB, WIDTH).astype(np.float32)
        self.positions = random.uniform(0.5, 1.5, (64,)).astype(np.float32)
        self.output = (sharpness * random.randn(WIDTH, VOCAB)).astype(np.float32)
        self.looks = random.randn(WIDTH, SOURCE).astype(np.float32)
        self.context = random.randn(rows, WIDTH).astype(np.float32)

    def state(self, rows=None):
        return self.state_of(tf.constant(self.context if rows is None else self.context[rows]))

    def state_of(self, context):
        return {"context": context, "cache": tf.zeros([tf.shape(context)[0], 0, 0, WIDTH])}

    def grow(self, state, capacity, beams):
        batch, old = tf.shape(state["cache"])[0], tf.shape(state["cache"])[1]
        cache = tf.reshape(state["cache"], [batch, old, beams, WIDTH])
        return state | {"cache": tf.pad(cache, [[0, 0], [0, capacity - old], [0, 0], [0, 0]])}

    def step(self, step, state):
        """Writes what each slot read at this position, then sums what each beam's ancestors read."""
        capacity, slots = tf.shape(state["cache"])[1], tf.shape(state["cache"])[2]
        read = tf.gather(self.embedding, step.tokens) * tf.gather(self.positions, step.index)
        here = (tf.range(capacity) == step.index)[None, :, None, None]
        cache = tf.where(here, read[:, None], state["cache"])
        visible = tf.one_hot(step.ancestors, slots) * tf.cast(tf.range(capacity) <= step.index, tf.float32)[:, None]
        hidden = tf.tanh(tf.einsum("bkcs,bcsw->bkw", visible, cache) + state["context"][:, None])
        attention = tf.nn.softmax(hidden @ self.looks)
        logits = tf.ensure_shape(hidden @ self.output, [None, None, VOCAB])
        return StepResult(logits, state | {"cache": cache}, attention)

    def _hidden(self, row, ids):
        read = self.embedding[[BOS, *ids]] * self.positions[: len(ids) + 1, None]
        return np.tanh(read.sum(0) + self.context[row])

    def log_probs(self, row, ids):
        logits = self._hidden(row, ids) @ self.output
        return logits - np.log(np.exp(logits).sum())

    def attention(self, row, ids):
        looks = np.exp(self._hidden(row, ids) @ self.looks)
        return looks / looks.sum()


def allowed(ids, token, options, prefix=()):
    """Whether `token` may follow `ids`."""
    if len(ids) < len(prefix):
        return token == prefix[len(ids)]
    if token in options.forbidden_ids or (token == EOS and len(ids) < options.min_length):
        return False
    n, whole = options.no_repeat_ngram, (*ids, token)
    seen = [whole[i : i + n] for i in range(len(whole) - n + 1)]
    return not n or whole[len(whole) - n :] not in seen[:-1]


def log_prob(model, row, ids):
    return sum(model.log_probs(row, ids[:i])[token] for i, token in enumerate(ids))


def score(model, row, ids, options):
    length = len(ids) if options.length_penalty == "average" else (5 + len(ids)) / 6
    result = log_prob(model, row, ids) / length**options.alpha + options.length_reward * len(ids)
    if options.coverage_penalty:
        seen = sum(model.attention(row, ids[:i]) for i in range(len(ids)))
        result += options.coverage_penalty * np.log(np.minimum(seen, 1)).sum()
    return result


def ranked(model, row, finished, truncated, options):
    """(ids, score) of the finished ones from the best to the worst, then of those that were truncated."""
    return [
        (list(ids), value)
        for group in (finished, truncated)
        for ids, value in sorted(((ids, score(model, row, ids, options)) for ids in group), key=lambda pair: -pair[1])
    ]


def exhaustive_search(model, row, max_length, options, prefix=()):
    """Every output there is."""
    finished, truncated = [], []
    for length in range(1, max_length + 1):
        for ids in itertools.product(range(VOCAB), repeat=length):
            if EOS in ids[:-1] or not all(allowed(ids[:i], ids[i], options, prefix) for i in range(length)):
                continue
            if ids[-1] == EOS:
                finished.append(ids)
            elif length == max_length:
                truncated.append(ids)
    return ranked(model, row, finished, truncated, options)


def plain_beam_search(model, row, max_length, options, prefix=()):
    """The search as its definition reads: lists, no cache, no early stop unless it is asked for."""
    beams, alive, finished = options.beam_size, [((), 0.0)], []
    for _ in range(max_length):
        candidates = []
        for ids, total in alive:
            log_probs = model.log_probs(row, ids)
            tokens = sorted(
                (t for t in range(VOCAB) if allowed(ids, t, options, prefix)), key=lambda t, lp=log_probs: -lp[t]
            )
            for rank, token in enumerate(tokens):
                value = total + log_probs[token]
                candidates.append((value - options.diversity * rank, (*ids, token), value))
        candidates.sort(key=lambda candidate: -candidate[0])
        finished += [ids for _, ids, _ in candidates[:beams] if ids[-1] == EOS]
        if options.early_stopping and len(finished) >= beams:
            return ranked(model, row, finished, [], options)
        alive = [(ids, value) for _, ids, value in candidates[: 2 * beams] if ids[-1] != EOS][:beams]
    return ranked(model, row, finished, [ids for ids, _ in alive], options)


def plain_greedy(model, row, max_length, options, prefix=()):
    """The best id that may come, until EOS."""
    ids = ()
    while len(ids) < max_length and EOS not in ids:
        log_probs = model.log_probs(row, ids)
        tokens = [token for token in range(VOCAB) if allowed(ids, token, options, prefix)]
        if not tokens:
            return []
        ids = (*ids, max(tokens, key=lambda token, lp=log_probs: lp[token]))
    return [(list(ids), score(model, row, ids, options))] if ids else []

"""Memory check before training: one step on the largest batch, so that lack of memory shows in the first minute."""

import logging
import resource
import sys
import time
from collections.abc import Iterable

import tensorflow as tf

from tf_transformer.config import TrainingConfig
from tf_transformer.data import BatchShape, Replicas, padding_dataset
from tf_transformer.training._input import DistributedBatches
from tf_transformer.training._train_step import Counters, TrainStep

logger = logging.getLogger(__name__)


class OutOfMemoryError(ValueError):
    """The largest batch does not fit into memory; the message lists settings to change."""


def preflight(
    step: TrainStep, strategy: tf.distribute.Strategy, shapes: Iterable[BatchShape], config: TrainingConfig
) -> None:
    """Run the step on padding-only batches of the largest shapes, which changes no weights.

    Args:
        step: training step to run.
        strategy: strategy that divides the rows among replicas.
        shapes: shapes of the global batches.
        config: training configuration, for the advice in the message.
    """
    for shape in largest_shapes(shapes):
        _try(step, strategy, shape, config)


def largest_shapes(shapes: Iterable[BatchShape]) -> list[BatchShape]:
    """The shapes that need the most memory: by tokens, for the layers, and by pairs of tokens, for attention.

    All shapes fill about the same budget of tokens, so that the longest sentences, in few rows, may need the most.
    """
    shapes = list(shapes)
    by_tokens = max(shapes, key=lambda shape: shape.rows * (shape.source + shape.target))
    by_pairs = max(shapes, key=lambda shape: shape.rows * _pairs(shape.source, shape.target))
    return list(dict.fromkeys([by_tokens, by_pairs]))


def _pairs(source: int, target: int) -> int:
    """Number of attention weights per sentence, head and layer: within source and target, and between them."""
    return source * source + target * target + source * target


def _try(step: TrainStep, strategy: tf.distribute.Strategy, shape: BatchShape, config: TrainingConfig) -> None:
    def padding(context: tf.distribute.InputContext, _: object) -> tf.data.Dataset:
        return padding_dataset(shape, config.batching == "pack", Replicas.of(context, config.accumulation_steps))

    size = f"{shape.rows} rows of {shape.source} source and {shape.target} target tokens"
    # Logged before the step: if the operating system kills the process for its memory, this is the last line.
    logger.info("Trying the largest batch, %s.", size)
    begun = time.monotonic()
    try:
        step(DistributedBatches(strategy, padding), 1, Counters.start(config.precision))
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise OutOfMemoryError(f"The largest batch, {size}, does not fit into the memory. {_advice(config)}") from error
    logger.info("It fits (%.1f GB at most, %.0f s with compilation).", _peak_memory(), time.monotonic() - begun)


def _advice(config: TrainingConfig) -> str:
    advice = [
        f"compute it in parts with --set training.accumulation_steps={config.accumulation_steps * 2} (the same result "
        "up to dropout's draws)",
        f"make it smaller with --set training.batch_tokens={max(1, config.batch_tokens // 2)}",
        f"drop long sentences with --set training.max_length={max(1, config.max_length // 2)}",
        "hold no attention matrices with --set model.attention_block_size=128 (for long sentences)",
    ]
    if config.precision == "float32":
        advice.append("halve the activations with --precision mixed_bfloat16")
    return "Any of these helps: " + "; ".join(advice) + "."


def _peak_memory() -> float:
    """Peak memory of this process on the host, in GB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)

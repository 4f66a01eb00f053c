"""The training step over `tf.distribute`: reduced sums, one division by global tokens, one update."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.config import TrainingConfig
from tf_transformer.data import Position
from tf_transformer.training._gradients import BatchGradients, Gradients
from tf_transformer.training._input import DistributedBatches, take_position
from tf_transformer.training._optimizer import MovingAverage, Optimizer
from tf_transformer.training._projected_loss import LossSums

FIRST_LOSS_SCALE = 2.0**15
LARGEST_LOSS_SCALE = 2.0**24
STEPS_BEFORE_GROWTH = 1000


class Counters(NamedTuple):
    """Counters of a run. A step takes them and returns new ones; none is a variable."""

    step: int | tf.Tensor
    """Number of batches trained on."""
    updates: int | tf.Tensor
    """Number of steps that changed the weights; the others were skipped."""
    skipped: int | tf.Tensor
    """Number of steps whose loss or gradient was not finite."""
    skipped_in_a_row: int | tf.Tensor
    """Skipped steps since the last good step, except those after which the loss scale was reduced."""
    loss_scale: float | tf.Tensor
    """Factor of float16 gradients against underflow; 1 in other precisions."""
    steps_at_scale: int | tf.Tensor
    """Good steps since the loss scale last changed."""

    @classmethod
    def start(cls, precision: str) -> "Counters":
        return cls(0, 0, 0, 0, FIRST_LOSS_SCALE if precision == "mixed_float16" else 1.0, 0)

    @classmethod
    def from_dict(cls, values: dict) -> "Counters":
        return cls(**{name: values[name] for name in cls._fields})

    def tensors(self) -> "Counters":
        kinds = Counters(tf.int64, tf.int64, tf.int64, tf.int64, tf.float32, tf.int64)
        return Counters(*(tf.constant(value, kind) for value, kind in zip(self, kinds)))

    def numbers(self) -> "Counters":
        values: Iterable[Any] = self
        return Counters(*(value.numpy().item() for value in values))

    def after(self, finite: tf.Tensor, empty: tf.Tensor, scaled: bool) -> "Counters":
        """The counters after a step.

        Args:
            finite: boolean scalar, whether loss and gradients were.
            empty: boolean scalar, whether the batch was only padding: then there is no update and no skipped step.
            scaled: whether the loss scale is dynamic.
        """
        one, zero = tf.constant(1, tf.int64), tf.constant(0, tf.int64)
        good, bad = tf.logical_and(finite, tf.logical_not(empty)), tf.logical_not(finite)
        scale, at_scale = self._next_scale(good, bad) if scaled else (self.loss_scale, self.steps_at_scale)
        # An overflow that a smaller scale can fix is part of finding the scale, not a sign of divergence.
        hopeless = tf.logical_and(bad, self.loss_scale <= 1.0)
        in_a_row = tf.where(good, zero, self.skipped_in_a_row)
        return Counters(
            step=self.step + 1,
            updates=self.updates + tf.where(good, one, zero),
            skipped=self.skipped + tf.where(bad, one, zero),
            skipped_in_a_row=in_a_row + tf.where(hopeless, one, zero),
            loss_scale=scale,
            steps_at_scale=at_scale,
        )

    def _next_scale(self, good: tf.Tensor, bad: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Halve the loss scale after an overflow, double it after many good steps."""
        at_scale = tf.where(good, self.steps_at_scale + 1, self.steps_at_scale)
        grows = at_scale >= STEPS_BEFORE_GROWTH
        larger = tf.minimum(self.loss_scale * 2.0, LARGEST_LOSS_SCALE)
        scale = tf.where(bad, tf.maximum(self.loss_scale / 2.0, 1.0), tf.where(grows, larger, self.loss_scale))
        return scale, tf.where(tf.logical_or(bad, grows), tf.zeros_like(at_scale), at_scale)


class StepReport(NamedTuple):
    """Report of one step (float32 scalars) or of several steps (arrays (n,))."""

    loss: tf.Tensor
    """Sum over the tokens of all replicas, like the next two."""
    negative_log_likelihood: tf.Tensor
    tokens: tf.Tensor
    gradient_norm: tf.Tensor
    """Of the gradient of the loss per token, before clipping."""
    learning_rate: tf.Tensor
    skipped: tf.Tensor
    """1 where the step changed nothing because its loss or gradient was not finite."""
    stops: tf.Tensor
    """Number of workers with a stop request."""


class TrainStep:
    """Training step: several updates per call, on global batches that do not depend on the number of replicas.

    Args:
        strategy: the `tf.distribute.Strategy`.
        gradients: computes the gradients of a replica's rows.
        optimizer, average: optimizer and moving average; `average` may be None.
        schedule: step → learning rate.
        config: clipping, precision, accumulation.

    The loop over steps runs in the graph, where batches may have any shape. For XLA and TPUs, which compile a program
    for each shape, it runs in Python; also with a tf.data service, whose failures it survives.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        gradients: BatchGradients,
        optimizer: Optimizer,
        average: MovingAverage | None,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        config: TrainingConfig,
    ):
        self._strategy = strategy
        self._gradients, self._optimizer, self._average, self._schedule = gradients, optimizer, average, schedule
        self._config = config
        self._replicas = strategy.num_replicas_in_sync
        self._static = config.xla or isinstance(strategy, tf.distribute.TPUStrategy)
        self._loop = tf.function(self._graph_loop, autograph=False)
        self._one = tf.function(self._step, autograph=False, reduce_retracing=not self._static)

    def __call__(
        self, batches: DistributedBatches, count: int, counters: Counters, stop: bool = False
    ) -> tuple[Counters, StepReport]:
        """Train on the next `count` batches, one after another.

        Args:
            batches: of each replica; the rows of a replica are a multiple of the accumulation steps.
            count: number of steps.
            counters: counters before the first step.
            stop: whether this worker has a stop request, which is reported to all workers.

        Returns:
            The counters after the last step, and the reports (n,) of all steps.
        """
        arguments = counters.tensors(), tf.constant(float(stop))
        if self._static or batches.service is not None:
            counters, report = self._python_loop(batches, count, *arguments)
        else:
            counters, report, position = self._loop(batches.iterator, tf.constant(count), *arguments)
            batches.position = Position(*position.numpy().tolist())
        return Counters(*counters).numbers(), StepReport(*(column.numpy() for column in tf.unstack(report, axis=1)))

    def _python_loop(
        self, batches: DistributedBatches, count: int, counters: Counters, stop: tf.Tensor
    ) -> tuple[Counters, tf.Tensor]:
        reports = []
        for _ in range(count):
            counters, report = self._one(batches.next(), counters, stop)
            reports.append(report)
        return counters, tf.stack(reports)

    def _graph_loop(
        self, iterator: Any, count: tf.Tensor, counters: Counters, stop: tf.Tensor
    ) -> tuple[Counters, tf.Tensor, tf.Tensor]:
        reports = tf.TensorArray(tf.float32, count, element_shape=[len(StepReport._fields)])

        def one(index: tf.Tensor, counters: Counters, reports: tf.TensorArray, _: tf.Tensor) -> tuple[Any, ...]:
            batch, position = take_position(self._strategy, iterator.get_next())
            counters, report = self._step(batch, counters, stop)
            return index + 1, counters, reports.write(index, report), position

        _, counters, reports, position = tf.while_loop(
            lambda index, *_: index < count,
            one,
            (tf.constant(0), counters, reports, tf.zeros([3], tf.int64)),
            parallel_iterations=1,
        )
        return counters, reports.stack(), position

    def _step(self, batch: dict[str, Any], counters: Counters, stop: tf.Tensor) -> tuple[Counters, tf.Tensor]:
        """Run one step on all replicas; return the counters after it, and its report as a vector."""
        results = self._strategy.run(self._replica_step, args=(batch, counters, stop))
        counters, report = tf.nest.map_structure(lambda x: self._strategy.experimental_local_results(x)[0], results)
        return counters, tf.stack(report)

    def _replica_step(
        self, rows: dict[str, tf.Tensor], counters: Counters, stop: tf.Tensor
    ) -> tuple[Counters, StepReport]:
        context = tf.distribute.get_replica_context()
        if not self._static:
            # On a GPU most kernels of int32 compute in host memory; those of int64 do not.
            rows = {name: tf.cast(ids, tf.int64) for name, ids in rows.items()}
        tokens = tf.math.count_nonzero(rows["labels"], dtype=tf.float32)
        tokens, stops = self._sum(context, [tokens, stop])
        step = counters.step + 1
        scale = counters.loss_scale / tf.maximum(tokens, 1.0)
        first_part = context.replica_id_in_sync_group * self._config.accumulation_steps
        sums, gradients = self._gradients(rows, scale, step, tf.cast(first_part, tf.int32))
        sums, gradients = self._sum(context, [sums, gradients])
        norm = tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(x) for x in gradients.values()])) / counters.loss_scale
        finite = tf.logical_and(tf.math.is_finite(norm), tf.math.is_finite(sums.loss))
        rate = self._schedule(step)
        after = counters.after(finite, tf.equal(tokens, 0), scaled=self._config.precision == "mixed_float16")
        self._update_if(after.updates > counters.updates, gradients, norm, counters, rate)
        return after, self._report(sums, norm, rate, finite, stops)

    def _sum(self, context: tf.distribute.ReplicaContext, values: Any) -> Any:
        """The sum of all replicas' values."""
        if self._replicas == 1:
            return values
        # A tensor of its own on each replica: one that all share is rejected as belonging to no device.
        flat = [tf.identity(value) for value in tf.nest.flatten(values)]
        reduced = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
        return tf.nest.pack_sequence_as(values, reduced)

    def _update_if(
        self, good: tf.Tensor, gradients: Gradients, norm: tf.Tensor, counters: Counters, rate: tf.Tensor
    ) -> None:
        def update() -> tf.Tensor:
            self._optimizer.apply(self._unscaled(gradients, norm, counters.loss_scale), rate, counters.updates + 1)
            if self._average is not None:
                self._average.update()
            return tf.constant(True)

        tf.cond(good, update, lambda: tf.constant(False))

    def _unscaled(self, gradients: Gradients, norm: tf.Tensor, loss_scale: tf.Tensor) -> Gradients:
        """The gradients without the loss scale, clipped. Where there is neither, they are not touched."""
        if self._config.gradient_clip_norm is None and self._config.precision != "mixed_float16":
            return gradients
        factor = 1.0 / loss_scale
        if self._config.gradient_clip_norm is not None:
            factor *= tf.minimum(1.0, self._config.gradient_clip_norm / tf.maximum(norm, 1e-12))
        return {name: gradient * factor for name, gradient in gradients.items()}

    def _report(
        self, sums: LossSums, norm: tf.Tensor, rate: tf.Tensor, finite: tf.Tensor, stops: tf.Tensor
    ) -> StepReport:
        loss, likelihood, tokens, norm = (tf.where(finite, value, 0.0) for value in (*sums, norm))
        skipped = tf.cast(tf.logical_not(finite), tf.float32)
        return StepReport(loss, likelihood, tokens, norm, rate, skipped, stops)

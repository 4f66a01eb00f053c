"""Loss and gradients of a batch on one replica, in micro-batches where memory requires it."""

import keras
import tensorflow as tf

from tf_transformer.layers import padding_mask
from tf_transformer.training._projected_loss import LossSums, projected_loss, projected_sums
from tf_transformer.workdir import named_variables


class DropoutSeeds:
    """Seeds for the dropout layers of a model, derived from the training step.

    Keras keeps the state of each Dropout layer in a variable that every call changes. Replicas cannot change it
    together, and a resumed run would have to restore it; a seed derived from the step needs neither.
    """

    def __init__(self, model: keras.Model, seed: int):
        weights = {id(weight) for weight in model.weights}
        self._states = [variable for variable in model.variables if id(variable) not in weights]
        self._seed = seed

    def scope(self, step: tf.Tensor, part: tf.Tensor) -> keras.StatelessScope:
        """A context in which the model draws the random numbers of `step` and `part` (int scalars)."""
        if not self._states:
            return keras.StatelessScope()
        seed = tf.stack([tf.cast(self._seed, tf.int32), tf.cast(step, tf.int32)])
        seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(part, tf.int32))
        seeds = tf.random.stateless_uniform([len(self._states), 2], seed, None, None, tf.uint32)
        # Not unstacked: that has no kernel for uint32 on GPUs.
        values = [tf.cast(seeds[index], state.dtype) for index, state in enumerate(self._states)]
        return keras.StatelessScope(state_mapping=list(zip(self._states, values)))


Gradients = dict[str, tf.Tensor]


class BatchGradients:
    """Gradients of the smoothed loss of a batch, dense and float32, by the names of the model's weights.

    Args:
        model: a `Transformer`.
        label_smoothing: label smoothing of the loss.
        seed: seed of dropout.
        parts: number of micro-batches that a batch is computed in, one after another (gradient accumulation).
        xla: whether a micro-batch is compiled with XLA.
        r_drop: the weight of R-Drop's divergence; 0: one pass per batch.
        variables: variables to compute gradients of, by name; None: all.
    """

    def __init__(
        self,
        model: keras.Model,
        label_smoothing: float,
        seed: int,
        parts: int = 1,
        xla: bool = False,
        r_drop: float = 0.0,
        variables: dict[str, keras.Variable] | None = None,
    ):
        self._model = model
        everything = named_variables(model)
        self._variables = everything if variables is None else variables
        self._table_name = f"{model.output_embedding.name}/table"
        self._table = everything[self._table_name]
        self._smoothing = label_smoothing
        self._seeds = DropoutSeeds(model, seed)
        self._parts = parts
        self._r_drop = r_drop
        self._part = tf.function(self._of_part, jit_compile=True, autograph=False) if xla else self._of_part

    def __call__(
        self, batch: dict[str, tf.Tensor], scale: tf.Tensor, step: tf.Tensor, first_part: tf.Tensor
    ) -> tuple[LossSums, Gradients]:
        """Sums over the batch and the gradients of scale · loss.

        Args:
            batch: int32 arrays (R, …) with R a multiple of the parts.
            scale: float32 scalar.
            step: int64 scalar, for dropout.
            first_part: int32 scalar, which differs between replicas so that their dropout does too.
        """
        if self._parts == 1:
            return self._part(batch, scale, step, first_part)
        rows = tf.shape(batch["labels"])[0] // self._parts
        batch = {name: tf.reshape(x, tf.concat([[self._parts, rows], tf.shape(x)[1:]], 0)) for name, x in batch.items()}

        def add_part(
            index: tf.Tensor, total: tuple[LossSums, Gradients]
        ) -> tuple[tf.Tensor, tuple[LossSums, Gradients]]:
            part = {name: _with_shape(x[index], batch[name]) for name, x in batch.items()}
            return index + 1, tf.nest.map_structure(tf.add, total, self._part(part, scale, step, first_part + index))

        _, total = tf.while_loop(
            lambda index, _: index < self._parts, add_part, (tf.constant(0), self._zeros()), parallel_iterations=1
        )
        return total

    def sums(self, batch: dict[str, tf.Tensor]) -> LossSums:
        """The loss of a batch without dropout and without gradients, for validation."""
        hidden = self._hidden(batch, training=False)
        bias = self._model.output_bias
        bias = None if bias is None else tf.convert_to_tensor(bias)
        table = tf.convert_to_tensor(self._table)
        return projected_sums(hidden, table, batch["labels"], bias, self._smoothing)

    def _of_part(
        self, batch: dict[str, tf.Tensor], scale: tf.Tensor, step: tf.Tensor, part: tf.Tensor
    ) -> tuple[LossSums, Gradients]:
        sources = {name: variable.value for name, variable in self._variables.items()}
        with tf.GradientTape() as tape, self._seeds.scope(step, part):
            hidden = self._hidden(_doubled(batch) if self._r_drop else batch, training=True)
        bias = self._model.output_bias
        result = projected_loss(
            hidden,
            tf.convert_to_tensor(self._table),
            batch["labels"],
            scale,
            None if bias is None else tf.convert_to_tensor(bias),
            self._smoothing,
            r_drop=self._r_drop,
        )
        gradients = tape.gradient(hidden, sources, output_gradients=result.hidden_gradient)
        direct = {self._table_name: result.table_gradient}
        if bias is not None:
            direct["output_bias"] = result.bias_gradient
        return result.sums, {name: _total(gradients[name], direct.get(name)) for name in gradients}

    def _hidden(self, batch: dict[str, tf.Tensor], training: bool) -> tf.Tensor:
        model = self._model
        segments = batch.get("source_segments"), batch.get("target_segments")
        memory = model.encode(
            batch["source"], segments=segments[0], positions=batch.get("source_positions"), training=training
        )
        return model.decode_hidden(
            batch["target"],
            memory,
            padding_mask(batch["source"], model.config.pad_id),
            source_segments=segments[0],
            segments=segments[1],
            positions=batch.get("target_positions"),
            training=training,
        )

    def _zeros(self) -> tuple[LossSums, Gradients]:
        gradients = {name: tf.zeros(variable.shape) for name, variable in self._variables.items()}
        return LossSums(*[tf.constant(0.0)] * 3), gradients


def _doubled(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The rows of a batch twice: dropout is drawn for each row, so the two copies are two passes."""
    return {name: tf.concat([x, x], axis=0) for name, x in batch.items()}


def _total(gradient: tf.Tensor | tf.IndexedSlices | None, direct: tf.Tensor | None) -> tf.Tensor | None:
    """The gradient through the hidden states and the direct one, dense.

    The rows that an embedding looked up are added into the direct gradient in place, instead of being spread over a
    second and a third matrix of the vocabulary's size.
    """
    if isinstance(gradient, tf.IndexedSlices):
        start = tf.zeros(gradient.dense_shape) if direct is None else direct
        return tf.tensor_scatter_nd_add(start, gradient.indices[:, None], tf.cast(gradient.values, tf.float32))
    if gradient is None:
        return direct
    return gradient if direct is None else gradient + direct


def _with_shape(part: tf.Tensor, parts: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(part, [None, *parts.shape[2:]])

"""Adam (section 5.3) in one fused operation per weight, Muon, the weights they train, and their moving average."""

import contextlib
import math
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.config import TrainingConfig


class Adam:
    """Adam with bias correction, as `keras.optimizers.Adam`, applied by one kernel that reads each weight once.

    The Keras optimizer makes a dozen passes over the weights and their two moments, which for 65 million weights takes
    a tenth of the time of a step. Every replica applies the same reduced gradients to its own copy.

    Args:
        variables: Keras variables by name. Create it in the strategy's scope: the moments are replicated like them.
        beta1, beta2, epsilon: as in the paper.
        weight_decay: of AdamW (Loshchilov and Hutter 2019), decoupled from the gradient and multiplied by the learning
            rate; biases and layer normalization are exempt. 0: Adam.
    """

    def __init__(
        self,
        variables: dict[str, keras.Variable],
        beta1: float,
        beta2: float,
        epsilon: float,
        weight_decay: float = 0.0,
    ):
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay
        self.variables = variables
        self.first = {name: _zeros_like(variable) for name, variable in variables.items()}
        self.second = {name: _zeros_like(variable) for name, variable in variables.items()}

    def state(self) -> dict[str, tf.Variable]:
        """State saved in a checkpoint, by name."""
        return {f"adam/first/{name}": moment for name, moment in self.first.items()} | {
            f"adam/second/{name}": moment for name, moment in self.second.items()
        }

    def apply(self, gradients: dict[str, tf.Tensor], learning_rate: tf.Tensor, update: tf.Tensor) -> None:
        """Update the weights, in a replica's context.

        Args:
            gradients: dense float32, by the names of the variables.
            learning_rate: float32 scalar.
            update: int64 scalar, the number of this update from 1, for the bias correction.
        """
        count = tf.cast(update, tf.float32)
        for name, variable in self.variables.items():
            if self.weight_decay and len(variable.shape) > 1:
                decay = learning_rate * self.weight_decay * tf.cast(variable.value, tf.float32)
                tf.raw_ops.AssignSubVariableOp(resource=variable.value.handle, value=decay)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.value.handle,
                m=self.first[name].handle,
                v=self.second[name].handle,
                beta1_power=self.beta1**count,
                beta2_power=self.beta2**count,
                lr=learning_rate,
                beta1=self.beta1,
                beta2=self.beta2,
                epsilon=self.epsilon,
                grad=gradients[name],
            )


class Muon:
    """Muon for the matrices inside the layers, `Adam` for all other weights.

    The momentum of a matrix is made nearly orthogonal by a Newton–Schulz iteration (Jordan et al. 2024), so that
    directions with small gradients are learned as fast as those with large ones. The projections of attention are
    taken head by head, because each head is a map of its own; it also takes a fifth of the arithmetic. Each update is
    scaled to the root mean square of Adam's, and the weights decay with the learning rate (Liu et al. 2025, arXiv
    2502.16982), so that both take the same learning rate. Embeddings, biases and layer normalization are trained by
    Adam.

    Args:
        variables: Keras variables by name. Create it in the strategy's scope.
        beta1, beta2, epsilon: of Adam.
        weight_decay: of matrices and embeddings, multiplied by the learning rate.
        momentum: of Muon, with Nesterov's correction.
        num_heads: of attention.
    """

    def __init__(
        self,
        variables: dict[str, keras.Variable],
        beta1: float,
        beta2: float,
        epsilon: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        num_heads: int = 1,
    ):
        self.variables, self.weight_decay, self.momentum = variables, weight_decay, momentum
        matrices = {name: variable for name, variable in variables.items() if _is_matrix_of_a_layer(name, variable)}
        others = {name: variable for name, variable in variables.items() if name not in matrices}
        self._adam = Adam(others, beta1, beta2, epsilon, weight_decay)
        self._momenta = {name: _zeros_like(variable) for name, variable in matrices.items()}
        self._blocks = {name: _Blocks(name, variable, num_heads) for name, variable in matrices.items()}
        self._by_shape: dict[tuple[int, ...], list[str]] = {}
        for name, blocks in self._blocks.items():
            self._by_shape.setdefault(blocks.shape, []).append(name)

    def state(self) -> dict[str, tf.Variable]:
        """State saved in a checkpoint, by name."""
        return self._adam.state() | {f"muon/{name}": momentum for name, momentum in self._momenta.items()}

    def apply(self, gradients: dict[str, tf.Tensor], learning_rate: tf.Tensor, update: tf.Tensor) -> None:
        """Update the weights, in a replica's context; as `Adam.apply`."""
        self._adam.apply(gradients, learning_rate, update)
        for (_, rows, columns), names in self._by_shape.items():
            split = tf.concat([self._blocks[name].split(self._direction(name, gradients)) for name in names], axis=0)
            scaled = 0.2 * math.sqrt(max(rows, columns)) * orthogonalized(split)
            for name, blocks in zip(names, tf.split(scaled, len(names))):
                variable = self.variables[name]
                change = self._blocks[name].join(blocks) + self.weight_decay * tf.cast(variable.value, tf.float32)
                tf.raw_ops.AssignSubVariableOp(resource=variable.value.handle, value=learning_rate * change)

    def _direction(self, name: str, gradients: dict[str, tf.Tensor]) -> tf.Tensor:
        """Nesterov's momentum of a matrix after this gradient."""
        handle, gradient = self._momenta[name].handle, gradients[name]
        old = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        new = self.momentum * old + (1.0 - self.momentum) * gradient
        tf.raw_ops.AssignVariableOp(resource=handle, value=new)
        return self.momentum * new + (1.0 - self.momentum) * gradient


class _Blocks:
    """Blocks of a kernel that `Muon` makes orthogonal one by one: the heads of a projection of attention, or all of it.

    Queries, keys and values of a head are columns of their kernels (in, out); its part of the output is rows.
    """

    def __init__(self, name: str, variable: keras.Variable, num_heads: int):
        rows, columns = variable.shape
        self._columns = name.endswith(("/query/kernel", "/key/kernel", "/value/kernel"))
        self._count = num_heads if self._columns or "attention/output/" in name else 1
        self._whole = (rows, columns)
        block = (rows, columns // self._count) if self._columns else (rows // self._count, columns)
        self.shape = (self._count, *block)

    def split(self, matrix: tf.Tensor) -> tf.Tensor:
        """`matrix` as [blocks, rows, columns]."""
        if self._columns:
            return tf.transpose(tf.reshape(matrix, (self._whole[0], self._count, self.shape[2])), (1, 0, 2))
        return tf.reshape(matrix, self.shape)

    def join(self, blocks: tf.Tensor) -> tf.Tensor:
        """The matrix of [blocks, rows, columns]."""
        return tf.reshape(tf.transpose(blocks, (1, 0, 2)) if self._columns else blocks, self._whole)


Optimizer = Adam | Muon


def make_optimizer(training: TrainingConfig, variables: dict[str, keras.Variable], num_heads: int) -> Optimizer:
    """The optimizer of a configuration, for a model of `num_heads` heads. Create it in the strategy's scope."""
    settings = training.beta1, training.beta2, training.epsilon
    if training.optimizer == "muon":
        return Muon(variables, *settings, training.weight_decay, num_heads=num_heads)
    return Adam(variables, *settings, training.weight_decay if training.optimizer == "adamw" else 0.0)


_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of Jordan et al. (2024): singular values converge to between 0.7 and 1.2 in five iterations."""


def orthogonalized(matrices: tf.Tensor, iterations: int = 5) -> tf.Tensor:
    """Matrices [n, rows, columns] with their singular values moved close to 1 by a Newton–Schulz iteration."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    product = tf.linalg.matrix_transpose(matrices) if tall else matrices
    product /= tf.norm(product, axis=(-2, -1), keepdims=True) + 1e-7
    a, b, c = _NEWTON_SCHULZ
    for _ in range(iterations):
        square = tf.matmul(product, product, transpose_b=True)
        product = a * product + tf.matmul(b * square + c * tf.matmul(square, square), product)
    return tf.linalg.matrix_transpose(product) if tall else product


def _is_matrix_of_a_layer(name: str, variable: keras.Variable) -> bool:
    return len(variable.shape) == 2 and name.startswith(("encoder/", "decoder/"))


FREEZABLE = {
    "encoder": ("encoder/",),
    "decoder": ("decoder/",),
    "embeddings": (
        *("source_embedding/", "target_embedding/", "output_embedding/", "output_bias"),
        *("source_positions/", "target_positions/", "source_norm/", "target_norm/"),
    ),
}
"""Parts of the model that can be frozen, and the prefixes of the names of their weights.

The embeddings include learned positions and the normalization of mBART's embeddings.
"""


def trained_variables(variables: dict[str, keras.Variable], freeze: str) -> dict[str, keras.Variable]:
    """The variables that are trained.

    Args:
        variables: of the model, by name.
        freeze: parts to freeze, such as "encoder,embeddings"; "" for none.
    """
    frozen = tuple(prefix for part in freeze.split(",") if part for prefix in FREEZABLE[part.strip()])
    return {name: variable for name, variable in variables.items() if not name.startswith(frozen or ("\0",))}


def _zeros_like(variable: keras.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape), trainable=False)


class MovingAverage:
    """Exponential moving average of the weights: average ← decay · average + (1 - decay) · weight after every update.

    Args:
        variables: Keras variables by name. Create it in the strategy's scope.
        decay: close to 1.
    """

    def __init__(self, variables: dict[str, keras.Variable], decay: float):
        self.variables, self.decay = variables, decay
        self.averages = {
            name: tf.Variable(tf.zeros(variable.shape), trainable=False) for name, variable in variables.items()
        }
        self.restart()

    def restart(self) -> None:
        """Restart from the current weights."""
        for name, variable in self.variables.items():
            self.averages[name].assign(np.asarray(variable))

    def state(self) -> dict[str, tf.Variable]:
        """State saved in a checkpoint, by name."""
        return {f"average/{name}": average for name, average in self.averages.items()}

    def update(self) -> None:
        """Update the averages, in a replica's context."""
        for name, variable in self.variables.items():
            handle = self.averages[name].handle
            old = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            difference = (1.0 - self.decay) * (old - tf.convert_to_tensor(variable))
            tf.raw_ops.AssignSubVariableOp(resource=handle, value=difference)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """A context in which the model's weights are the averages."""
        trained = {name: variable.numpy().copy() for name, variable in self.variables.items()}
        for name, variable in self.variables.items():
            variable.assign(self.averages[name].numpy())
        try:
            yield
        finally:
            for name, variable in self.variables.items():
                variable.assign(trained[name])

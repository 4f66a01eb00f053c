"""An exponential moving average of the weights, for those who want one: the paper averages checkpoints instead."""

import contextlib

import keras
import numpy as np
import tensorflow as tf


class MovingAverage:
    """average ← decay · average + (1 - decay) · weight, after every update.

    Args:
        variables: Keras variables by name. Make it in the strategy's scope.
        decay: close to 1.
    """

    def __init__(self, variables: dict[str, keras.Variable], decay: float):
        self.variables, self.decay = variables, decay
        self.averages = {
            name: tf.Variable(tf.zeros(variable.shape), trainable=False) for name, variable in variables.items()
        }
        self.restart()

    def restart(self) -> None:
        """Begins from the weights as they are."""
        for name, variable in self.variables.items():
            self.averages[name].assign(np.asarray(variable))

    def state(self) -> dict[str, tf.Variable]:
        """What a checkpoint keeps, by name."""
        return {f"average/{name}": average for name, average in self.averages.items()}

    def update(self) -> None:
        """Moves the averages towards the weights, in a replica's context."""
        for name, variable in self.variables.items():
            handle = self.averages[name].handle
            old = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            difference = (1.0 - self.decay) * (old - tf.convert_to_tensor(variable))
            tf.raw_ops.AssignSubVariableOp(resource=handle, value=difference)

    @contextlib.contextmanager
    def in_place(self):
        """A context in which the model's weights are the averages."""
        trained = {name: variable.numpy().copy() for name, variable in self.variables.items()}
        for name, variable in self.variables.items():
            variable.assign(self.averages[name].numpy())
        try:
            yield
        finally:
            for name, variable in self.variables.items():
                variable.assign(trained[name])

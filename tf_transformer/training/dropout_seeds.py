"""The random numbers of a step as a function of (seed, step, part): nothing random needs to be saved."""

import keras
import tensorflow as tf


class DropoutSeeds:
    """Lends the model's seed generators seeds of our own while it is called.

    Keras keeps the state of each Dropout layer in a variable that every call changes. Replicas cannot change it
    together, and a resumed run would have to find it as it was; a seed that follows from the step needs neither.
    """

    def __init__(self, model: keras.Model, seed: int):
        weights = {id(weight) for weight in model.weights}
        self._states = [variable for variable in model.variables if id(variable) not in weights]
        self._seed = seed

    def scope(self, step, part):
        """A context in which the model draws the random numbers of `step` and `part` (int scalars)."""
        if not self._states:
            return keras.StatelessScope()
        seed = tf.stack([tf.cast(self._seed, tf.int32), tf.cast(step, tf.int32)])
        seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(part, tf.int32))
        seeds = tf.random.stateless_uniform([len(self._states), 2], seed, None, None, tf.uint32)
        values = [tf.cast(row, state.dtype) for row, state in zip(tf.unstack(seeds), self._states)]
        return keras.StatelessScope(state_mapping=list(zip(self._states, values)))

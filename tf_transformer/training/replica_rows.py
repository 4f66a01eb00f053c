"""How the rows of a global batch are shared: padded by the host, cut by each replica."""

import numpy as np
import tensorflow as tf

from tf_transformer.training.strategies import local_replicas

Batch = dict[str, np.ndarray]


def pad_rows(batch: Batch, multiple: int) -> Batch:
    """The batch with rows of padding added, so that their number is a multiple. They carry no loss."""
    missing = -len(batch["labels"]) % multiple
    if not missing:
        return batch
    return {name: np.pad(array, ((0, missing), (0, 0))) for name, array in batch.items()}


def own_rows(batch: dict[str, tf.Tensor], strategy: tf.distribute.Strategy) -> dict[str, tf.Tensor]:
    """A replica's share of the rows that its worker was given, in the replica's context."""
    replicas = local_replicas(strategy)
    if replicas == 1:
        return batch
    local = tf.distribute.get_replica_context().replica_id_in_sync_group % replicas
    rows = tf.shape(batch["labels"])[0] // replicas
    shares = {}
    for name, array in batch.items():
        share = tf.reshape(array, tf.concat([[replicas, rows], tf.shape(array)[1:]], 0))[local]
        size = None if array.shape[0] is None else array.shape[0] // replicas
        shares[name] = tf.ensure_shape(share, [size, *array.shape[1:]])
    return shares

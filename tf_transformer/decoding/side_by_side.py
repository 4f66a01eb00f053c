"""Batches side by side: on a CPU, two batches on one thread each take less time than two in turn on both threads.

Many operations of a search are too small to be divided; while one thread does them, the other has nothing to do. So a
process that translates many texts gives each operation one thread, and each thread a batch of its own.
"""

import os

import tensorflow as tf


def one_thread_an_operation() -> None:
    """Makes TensorFlow compute each operation on one thread, on machines without a GPU.

    It has to come before TensorFlow first computes; afterwards, or where the number of threads has been set already,
    nothing changes.
    """
    if tf.config.threading.get_intra_op_parallelism_threads() or tf.config.list_physical_devices("GPU"):
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:
        return


def batches_at_a_time() -> int:
    """How many batches to compute side by side: one a core if each operation has one thread, otherwise one."""
    if tf.config.threading.get_intra_op_parallelism_threads() != 1 or tf.config.list_physical_devices("GPU"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

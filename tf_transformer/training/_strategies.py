"""Distribution strategies: one device, several devices, several workers, or a TPU."""

import dataclasses
import functools
import json
import os

import tensorflow as tf

from tf_transformer.training._process import meeting

STRATEGIES = ("auto", "one", "mirrored", "multi-worker", "tpu")


class StrategyError(ValueError):
    """The strategy is not available on this machine or in this environment."""


@dataclasses.dataclass(frozen=True)
class Worker:
    """Index of this process among the workers that train together."""

    index: int = 0
    count: int = 1

    @property
    def is_chief(self) -> bool:
        """True for the process that writes checkpoints and logs."""
        return self.index == 0


def make_strategy(name: str = "auto", replicas: int | None = None, seconds: float = 3600.0) -> tf.distribute.Strategy:
    """Create the strategy called `name`. Call this before TensorFlow has placed anything on a device.

    Args:
        name: "one" device; "mirrored" over all GPUs, or over `replicas` logical devices of a CPU; "multi-worker" as
            the environment's TF_CONFIG describes the cluster; "tpu" as given by TPU_NAME. "auto" takes TF_CONFIG if it
            has several workers, then a TPU if TPU_NAME is set, then several GPUs, then one device.
        replicas: number of devices for "mirrored", rejected with another strategy; None: all GPUs.
        seconds: time limit for all workers of TF_CONFIG to start, after which the process ends.
    """
    if name not in STRATEGIES:
        raise StrategyError(f"Expected a strategy among {', '.join(STRATEGIES)}. Received: {name!r}.")
    chosen = _choose() if name == "auto" else name
    if replicas is not None:
        _check_replicas(replicas, name, chosen)
    if chosen == "multi-worker":
        _cluster()
        with meeting(len(_workers_in_environment()), seconds):
            return _strategy(chosen, replicas)
    return _strategy(chosen, replicas)


def _check_replicas(replicas: int, name: str, chosen: str) -> None:
    if replicas < 1:
        raise StrategyError(f"Expected at least 1 replica. Received: {replicas}.")
    if chosen != "mirrored":
        here = f"'auto', which is {chosen!r} here" if name == "auto" else repr(chosen)
        raise StrategyError(
            f"Expected the strategy 'mirrored' with a number of replicas. Received: {replicas} replicas with the "
            f"strategy {here}. Use --strategy mirrored, or omit --replicas."
        )


@functools.cache
def _strategy(name: str, replicas: int | None) -> tf.distribute.Strategy:
    """Create the one strategy of this process: collective operations of a second one would have the same numbers."""
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(_devices(replicas))
    if name == "multi-worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "tpu":
        return tf.distribute.TPUStrategy(_connect_to_tpu(os.environ.get("TPU_NAME", "local")))
    return tf.distribute.get_strategy()


def _connect_to_tpu(name: str) -> tf.distribute.cluster_resolver.TPUClusterResolver:
    try:
        return tf.distribute.cluster_resolver.TPUClusterResolver.connect(name)
    except (tf.errors.OpError, OSError, ValueError, RuntimeError, ImportError) as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise StrategyError(
            f"Expected a TPU called {name!r} for the strategy 'tpu'. Received: none that answers ({reason}). Run this "
            "on a machine with a TPU and its build of TensorFlow, set TPU_NAME for one elsewhere, or choose another "
            "--strategy."
        ) from error


def worker_of(strategy: tf.distribute.Strategy) -> Worker:
    """Return the index of this process among the workers of a strategy."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return Worker()
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict()
    # TF_CONFIG may name one task "chief"; it comes before the workers.
    tasks = [(kind, index) for kind in ("chief", "worker") for index in range(len(cluster.get(kind, ())))]
    return Worker(tasks.index((resolver.task_type, resolver.task_id)), len(tasks)) if tasks else Worker()


def devices_of(strategy: tf.distribute.Strategy) -> dict:
    """Describe the devices of a run for its record: name of the strategy, replicas and workers."""
    kinds = {
        "mirrored": tf.distribute.MirroredStrategy,
        "multi-worker": tf.distribute.MultiWorkerMirroredStrategy,
        "tpu": tf.distribute.TPUStrategy,
    }
    name = next((name for name, kind in kinds.items() if isinstance(strategy, kind)), "one")
    return {"strategy": name, "replicas": strategy.num_replicas_in_sync, "workers": worker_of(strategy).count}


def _choose() -> str:
    if len(_workers_in_environment()) > 1:
        return "multi-worker"
    if os.environ.get("TPU_NAME"):
        return "tpu"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one"


def _workers_in_environment() -> list[str]:
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
        return [address for kind in ("chief", "worker") for address in cluster.get(kind, ())]
    except (ValueError, AttributeError) as error:
        raise StrategyError(
            f"Expected TF_CONFIG to be a JSON object with a cluster. Received: {error}. Correct the environment "
            "variable."
        ) from error


def _cluster() -> None:
    if not _workers_in_environment():
        raise StrategyError(
            "Expected TF_CONFIG with a cluster in the environment of every worker for the strategy 'multi-worker', "
            'such as {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: {os.environ.get('TF_CONFIG') or 'none'}."
        )


def _devices(replicas: int | None) -> list[str] | None:
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus:
        if replicas and replicas > gpus:
            raise StrategyError(f"Expected at most {gpus} replicas, the number of GPUs. Received: {replicas}.")
        return None if replicas is None else [f"GPU:{index}" for index in range(replicas)]
    replicas = replicas or 1
    if replicas > 1:
        _split_cpu(replicas)
    return [f"CPU:{index}" for index in range(replicas)]


def _split_cpu(replicas: int) -> None:
    """Create logical devices on the CPU: no faster, but the same program as on several GPUs."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) < replicas:
            raise StrategyError(
                f"Expected a CPU that can be divided into {replicas} replicas. Received: one that TensorFlow uses "
                "already. Create the strategy first."
            ) from None


def check_same_step(strategy: tf.distribute.Strategy, step: int) -> None:
    """Reject workers at different steps, for instance if one could not read the newest checkpoint."""

    @tf.function(autograph=False)
    def total() -> tf.Tensor:
        steps = strategy.run(lambda: tf.constant(step, tf.int64))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, steps, axis=None)

    if int(total()) != step * strategy.num_replicas_in_sync:
        raise StrategyError(
            f"Expected all workers to resume from the same step. Received: different steps, {step} on this worker. "
            "Check that all workers can read all checkpoints of the same --workdir."
        )

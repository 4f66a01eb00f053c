"""Training as one call: from a prepared directory to checkpoints in a work directory."""

import contextlib
import dataclasses
import logging
import os
import time

import keras
import tensorflow as tf

from tf_transformer._progress import Progress, duration
from tf_transformer.config import Config
from tf_transformer.data import (
    BatchOptions,
    Position,
    PreparedDataset,
    Replicas,
    batch_shapes,
    training_dataset,
    validation_dataset,
)
from tf_transformer.model import Transformer
from tf_transformer.training._gradients import BatchGradients
from tf_transformer.training._input import DistributedBatches
from tf_transformer.training._opening import initialize_workdir, open_workdir
from tf_transformer.training._optimizer import MovingAverage, make_optimizer, trained_variables
from tf_transformer.training._preflight import preflight
from tf_transformer.training._process import (
    FIRST_CALL,
    LostWorkerError,
    RunLock,
    StopRequest,
    WorkerWatch,
    lost_worker_message,
)
from tf_transformer.training._reporting import RunLog, RunReports
from tf_transformer.training._run_state import RunSaver, RunState, run_fingerprint
from tf_transformer.training._schedules import NoamSchedule, WarmupSchedule
from tf_transformer.training._strategies import Worker, check_same_step, devices_of, make_strategy, worker_of
from tf_transformer.training._train_step import Counters, TrainStep
from tf_transformer.training._trainer import Trainer
from tf_transformer.training._validation import SampleTranslations, Validation
from tf_transformer.workdir import Workdir, checkpoints, named_variables, remove_leftovers

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Result of a call of `train`.

    Attributes:
        ended: "finished", "early stopping" or "interrupted".
        signal: signal that interrupted it, or None.
        step: step at which it ended.
        best_perplexity: on the validation set; None without one.
        seconds: wall time of this call.
    """

    ended: str
    signal: int | None
    step: int
    best_perplexity: float | None
    seconds: float


def train(
    data: str | os.PathLike,
    workdir: str | os.PathLike,
    config: Config,
    strategy: str = "auto",
    replicas: int | None = None,
    worker_timeout: float = 600.0,
    data_service: str | None = None,
    init_from: str | os.PathLike | None = None,
) -> TrainingResult:
    """Train a new run, or resume the run of the work directory.

    Args:
        data: a prepared directory.
        workdir: work directory; created if it does not exist. Several workers need shared storage.
        config: `model`'s vocabulary and special ids are taken from the data.
        strategy, replicas: see `make_strategy`.
        worker_timeout: seconds after which a worker that does not respond counts as lost.
        data_service: address of a tf.data service that makes the batches, such as "grpc://host:5000".
        init_from: a work directory, or a checkpoint in one, whose weights a new run starts from.
    """
    begun = time.monotonic()
    strategy = make_strategy(strategy, replicas, FIRST_CALL * worker_timeout)
    worker = worker_of(strategy)
    with contextlib.ExitStack() as stack:
        if worker.is_chief:
            stack.enter_context(RunLock(workdir))
            remove_leftovers(workdir)
        stop = stack.enter_context(StopRequest())
        prepared = PreparedDataset(data)
        if init_from is not None and worker.is_chief:
            initialize_workdir(workdir, init_from, config, prepared)
        directory = open_workdir(workdir, config, prepared, worker, devices_of(strategy))
        ended, state = _Run(directory, prepared, strategy, worker, worker_timeout, data_service).run(stop)
    result = TrainingResult(ended, stop.signal, state.counters.step, state.best_perplexity, time.monotonic() - begun)
    logger.info("%s", _summary(result, directory, prepared))
    return result


class _Run:
    """A run, assembled from its parts."""

    def __init__(
        self,
        directory: Workdir,
        prepared: PreparedDataset,
        strategy: tf.distribute.Strategy,
        worker: Worker,
        worker_timeout: float,
        service: str | None,
    ):
        self._directory, self._prepared, self._strategy, self._worker = directory, prepared, strategy, worker
        self._config = directory.config
        self._watch = WorkerWatch(worker_timeout) if worker.count > 1 else contextlib.nullcontext()
        training = self._config.training
        self._options = BatchOptions(training.batch_tokens, training.max_length, training.batching)
        self._service = service

    def run(self, stop: StopRequest) -> tuple[str, RunState]:
        with contextlib.ExitStack() as stack:
            try:
                # One call for the watch: the workers broadcast the first weights, and compile, at different speeds.
                with self._watch:
                    state = self._new_state()
                    gradients, step = self._new_step(state)
                    resumed = self._restore(state)
                    if self._worker.count > 1:
                        check_same_step(self._strategy, state.counters.step)
                    assert state.position is not None  # set by _new_state, and by restore
                    batches = self._batches(Position.of(state.position))
                    if state.counters.step < self._config.training.max_steps:
                        preflight(
                            step, self._strategy, batch_shapes(self._prepared, self._options), self._config.training
                        )
                reports = self._reports(stack, state)
                writes = self._worker.is_chief
                saver = RunSaver(self._directory.checkpoints, self._config.training, resumed, writes)
                validation, sample = self._validation(gradients), self._sample(state)
                trainer = Trainer(
                    self._config.training, state, step, batches, saver, reports, validation, sample, self._watch
                )
                return trainer.run(stop), state
            except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError) as error:
                raise LostWorkerError(lost_worker_message(str(error.message).splitlines()[0][:200])) from error
            except (tf.errors.OpError, UnicodeDecodeError) as error:
                raise self._prepared.explain(error) from error

    def _reports(self, stack: contextlib.ExitStack, state: RunState) -> RunReports:
        """Reports to the log and the terminal, closed with the stack; only the chief has them."""
        if not self._worker.is_chief:
            return RunReports(None, None)
        log = stack.enter_context(contextlib.closing(RunLog(self._directory.logs, state.counters.step)))
        progress = Progress("training", self._config.training.max_steps, "steps", state.counters.step)
        return RunReports(log, stack.enter_context(contextlib.closing(progress)))

    def _new_state(self) -> RunState:
        training = self._config.training
        keras.utils.set_random_seed(training.seed)
        with self._strategy.scope():
            model = Transformer(self._config.model, dtype=training.precision)
            variables = trained_variables(named_variables(model), training.freeze)
            optimizer = make_optimizer(training, variables, self._config.model.num_heads)
            average = MovingAverage(variables, training.ema_decay) if training.ema_decay else None
        replicas, workers = self._strategy.num_replicas_in_sync, self._worker.count
        logger.info(
            f"{model.count_params():,} parameters on {replicas} replica{'s' * (replicas > 1)} of {workers} "
            f"worker{'s' * (workers > 1)}, {training.precision}."
        )
        return RunState(model, optimizer, average, Counters.start(training.precision), Position()._asdict())

    def _new_step(self, state: RunState) -> tuple[BatchGradients, TrainStep]:
        training = self._config.training
        gradients = BatchGradients(
            state.model,
            training.label_smoothing,
            training.seed,
            training.accumulation_steps,
            training.xla,
            training.r_drop,
            state.optimizer.variables,
        )
        schedule = _schedule(self._config)
        return gradients, TrainStep(self._strategy, gradients, state.optimizer, state.average, schedule, training)

    def _restore(self, state: RunState) -> tuple[int, int] | None:
        """Restore the newest complete checkpoint. Return its steps for `RunSaver`, or None for a new run."""
        path = checkpoints.latest_intact(self._directory.checkpoints, resumable=True)
        if path is None:
            self._begin(state)
            return None
        state.run = run_fingerprint(self._config, self._prepared.info, None)
        state.restore(path)
        if self._worker.is_chief:
            checkpoints.set_aside_after(self._directory.checkpoints, state.counters.step)
        logger.info("Resuming from %s.", path)
        return state.counters.step, state.validated_step

    def _begin(self, state: RunState) -> None:
        """Start from the imported weights if the directory was written by `import`."""
        path = checkpoints.latest_intact(self._directory.checkpoints)
        state.run = run_fingerprint(self._config, self._prepared.info, path)
        if path is not None:
            state.begin_with(path)
            logger.info("Starting from the weights of %s.", path)

    def _batches(self, position: Position) -> DistributedBatches:
        training = self._config.training

        def dataset(context: tf.distribute.InputContext, position: Position) -> tf.data.Dataset:
            return training_dataset(
                self._prepared,
                self._options,
                training.seed,
                position=position,
                replicas=Replicas.of(context, training.accumulation_steps),
                subword_dropout=training.subword_dropout,
                service=self._service,
            )

        return DistributedBatches(self._strategy, dataset, position, self._service)

    def _validation(self, gradients: BatchGradients) -> Validation | None:
        if "validation" not in self._prepared.splits:
            logger.info("The data has no validation set: no perplexity, no best checkpoint.")
            return None
        batches = int(validation_dataset(self._prepared, self._options).cardinality())
        if not batches:
            logger.warning(
                "No pair of the validation set has at most training.max_length = %d tokens: no perplexity, no "
                "best checkpoint.", self._config.training.max_length,
            )  # fmt: skip
            return None

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return validation_dataset(self._prepared, self._options, replicas=Replicas.of(context)).repeat()

        return Validation(self._strategy, gradients, dataset, batches, self._watch)

    def _sample(self, state: RunState) -> SampleTranslations | None:
        training = self._config.training
        if training.bleu_steps is None or "validation" not in self._prepared.splits or not self._worker.is_chief:
            return None
        columns = *self._prepared.lines("validation"), self._prepared.language_pairs("validation")
        chosen = _spread(list(zip(*columns)), training.bleu_samples)
        sources, references, languages = ([line[column] for line in chosen] for column in range(3))
        tokenizers, decoding = self._prepared.tokenizers, self._config.decoding
        return SampleTranslations(state.model, tokenizers, sources, references, languages, decoding)


def _spread(lines: list[tuple], count: int) -> list[tuple]:
    """The first lines, as many of each language pair, which is the last column."""
    groups: dict = {}
    for line in lines:
        groups.setdefault(line[-1], []).append(line)
    each = max(1, count // max(1, len(groups)))
    return [line for group in groups.values() for line in group[:each]]


def _schedule(config: Config) -> keras.optimizers.schedules.LearningRateSchedule:
    training = config.training
    if training.schedule == "noam":
        return NoamSchedule(config.model.model_dim, training.warmup_steps, training.learning_rate_scale)
    return WarmupSchedule(training.learning_rate, training.warmup_steps, training.schedule, training.max_steps)


def _summary(result: TrainingResult, workdir: Workdir, prepared: PreparedDataset) -> str:
    best = "" if result.best_perplexity is None else f", best validation perplexity {result.best_perplexity:.3f}"
    head = f"{result.ended.capitalize()} at step {result.step} after {duration(result.seconds)}{best}."
    if result.ended == "interrupted":
        return f"{head} The same command resumes from here."
    splits = prepared.info["splits"]
    evaluate = ["evaluate"] if "test" in splits else ["evaluate --split validation"] if "validation" in splits else []
    flags = f"--workdir {workdir.path}"
    commands = [f"{verb} {flags}" for verb in ("average", *evaluate, "translate")]
    commands.append(f"export {flags} --output MODEL_BASE")
    return "\n  tf-transformer ".join([f"{head}\nNext:", *commands])

from ._gradients import BatchGradients as BatchGradients
from ._input import DistributedBatches as DistributedBatches
from ._losses import LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy
from ._opening import config_of as config_of
from ._opening import with_vocabulary as with_vocabulary
from ._optimizer import Adam as Adam
from ._process import LOST_WORKER as LOST_WORKER
from ._process import LostWorkerError as LostWorkerError
from ._process import RunLock as RunLock
from ._process import StopRequest as StopRequest
from ._projected_loss import projected_loss as projected_loss
from ._reporting import read_log as read_log
from ._run import TrainingResult as TrainingResult
from ._run import train as train
from ._run_state import check_config as check_config
from ._run_state import check_dataset as check_dataset
from ._schedules import NoamSchedule as NoamSchedule
from ._schedules import WarmupSchedule as WarmupSchedule
from ._strategies import STRATEGIES as STRATEGIES
from ._strategies import make_strategy as make_strategy
from ._train_step import Counters as Counters
from ._train_step import TrainStep as TrainStep

__all__ = [
    "LOST_WORKER",
    "STRATEGIES",
    "Adam",
    "BatchGradients",
    "Counters",
    "DistributedBatches",
    "LabelSmoothedCrossEntropy",
    "LostWorkerError",
    "NoamSchedule",
    "RunLock",
    "StopRequest",
    "TrainStep",
    "TrainingResult",
    "WarmupSchedule",
    "check_config",
    "check_dataset",
    "config_of",
    "make_strategy",
    "projected_loss",
    "read_log",
    "train",
    "with_vocabulary",
]

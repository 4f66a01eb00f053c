"""Whether a run may go on with a configuration and data: what may change between its starts, and what may not."""

import logging

from tf_transformer.config import Config

# These say how long, how fast and how watched a run is, not what it computes. (Accumulation changes dropout's draws, as
# the number of replicas does, but not what they are drawn from.)
MAY_CHANGE = frozenset(
    f"training.{field}"
    for field in (
        "max_steps",
        "accumulation_steps",
        "xla",
        "steps_per_call",
        "checkpoint_steps",
        "checkpoint_minutes",
        "keep_checkpoints",
        "average_last",
        "validation_steps",
        "bleu_steps",
        "bleu_samples",
        "early_stopping",
        "skipped_steps_limit",
    )
)

logger = logging.getLogger(__name__)


class ChangedRunError(ValueError):
    """A run that cannot go on because something it is made of has changed."""


def has_begun(dataset_info: dict) -> bool:
    """Whether a work directory has seen training data. One that `import` wrote has not, until it is trained on."""
    return "splits" in dataset_info


def check_config(saved: Config, given: Config, workdir, begun: bool = True, weights: bool = True) -> None:
    """Refuses fields that a run cannot change; tells which others have.

    Args:
        begun: False: nothing was trained yet, so that only what the weights depend on is fixed.
        weights: False: there are no weights yet either, as where a run did not come to its first checkpoint.
    """
    changes = _changes(saved, given)
    refused = [text for field, text in changes.items() if field not in MAY_CHANGE]
    if not begun:
        refused = [text for field, text in changes.items() if field.startswith("model.") and "dropout" not in field]
    if refused and weights:
        raise ChangedRunError(
            f"{workdir} was begun with another configuration: {'; '.join(refused)}. Give the same settings as then, "
            "or another --workdir."
        )
    for text in changes.values():
        logger.info("Changed since the run began: %s.", text)


def check_dataset(saved: dict, given: dict, workdir, data) -> None:
    """Refuses another vocabulary and other training data than a run was begun with."""
    vocabulary = [info.get("tokenizer", {}).get("sha256") for info in (saved, given)]
    if vocabulary[0] != vocabulary[1]:
        raise ChangedRunError(
            f"{workdir} was begun with another vocabulary than that of {data}: tokenizer.sha256 was {vocabulary[0]}, "
            f"is {vocabulary[1]}. Give the data it was begun with, or another --workdir."
        )
    shards = [_content(info) for info in (saved, given)]
    if has_begun(saved) and shards[0] != shards[1]:
        raise ChangedRunError(
            f"{workdir} was begun with other training data than {data} holds: splits.train differs. Give the data it "
            "was begun with, or another --workdir."
        )


def _changes(saved: Config, given: Config) -> dict[str, str]:
    changes = {}
    for section in ("model", "training"):
        before, now = (getattr(config, section).to_dict() for config in (saved, given))
        for field in before:
            if before[field] != now[field]:
                changes[f"{section}.{field}"] = f"{section}.{field} was {before[field]!r}, is {now[field]!r}"
    return changes


def _content(info: dict):
    """What identifies the training records: the checksums of the shards."""
    return [shard.get("sha256", shard) for shard in info.get("splits", {}).get("train", {}).get("shards", ())]

"""The ablation as one call: rows trained and scored one after another, and the table written after each."""

import json
import logging
import os
import pathlib
import platform
from collections.abc import Callable, Sequence

from tf_transformer.ablation.figure import ablation_figure
from tf_transformer.ablation.report import Setting, as_json, markdown
from tf_transformer.ablation.results import RowResult
from tf_transformer.ablation.rows import AblationOptions, row_configs
from tf_transformer.ablation.scoring import score_row
from tf_transformer.config import Config
from tf_transformer.data.prepared import PreparedDataset
from tf_transformer.training.resuming import check_config, check_dataset
from tf_transformer.training.run import TrainingResult, train, with_vocabulary
from tf_transformer.workdir import CONFIG, Workdir, package_versions

TABLE = "table"

logger = logging.getLogger(__name__)


class Ablation:
    """Rows of the paper's Table 3, or any presets, on one's own data. Every row has a work directory under `workdir`.

    A finished row is kept and a row that was interrupted goes on, so the same call again costs nothing or the rest.

    Args:
        data: a prepared directory.
        workdir: is made; `<row>/` for each row, and the table.
        rows: names of presets, in the order of the table.
        options: what all rows have in common.
        split: that rows are scored on; the paper's is the validation set.
        command: that the table says it was made with.
        train: trains one row: (data, workdir, config) to a `TrainingResult`.
    """

    def __init__(
        self,
        data: str | os.PathLike,
        workdir: str | os.PathLike,
        rows: Sequence[str],
        options: AblationOptions,
        split: str = "validation",
        command: str = "",
        train: Callable[..., TrainingResult] = train,
    ):
        self._prepared = PreparedDataset(data)
        self._prepared.lines(split)  # Complains now rather than after the first training.
        self.workdir = pathlib.Path(workdir)
        configs = row_configs(rows, options)
        self._configs = {name: with_vocabulary(row, self._prepared.tokenizers) for name, row in configs.items()}
        self._split, self._train = split, train
        self._setting = Setting(command, _described(self._prepared), split, options, _hardware(), package_versions())

    def run(self) -> tuple[list[RowResult], TrainingResult | None]:
        """Trains what is missing. Returns the finished rows, and the training that was interrupted or None."""
        results = []
        for index, (name, config) in enumerate(self._configs.items(), start=1):
            directory = self.workdir / name
            result = self._kept(directory, config)
            if result is None:
                logger.info("row %s (%d of %d)", name, index, len(self._configs))
                training = self._train(self._prepared.path, directory, config)
                if training.ended == "interrupted":
                    return results, training
                result = score_row(name, directory, self._prepared, self._split, training)
                result.save(directory)
            else:
                logger.info("row %s (%d of %d) is finished: kept", name, index, len(self._configs))
            results.append(result)
            self._write(results)
        return results, None

    def markdown(self, results: Sequence[RowResult]) -> str:
        """The table."""
        return markdown(self._setting, results)

    def to_dict(self, results: Sequence[RowResult]) -> dict:
        """The table for JSON."""
        return as_json(self._setting, results)

    def _kept(self, directory: pathlib.Path, config: Config) -> RowResult | None:
        """The result of a row that needs no more; a row of another configuration is refused, not overwritten."""
        if not (directory / CONFIG).is_file():
            return None
        saved = Workdir(directory)
        check_config(saved.config, config, directory)
        check_dataset(saved.dataset_info, self._prepared.info, directory, self._prepared.path)
        result = RowResult.load(directory)
        if result is None or result.split != self._split:
            return None
        return result if result.ended == "early stopping" or result.steps >= config.training.max_steps else None

    def _write(self, results: Sequence[RowResult]) -> None:
        table = self.workdir / TABLE
        table.with_suffix(".md").write_text(self.markdown(results), encoding="utf-8")
        text = json.dumps(self.to_dict(results), indent=2, ensure_ascii=False)
        table.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        figure = ablation_figure(results, self._setting.title)
        for ending in (".png", ".svg"):
            figure.savefig(table.with_suffix(ending), dpi=150)


def _described(prepared: PreparedDataset) -> str:
    info = prepared.info
    languages = f"{info['source_language']}-{info['target_language']}"
    vocabulary = info["tokenizer"]["target_vocab_size"]
    pairs = info["splits"]["train"]["pairs"]
    name = info["corpus"]["spec"]
    name = prepared.path.resolve().name if name == "files" else name
    return f"{name} {languages}, {pairs:,} training pairs, a vocabulary of {vocabulary:,}"


def _hardware() -> str:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
    return ", ".join(names) or f"{os.cpu_count()} CPU cores ({platform.machine()})"

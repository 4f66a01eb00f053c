"""Batches in groups of one shape: what one call of the training step takes."""

from collections.abc import Iterator

from tf_transformer.training._strategies import Batch, pad_rows


class BatchGroups:
    """Takes consecutive batches from a stream for as long as they have the same shape.

    The order of the batches is never changed, so how they are grouped has no part in what is learned.

    Args:
        batches: (batch, position after it) without end.
        multiple: of the rows; rows of padding are added.
        position: of the first batch.
    """

    def __init__(self, batches: Iterator[tuple[Batch, dict]], multiple: int, position: dict | None):
        self._batches, self._multiple = batches, multiple
        self._next: tuple[Batch, dict] | None = None
        self.position = position
        """After the last batch that was taken."""

    def peek(self) -> Batch:
        """The next batch, which is taken later."""
        self._next = self._next or next(self._batches)
        return self._next[0]

    def take(self, limit: int) -> list[Batch]:
        """At least 1 and at most `limit` batches of one shape."""
        group: list[Batch] = []
        while len(group) < limit:
            batch, position = self._next or next(self._batches)
            if group and _shapes(batch) != _shapes(group[0]):
                self._next = batch, position
                break
            self._next, self.position = None, position
            group.append(batch)
        return [pad_rows(batch, self._multiple) for batch in group]

    def close(self) -> None:
        """Ends the stream's thread."""
        if hasattr(self._batches, "close"):
            self._batches.close()


def _shapes(batch: Batch) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in batch.items()}

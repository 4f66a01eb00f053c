"""Choices from a seed that are the same on every machine and Python version."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Draws from `random.random()` alone: of Python's generators only that one is promised never to change."""

    def __init__(self, seed: int):
        self._draw = random.Random(seed).random

    def below(self, bound: int) -> int:
        """A number from 0 to bound - 1."""
        return int(self._draw() * bound)

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items; an item that is listed twice is twice as likely."""
        return items[self.below(len(items))]

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 cases."""
        return self.below(100) < percent


def weighted(table: dict[Item, int]) -> tuple[Item, ...]:
    """The keys, each repeated as often as its weight says, for `Dice.pick`."""
    return tuple(item for item, weight in table.items() for _ in range(weight))

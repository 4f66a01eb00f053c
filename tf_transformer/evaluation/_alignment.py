"""Alignment error rate of word links against a gold alignment with sure and possible links."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

Link = tuple[int, int]
"""The numbers of a source word and of a target word."""


class AlignmentScore(NamedTuple):
    """Scores of word links over a corpus (Och and Ney 2003, section 6.1).

    error_rate: AER, 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) for the links A, the sure ones S and the possible ones P.
    precision: |A ∩ P| / |A|, 1 if there are no links.
    recall: |A ∩ S| / |S|, 1 if there are no sure links.
    """

    error_rate: float
    precision: float
    recall: float


def alignment_score(
    found: Iterable[Collection[Link]], sure: Iterable[Collection[Link]], possible: Iterable[Collection[Link]]
) -> AlignmentScore:
    """The scores of the links of all sentences together. Sure links count as possible ones, too.

    Example:
        >>> alignment_score([{(0, 0), (1, 2)}], [{(0, 0)}], [{(0, 0), (1, 1)}]).precision
        0.5
    """
    links = gold = in_sure = in_possible = 0
    for one, certain, other in zip(found, sure, possible, strict=True):
        each, surely = set(one), set(certain)
        links, gold = links + len(each), gold + len(surely)
        in_sure += len(each & surely)
        in_possible += len(each & (surely | set(other)))
    rate = 1 - (in_sure + in_possible) / (links + gold) if links + gold else 0.0
    return AlignmentScore(rate, in_possible / links if links else 1.0, in_sure / gold if gold else 1.0)


def parse_links(text: str) -> tuple[set[Link], set[Link]]:
    """Sure and possible links of a line in Pharaoh format, such as "0-0 1-2 2?2", where "?" is a possible link.

    Numbers of words are counted from 0, the source's first. The possible links contain the sure ones.
    """
    sure, possible = set(), set()
    for part in text.split():
        source, mark, target = part.partition("?" if "?" in part else "-")
        if not (source.isdecimal() and target.isdecimal()):
            raise ValueError(f'Expected links such as "0-0 1-2 2?2" (Pharaoh format). Received: {part!r}.')
        link = int(source), int(target)
        possible.add(link)
        if mark == "-":
            sure.add(link)
    return sure, possible

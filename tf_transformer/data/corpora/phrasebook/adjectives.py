"""The adjectives of the phrasebook, with their stems before endings and their comparatives."""

from __future__ import annotations

from dataclasses import dataclass

from tf_transformer.data.corpora.phrasebook.nouns import Noun

# english | german | german before an ending | comparative | german comparative | kinds of noun it goes with.
# "-" as a comparative: the word is not compared here.
_TABLE = """
old|alt|alt|older|älter|person animal thing text ride place nature
young|jung|jung|younger|jünger|person animal
big|groß|groß|bigger|größer|animal food thing ride place nature
small|klein|klein|smaller|kleiner|person animal food thing ride place nature
beautiful|schön|schön|more beautiful|schöner|animal thing place nature
good|gut|gut|better|besser|person food thing text drink staple
bad|schlecht|schlecht|worse|schlechter|food thing text drink
friendly|freundlich|freundlich|friendlier|freundlicher|person animal
tired|müde|müd|-|-|person animal
hungry|hungrig|hungrig|-|-|person animal
sick|krank|krank|-|-|person animal
happy|glücklich|glücklich|happier|glücklicher|person
famous|berühmt|berühmt|more famous|berühmter|person place
clever|klug|klug|cleverer|klüger|person animal
rich|reich|reich|richer|reicher|person
poor|arm|arm|poorer|ärmer|person
strong|stark|stark|stronger|stärker|person animal
new|neu|neu|newer|neuer|thing text ride place
red|rot|rot|-|-|thing
green|grün|grün|-|-|thing nature
blue|blau|blau|-|-|thing
white|weiß|weiß|-|-|thing animal
black|schwarz|schwarz|-|-|thing animal
yellow|gelb|gelb|-|-|thing
heavy|schwer|schwer|heavier|schwerer|thing
expensive|teuer|teur|more expensive|teurer|thing food staple
cheap|billig|billig|cheaper|billiger|thing food staple
dirty|schmutzig|schmutzig|dirtier|schmutziger|thing place
long|lang|lang|longer|länger|text
interesting|interessant|interessant|more interesting|interessanter|text place
dark|dunkel|dunkl|darker|dunkler|place
quiet|ruhig|ruhig|quieter|ruhiger|place
high|hoch|hoh|higher|höher|high
fresh|frisch|frisch|fresher|frischer|food staple
sweet|süß|süß|sweeter|süßer|sweet drink
hot|heiß|heiß|-|-|drink hot
cold|kalt|kalt|colder|kälter|drink hot
"""

# Which kinds of adjective a noun of each tag goes with; the other tags say only what verbs may do with it.
_KINDS = {
    "person": "person",
    "animal": "animal",
    "food": "food",
    "drink": "drink",
    "staple": "staple",
    "text": "text",
    "ride": "ride",
    "thing": "thing",
    "opened": "thing",
    "high": "high",
    "sweet": "sweet",
    "nature": "nature",
    "hot": "hot",
    "inside": "place",
    "front": "place",
    "goal": "place",
}


@dataclass(frozen=True)
class Adjective:
    """An English adjective and its one German translation.

    Attributes:
        stem: German before an ending (teuer, but ein teures Auto).
        comparative, german_comparative: None where the word is not compared here.
    """

    english: str
    german: str
    stem: str
    comparative: str | None
    german_comparative: str | None
    kinds: frozenset[str]


def _parse(line: str) -> Adjective:
    english, german, stem, comparative, german_comparative, kinds = line.split("|")
    if comparative == "-":
        return Adjective(english, german, stem, None, None, frozenset(kinds.split()))
    return Adjective(english, german, stem, comparative, german_comparative, frozenset(kinds.split()))


ADJECTIVES = tuple(_parse(line) for line in _TABLE.split("\n") if line)


def fitting(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that make sense with a noun, in the order of the table."""
    kinds = {_KINDS[tag] for tag in noun.tags if tag in _KINDS}
    return tuple(adjective for adjective in ADJECTIVES if adjective.kinds & kinds)

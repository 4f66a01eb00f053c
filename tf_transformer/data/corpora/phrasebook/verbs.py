"""The verbs of the phrasebook: their forms in both languages and what they take as an object."""

from __future__ import annotations

from dataclasses import dataclass

# english; its past; german, a separable prefix parted by |; participle with its auxiliary (h haben, s sein);
# du and er where the stem changes; tags of the objects. A particle follows the English verb after "+".
_TRANSITIVE = """
buy; bought; kaufen; gekauft h; ; thing food gift
sell; sold; verkaufen; verkauft h; ; thing food
see; saw; sehen; gesehen h; siehst sieht; person animal thing nature ride sight
look for; looked for; suchen; gesucht h; ; person animal thing
find; found; finden; gefunden h; ; thing animal
need; needed; brauchen; gebraucht h; ; thing food
paint; painted; malen; gemalt h; ; painted
eat; ate; essen; gegessen h; isst isst; food
read; read; lesen; gelesen h; liest liest; text
write; wrote; schreiben; geschrieben h; ; written
carry; carried; tragen; getragen h; trägst trägt; small
wash; washed; waschen; gewaschen h; wäschst wäscht; washed pet
clean; cleaned; putzen; geputzt h; ; cleaned
repair; repaired; reparieren; repariert h; ; machine
visit; visited; besuchen; besucht h; ; person sight
ask; asked; fragen; gefragt h; ; person
hear; heard; hören; gehört h; ; person animal
cook; cooked; kochen; gekocht h; ; cooked
bake; baked; backen; gebacken h; ; baked
forget; forgot; vergessen; vergessen h; vergisst vergisst; small
build; built; bauen; gebaut h; ; built
call; called; an|rufen; angerufen h; ; person
invite; invited; ein|laden; eingeladen h; lädst lädt; person
pick +up; picked; ab|holen; abgeholt h; ; person kin
open; opened; auf|machen; aufgemacht h; ; opened
close; closed; zu|machen; zugemacht h; ; opened
turn +on; turned; ein|schalten; eingeschaltet h; ; switched
turn +off; turned; aus|schalten; ausgeschaltet h; ; switched
tidy +up; tidied; auf|räumen; aufgeräumt h; ; tidied
bring +along; brought; mit|bringen; mitgebracht h; ; small food
"""

_DATIVE = """
help; helped; helfen; geholfen h; hilfst hilft; person
thank; thanked; danken; gedankt h; ; person
answer; answered; antworten; geantwortet h; ; person
follow; followed; folgen; gefolgt s; ; person animal
"""

# With a preposition: after the German verb, with the case it asks for (a accusative, d dative).
_PREPOSITIONAL = """
wait for; waited for; warten auf a; gewartet h; ; person ride
talk to; talked to; sprechen mit d; gesprochen h; sprichst spricht; person
play with; played with; spielen mit d; gespielt h; ; pet toy kin
laugh at; laughed at; lachen über a; gelacht h; ; person animal
think of; thought of; denken an a; gedacht h; ; person sight
dream of; dreamed of; träumen von d; geträumt h; ; person sight
go to; went to; gehen zu d; gegangen s; ; goal
go into; went into; gehen in a; gegangen s; ; inside
run into; ran into; laufen in a; gelaufen s; läufst läuft; inside
travel to; traveled to; fahren zu d; gefahren s; fährst fährt; goal
"""

_DITRANSITIVE = """
give; gave; geben; gegeben h; gibst gibt; small food
show; showed; zeigen; gezeigt h; ; thing
send; sent; schicken; geschickt h; ; small
sell; sold; verkaufen; verkauft h; ; thing
bring; brought; bringen; gebracht h; ; small food
"""

_INTRANSITIVE = """
sleep; slept; schlafen; geschlafen h; schläfst schläft;
work; worked; arbeiten; gearbeitet h; ;
laugh; laughed; lachen; gelacht h; ;
sing; sang; singen; gesungen h; ;
dance; danced; tanzen; getanzt h; ;
cry; cried; weinen; geweint h; ;
come; came; kommen; gekommen s; ;
get +up; got; auf|stehen; aufgestanden s; ;
wake +up; woke; auf|wachen; aufgewacht s; ;
fall asleep; fell asleep; ein|schlafen; eingeschlafen s; schläfst schläft;
come back; came back; zurück|kommen; zurückgekommen s; ;
arrive; arrived; an|kommen; angekommen s; ;
"""


@dataclass(frozen=True)
class Verb:
    """An English verb and its one German translation.

    Attributes:
        english: the base form, with a preposition where it has one ("wait for"); `particle` is kept apart
            because pronouns go in front of it ("picks him up").
        german: the infinitive without its separable `prefix`.
        du, er: German present forms where the stem changes, else None.
        preposition, case: what the German object needs; case is "accusative" or "dative".
        tags: nouns that can be the object; empty for an intransitive verb.
        recipient: takes a person in the dative besides the object.
    """

    english: str
    past: str
    particle: str
    prefix: str
    german: str
    participle: str
    auxiliary: str
    du: str | None
    er: str | None
    preposition: str
    case: str
    tags: str
    recipient: bool = False

    @property
    def infinitive(self) -> str:
        return self.prefix + self.german

    @property
    def zu_infinitive(self) -> str:
        return f"{self.prefix}zu{self.german}" if self.prefix else f"zu {self.german}"


def _parse(line: str, case: str = "accusative", recipient: bool = False) -> Verb:
    english, past, german, participle, changed, tags = (part.strip() for part in line.split(";"))
    english, _, particle = english.partition(" +")
    participle, auxiliary = participle.split()
    german, *government = german.split()
    prefix, _, german = german.rpartition("|")
    du, er = changed.split() or (None, None)
    preposition, letter = government or ("", case[0])
    return Verb(
        english,
        past,
        particle,
        prefix,
        german,
        participle,
        "haben" if auxiliary == "h" else "sein",
        du,
        er,
        preposition,
        "accusative" if letter == "a" else "dative",
        tags,
        recipient,
    )


def _table(text: str, **government) -> tuple[Verb, ...]:
    return tuple(_parse(line, **government) for line in text.split("\n") if line)


TRANSITIVE = _table(_TRANSITIVE)
DATIVE = _table(_DATIVE, case="dative")
PREPOSITIONAL = _table(_PREPOSITIONAL)
DITRANSITIVE = _table(_DITRANSITIVE, recipient=True)
INTRANSITIVE = _table(_INTRANSITIVE)

HAVE = Verb("have", "had", "", "", "haben", "gehabt", "haben", "hast", "hat", "", "accusative", "thing pet")
DRINK = _parse("drink; drank; trinken; getrunken h; ; drink")
LIVE = _parse("live; lived; wohnen; gewohnt h; ;")
COST = _parse("cost; cost; kosten; gekostet h; ; priced")
LEAVE = _parse("leave; left; ab|fahren; abgefahren s; fährst fährt;")
ARRIVE = _parse("arrive; arrived; an|kommen; angekommen s; ;")
TRY = _parse("try; tried; versuchen; versucht h; ;")
# The clauses that follow these are verb-final: "Ich weiß, dass …".
SAY = _parse("say; said; sagen; gesagt h; ;")
HOPE = _parse("hope; hoped; hoffen; gehofft h; ;")
BELIEVE = _parse("believe; believed; glauben; geglaubt h; ;")
WONDER = _parse("ask; asked; fragen; gefragt h; ;")
LIE = _parse("lie; lay; liegen; gelegen h; ;")
# For things that lie; what stands would be "steht" and "stellt".
PUT = _parse("put; put; legen; gelegt h; ; laid")

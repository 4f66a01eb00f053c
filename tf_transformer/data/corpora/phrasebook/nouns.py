"""The nouns of the phrasebook, with gender, plural and what they can be used for."""

from __future__ import annotations

from dataclasses import dataclass

# english, its plural, gender, german, its plural, what it is. Gender `w` is masculine with weak declension: every form
# but the nominative singular looks like the plural (der Junge, den Jungen, die Jungen). `unowned` stands without
# possessives: "his woman" would be "seine Frau", which is his wife.
_TABLE = """
baker bakers m Bäcker Bäcker person
teacher teachers m Lehrer Lehrer person
doctor doctors m Arzt Ärzte person
farmer farmers w Bauer Bauern person
boy boys w Junge Jungen person unowned
man men m Mann Männer person unowned
student students w Student Studenten person
neighbor neighbors w Nachbar Nachbarn person
friend friends m Freund Freunde person
brother brothers m Bruder Brüder person kin
father fathers m Vater Väter person kin
son sons m Sohn Söhne person kin
uncle uncles m Onkel Onkel person kin
chef chefs m Koch Köche person
king kings m König Könige person
painter painters m Maler Maler person
guest guests m Gast Gäste person
woman women f Frau Frauen person unowned
mother mothers f Mutter Mütter person kin
sister sisters f Schwester Schwestern person kin
daughter daughters f Tochter Töchter person kin
aunt aunts f Tante Tanten person kin
queen queens f Königin Königinnen person
child children n Kind Kinder person
girl girls n Mädchen Mädchen person unowned
dog dogs m Hund Hunde animal pet
cat cats f Katze Katzen animal pet
horse horses n Pferd Pferde animal pet
bird birds m Vogel Vögel animal
cow cows f Kuh Kühe animal
mouse mice f Maus Mäuse animal
bear bears w Bär Bären animal
apple apples m Apfel Äpfel food sweet
cake cakes m Kuchen Kuchen food sweet baked
egg eggs n Ei Eier food cooked
pear pears f Birne Birnen food sweet
tomato tomatoes f Tomate Tomaten food
potato potatoes f Kartoffel Kartoffeln food cooked
sausage sausages f Wurst Würste food
roll rolls n Brötchen Brötchen food baked
soup soups f Suppe Suppen food cooked hot
book books n Buch Bücher text written thing small priced laid
letter letters m Brief Briefe text written small laid
newspaper newspapers f Zeitung Zeitungen text thing small laid
car cars n Auto Autos thing machine washed priced
bicycle bicycles n Fahrrad Fahrräder thing machine washed priced
table tables m Tisch Tische thing surface shade priced
chair chairs m Stuhl Stühle thing surface priced
bed beds n Bett Betten thing surface shade priced
lamp lamps f Lampe Lampen thing machine switched priced
radio radios n Radio Radios thing machine switched priced
computer computers m Computer Computer thing machine switched priced
clock clocks f Uhr Uhren thing machine priced
door doors f Tür Türen opened
window windows n Fenster Fenster opened cleaned
suitcase suitcases m Koffer Koffer thing small opened priced
bag bags f Tasche Taschen thing small opened priced
key keys m Schlüssel Schlüssel thing small laid
hat hats m Hut Hüte thing small priced laid
dress dresses n Kleid Kleider thing washed small priced laid
shirt shirts n Hemd Hemden thing washed small priced laid
shoe shoes m Schuh Schuhe thing cleaned small priced
coat coats m Mantel Mäntel thing washed small priced laid
cup cups f Tasse Tassen thing washed small
glass glasses n Glas Gläser thing washed small
plate plates m Teller Teller thing washed small
knife knives n Messer Messer thing cleaned small laid
spoon spoons m Löffel Löffel thing cleaned small laid
picture pictures n Bild Bilder thing small painted priced laid
ball balls m Ball Bälle thing small toy laid
ticket tickets f Fahrkarte Fahrkarten thing small priced laid
umbrella umbrellas m Regenschirm Regenschirme thing small priced laid
flower flowers f Blume Blumen nature gift small painted laid
bus buses m Bus Busse ride
train trains m Zug Züge ride
ship ships n Schiff Schiffe built painted ride
house houses n Haus Häuser inside built painted front home
garden gardens m Garten Gärten inside
city cities f Stadt Städte inside sight home
village villages n Dorf Dörfer inside sight home
forest forests m Wald Wälder inside painted home
kitchen kitchens f Küche Küchen inside tidied
room rooms n Zimmer Zimmer inside tidied
office offices n Büro Büros inside tidied
school schools f Schule Schulen inside front goal
church churches f Kirche Kirchen inside front goal built
hotel hotels n Hotel Hotels inside front goal built home
restaurant restaurants n Restaurant Restaurants inside front goal
library libraries f Bibliothek Bibliotheken inside front goal
museum museums n Museum Museen inside front goal sight
castle castles n Schloss Schlösser inside front sight built painted home
park parks m Park Parks inside goal
station stations m Bahnhof Bahnhöfe front goal
bridge bridges f Brücke Brücken goal shade built painted
tree trees m Baum Bäume nature shade painted
mountain mountains m Berg Berge nature painted high
"""

# Nouns without a plural: they stand without an article, where German shows the adjective's strong endings.
_MASS_TABLE = """
coffee - m Kaffee - drink
tea - m Tee - drink
milk - f Milch - drink
water - n Wasser - drink
bread - n Brot - staple
cheese - m Käse - staple
butter - f Butter - staple
"""


@dataclass(frozen=True)
class Noun:
    """An English noun and its one German translation.

    Attributes:
        gender: "m", "f" or "n".
        weak: masculine nouns that end in -n or -en everywhere but in the nominative singular.
        plural, german_plural: None for mass nouns.
        kind: what kind of thing it is, the first of its tags.
        tags: what it is and what verbs may do with it.
    """

    english: str
    plural: str | None
    gender: str
    weak: bool
    german: str
    german_plural: str | None
    kind: str
    tags: frozenset[str]


def _parse(line: str) -> Noun:
    english, plural, gender, german, german_plural, *tags = line.split()
    return Noun(
        english,
        None if plural == "-" else plural,
        "m" if gender == "w" else gender,
        gender == "w",
        german,
        None if german_plural == "-" else german_plural,
        tags[0],
        frozenset(tags),
    )


NOUNS = tuple(_parse(line) for line in _TABLE.split("\n") if line)
MASS_NOUNS = tuple(_parse(line) for line in _MASS_TABLE.split("\n") if line)


def with_tags(tags: str) -> tuple[Noun, ...]:
    """The countable nouns that carry one of the tags, which are parted by spaces."""
    wanted = set(tags.split())
    return tuple(noun for noun in NOUNS if noun.tags & wanted)

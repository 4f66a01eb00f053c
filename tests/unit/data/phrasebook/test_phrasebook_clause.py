"""Word order, in sentences that were translated by hand."""

from tf_transformer.data.corpora.phrasebook.adjectives import ADJECTIVES
from tf_transformer.data.corpora.phrasebook.clause import BE, Clause
from tf_transformer.data.corpora.phrasebook.noun_phrase import PRONOUNS, NounPhrase
from tf_transformer.data.corpora.phrasebook.nouns import MASS_NOUNS, NOUNS
from tf_transformer.data.corpora.phrasebook.verbs import (
    DATIVE,
    DITRANSITIVE,
    DRINK,
    INTRANSITIVE,
    PREPOSITIONAL,
    TRANSITIVE,
)

VERB = {
    f"{verb.english} {verb.particle}".strip(): verb
    for verb in (*DITRANSITIVE, *TRANSITIVE, *DATIVE, *PREPOSITIONAL, *INTRANSITIVE, DRINK)
}
ME, YOU, HE, SHE, WE, THEY = PRONOUNS
TODAY, YESTERDAY, EVERY_DAY = ("today", "heute"), ("yesterday", "gestern"), ("every day", "jeden Tag")
GARDEN = ("in the garden", "im Garten")


def np(text: str) -> NounPhrase:
    """A noun phrase from its English words: "a new car", "the men", "fresh rolls"."""
    words = text.split()
    nouns = (*NOUNS, *MASS_NOUNS)
    noun = next(noun for noun in nouns if words[-1] in (noun.english, noun.plural))
    adjectives = tuple(a for word in words for a in ADJECTIVES if a.english == word)
    determiner = words[0] if words[0] in ("the", "a", "my", "his", "her", "our", "this") else ""
    return NounPhrase(noun, determiner, words[-1] == noun.plural, adjectives)


def says(clause: Clause, english: str, german: str) -> None:
    assert (clause.english(), clause.german()) == (english, german)


def test_verb_second():
    clause = Clause(np("the baker"), VERB["buy"], object=np("a new car"))
    says(clause, "the baker buys a new car", "der Bäcker kauft ein neues Auto")
    assert clause.german(front="heute") == "heute kauft der Bäcker ein neues Auto"
    says(clause.but(time=TODAY), "the baker buys a new car today", "der Bäcker kauft heute ein neues Auto")


def test_separable_verbs():
    clause = Clause(np("the girl"), VERB["open"], object=np("the old door"))
    says(clause, "the girl opens the old door", "das Mädchen macht die alte Tür auf")
    assert clause.german_final() == "das Mädchen die alte Tür aufmacht"
    assert clause.but(tense="past").german() == "das Mädchen hat die alte Tür aufgemacht"
    assert clause.but(tense="can").german() == "das Mädchen kann die alte Tür aufmachen"
    assert clause.german_zu_infinitive() == "die alte Tür aufzumachen"
    assert clause.german_question() == "macht das Mädchen die alte Tür auf"


def test_particles_let_pronouns_pass():
    says(Clause(HE, VERB["pick up"], object=np("the child")), "he picks up the child", "er holt das Kind ab")
    says(Clause(HE, VERB["pick up"], object=ME), "he picks me up", "er holt mich ab")
    says(Clause(HE, VERB["wait for"], object=ME), "he waits for me", "er wartet auf mich")


def test_perfect_with_haben_and_sein():
    read = Clause(THEY, VERB["read"], "past", np("the letters"), time=YESTERDAY)
    says(read, "they read the letters yesterday", "sie haben gestern die Briefe gelesen")
    assert read.german_final() == "sie gestern die Briefe gelesen haben"
    went = Clause(WE, VERB["go into"], "past", np("the forest"))
    says(went, "we went into the forest", "wir sind in den Wald gegangen")


def test_modals_and_future():
    clause = Clause(np("her brother"), VERB["invite"], "want to", np("the guests"))
    says(clause, "her brother wants to invite the guests", "ihr Bruder will die Gäste einladen")
    assert clause.english_question() == "does her brother want to invite the guests"
    assert clause.german_final() == "ihr Bruder die Gäste einladen will"
    like = Clause(YOU, VERB["sleep"], "would like to")
    assert (like.english_question(), like.german_question()) == ("would you like to sleep", "möchtest du schlafen")
    says(Clause(ME, VERB["come"], "should"), "I should come", "ich sollte kommen")
    says(
        Clause(SHE, VERB["dance"], "will", time=("tomorrow", "morgen")),
        "she will dance tomorrow",
        "sie wird morgen tanzen",
    )


def test_nicht_follows_what_is_known_and_precedes_the_rest():
    buy = Clause(np("the man"), VERB["buy"], object=np("the car"), negated=True)
    says(buy, "the man does not buy the car", "der Mann kauft das Auto nicht")
    says(buy.but(time=TODAY), "the man does not buy the car today", "der Mann kauft das Auto heute nicht")
    says(buy.but(tense="past"), "the man did not buy the car", "der Mann hat das Auto nicht gekauft")
    says(Clause(ME, VERB["call"], object=SHE, negated=True), "I do not call her", "ich rufe sie nicht an")
    says(
        Clause(ME, VERB["wait for"], object=np("the bus"), negated=True),
        "I do not wait for the bus",
        "ich warte nicht auf den Bus",
    )
    says(
        Clause(HE, VERB["work"], negated=True, place=GARDEN),
        "he does not work in the garden",
        "er arbeitet nicht im Garten",
    )
    says(Clause(HE, VERB["work"], "can", negated=True), "he cannot work", "er kann nicht arbeiten")
    tired = Clause(WE, BE, complement=("tired", "müde"), negated=True)
    says(tired, "we are not tired", "wir sind nicht müde")


def test_kein_negates_what_is_indefinite():
    says(Clause(ME, VERB["buy"], object=np("a hat"), negated=True), "I do not buy a hat", "ich kaufe keinen Hut")
    says(
        Clause(ME, VERB["eat"], object=np("green apples"), negated=True),
        "I do not eat green apples",
        "ich esse keine grünen Äpfel",
    )
    says(
        Clause(ME, DRINK, object=np("cold milk"), negated=True),
        "I do not drink cold milk",
        "ich trinke keine kalte Milch",
    )


def test_strong_endings_without_an_article():
    says(Clause(SHE, DRINK, object=np("hot coffee")), "she drinks hot coffee", "sie trinkt heißen Kaffee")
    says(Clause(SHE, DRINK, object=np("cold water")), "she drinks cold water", "sie trinkt kaltes Wasser")


def test_the_dative_comes_before_the_accusative():
    give = Clause(np("the mother"), VERB["give"], object=np("a big apple"), recipient=np("the child"))
    says(give, "the mother gives the child a big apple", "die Mutter gibt dem Kind einen großen Apfel")
    says(give.but(recipient=ME), "the mother gives me a big apple", "die Mutter gibt mir einen großen Apfel")


def test_verbs_with_the_dative():
    says(Clause(HE, VERB["help"], object=np("the old men")), "he helps the old men", "er hilft den alten Männern")
    says(Clause(HE, VERB["thank"], object=THEY), "he thanks them", "er dankt ihnen")
    says(
        Clause(np("a dog"), VERB["follow"], "past", np("my neighbor")),
        "a dog followed my neighbor",
        "ein Hund ist meinem Nachbarn gefolgt",
    )


def test_prepositions_govern_cases_and_contract():
    says(Clause(WE, VERB["go to"], object=np("the station")), "we go to the station", "wir gehen zum Bahnhof")
    says(Clause(WE, VERB["go to"], object=np("the school")), "we go to the school", "wir gehen zur Schule")
    says(Clause(WE, VERB["dream of"], object=np("the castle")), "we dream of the castle", "wir träumen vom Schloss")
    says(Clause(WE, VERB["talk to"], object=np("the farmer")), "we talk to the farmer", "wir sprechen mit dem Bauern")


def test_time_before_place_and_news_last():
    read = Clause(SHE, VERB["read"], object=np("the book"), time=EVERY_DAY, place=GARDEN)
    says(read, "she reads the book in the garden every day", "sie liest jeden Tag das Buch im Garten")
    says(
        read.but(object=np("a book")),
        "she reads a book in the garden every day",
        "sie liest jeden Tag im Garten ein Buch",
    )
    travel = Clause(ME, VERB["travel to"], object=np("the park"), manner=("by bus", "mit dem Bus"))
    says(travel, "I travel to the park by bus", "ich fahre mit dem Bus zum Park")


def test_frequency():
    often = Clause(np("my uncle"), VERB["visit"], object=WE, frequency=("often", "oft"))
    says(often, "my uncle often visits us", "mein Onkel besucht uns oft")
    never = Clause(np("my uncle"), VERB["get up"], frequency=("never", "nie"))
    says(never, "my uncle never gets up", "mein Onkel steht nie auf")

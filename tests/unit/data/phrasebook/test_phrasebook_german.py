"""German inflection against forms from the grammar book."""

import pytest

from tf_transformer.data.corpora.phrasebook.german import (
    CASES,
    adjective_ending,
    conjugate,
    contract,
    definite_article,
    ein_word,
    imperative,
    noun_form,
)
from tf_transformer.data.corpora.phrasebook.noun_phrase import NounPhrase
from tf_transformer.data.corpora.phrasebook.nouns import NOUNS
from tf_transformer.data.corpora.phrasebook.verbs import (
    DATIVE,
    DITRANSITIVE,
    INTRANSITIVE,
    LEAVE,
    PREPOSITIONAL,
    TRANSITIVE,
)

NOUN = {noun.english: noun for noun in NOUNS}
VERB = {verb.infinitive: verb for verb in (*TRANSITIVE, *DATIVE, *DITRANSITIVE, *INTRANSITIVE, *PREPOSITIONAL, LEAVE)}


def in_all_cases(determiner, adjective, noun, plural=False, **others):
    from tf_transformer.data.corpora.phrasebook.adjectives import ADJECTIVES

    adjectives = tuple(a for a in ADJECTIVES if a.english == adjective)
    phrase = NounPhrase(NOUN[noun], determiner, plural, adjectives, **others)
    return [phrase.german(case) for case in CASES]


@pytest.mark.parametrize(
    ("phrase", "forms"),
    [
        (("the", "old", "man"), "der alte Mann, den alten Mann, dem alten Mann, des alten Mannes"),
        (("the", "old", "woman"), "die alte Frau, die alte Frau, der alten Frau, der alten Frau"),
        (("the", "small", "child"), "das kleine Kind, das kleine Kind, dem kleinen Kind, des kleinen Kindes"),
        (("a", "old", "man"), "ein alter Mann, einen alten Mann, einem alten Mann, eines alten Mannes"),
        (("my", "old", "mother"), "meine alte Mutter, meine alte Mutter, meiner alten Mutter, meiner alten Mutter"),
        (("no", "small", "child"), "kein kleines Kind, kein kleines Kind, keinem kleinen Kind, keines kleinen Kindes"),
        (("our", "new", "car"), "unser neues Auto, unser neues Auto, unserem neuen Auto, unseres neuen Autos"),
        (
            ("this", "young", "boy"),
            "dieser junge Junge, diesen jungen Jungen, diesem jungen Jungen, dieses jungen Jungen",
        ),
        (("", "", "neighbor"), "Nachbar, Nachbarn, Nachbarn, Nachbarn"),
        (("every", "high", "mountain"), "jeder hohe Berg, jeden hohen Berg, jedem hohen Berg, jedes hohen Berges"),
        (("a", "expensive", "hat"), "ein teurer Hut, einen teuren Hut, einem teuren Hut, eines teuren Hutes"),
        (("the", "dark", "forest"), "der dunkle Wald, den dunklen Wald, dem dunklen Wald, des dunklen Waldes"),
    ],
)
def test_singular_noun_phrases_in_the_four_cases(phrase, forms):
    assert in_all_cases(*phrase) == forms.split(", ")


@pytest.mark.parametrize(
    ("phrase", "forms"),
    [
        (("the", "old", "man"), "die alten Männer, die alten Männer, den alten Männern, der alten Männer"),
        (("no", "green", "apple"), "keine grünen Äpfel, keine grünen Äpfel, keinen grünen Äpfeln, keiner grünen Äpfel"),
        (("", "new", "car"), "neue Autos, neue Autos, neuen Autos, neuer Autos"),
        (("many", "poor", "woman"), "viele arme Frauen, viele arme Frauen, vielen armen Frauen, vieler armer Frauen"),
        (("all", "", "girl"), "alle Mädchen, alle Mädchen, allen Mädchen, aller Mädchen"),
        (
            ("these", "big", "house"),
            "diese großen Häuser, diese großen Häuser, diesen großen Häusern, dieser großen Häuser",
        ),
    ],
)
def test_plural_noun_phrases_in_the_four_cases(phrase, forms):
    assert in_all_cases(*phrase, plural=True) == forms.split(", ")


def test_numerals_take_strong_endings():
    assert in_all_cases("", "old", "baker", plural=True, number=7) == [
        "sieben alte Bäcker",
        "sieben alte Bäcker",
        "sieben alten Bäckern",
        "sieben alter Bäcker",
    ]


def test_the_owner_follows_in_the_genitive():
    owner = NounPhrase(NOUN["brother"], "my")
    assert NounPhrase(NOUN["bicycle"], owner=owner).german("dative") == "dem Fahrrad meines Bruders"
    assert NounPhrase(NOUN["bicycle"], owner=owner).english() == "my brother's bicycle"


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("kaufen", "kaufe kaufst kauft kaufen kaufen"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeiten"),
        ("finden", "finde findest findet finden finden"),
        ("putzen", "putze putzt putzt putzen putzen"),
        ("lesen", "lese liest liest lesen lesen"),
        ("essen", "esse isst isst essen essen"),
        ("vergessen", "vergesse vergisst vergisst vergessen vergessen"),
        ("sehen", "sehe siehst sieht sehen sehen"),
        ("geben", "gebe gibst gibt geben geben"),
        ("sprechen", "spreche sprichst spricht sprechen sprechen"),
        ("tragen", "trage trägst trägt tragen tragen"),
        ("waschen", "wasche wäschst wäscht waschen waschen"),
        ("laufen", "laufe läufst läuft laufen laufen"),
        ("einladen", "lade lädst lädt laden laden"),
        ("einschalten", "schalte schaltest schaltet schalten schalten"),
        ("reparieren", "repariere reparierst repariert reparieren reparieren"),
        ("abfahren", "fahre fährst fährt fahren fahren"),
        ("tanzen", "tanze tanzt tanzt tanzen tanzen"),
    ],
)
def test_verbs_in_the_present(infinitive, forms):
    assert [conjugate(VERB[infinitive], person) for person in ("ich", "du", "er", "wir", "sie")] == forms.split()


@pytest.mark.parametrize(
    ("infinitive", "form"),
    [
        ("aufmachen", "mach"),
        ("lesen", "lies"),
        ("essen", "iss"),
        ("geben", "gib"),
        ("helfen", "hilf"),
        ("vergessen", "vergiss"),
        ("tragen", "trag"),
        ("waschen", "wasch"),
        ("einladen", "lade"),
        ("einschalten", "schalte"),
        ("warten", "warte"),
        ("reparieren", "repariere"),
        ("danken", "danke"),
    ],
)
def test_imperatives(infinitive, form):
    assert imperative(VERB[infinitive]) == form


@pytest.mark.parametrize(
    ("infinitive", "with_zu", "participle", "auxiliary"),
    [
        ("aufmachen", "aufzumachen", "aufgemacht", "haben"),
        ("anrufen", "anzurufen", "angerufen", "haben"),
        ("aufstehen", "aufzustehen", "aufgestanden", "sein"),
        ("besuchen", "zu besuchen", "besucht", "haben"),
        ("reparieren", "zu reparieren", "repariert", "haben"),
        ("gehen", "zu gehen", "gegangen", "sein"),
        ("folgen", "zu folgen", "gefolgt", "sein"),
    ],
)
def test_forms_of_the_bracket(infinitive, with_zu, participle, auxiliary):
    verb = VERB[infinitive]
    assert (verb.zu_infinitive, verb.participle, verb.auxiliary) == (with_zu, participle, auxiliary)


def test_contractions():
    assert contract("in dem Garten") == "im Garten"
    assert contract("in das Haus") == "ins Haus"
    assert contract("zu der Schule") == "zur Schule"
    assert contract("zu dem Bahnhof") == "zum Bahnhof"
    assert contract("von dem König") == "vom König"
    assert contract("in der Stadt") == "in der Stadt"
    assert contract("mit dem Hund in dem Garten") == "mit dem Hund in dem Garten"


def test_every_noun_has_its_dative_plural_in_n_or_s():
    assert all(noun_form(noun, "dative", plural=True)[-1] in "ns" for noun in NOUNS)
    assert noun_form(NOUN["car"], "dative", plural=True) == "Autos"
    assert noun_form(NOUN["apple"], "dative", plural=True) == "Äpfeln"


def test_articles_and_endings_by_table():
    assert [definite_article(gender, "dative") for gender in "mfnp"] == ["dem", "der", "dem", "den"]
    assert [ein_word("ein", gender, "nominative") for gender in "mfn"] == ["ein", "eine", "ein"]
    assert adjective_ending("strong", "f", "dative") == "er"
    assert adjective_ending("weak", "m", "nominative") == "e"
    assert adjective_ending("mixed", "n", "accusative") == "es"

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tf_transformer.text import Segmenter, join_segments, normalize_text
from tf_transformer.text._sentence_rules import languages, rules_of, words_of

pytestmark = pytest.mark.long

SEGMENTERS = {language: Segmenter(language) for language in (None, "en", "de", "fr", "el", "ru")}
STRINGS = [tf.TensorSpec([None], tf.string)]
segment = {language: tf.function(each.segment, STRINGS) for language, each in SEGMENTERS.items()}


def sentences(text: str, language: str | None = None) -> list[str]:
    return SEGMENTERS[language]([text])[0]


def parts(texts: list[bytes], language: str | None = None):
    """Sentences and separators of each text as lists."""
    found = segment[language](tf.constant(texts, tf.string, [len(texts)]))
    return found.sentences.to_list(), found.separators.to_list()


# "|" stands where a sentence ends.
CASES = {
    "en": [
        "The dog sleeps.| The girl opens the door.",
        "Dr. Smith and Mrs. Jones met at 5 p.m. in Washington, D.C. on Monday.",
        "They met in Washington, D.C.| He left.| She stayed.",
        "It costs $3.50, i.e. 3.50 dollars.| See www.example.com/a.b?c=d.| No. 5 is next.",
        "J. R. R. Tolkien wrote it.| George W. Bush read it.",
        "She went... and came back.| Then...| Nothing.",
        '"What?" he asked.| "Go!"| She went.',
        "He left (it was late).| (She stayed.)| It rained.",
        "Really?!| Yes!!!| The end.[1]| Next.",
        "A wait . . . and more.",
        "Yahoo! is a company.",
    ],
    "de": [
        "Am 3. Oktober 1990 regnete es.| Das war im Jahr 1990.| Die Sonne schien nicht.",
        "Sie kam z. B. mit der Bahn, d. h. pünktlich.| Er ging i. d. R. zu Fuß.",
        "Ludwig XIV. König von Frankreich starb.| „Ja.“| »Nein.« sagte er.",
        "Die 2. Liga spielt.| Das Werk (Nr. 5) usw. Abb. 3 zeigt es.",
        # A headline has no punctuation.
        "Neue Schule eröffnet| Die Kinder freuen sich.| Ein Fest in Bonn| Es gab Kuchen.",
        "„Wir bleiben“| Der Verein zieht nicht um.",
        "Er sah den Spielfilm Das Boot und las in Der Spiegel davon.| Sie wohnt in Den Haag.",
        "Wie Sie wissen, hat Frau Kunz das Wie und das Warum erklärt: Die Antwort (A) Der Satz 5 Ein Haus.",
    ],
    "fr": ["« Bonjour ! » dit-il.| M. Dupont est parti.| « Oui. »| Elle dort.", "J.-C. Dupont et Mme. Le Roy dorment."],
    "el": ["Τι κάνεις;| Καλά.| Ο κ. Παπαδόπουλος ήρθε."],
    "ru": ["Он жил на ул. Ленина в г. Москве.| Потом уехал и т. д.| Она осталась."],
    None: [
        "你好。|我是学生！|真的吗？|好。",
        "「行く。」と言った。|雨だ。",
        "مرحبا بك.| كيف حالك؟| أنا بخير.",
        "यह एक वाक्य है।| यह दूसरा है।",
        "Hello.| Как дела?| 好。|Fin.",
        "Am 3. Oktober war es.| Ende.",
        "The film is called Die Hard and the river Der Fluss.",
    ],
}


@pytest.mark.parametrize(("language", "text"), [(language, text) for language in CASES for text in CASES[language]])
def test_sentences_end_where_they_should(language, text):
    expected = [sentence.strip() for sentence in text.split("|")]
    assert sentences(text.replace("|", ""), language) == expected


def test_lines_tabs_indentation_and_bullets_are_separators():
    text = "Title\n\n  - First. Second.\n\t* third\r\n1. Fourth\n2) fifth\n3. Oktober\ncell\tcell \n"
    found, around = parts([text.encode()])
    assert found == [[b"Title", b"First.", b"Second.", b"third", b"Fourth", b"fifth", b"3. Oktober", b"cell", b"cell"]]
    assert around == [[b"", b"\n\n  - ", b" ", b"\n\t* ", b"\r\n1. ", b"\n2) ", b"\n", b"\n", b"\t", b" \n"]]


@pytest.mark.parametrize("text", ["", " ", "\n \n", "- ", "\t- \n - "])
def test_a_text_without_words_has_one_empty_sentence(text):
    found, around = parts([text.encode()])
    assert found == [[b""]]
    assert b"".join(around[0]) == text.encode()
    assert sentences(text) == []


def test_an_empty_batch():
    assert SEGMENTERS[None]([]) == []
    assert parts([]) == ([], [])


def test_bad_bytes_and_marks_are_replaced():
    assert normalize_text(tf.constant([b"a\xffb\xed\xa0\x80c", "\ufdd0x\ufdd3".encode()])).numpy().tolist() == [
        "a\ufffdb\ufffd\ufffd\ufffdc".encode(),
        "\ufffdx\ufffd".encode(),
    ]


def test_a_language_with_a_region_has_the_lists_of_the_language():
    assert words_of("de-AT") == words_of("de") == words_of("DE_de")
    assert words_of("xx") == words_of(None)
    longer = {word for word in words_of("de").abbreviations if len(word) > 2}
    assert longer < words_of(None).abbreviations | words_of(None).maybe


@pytest.mark.parametrize("language", [*languages(), None])
def test_every_language_has_lists_and_valid_patterns(language):
    words = words_of(language)
    assert words.abbreviations and words.maybe and words.numbered and words.starts and len(words.months) >= 12
    for rule in rules_of(language):
        tf.strings.regex_replace("a. B", rule.pattern, rule.rewrite)


PIECES = [b". ", b"Dr. ", b"z. B. ", b"\n", b"\t", b" - ", b"1. ", b'"', b"?!", b"a", b"A", b"\r\n", b" "]
PIECES += [text.encode() for text in ("。", "…", "» ", "\ufdd0", "\u2028", "Ä")] + [b"\x00", b"\xff", b"\xe3\x80"]
TEXTS = st.one_of(
    st.binary(max_size=60), st.text(max_size=40).map(str.encode), st.lists(st.sampled_from(PIECES)).map(b"".join)
)


@hypothesis.settings(max_examples=200, deadline=None, derandomize=True)
@hypothesis.given(st.lists(TEXTS, max_size=4), st.sampled_from([None, "de"]))
def test_sentences_and_separators_give_the_normalized_text_back(texts, language):
    texts = tf.constant(texts, tf.string, [len(texts)])
    found = segment[language](texts)
    assert join_segments(found).numpy().tolist() == normalize_text(texts).numpy().tolist()
    lengths = found.sentences.row_lengths().numpy()
    assert (found.separators.row_lengths().numpy() == lengths + 1).all() and (lengths >= 1).all()


@hypothesis.settings(max_examples=50, deadline=None, derandomize=True)
@hypothesis.given(st.lists(TEXTS, min_size=2, max_size=4))
def test_rows_are_independent(texts):
    together = parts(texts)
    for row, text in enumerate(texts):
        alone = parts([text])
        assert (alone[0][0], alone[1][0]) == (together[0][row], together[1][row])


@hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
@hypothesis.given(TEXTS)
def test_sentences_have_no_space_around_them_and_stay_whole(text):
    found, _ = parts([text])
    for sentence in found[0]:
        assert sentence.decode() == sentence.decode().strip(" \t\n\r")
        if sentence:
            assert not {"\n", "\t", "\r"} & set(sentence.decode())

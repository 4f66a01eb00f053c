"""The rows an export is tried on: sentences of the validation set, and untrusted text."""

import logging

from tf_transformer.data import PreparedDataset
from tf_transformer.text import Tokenizer
from tf_transformer.workdir import Workdir

logger = logging.getLogger(__name__)

# Used where a work directory knows no validation set.
PLAIN = tuple(
    text.encode()
    for text in (
        "Hello.",
        "Good morning, how are you?",
        "The cat sat on the mat.",
        "Where is the station, please?",
        "I would like a cup of coffee and a piece of cake.",
        "It has been raining since yesterday, but tomorrow the sun will shine again.",
        "The committee will meet on 23 March 2024 at 10:30 in room 4.",
        "Guten Tag, wie geht es Ihnen?",
        "Die Katze schläft unter dem Tisch.",
        "Wann fährt der nächste Zug nach München?",
        "Wir haben gestern ein sehr altes Haus am Fluss gesehen.",
        "¿Dónde está la biblioteca?",
        "Le chat dort sur la chaise.",
    )
)

# For offsets: repeated space, scripts with and without space between words, combined characters, emoji.
SCRIPTS = [
    text.encode()
    for text in (
        "  The ﬁrst   cat's 3.5 km… ",
        "日本語の文章です。",
        "Ελληνικά, русский, العربية, हिन्दी!",
        "👩‍👩‍👧🎉 e\u0301",
    )
]

ADVERSARIAL = (
    *(b"", b"   ", b"\n\n", b" \t\r\n"),
    *(b"\xff\xfe", b"a truncated character \xe2\x82", b"overlong \xc0\xaf slash", b"lone \xed\xa0\x80 surrogate"),
    *(b"NUL \x00 inside", b"\x00", b"\x1b[31mred\x1b[0m", b"one line\r\nand another"),
    *("日本語の文章です。".encode(), "Ελληνικά, русский, עברית, العربية, ไทย".encode(), "👩‍👩‍👧 🎉🏳️‍🌈".encode()),
    *("e\u0301 \u200b\ufeff \u202eabc\u202c".encode(), b"<p>5 &lt; 6 &amp; <b>bold</b></p>"),
    *(b"https://example.org/a?b=c&d=%20#e", b"3141592653589793238462643383279502884197169399375105820974944592"),
    *(b"<s>", b"</s> goes on", b"<pad>", b"<unk>", "▁".encode(), "a ▁ b </s> c <pad> d".encode()),
    *(b"'); DROP TABLE sentences; --", b"{{7*7}} ${HOME} %s %n", b"ha " * 500),
)


def sentences_of(workdir: Workdir, count: int) -> tuple[list[bytes], str]:
    """The first sentences of the validation set, or built-in ones, and their origin."""
    directory = workdir.dataset_info.get("directory")
    if directory is not None:
        try:
            if lines := PreparedDataset(directory).lines("validation")[0][:count]:
                return [line.encode() for line in lines], "of the validation set"
        except (ValueError, OSError) as error:
            logger.warning("The validation set is not at hand (%s): built-in sentences take its place.", error)
    return list(PLAIN), "built in"


def long_rows(tokenizer: Tokenizer, limit: int) -> list[bytes]:
    """Rows of one token below, at and above the longest source, and far beyond: 10,000 tokens, 5 MB without a space."""
    word = b"a "
    each = len(tokenizer.encode(word * 2)) - len(tokenizer.encode(word))
    around = [(limit + more - len(tokenizer.encode(b""))) // max(each, 1) for more in (-1, 0, 1)]
    return [*(word * max(count, 0) for count in around), word * 10_000, b"x" * 5_000_000]


LONGEST_TEXT = 2048
"""Bytes of a row that is translated as a whole in a trial: several times what a model reads of a sentence."""


def beginnings(rows: list[bytes]) -> list[bytes]:
    """The rows, of long ones their beginning."""
    return [row[:LONGEST_TEXT] for row in rows]


def documents_of(sentences: list[bytes]) -> list[bytes]:
    """Texts of several sentences, lines and paragraphs, with bullets and indentation."""
    first, second, third = (b" ".join(sentences[start::3][:4]) for start in range(3))
    return [first + b"\n\n  - " + second + b"\r\n  - " + third + b"\n", second, b"\t".join([third, first])]


def batches_of(rows: list[bytes], size: int = 32) -> list[list[bytes]]:
    """All rows in batches of `size`."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def unusual_batches(tokenizer: Tokenizer, limit: int) -> list[list[bytes]]:
    """Batches of malformed and unusual rows: with long ones next to short ones, and an empty batch.

    The long ones lie in one batch, for what costs most is its hundreds of steps, and rows take as many as the longest.

    Args:
        tokenizer: of the source.
        limit: `max_source_length`.
    """
    short = [each for each in ADVERSARIAL if len(each) < 100]
    long = [*(each for each in ADVERSARIAL if len(each) >= 100), *long_rows(tokenizer, limit)]
    return [short, [*short[:3], *long], []]

"""Training a vocabulary: SentencePiece BPE with byte fallback, whose ids every supported server reproduces."""

import io
import itertools
import logging
import math
import random
import re
import string
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from tf_transformer.text._model_file import TokenizerError
from tf_transformer.text._subwords import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Subwords, to_valid_text

logger = logging.getLogger(__name__)

MIN_VOCAB_SIZE = 128
MAX_VOCAB_SIZE = 500_000
BYTE_FALLBACK_SIZE = 600
"""Vocabularies of at least this size have byte fallback: a piece for each of the 256 bytes, so that none is unknown."""

# Every printable ASCII character is in every vocabulary: HTML, URLs and code survive even where the corpus has none.
_ASCII = "".join(sorted(set(string.printable) - set(string.whitespace)))


def default_vocab_size(source_language: str, target_language: str, pairs: int | None = None) -> int:
    """The size of a vocabulary: the paper's for large corpora, 32 · sqrt(pairs) for those below a million pairs.

    The paper's sizes (section 5.1) are 37,000 for English–German and 32,000 for English–French; 32,000 for others. A
    piece needs to occur often enough to be learned: 30,000 pairs have 5,500 pieces, 1,000 pairs have 1,000.
    """
    paper = 37_000 if {source_language, target_language} == {"en", "de"} else 32_000
    return paper if pairs is None else min(paper, max(MIN_VOCAB_SIZE, 32 * math.isqrt(pairs)))


def train_model(
    texts: Iterable[str | bytes],
    vocab_size: int,
    exact: bool = True,
    character_coverage: float = 0.9999,
    control_symbols: Sequence[str] = (),
) -> bytes:
    """The bytes of a SentencePiece BPE model of `vocab_size` pieces, trained on `texts` (both languages').

    Args:
        texts: sentences; SentencePiece holds them in memory, so bound them: see `Subsample`.
        vocab_size: pieces in all, the four special ones and all printable ASCII characters included. From
            `BYTE_FALLBACK_SIZE` on, 256 of them are bytes, which spell the characters that have no piece.
        exact: if the texts cannot support `vocab_size`, raise; otherwise take the largest size they can.
        character_coverage: the share of the text's characters that get a piece of their own.
        control_symbols: tokens that no text contains, such as those of languages.
    """
    if not MIN_VOCAB_SIZE <= vocab_size <= MAX_VOCAB_SIZE:
        raise TokenizerError(
            f"Expected a vocabulary size from {MIN_VOCAB_SIZE} to {MAX_VOCAB_SIZE:,}. Received: {vocab_size:,}."
        )
    texts = _not_empty(texts)
    model = _train(_with_ascii(texts), vocab_size, character_coverage, control_symbols)
    size = Subwords(model).vocab_size
    if size < BYTE_FALLBACK_SIZE <= vocab_size:
        model = _without_bytes(model)
        size = Subwords(model).vocab_size
    if size < BYTE_FALLBACK_SIZE:
        logger.info(
            "a vocabulary of %d pieces has no byte fallback, and characters that it lacks are unknown: that takes a "
            "vocabulary of at least %d",
            size, BYTE_FALLBACK_SIZE,
        )  # fmt: skip
    if size < vocab_size:
        if exact:
            raise TokenizerError(
                f"Expected a vocabulary size of at most {size:,}, the largest that this text supports. Received: "
                f"{vocab_size:,}. Use a smaller size, or more text."
            )
        logger.info("The text supports a vocabulary of %d pieces, fewer than the default of %d.", size, vocab_size)
    return model


class Subsample:
    """A seeded sample of bounded size from a stream of unknown length: every text has the same chance.

    Args:
        max_texts: how many texts at most.
        max_bytes: how many bytes of them at most, in the order of a shuffle.
        seed: what the choice depends on, besides the stream.
    """

    def __init__(self, max_texts: int, max_bytes: int, seed: int) -> None:
        self._max_texts, self._max_bytes = max_texts, max_bytes
        self._random = random.Random(seed)
        self._texts: list[bytes] = []
        self._seen = 0

    def add(self, text: bytes) -> None:
        """Offer one text: reservoir sampling."""
        self._seen += 1
        if len(self._texts) < self._max_texts:
            self._texts.append(text)
            return
        place = int(self._random.random() * self._seen)
        if place < self._max_texts:
            self._texts[place] = text

    def texts(self) -> list[bytes]:
        """The sample, shuffled and limited to `max_bytes`."""
        self._random.shuffle(self._texts)
        return limit_bytes(self._texts, self._max_bytes)


def limit_bytes(texts: Iterable[bytes], max_bytes: int) -> list[bytes]:
    """The first texts that have at most `max_bytes` together."""
    total, limited = 0, []
    for text in texts:
        total += len(text)
        if total > max_bytes:
            break
        limited.append(text)
    return limited


def _train(
    texts: Iterator[str], vocab_size: int, character_coverage: float, control_symbols: Sequence[str] = ()
) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=texts,
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            normalization_rule_name="nmt_nfkc",
            character_coverage=character_coverage,
            required_chars=_ASCII,
            control_symbols=list(control_symbols),
            byte_fallback=vocab_size >= BYTE_FALLBACK_SIZE,
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            minloglevel=2,
        )
    except RuntimeError as error:
        needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        if not needed:
            raise TokenizerError(f"Expected SentencePiece to train a vocabulary. Received: {error}") from None
        raise TokenizerError(
            f"Expected a vocabulary size of at least {needed[1]}, for the characters of the text. Received: "
            f"{vocab_size:,}."
        ) from None
    return model.getvalue()


def _without_bytes(model: bytes) -> bytes:
    """The model without its byte pieces, for a text that supports few others."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    kept = [piece for piece in proto.pieces if piece.type != piece.BYTE]
    del proto.pieces[:]
    proto.pieces.extend(kept)
    proto.trainer_spec.byte_fallback = False
    proto.trainer_spec.vocab_size = len(kept)
    return proto.SerializeToString(deterministic=True)


def _not_empty(texts: Iterable[str | bytes]) -> Iterator[str]:
    """The texts as valid strings; none at all is an error here, because it aborts the process in SentencePiece."""
    valid = (text for text in map(to_valid_text, texts) if text.strip())
    first = next(valid, None)
    if first is None:
        raise TokenizerError(
            "Expected text to train a vocabulary on. Received: no sentence. Check the training corpus."
        )
    return itertools.chain([first], valid)


def _with_ascii(texts: Iterator[str]) -> Iterator[str]:
    """A line of all ASCII characters first: SentencePiece aborts on a required character it never sees."""
    yield " ".join(_ASCII)
    yield from texts

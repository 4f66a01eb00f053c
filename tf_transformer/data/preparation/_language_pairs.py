"""Corpora of several language pairs: their vocabulary, their tokens, and how often each pair is trained on."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transformer.data._prepared import PreparedError
from tf_transformer.data.corpora import Corpus, LanguagePair
from tf_transformer.data.preparation._engine import CleanPairs
from tf_transformer.text import Languages, Tokenizer, TokenizerPair, tag_of


def target_tags(corpus: Corpus) -> list[str]:
    """The tokens of the target languages of a corpus of several pairs, such as `<2de>`."""
    return [tag_of(code) for code in dict.fromkeys(target for _, target in corpus.language_pairs)]


def trained_pair(corpus: Corpus, tokenizer: Tokenizer) -> TokenizerPair:
    """A tokenizer that was trained on a corpus, with its languages: a source begins with its target's token."""
    pair = TokenizerPair.of(tokenizer)
    if not corpus.language_pairs:
        return pair
    codes = dict.fromkeys(target for _, target in corpus.language_pairs)
    tokens = {code: tokenizer.subwords.id_of(tag_of(code)) for code in codes}
    languages = Languages(tokens, source_token="target", target_token=False, pairs=corpus.language_pairs)
    return dataclasses.replace(pair, languages=languages)


def check_tokenizers(corpus: Corpus, tokenizers: TokenizerPair) -> None:
    """Reject given tokenizers whose padding id is not 0, or that lack a language of the corpus.

    Batches are padded, and losses masked, with 0. LanguageError names similar languages.
    """
    for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
        if tokenizer.pad_id != 0:
            raise PreparedError(
                f"Expected a tokenizer whose padding has the id 0. Received: {tokenizer.pad_id} for the {side}. Give "
                "padding the id 0 in its table of ids, and the weights of its model the same order."
            )
    languages = tokenizers.languages
    if languages is None:
        if len(corpus.language_pairs) > 1:
            raise PreparedError(
                f"Expected a tokenizer of a multilingual model for {corpus.languages}. Received: one without "
                "languages. Leave out --tokenizer, and a vocabulary is trained."
            )
        return
    for source, target in corpus.language_pairs or [(corpus.source_language, corpus.target_language)]:
        languages.source_ids(source, target)
        languages.target_ids(target)


def part_languages(corpus: Corpus, parts: int) -> tuple[LanguagePair, ...]:
    """The languages of each part of the training data; a corpus of one pair has it in all parts."""
    return corpus.languages_of("train") or _only_pair(corpus) * parts


def runs_of(corpus: Corpus, facts: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Languages and numbers of consecutive lines of a split, from its facts."""
    (pair,) = _only_pair(corpus)
    return facts.get("language_pairs") or [{"source": pair[0], "target": pair[1], "pairs": facts["pairs"]}]


def _only_pair(corpus: Corpus) -> tuple[LanguagePair]:
    return ((corpus.source_language or "", corpus.target_language or ""),)


def balance(cleaned: CleanPairs, languages: Sequence[LanguagePair], temperature: float) -> None:
    """Multiply the weights of the parts, so that small language pairs are repeated.

    A pair is sampled in proportion to n ** (1 / temperature), and the largest has each of its n pairs once.
    """
    counts: collections.Counter = collections.Counter()
    for chunk in cleaned.chunks:
        counts[languages[chunk.part]] += chunk.pairs
    largest = max(counts.values())
    factors = {pair: (largest / count) ** (1.0 - 1.0 / temperature) for pair, count in counts.items()}
    cleaned.chunks = [
        dataclasses.replace(chunk, weight=chunk.weight * factors[languages[chunk.part]]) for chunk in cleaned.chunks
    ]

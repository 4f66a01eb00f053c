"""Untrusted text sent to an export, in a process without this package."""

import json
import re

import pytest
from exported_toy import BEAMS, N_BEST, SEARCH, exported_toy
from toy_workdir import toy_sentences

from tf_transformer.decoding import Translator
from tf_transformer.export._trial_rows import ADVERSARIAL, SCRIPTS, beginnings, documents_of, long_rows
from tf_transformer.export._verify import answers_of_clean_process

LIMIT = SEARCH["max_source_length"]
LONGEST = LIMIT + SEARCH["max_extra_length"]
GOOD = [sentence.encode() for sentence in toy_sentences(31, seed=11)]
CONTROL = [b"the <s> dog", b"the </s> dog", b"the <pad> dog", "the ▁ dog".encode(), b"</s>", b"<pad> house"]
SHORT = [row for row in ADVERSARIAL if len(row) < 100]


@pytest.fixture(scope="module")
def tokenizer():
    return exported_toy()[0].tokenizers.source


@pytest.fixture(scope="module")
def answers(tokenizer):
    """Answers to all requests of this file, by a name; one process gives them."""
    long = long_rows(tokenizer, LIMIT)
    rows = [*SHORT, *GOOD[:7]]
    asked = {
        "good": ("serving_default", GOOD),
        "adversarial": ("serving_default", rows),
        "turned": ("serving_default", rows[::-1]),
        "long": ("serving_default", [*beginnings(long), b"ha " * 500, *GOOD]),
        "documents": ("document", [*documents_of(GOOD), *SHORT, b"x" * 500]),
        "lengths": ("nbest", long),
        "nothing": ("nbest", []),
        "control": ("attention", CONTROL),
        "segments": ("segments", [*documents_of(GOOD), *SHORT, b"", long[-1]]),
        "segments alone": ("segments", documents_of(GOOD)[:1]),
        "no segments": ("segments", []),
        "card": ("model_card", GOOD[:2]),
        "aligned": ("alignment", [*SCRIPTS, *GOOD[:3], b"", *beginnings(long)[:1]]),
        **{f"alone {index}": ("serving_default", [row]) for index, row in enumerate(rows)},
    }
    requests = [(signature, {"text": texts}) for signature, texts in asked.values()]
    pairs = {"source": [GOOD[0]] * len(CONTROL), "target": CONTROL}
    found, _ = answers_of_clean_process(exported_toy()[1], [*requests, ("score", pairs)], timeout=3600)
    return dict(zip([*asked, "scored"], found)) | {"rows": rows, "texts": asked["segments"][1]}


def test_offsets_of_an_export_lead_to_the_words(answers, tokenizer):
    found = answers["aligned"]
    for side, texts in (("source", [*SCRIPTS, *GOOD[:3], b""]), ("target", found["translation"].tolist())):
        columns = [found[f"{side}_{name}"].tolist() for name in ("words", "starts", "ends")]
        for text, *row in zip(texts, *columns):
            for word, start, end in zip(*row):
                assert word == text.decode()[start:end].encode() if word else (start, end) == (-1, -1)
    expected = Translator.from_workdir(exported_toy()[0].path, beam_size=BEAMS).align(SCRIPTS)
    links = [[tuple(link) for link in row if link[0] >= 0] for row in found["links"].tolist()]
    assert links[: len(SCRIPTS)] == [each.links for each in expected]


def test_every_answer_is_text(answers):
    for name in ("adversarial", "long", "good"):
        for translation in answers[name]["translation"]:
            translation.decode("utf-8")


def test_nothing_in_gives_nothing_out(answers):
    blank = [not row.strip() for row in answers["rows"]]
    assert sum(blank) >= 4
    found = answers["adversarial"]["translation"].tolist()
    assert all(translation == b"" for translation, nothing in zip(found, blank) if nothing)
    assert any(translation != b"" for translation in found)


def test_an_empty_batch_gives_an_empty_batch(answers):
    shapes = {name: value.shape for name, value in answers["nothing"].items()}
    assert shapes == {"translations": (0, N_BEST), "scores": (0, N_BEST), "truncated": (0,), "sentences": (0,)}


def test_a_row_is_translated_alike_alone_in_a_batch_and_at_any_place(answers):
    together = answers["adversarial"]["translation"].tolist()
    assert answers["turned"]["translation"].tolist() == together[::-1]
    assert [answers[f"alone {index}"]["translation"][0] for index in range(len(together))] == together


def test_huge_rows_leave_their_neighbours_alone(answers):
    assert answers["long"]["translation"].tolist()[-len(GOOD) :] == answers["good"]["translation"].tolist()


def test_documents_keep_their_layout_and_tell_what_was_split(answers):
    found = answers["documents"]
    first = found["translation"][0].decode()
    assert re.fullmatch(r"[^\n]+\n\n  - [^\n]+\r\n  - [^\n]+\n", first)
    assert found["sentences"][0] >= 3 and found["sentences"][3] == 0 and found["translation"][3] == b""
    assert found["warnings"][-1] == b"split" and set(found["warnings"]) <= {b"", b"split"}


def test_segments_and_separators_are_the_text(answers):
    segments, separators = (answers["segments"][name] for name in ("segments", "separators"))
    assert separators.shape[1] == segments.shape[1] + 1
    for text, sentences, around in zip(answers["texts"], segments, separators):
        joined = b"".join(part for pair in zip(around, [*sentences, b""]) for part in pair)
        assert joined == text or text.decode("utf-8", "ignore").encode() != text
    counts = (segments != b"").sum(axis=1).tolist()
    assert counts[: len(answers["documents"]["sentences"]) - 1] == answers["documents"]["sentences"].tolist()[:-1]


def test_segments_do_not_depend_on_neighbours(answers):
    for name in ("segments", "separators"):
        alone, together = answers["segments alone"][name][0], answers["segments"][name][0]
        assert together[: len(alone)].tolist() == alone.tolist() and set(together[len(alone) :]) <= {b""}
        assert answers["no segments"][name].shape[0] == 0


def test_the_model_card_is_that_of_the_directory(answers):
    first, second = answers["card"]["model_card"].tolist()
    card = json.loads((exported_toy()[1] / "model.json").read_text())
    facts = json.loads(first)
    assert first == second and facts.items() <= card.items()
    assert {"languages", "preset", "scores", "licence", "decoding"} <= facts.keys()


def test_rows_over_the_limit_are_flagged_and_no_others(answers):
    # One token below, at and above it; 10,000 tokens; 5 MB without a space.
    assert answers["lengths"]["truncated"].tolist() == [False, False, True, True, True]


def test_outputs_end_at_their_limit(answers, tokenizer):
    for translation in answers["lengths"]["translations"][:, 0]:
        assert len(tokenizer.encode(translation)) <= 3 * LONGEST  # a piece may be spelled anew, but not endlessly


def test_control_symbols_are_text(answers, tokenizer):
    expected = [tokenizer.pieces(tokenizer.encode(row)) for row in CONTROL]
    found = [[token.decode() for token in row if token] for row in answers["control"]["source_tokens"]]
    assert found == expected and all(len(tokens) >= 2 for tokens in found)
    assert answers["scored"]["tokens"].tolist() == [len(tokenizer.encode(row)) for row in CONTROL]

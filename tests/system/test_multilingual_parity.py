"""Our imports of M2M-100, NLLB-200 and mBART-50 against `transformers` with torch: ids, logits, greedy and beam."""

import io
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece

from tf_transformer.decoding import Translator, search_ids
from tf_transformer.decoding._search import search_options
from tf_transformer.importing import import_model, read_model
from tf_transformer.importing._external_model import RowOrder

REFERENCE = pathlib.Path(__file__).parents[1] / "multilingual_reference.py"
LONGEST = 40
# A Python with torch and transformers, where they are not in this one. There is no way to skip: install them.
PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
FAMILIES = {
    "m2m100": ("en", ["de", "zh"]),
    "nllb": ("eng_Latn", ["deu_Latn", "zho_Hans"]),
    "nllb-legacy": ("fra_Latn", ["deu_Latn"]),
    "mbart50": ("en_XX", ["de_DE", "zh_CN"]),
}
TEXTS = [
    "The cat sleeps under the old table.",
    "Die Straße ist heute sehr naß, aber schön.",
    "Où est la bibliothèque ? Ça va, merci !",
    "¿Dónde está el niño? ¡Aquí!",
    "Кошка спит под старым столом.",
    "Η γάτα κοιμάται κάτω από το τραπέζι.",
    "القطة تنام تحت الطاولة القديمة.",
    "החתול ישן מתחת לשולחן.",
    "बिल्ली पुरानी मेज के नीचे सोती है।",
    "แมวนอนอยู่ใต้โต๊ะเก่า",
    "猫在旧桌子底下睡觉。",
    "猫は古いテーブルの下で寝ています。",
    "고양이가 오래된 탁자 아래에서 잔다.",
    "კატა ძველი მაგიდის ქვეშ სძინავს.",
    "ድመቷ በአሮጌው ጠረጴዛ ስር ትተኛለች።",
    "முட்டை மேசையின் கீழ் பூனை.",
    "Ⅷ ﬁne ½ ① e\u0301 ＡＢＣ",
    "emoji 🎉 and 𝔊othic, unknown ☃☃ ⟁",
    "  two   spaces\tand a tab ",
    "UPPER lower 12,345.67 %&/()=",
    "x",
]


class Reference:
    """A small model of transformers, imported, and what transformers computes with it."""

    def __init__(self, family: str, folder: pathlib.Path):
        self.family, (self.source, self.targets) = family, FAMILIES[family]
        folder.mkdir()
        (folder / "pieces.model").write_bytes(pieces_model())
        given = {"texts": TEXTS, "source": self.source, "targets": self.targets}
        (folder / "texts.json").write_text(json.dumps(given), encoding="utf-8")
        command = [PYTHON, str(REFERENCE), family, str(folder)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        self.outputs = np.load(folder / "reference.npz")
        self.facts = json.loads((folder / "reference.json").read_text(encoding="utf-8"))
        self.workdir = import_model(folder / "model", folder / "run", languages=(self.source, self.targets[0]))
        external = read_model(folder / "model")
        self.order = RowOrder.of(external.source, len(external.source_table))

    def rows(self, ids) -> list[int]:
        """Their rows of our ids."""
        return [int(self.order.rows[i]) for i in ids]

    def ids(self, rows: np.ndarray) -> np.ndarray:
        """Our ids of their rows."""
        table = np.zeros(self.order.rows.max() + 1, int)
        for row, i in self.order.ids_of_rows().items():
            table[row] = i
        return table[rows]


def pieces_model() -> bytes:
    """A SentencePiece model with fairseq's special pieces that knows most of the characters of the texts."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for text in TEXTS if "⟁" not in text] * 3),
        model_writer=model,
        model_type="unigram",
        vocab_size=420,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.fixture(scope="module", params=FAMILIES)
def reference(request, tmp_path_factory):
    return Reference(request.param, tmp_path_factory.mktemp("family") / request.param)


@pytest.mark.slow
def test_the_same_ids_in_many_scripts(reference):
    tokenizers = reference.workdir.tokenizers
    assert tokenizers.languages is not None
    codes = {code: reference.rows([i])[0] for code, i in tokenizers.languages.tokens.items()}
    assert codes == reference.facts["languages"]
    translator = Translator.from_workdir(reference.workdir.path)
    found = translator._read(np.array(TEXTS, object))
    for text, ids, length, expected in zip(TEXTS, found.ids.numpy(), found.lengths.numpy(), reference.facts["ids"]):
        assert reference.rows(ids[:length]) == expected, text


@pytest.mark.slow
def test_the_same_logits(reference):
    model = reference.workdir.load_model()
    outputs = reference.outputs
    target = reference.ids(outputs["target"])
    target[:, 0] = model.config.bos_id
    source = reference.ids(outputs["source"])
    logits = np.asarray(model({"source": source, "target": target}))
    expected = outputs["logits"]
    ours = logits[..., reference.ids(np.arange(expected.shape[-1]))]
    np.testing.assert_allclose(ours, expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 4])
def test_the_same_translations(reference, beams):
    """For beam search those that ended: of others, transformers and we keep different ones."""
    translator = Translator.from_workdir(
        reference.workdir.path, beam_size=beams, length_penalty="average", alpha=1.0, max_extra_length=LONGEST
    )
    compared = ended = 0
    for code in reference.targets:
        found = search(translator.for_languages(target=code))
        for text, ours, theirs in zip(TEXTS, found, reference.outputs[f"{code} {beams}"]):
            theirs = theirs[1:].tolist()  # without the decoder's start
            length = theirs.index(2) + 1 if 2 in theirs else len(theirs)
            ended += 2 in theirs
            if beams == 1 or 2 in theirs:
                assert reference.rows(ours[:length]) == theirs[:length], (code, text)
                compared += 1
    assert compared >= 10 and ended >= 5, f"{compared} compared, {ended} ended"


def search(translator) -> np.ndarray:
    """The best hypotheses (N, L), of at most LONGEST ids."""
    source = translator._read(np.array(TEXTS, object))
    first = translator._read_prefix(None, source)
    rows = {"source": source.ids, "lengths": source.lengths, "max_lengths": np.full(len(TEXTS), LONGEST, np.int32)}
    rows |= {"prefix": first.ids, "prefix_lengths": first.lengths - 1}
    options = search_options(translator.decoding, translator.model.config, 1, free_prefix=1)
    return search_ids(translator.model, rows, options).ids.numpy()[:, 0]

"""Reference results of `transformers` for small multilingual models, random weights; run by a Python that has torch.

    python multilingual_reference.py FAMILY FOLDER

FAMILY is m2m100, nllb, nllb-legacy or mbart50. FOLDER holds pieces.model, a SentencePiece model with fairseq's special
pieces, and texts.json: {"texts": […], "source": code, "targets": […]}. Written into FOLDER/model is what
`save_pretrained` writes, and into FOLDER/reference.json and reference.npz the ids of the texts, logits, and the ids of
greedy and beam search.
"""

import json
import pathlib
import sys

import numpy as np
import sentencepiece
import torch
import transformers

LONGEST = 40
SIZES = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 96,
    "init_std": 0.25,
    "scale_embedding": True,
}


def tokenizer_of(family: str, folder: pathlib.Path, source: str):
    pieces = str(folder / "pieces.model")
    if family == "m2m100":
        processor = sentencepiece.SentencePieceProcessor(model_file=pieces)
        names = [processor.id_to_piece(i) for i in range(3, len(processor))]
        rows = {token: row for row, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *names])}
        (folder / "vocab.json").write_text(json.dumps(rows), encoding="utf-8")
        return transformers.M2M100Tokenizer(str(folder / "vocab.json"), pieces, src_lang=source)
    if family == "mbart50":
        return transformers.MBart50Tokenizer(pieces, src_lang=source)
    return transformers.NllbTokenizer(pieces, src_lang=source, legacy_behaviour=family == "nllb-legacy")


def model_of(family: str, size: int):
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "vocab_size": size}
    if family == "mbart50":
        config = transformers.MBartConfig(**SIZES, **special, activation_function="gelu", forced_eos_token_id=None)
        return transformers.MBartForConditionalGeneration(config).eval()
    config = transformers.M2M100Config(**SIZES, **special, activation_function="relu")
    return transformers.M2M100ForConditionalGeneration(config).eval()


def main(family: str, folder: pathlib.Path) -> None:
    torch.manual_seed(7)
    given = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    tokenizer = tokenizer_of(family, folder, given["source"])
    languages = dict(getattr(tokenizer, "lang_code_to_id", {})) or {
        code: tokenizer.convert_tokens_to_ids(code) for code in tokenizer.additional_special_tokens
    }
    model = model_of(family, max(len(tokenizer), *languages.values()) + 5)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
        # So that sentences end: every hidden state resembles the embedding of EOS.
        model.model.decoder.layer_norm.bias.add_(2.2 * model.model.shared.weight[2])
    tokenizer.save_pretrained(folder / "model")
    model.save_pretrained(folder / "model")
    ids = [tokenizer(text)["input_ids"] for text in given["texts"]]
    batch = tokenizer(given["texts"], return_tensors="pt", padding=True)
    target = torch.randint(4, model.config.vocab_size, (len(ids), 7))
    target[:, 0] = 2
    forced = {code: languages[code] for code in given["targets"]}
    options = {"max_new_tokens": LONGEST, "do_sample": False, "bad_words_ids": [[1]]}
    outputs = {}
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=target).logits
        for code, row in forced.items():
            for beams in (1, 4):
                chosen = {"num_beams": beams, "forced_bos_token_id": row}
                if beams > 1:
                    # "never": it ends when no better hypothesis is possible, as ours does.
                    chosen |= {"length_penalty": 1.0, "early_stopping": "never"}
                outputs[f"{code} {beams}"] = model.generate(**batch, **(options | chosen)).numpy()
    if family == "mbart50":
        assert (batch["input_ids"][:, 0] == languages[given["source"]]).all()
    np.savez(
        folder / "reference.npz",
        logits=logits.numpy(),
        target=target.numpy(),
        source=batch["input_ids"].numpy(),
        **outputs,
    )
    facts = {"ids": ids, "languages": languages}
    (folder / "reference.json").write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))

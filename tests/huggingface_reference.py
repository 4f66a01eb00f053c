"""Reference results of `transformers` for a small Marian model with random weights: run by a Python that has torch.

    python huggingface_reference.py FOLDER

FOLDER holds config.json with the sizes, and ids.npz with source (B, S), source_mask, target (B, T). Written into it are
the model, as `save_pretrained` does and as pytorch_model.bin, and reference.npz: logits (B, T, V), greedy and beam
(B, L) ids.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

SHORTEST, LONGEST = 7, 30


def main(folder: pathlib.Path) -> None:
    torch.manual_seed(11)
    sizes = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes.pop("model_type")
    config = transformers.MarianConfig(**sizes, init_std=0.2, max_position_embeddings=128, forced_eos_token_id=None)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
        model.final_logits_bias.add_(torch.randn_like(model.final_logits_bias))
        model.final_logits_bias[0, config.eos_token_id] += 4.0  # so that sentences end
    model.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    inputs = {name: torch.from_numpy(value) for name, value in np.load(folder / "ids.npz").items()}
    source = {"input_ids": inputs["source"], "attention_mask": inputs["source_mask"]}
    with torch.no_grad():
        logits = model(**source, decoder_input_ids=inputs["target"]).logits
        options = {
            "min_new_tokens": SHORTEST,
            "max_new_tokens": LONGEST,
            "do_sample": False,
            "bad_words_ids": [[config.pad_token_id]],
        }
        greedy = model.generate(**source, num_beams=1, **options)
        beam = model.generate(**source, num_beams=4, length_penalty=0.0, early_stopping=False, **options)
    np.savez(folder / "reference.npz", logits=logits.numpy(), greedy=greedy.numpy(), beam=beam.numpy())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

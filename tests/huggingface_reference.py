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
    sizes = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes.pop("model_type")
    config = transformers.MarianConfig(**sizes, max_position_embeddings=128, forced_eos_token_id=None)
    model = transformers.MarianMTModel(config).eval()
    randomize(model, config.eos_token_id)
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


def randomize(model: transformers.MarianMTModel, eos_id: int) -> None:
    """Weights from NumPy, whose numbers are the same in every version, so large that translations differ."""
    random = np.random.default_rng(11)

    def normal(tensor: torch.Tensor, scale: float) -> torch.Tensor:
        return scale * torch.from_numpy(random.standard_normal(tuple(tensor.shape), np.float32))

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.add_(normal(weight, 0.1))
            elif "embed_positions" not in name:
                weight.copy_(normal(weight, 0.3))
        model.final_logits_bias.add_(normal(model.final_logits_bias, 1.0))
        model.final_logits_bias[0, eos_id] += 8.0  # so that sentences end


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

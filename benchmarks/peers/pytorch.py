"""Hugging Face Marian on PyTorch: beam search, and a training step with label smoothing and Adam."""

import argparse

import torch
from transformers import MarianConfig, MarianMTModel

from benchmarks.peers.measurement import parse, report


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = build(options)
    if options.only != "train":
        measure_decoding(model, options)
    if options.only != "decode":
        measure_training(model, options)


def build(options: argparse.Namespace) -> MarianMTModel:
    """A Marian model of the given size with random weights."""
    config = MarianConfig(
        vocab_size=options.vocab, d_model=options.width, encoder_layers=options.layers, decoder_layers=options.layers,
        encoder_attention_heads=options.heads, decoder_attention_heads=options.heads, encoder_ffn_dim=options.inner,
        decoder_ffn_dim=options.inner, max_position_embeddings=256, pad_token_id=options.vocab - 1, eos_token_id=0,
        decoder_start_token_id=options.vocab - 1, activation_function="relu", scale_embedding=True,
        forced_eos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(config)


def measure_decoding(model: MarianMTModel, options: argparse.Namespace) -> None:
    model.eval()
    source = torch.randint(1, options.vocab - 2, (options.batch, options.source))
    mask = torch.ones_like(source)

    def decode():
        with torch.inference_mode():
            model.generate(
                source, attention_mask=mask, num_beams=options.beam, do_sample=False, length_penalty=0.6,
                min_new_tokens=options.target, max_new_tokens=options.target,
            )  # fmt: skip

    report("pytorch", "decode", options.batch * options.target, decode, options)


def measure_training(model: MarianMTModel, options: argparse.Namespace) -> None:
    model.train()
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    shape = (options.train_batch, options.train_length)
    source, target = (torch.randint(1, options.vocab - 2, shape) for _ in range(2))

    def step():
        logits = model(input_ids=source, decoder_input_ids=target).logits
        adam.zero_grad()
        loss(logits.reshape(-1, options.vocab), target.reshape(-1)).backward()
        adam.step()

    report("pytorch", "train", options.train_batch * options.train_length, step, options)


if __name__ == "__main__":
    main()

"""From raw sentence pairs to batches of a token budget."""

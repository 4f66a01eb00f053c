"""The layers of the paper: masks, attention, feed-forward, embedding, positions, encoder and decoder."""

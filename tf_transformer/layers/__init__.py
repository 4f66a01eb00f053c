"""The layers of the paper: masks, attention, feed-forward, embedding, positions, encoder and decoder.

They use `keras.ops` alone, so they run on any Keras backend.
"""

from tf_transformer.layers.attention import scaled_dot_product_attention
from tf_transformer.layers.blockwise_attention import blockwise_attention
from tf_transformer.layers.decoder import Decoder, DecoderLayer
from tf_transformer.layers.embedding import SharedEmbedding
from tf_transformer.layers.encoder import Encoder, EncoderLayer
from tf_transformer.layers.feed_forward import FeedForward
from tf_transformer.layers.masks import causal_mask, combine_masks, padding_mask, segment_mask
from tf_transformer.layers.multi_head_attention import MultiHeadAttention
from tf_transformer.layers.position import PositionalEncoding
from tf_transformer.layers.projection import Projection

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "MultiHeadAttention",
    "PositionalEncoding",
    "Projection",
    "SharedEmbedding",
    "blockwise_attention",
    "causal_mask",
    "combine_masks",
    "padding_mask",
    "scaled_dot_product_attention",
    "segment_mask",
]

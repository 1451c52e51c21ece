"""The blocks of the model: embedding, dense and mixture-of-experts layers, and the head with the
loss.

Activations are [tokens of this rank, sequences, hidden]. Tensor parallelism splits the first matrix
of a pair by columns and the second by rows. Each pair is enclosed by `enter` and `leave`.
"""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from . import comm
from .attention import attend
from .loss import cross_entropy
from .weights import Block


def enter(x, setting):
    group = setting.groups["tensor"]
    return comm.gather(x, group) if setting.plan.sequence_parallel else comm.copy(x, group)


def leave(x, setting):
    group = setting.groups["tensor"]
    return comm.scatter_sum(x, group) if setting.plan.sequence_parallel else comm.reduce(x, group)


def norm(x, scale, bias, epsilon=1e-5):
    wide = x.float()
    if bias is not None:
        return F.layer_norm(wide, wide.shape[-1:], scale.float(), bias.float(), epsilon).to(x.dtype)
    wide = wide * (wide.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return (wide * scale.float()).to(x.dtype)


def rotate(x, angles):
    """Applies the rotary position embedding with angles [s, g / 2] to [s, b, ..., g]."""
    angles = angles.view(angles.shape[0], *[1] * (x.dim() - 2), angles.shape[1])
    first, second = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


def activate(up, kind):
    """Applies the activation to [2, ...], gate and value, or to [1, ...]."""
    if kind == "gelu":
        return F.gelu(up[0])
    return (F.silu if kind == "swiglu" else F.gelu)(up[0]) * up[1]


def up_count(model):
    return 1 if model.mlp == "gelu" else 2


def feed_forward(x, up, down, kind, up_bias=None):
    """Applies the feed-forward network: x [..., h], up [2 or 1, f, h], down [h, f]."""
    wide = F.linear(x, up.flatten(0, 1), None if up_bias is None else up_bias.flatten())
    wide = wide.unflatten(-1, up.shape[:2]).movedim(-2, 0)
    return F.linear(activate(wide, kind), down)


def add_table(block):
    """Adds a table with a row of size hidden for each word."""
    model = block.setting.model
    block.add_split("table", (block.setting.padded_vocab_size, model.hidden_size), cut=0, used=model.vocab_size)


class Embedding(Block):
    def __init__(self, setting):
        super().__init__("embedding", setting)
        add_table(self)

    def forward(self, _, batch, selective):
        table, group = self["table"], self.setting.groups["tensor"]
        places = batch.tokens - group.rank * table.shape[0]
        is_mine = (places >= 0) & (places < table.shape[0])
        found = F.embedding(places * is_mine, table) * is_mine[..., None]
        return leave(found.to(table.dtype), self.setting)


class Layer(Block):
    """Attention and a dense feed-forward network."""

    def __init__(self, index, setting):
        super().__init__(f"layers.{index}", setting)
        model = setting.model
        h, heads, g = model.hidden_size, model.kv_head_count, model.head_dim
        ratio = model.attention_head_count // heads
        self.has_bias = model.norm == "layernorm"  # as in GPT; Llama and similar models have neither
        self.add_norm("attention.norm")
        # For each key-value head, stores its queries, key and value together, so that one cut takes
        # whole heads.
        self.add_split("attention.qkv", (heads, ratio + 2, g, h), cut=0)
        self.add_split("attention.out", (h, heads * ratio * g), cut=1)
        if self.has_bias:
            self.add_split("attention.qkv.bias", (heads, ratio + 2, g), cut=0, fill=0.0)
            self.add("attention.out.bias", (h,), fill=0.0)
        self.add_norm("ffn.norm")
        self.add_feed_forward()

    def add_feed_forward(self):
        self.add_mlp("mlp", self.setting.model.ffn_hidden_size)

    def add_mlp(self, name, width):
        h, ups = self.setting.model.hidden_size, up_count(self.setting.model)
        self.add_split(f"{name}.up", (ups, width, h), cut=1)
        self.add_split(f"{name}.down", (h, width), cut=1)
        if self.has_bias:
            self.add_split(f"{name}.up.bias", (ups, width), cut=1, fill=0.0)
            self.add(f"{name}.down.bias", (h,), fill=0.0)

    def forward(self, x, batch, selective):
        x = x + self.attention(x, selective)
        return x + self.feed_forward(self.norm(x, "ffn.norm"))

    def norm(self, x, name):
        epsilon = self.setting.model.norm_epsilon
        return norm(x, self[f"{name}.scale"], self[f"{name}.bias"], epsilon)

    def attention(self, x, selective):
        setting = self.setting
        x = enter(self.norm(x, "attention.norm"), setting)
        weight, bias = self["attention.qkv"], self["attention.qkv.bias"]
        qkv = F.linear(x, weight.flatten(0, 2), None if bias is None else bias.flatten())
        qkv = qkv.unflatten(-1, weight.shape[:3])
        q = rotate(qkv[..., :-2, :], setting.angles)
        k = rotate(qkv[..., -2, :], setting.angles)
        if selective:
            # No random numbers are drawn inside, so their state need not be kept.
            out = checkpoint(attend, q, k, qkv[..., -1, :], setting, use_reentrant=False,
                             preserve_rng_state=False)
        else:
            out = attend(q, k, qkv[..., -1, :], setting)
        return self.closed(F.linear(out.flatten(2), self["attention.out"]), "attention.out.bias")

    def closed(self, partial, bias):
        """Returns the sum over tensor-parallel ranks, with the bias added once."""
        whole = leave(partial, self.setting)
        return whole if self[bias] is None else whole + self[bias]

    def feed_forward(self, x):
        return self.mlp(x, "mlp")

    def mlp(self, x, name):
        out = feed_forward(enter(x, self.setting), self[f"{name}.up"], self[f"{name}.down"],
                           self.setting.model.mlp, self[f"{name}.up.bias"])
        return self.closed(out, f"{name}.down.bias")


class Head(Block):
    """The last norm, the output layer and the loss. `table` is the embedding's if the two are
    tied."""

    def __init__(self, setting, table=None):
        super().__init__("head", setting)
        self.add_norm("norm")
        if table is None:
            add_table(self)
            if setting.model.tied_embeddings:  # a copy on another stage with the same values
                self.weights["table"].name = "embedding.table"
        self.shared_table = table

    def forward(self, x, batch, selective):
        table = self["table"] if self.shared_table is None else self.shared_table.tensor
        scale, bias = self["norm.scale"], self["norm.bias"]
        x = enter(norm(x, scale, bias, self.setting.model.norm_epsilon), self.setting)
        losses = cross_entropy(F.linear(x, table), batch.labels, self.setting.model.vocab_size,
                               self.setting.groups["tensor"])
        return losses.sum() / self.setting.tokens_a_step

"""Counts the parameters of the parts of a language model, from the sizes of its config.json.

h is the hidden size, f the width of a feed-forward; c is a config, mt its model type.
"""

# model types whose class default is tied embeddings (the key may be absent from the file)
TIED = {"gemma", "gemma2", "gemma3_text", "gemma3", "gemma3n_text", "gemma4_text", "gpt2", "opt", "bloom", "mpt", "cohere",
        "cohere2", "starcoder2", "falcon", "mamba", "minicpm3"}


def lin(i, o, bias=False):
    return i * o + (o if bias else 0)


def gqa(h, heads, kv, hd, bias=False, out_bias=None, norm="", gate=False, vd=None, norm_bias=False):
    """norm: '' none, 'head' two vectors of hd, 'full' over all heads, 'heads' own vector a head."""
    vd = vd or hd
    n = lin(h, heads * hd * (2 if gate else 1), bias) + lin(h, kv * hd, bias) + lin(h, kv * vd, bias)
    n += lin(heads * vd, h, bias if out_bias is None else out_bias)
    n += {"": 0, "head": 2 * hd, "full": (heads + kv) * hd, "heads": (heads + kv) * hd}[norm] * (2 if norm_bias else 1)
    return n


def mla(c, heads=None):
    h, q, kv = c["hidden_size"], c.get("q_lora_rank"), c["kv_lora_rank"]
    heads = heads or c["num_attention_heads"]
    nope, rope, v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    n = lin(h, q) + q + lin(q, heads * (nope + rope)) if q else lin(h, heads * (nope + rope))
    n += lin(h, kv + rope) + kv + lin(kv, heads * (nope + v)) + lin(heads * v, h)
    if c.get("index_topk"):  # sparse-attention indexer; its key norm has a bias
        d, ih = c["index_head_dim"], c["index_n_heads"]
        n += lin(q, ih * d) + lin(h, d) + 2 * d + lin(h, ih)
    return n


def glu(h, f, bias=False):
    return 2 * lin(h, f, bias) + lin(f, h, bias)


def mlp(h, f, bias=False):
    return lin(h, f, bias) + lin(f, h, bias)


def mamba2(h, inner, heads, groups, state, conv, conv_bias=True, bias=False, norm=True):
    cd = inner + 2 * groups * state
    return (lin(h, inner + cd + heads, bias) + cd * conv + (cd if conv_bias else 0) + 3 * heads
            + (inner if norm else 0) + lin(inner, h, bias))


def mamba1(c):
    h = c["hidden_size"]
    d, r, s = c["mamba_expand"] * h, c["mamba_dt_rank"], c["mamba_d_state"]
    n = lin(h, 2 * d) + d * c["mamba_d_conv"] + (d if c["mamba_conv_bias"] else 0)
    return n + lin(d, r + 2 * s) + lin(r, d, True) + d * s + d + lin(d, h) + r + 2 * s


def delta(c, split=False):
    h, nk, nv = c["hidden_size"], c["linear_num_key_heads"], c["linear_num_value_heads"]
    k, v = nk * c["linear_key_head_dim"], nv * c["linear_value_head_dim"]
    return (lin(h, 2 * k + 2 * v) + lin(h, 2 * nv) + (2 * k + v) * c["linear_conv_kernel_dim"] + 2 * nv
            + c["linear_value_head_dim"] + lin(v, h))


def embed(c, h, vocab=None, tied=None, mt=""):
    vocab = vocab or c["vocab_size"]
    if tied is None:
        tied = c.get("tie_word_embeddings", mt in TIED)
    return vocab * h * (1 if tied else 2)


def moe(h, experts, f, shared=0, bias=False, router_bias=0, shared_gate=False):
    n = experts * glu(h, f, bias) + lin(h, experts) + router_bias
    return n + (glu(h, shared) if shared else 0) + (h if shared_gate else 0)


def llama_like(c, mt, *, qkv_bias=None, o_bias=None, norm="", norms=2, norm_size=1, mlp_bias=None, ffn=None, final=1):
    """norm_size: 1 RMSNorm, 2 LayerNorm with bias, 0 without weights."""
    h, L = c["hidden_size"], c["num_hidden_layers"]
    heads = c["num_attention_heads"]
    kv, hd = c.get("num_key_value_heads") or heads, c.get("head_dim") or h // heads
    b = c.get("attention_bias", False) if qkv_bias is None else qkv_bias
    ob = b if o_bias is None else o_bias
    mb = c.get("mlp_bias", False) if mlp_bias is None else mlp_bias
    n = embed(c, h, mt=mt) + final * h * norm_size
    for i in range(L):
        n += gqa(h, heads, kv, hd, b, ob, norm) + norms * h * norm_size
        n += ffn(c, i) if ffn else glu(h, c["intermediate_size"], mb)
    return n

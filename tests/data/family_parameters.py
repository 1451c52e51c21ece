"""Counts the parameters of a language model from its config.json, by the formulas of its family.

These formulas are independent of those of the product, which reads the same configurations by what
their keys say. Layers for multi-token prediction and towers for pictures or sound do not count.
"""

from layer_parameters import delta, embed, glu, gqa, lin, llama_like, mamba1, mamba2, mla, mlp, moe


def f_llama(c, mt):
    return llama_like(c, mt)


def f_mixtral(c, mt):
    return llama_like(c, mt, ffn=lambda c, i: moe(c["hidden_size"], c["num_local_experts"], c["intermediate_size"]))


def f_qwen2(c, mt):
    return llama_like(c, mt, qkv_bias=True, o_bias=False)


def f_qwen_moe(c, mt):
    def ffn(c, i):
        h = c["hidden_size"]
        if i in c.get("mlp_only_layers", []) or (i + 1) % c.get("decoder_sparse_step", 1):
            return glu(h, c["intermediate_size"])
        s = c.get("shared_expert_intermediate_size", 0)
        return moe(h, c["num_experts"], c["moe_intermediate_size"], s, shared_gate=bool(s))
    if mt.startswith("qwen2"):
        return llama_like(c, mt, qkv_bias=True, o_bias=False, ffn=ffn)
    return llama_like(c, mt, norm="head", ffn=ffn)


def f_qwen3(c, mt):
    return llama_like(c, mt, norm="head")


def f_qwen3_next(c, mt):
    h, L = c["hidden_size"], c["num_hidden_layers"]
    kinds = c.get("layer_types") or ["full_attention" if (i + 1) % c["full_attention_interval"] == 0
                                     else "linear_attention" for i in range(L)]
    n = embed(c, h, mt=mt) + h
    for k in kinds:
        n += 2 * h
        n += delta(c) if k == "linear_attention" else gqa(h, c["num_attention_heads"], c["num_key_value_heads"],
                                                          c["head_dim"], norm="head", gate=True)
        if "num_experts" in c:
            n += moe(h, c["num_experts"], c["moe_intermediate_size"], c["shared_expert_intermediate_size"],
                     shared_gate=True)
        else:
            n += glu(h, c["intermediate_size"])
    return n


def f_deepseek(c, mt):
    h, n = c["hidden_size"], 0
    n = embed(c, h, mt=mt) + h
    sig = c.get("topk_method") == "noaux_tc" or c.get("moe_router_enable_expert_bias") or mt in ("glm4_moe", "glm_moe_dsa", "glm4_moe_lite", "dots1")
    for i in range(c["num_hidden_layers"]):
        n += 2 * h
        if "kv_lora_rank" in c:
            n += mla(c)
        else:
            nh = c["num_attention_heads"]
            n += gqa(h, nh, c["num_key_value_heads"], c.get("head_dim") or h // nh, c.get("attention_bias", False) or c.get("use_qkv_bias", False),
                     False, "head" if c.get("use_qk_norm") or mt == "dots1" else "")
        if i < c.get("first_k_dense_replace", 0):
            n += glu(h, c["intermediate_size"])
        else:
            E = c.get("n_routed_experts") or c["num_experts"]
            S = c["n_shared_experts"] if "n_shared_experts" in c else c.get("num_shared_experts", 0)
            n += moe(h, E, c["moe_intermediate_size"], S * c["moe_intermediate_size"], router_bias=E if sig else 0)
    return n


def f_bailing_linear(c, mt):  # lightning attention, gated and normed, in all but the last layer of each group
    h, nh, d, L = c["hidden_size"], c["num_attention_heads"], c["head_dim"], c["num_hidden_layers"]
    full = gqa(h, nh, c["num_key_value_heads"], d, norm="head")
    linear = lin(h, 3 * nh * d) + lin(h, nh * d) + nh * d + lin(nh * d, h) + 2 * d
    return f_deepseek(c, mt) + (L - L // c["layer_group_size"]) * (linear - full)


def f_minicpm3(c, mt):
    return f_deepseek(dict(c, v_head_dim=c["hidden_size"] // c["num_attention_heads"],
                           first_k_dense_replace=c["num_hidden_layers"]), mt)


def f_longcat(c, mt):  # two attentions and two dense feed-forwards a layer, plus experts with zero-computation ones
    h = c["hidden_size"]
    d = dict(c, num_hidden_layers=0)
    layer = 2 * mla(d) + 4 * h + 2 * glu(h, c["ffn_hidden_size"])
    E = c["n_routed_experts"] + c["zero_expert_num"]
    layer += c["n_routed_experts"] * glu(h, c["expert_ffn_hidden_size"]) + lin(h, E) + E
    return embed(c, h, mt=mt) + h + c["num_layers"] * layer


def f_kimi_linear(c, mt):
    h, a = c["hidden_size"], c["linear_attn_config"]
    p = a["num_heads"] * a["head_dim"]
    kda = 3 * lin(h, p) + 3 * p * a["short_conv_kernel_size"] + a["num_heads"] + p  # q k v, convolutions, A_log, dt_bias
    kda += lin(h, a["head_dim"]) + lin(a["head_dim"], p)                   # decay, low rank
    kda += lin(h, a["num_heads"])                                          # beta
    kda += lin(h, a["head_dim"]) + lin(a["head_dim"], p) + a["head_dim"] + lin(p, h)  # output gate, norm, out
    n = embed(c, h, mt=mt) + h
    for i in range(c["num_hidden_layers"]):
        n += 2 * h + (kda if i + 1 in a["kda_layers"] else mla(c))
        n += (glu(h, c["intermediate_size"]) if i < c["first_k_dense_replace"] else
              moe(h, c["num_experts"], c["moe_intermediate_size"], c["num_shared_experts"] * c["moe_intermediate_size"],
                  router_bias=c["num_experts"]))
    return n


def f_glm4(c, mt):  # sandwich norms, fused gate_up
    return llama_like(c, mt, qkv_bias=c.get("attention_bias", False), o_bias=False, norms=4)


def f_chatglm(c, mt):
    h, L, hd = c["hidden_size"], c["num_layers"], c["kv_channels"]
    kv = c["multi_query_group_num"] if c["multi_query_attention"] else c["num_attention_heads"]
    b = c["add_bias_linear"]
    layer = gqa(h, c["num_attention_heads"], kv, hd, c["add_qkv_bias"] or b, b) + glu(h, c["ffn_hidden_size"], b) + 2 * h
    return embed(c, h, c["padded_vocab_size"], mt=mt) + L * layer + (h if c["post_layer_norm"] else 0)


def f_minimax(c, mt):
    h, hd, nh = c["hidden_size"], c["head_dim"], c["num_attention_heads"]
    n = embed(c, h, mt=mt) + h
    for k in c["attn_type_list"]:
        n += 2 * h + moe(h, c["num_local_experts"], c["intermediate_size"])
        if k == 1:
            n += gqa(h, nh, c["num_key_value_heads"], hd)
        else:
            n += lin(h, 3 * nh * hd) + lin(h, nh * hd) + nh * hd + lin(nh * hd, h)
    return n


def f_minimax_m2(c, mt):
    return llama_like(c, mt, norm="full", ffn=lambda c, i: moe(
        c["hidden_size"], c["num_local_experts"], c["intermediate_size"], router_bias=c["num_local_experts"]))


def f_llama4(c, mt):
    def ffn(c, i):
        h = c["hidden_size"]
        if (i + 1) % c["interleave_moe_layer_step"]:
            return glu(h, c["intermediate_size_mlp"])
        return moe(h, c["num_local_experts"], c["intermediate_size"], c["intermediate_size"])
    return llama_like(c, mt, ffn=ffn)


def f_gemma(c, mt):
    return llama_like(c, mt)


def f_gemma2(c, mt):
    return llama_like(c, mt, norms=4)


def f_gemma3(c, mt):
    return llama_like(c, mt, norms=4, norm="head")


def f_gemma3n(c, mt):
    h, L, hd = c["hidden_size"], c["num_hidden_layers"], c["head_dim"]
    p, A, r = c["hidden_size_per_layer_input"], c["altup_num_inputs"], c["laurel_rank"]
    ff = c["intermediate_size"] if isinstance(c["intermediate_size"], list) else [c["intermediate_size"]] * L
    n = c["vocab_size"] * h + h + c["vocab_size_per_layer_input"] * L * p + lin(h, L * p) + p
    n += 2 * (A - 1) * h * h                                                       # altup projections in and out
    for i in range(L):
        n += gqa(h, c["num_attention_heads"], c["num_key_value_heads"], hd, norm="head") + 4 * h + glu(h, ff[i])
        n += lin(h, r) + lin(r, h) + h                                             # laurel
        n += A ** 3 + A * A + lin(h, A) + h + h                                    # altup: prediction, correction, router, norm, scale
        n += lin(h, p) + lin(p, h) + h                                             # per-layer input gate, projection, norm
    return n


def f_gemma4(c, mt):
    h, L = c["hidden_size"], c["num_hidden_layers"]
    p, nh = c.get("hidden_size_per_layer_input") or 0, c["num_attention_heads"]
    n = embed(c, h, mt=mt) + h
    if p:
        n += c["vocab_size_per_layer_input"] * L * p + lin(h, L * p) + p
    first_shared = L - c.get("num_kv_shared_layers", 0)
    for i, k in enumerate(c["layer_types"]):
        full = k == "full_attention"
        hd = c["global_head_dim"] if full else c["head_dim"]
        alt = full and c.get("attention_k_eq_v")
        kv = c["num_global_key_value_heads"] if alt else c["num_key_value_heads"]
        n += lin(h, nh * hd) + lin(nh * hd, h) + hd                                # q, o, q norm
        if i < first_shared or c.get("shared_kv_stored", True):
            n += lin(h, kv * hd) * (1 if alt else 2) + hd                          # k (v shares it), k norm; v norm has no weight
        f = c["intermediate_size"] * (2 if c.get("use_double_wide_mlp") and i >= first_shared else 1)
        n += glu(h, f) + 4 * h + 1                                                 # four norms, layer scalar
        if c.get("enable_moe_block"):
            E = c["num_experts"]
            n += E * glu(h, c["moe_intermediate_size"]) + lin(h, E) + h + E + 3 * h  # experts, router, its scales, three norms
        if p:
            n += lin(h, p) + lin(p, h) + h
    return n


def f_gpt_oss(c, mt):
    h, E, f = c["hidden_size"], c["num_local_experts"], c["intermediate_size"]
    ffn = lambda c, i: E * (lin(h, 2 * f, True) + lin(f, h, True)) + lin(h, E, True) + c["num_attention_heads"]  # with sinks
    return llama_like(c, mt, ffn=ffn)


def f_nemotron_h(c, mt):
    h, n = c["hidden_size"], 0
    inner = c["mamba_num_heads"] * c["mamba_head_dim"]
    hd = c.get("attention_head_dim") or c["head_dim"]
    n = embed(c, h, mt=mt) + h
    for k in c["hybrid_override_pattern"]:
        n += h
        if k == "M":
            n += mamba2(h, inner, c["mamba_num_heads"], c["n_groups"], c["ssm_state_size"], c["conv_kernel"])
        elif k == "*":
            n += gqa(h, c["num_attention_heads"], c["num_key_value_heads"], hd)
        elif k == "-":
            n += mlp(h, c["intermediate_size"])
        else:
            E = c["n_routed_experts"]
            n += E * mlp(h, c["moe_intermediate_size"]) + lin(h, E) + E + mlp(h, c["moe_shared_expert_intermediate_size"])
    return n


def f_nemotron(c, mt):  # layernorm1p with bias, squared relu without gate
    return llama_like(c, mt, norm_size=2, ffn=lambda c, i: mlp(c["hidden_size"], c["intermediate_size"]))


def f_phi(c, mt):  # parallel block, one LayerNorm, biases everywhere, also on the head
    h, L = c["hidden_size"], c["num_hidden_layers"]
    nh = c["num_attention_heads"]
    return (embed(c, h, mt=mt) + c["vocab_size"] + 2 * h
            + L * (gqa(h, nh, c.get("num_key_value_heads") or nh, h // nh, True) + mlp(h, c["intermediate_size"], True) + 2 * h))


def f_phimoe(c, mt):
    n = llama_like(c, mt, norm_size=2, ffn=lambda c, i: moe(c["hidden_size"], c["num_local_experts"], c["intermediate_size"]))
    return n + (c["vocab_size"] if c["lm_head_bias"] else 0)


def f_granitemoe(c, mt):
    return llama_like(c, mt, ffn=lambda c, i: moe(c["hidden_size"], c["num_local_experts"], c["intermediate_size"]))


def f_granitehybrid(c, mt):
    h, nh, n = c["hidden_size"], c["num_attention_heads"], 0
    n = embed(c, h, mt=mt) + h
    E = c["num_local_experts"]
    for k in c["layer_types"]:
        n += 2 * h + (mamba2(h, c["mamba_n_heads"] * c["mamba_d_head"], c["mamba_n_heads"], c["mamba_n_groups"],
                             c["mamba_d_state"], c["mamba_d_conv"]) if k == "mamba"
                      else gqa(h, nh, c["num_key_value_heads"], h // nh))
        n += glu(h, c["shared_intermediate_size"])
        if E:
            n += E * glu(h, c["intermediate_size"]) + lin(h, E)
    return n


def f_starcoder2(c, mt):
    b = c["use_bias"]
    return llama_like(c, mt, qkv_bias=b, norm_size=2, ffn=lambda c, i: mlp(c["hidden_size"], c["intermediate_size"], b))


def f_falcon(c, mt):
    h, L, nh = c["hidden_size"], c.get("num_hidden_layers") or c["n_layer"], c.get("num_attention_heads") or c["n_head"]
    new = c.get("new_decoder_architecture", False)
    kv = c.get("num_kv_heads") or c.get("n_head_kv") if new else (1 if c["multi_query"] else nh)
    norms = 2 if new or not c["parallel_attn"] else 1
    b = c["bias"]
    return embed(c, h, mt=mt) + 2 * h + L * (gqa(h, nh, kv, h // nh, b) + mlp(h, 4 * h, b) + norms * 2 * h)


def f_falcon_h1(c, mt):
    h, nh = c["hidden_size"], c["num_attention_heads"]
    layer = (gqa(h, nh, c["num_key_value_heads"], c["head_dim"]) + glu(h, c["intermediate_size"]) + 2 * h
             + mamba2(h, c["mamba_d_ssm"], c["mamba_n_heads"], c["mamba_n_groups"], c["mamba_d_state"],
                      c["mamba_d_conv"], c["mamba_conv_bias"], c["mamba_proj_bias"], c["mamba_rms_norm"]))
    return embed(c, h, mt=mt) + h + c["num_hidden_layers"] * layer


def f_internlm2(c, mt):
    b = c.get("bias", False)
    return llama_like(c, mt, qkv_bias=c.get("qkv_bias", b), o_bias=b, mlp_bias=b)


def f_jamba(c, mt):
    h, nh, n = c["hidden_size"], c["num_attention_heads"], 0
    n = embed(c, h, mt=mt) + h
    for i in range(c["num_hidden_layers"]):
        n += 2 * h
        n += (gqa(h, nh, c["num_key_value_heads"], h // nh) if i % c["attn_layer_period"] == c["attn_layer_offset"] else mamba1(c))
        n += (moe(h, c["num_experts"], c["intermediate_size"])
              if c["num_experts"] > 1 and i % c["expert_layer_period"] == c["expert_layer_offset"] else glu(h, c["intermediate_size"]))
    return n


def f_olmo(c, mt):
    return llama_like(c, mt, norm_size=0)


def f_olmo2(c, mt):
    return llama_like(c, mt, norm="full")


def f_olmoe(c, mt):
    return llama_like(c, mt, norm="full", ffn=lambda c, i: moe(c["hidden_size"], c["num_experts"], c["intermediate_size"]))


def f_cohere(c, mt):
    return llama_like(c, mt, norms=1, norm="heads" if c.get("use_qk_norm") else "")


def f_dbrx(c, mt):
    h, f = c["d_model"], c["ffn_config"]
    kv, nh = c["attn_config"]["kv_n_heads"], c["n_heads"]
    return embed(c, h, mt=mt) + h + c["n_layers"] * (
        gqa(h, nh, kv, h // nh) + 2 * h + moe(h, f["moe_num_experts"], f["ffn_hidden_size"]))


def f_gpt2(c, mt):
    h, L = c["n_embd"], c["n_layer"]
    return (c["vocab_size"] + c["n_positions"]) * h + 2 * h + L * (
        gqa(h, c["n_head"], c["n_head"], h // c["n_head"], True) + mlp(h, c.get("n_inner") or 4 * h, True) + 4 * h)


def f_neox(c, mt):
    h, L, nh = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    return embed(c, h, mt=mt) + 2 * h + L * (gqa(h, nh, nh, h // nh, True) + mlp(h, c["intermediate_size"], True) + 4 * h)


def f_gptj(c, mt):
    h, L, nh = c["n_embd"], c["n_layer"], c["n_head"]
    return embed(c, h, mt=mt) + c["vocab_size"] + 2 * h + L * (
        gqa(h, nh, nh, h // nh) + mlp(h, c.get("n_inner") or 4 * h, True) + 2 * h)


def f_opt(c, mt):
    h, L, nh = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    e = c.get("word_embed_proj_dim", h)
    n = c["vocab_size"] * e + (c["max_position_embeddings"] + 2) * h + (0 if e == h else 2 * e * h)
    n += 2 * h if c["do_layer_norm_before"] else 0
    return n + L * (gqa(h, nh, nh, h // nh, True) + mlp(h, c["ffn_dim"], True) + 4 * h)


def f_bloom(c, mt):
    h, L, nh = c.get("hidden_size") or c["n_embed"], c["n_layer"], c.get("n_head") or c["num_attention_heads"]
    return c["vocab_size"] * h + 4 * h + L * (gqa(h, nh, nh, h // nh, True) + mlp(h, 4 * h, True) + 4 * h)


def f_mpt(c, mt):
    h, nh = c["d_model"], c["n_heads"]
    pos = 0 if c["attn_config"]["alibi"] else c["max_seq_len"] * h
    return c["vocab_size"] * h + pos + h + c["n_layers"] * (
        gqa(h, nh, nh, h // nh) + mlp(h, c["expansion_ratio"] * h) + 2 * h)


def f_qwen(c, mt):  # intermediate_size counts gate and value
    return llama_like({**c, "num_key_value_heads": c["num_attention_heads"],
                       "intermediate_size": c["intermediate_size"] // 2}, mt, qkv_bias=True, o_bias=False)


def f_mamba(c, mt):
    h, inner, rank, state = c["hidden_size"], c["intermediate_size"], c["time_step_rank"], c["state_size"]
    layer = (lin(h, 2 * inner) + inner * (c["conv_kernel"] + 1) + lin(inner, rank + 2 * state)
             + lin(rank, inner, True) + inner * state + inner + lin(inner, h) + h)
    return embed(c, h, mt=mt) + h + c["num_hidden_layers"] * layer


def f_mamba2(c, mt):
    h = c["hidden_size"]
    inner = c["expand"] * h
    return embed(c, h, mt=mt) + h + c["num_hidden_layers"] * (h + mamba2(
        h, inner, c["num_heads"], c["n_groups"], c["state_size"], c["conv_kernel"], c["use_conv_bias"], c["use_bias"]))


def f_mamba_ssm(c, mt):  # the config of the mamba_ssm package
    h = c["d_model"]
    s = c["ssm_cfg"]
    inner = s.get("expand", 2) * h
    v = -(-c["vocab_size"] // c["pad_vocab_size_multiple"]) * c["pad_vocab_size_multiple"]
    n = v * h * (1 if c["tie_embeddings"] else 2) + h
    n += c["n_layer"] * (h + mamba2(h, inner, inner // s.get("headdim", 64), s.get("ngroups", 1), s.get("d_state", 128), s.get("d_conv", 4)))
    return n


def f_ernie_moe(c, mt):
    h = c["hidden_size"]
    E, f = c["moe_num_experts"], c["moe_intermediate_size"]
    def ffn(c, i):
        if i < c["moe_layer_start_index"] or (i + 1) % c.get("moe_layer_interval", 1):
            return glu(h, c["intermediate_size"])
        return moe(h, E, f, c["moe_num_shared_experts"] * f, router_bias=E)
    return llama_like(c, mt, qkv_bias=c.get("use_bias", False), ffn=ffn)


def f_ernie(c, mt):
    return llama_like(c, mt, qkv_bias=c.get("use_bias", False))


def f_hunyuan_moe(c, mt):
    def at(x, i):
        return x[i] if isinstance(x, list) else x
    def ffn(c, i):
        f = at(c.get("moe_intermediate_size", c["intermediate_size"]), i)
        E, S = at(c["num_experts"], i), at(c["num_shared_expert"], i)
        return moe(c["hidden_size"], E, f, S * f)
    n = llama_like(c, mt, norm="head" if c["use_qk_norm"] else "", ffn=ffn)
    if c.get("use_cla"):  # only every cla_share_factor-th layer has keys and values of its own
        L, h, hd = c["num_hidden_layers"], c["hidden_size"], c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
        n -= (L - -(-L // c["cla_share_factor"])) * 2 * lin(h, c["num_key_value_heads"] * hd)
    return n


def f_hunyuan(c, mt):
    return llama_like(c, mt, norm="head")


def f_seed(c, mt):
    return llama_like(c, mt, o_bias=c["attention_out_bias"])


def f_step3(c, mt):  # shared-KV latent query attention ("MFA"): one key-value head, low-rank query
    h, nh, hd, q = c["hidden_size"], c["num_attention_heads"], c["head_dim"], c["share_q_dim"]
    a = lin(h, q) + q + lin(q, nh * hd) + 2 * lin(h, c["num_attention_groups"] * hd) + lin(nh * hd, h)
    on = set(int(x) for x in c["moe_layers_enum"].split(","))
    n = embed(c, h, mt=mt) + h
    for i in range(c["num_hidden_layers"]):
        n += a + 2 * h
        n += (moe(h, c["moe_num_experts"], c["moe_intermediate_size"], c["share_expert_dim"]) if i in on
              else glu(h, c["intermediate_size"]))
    return n


def f_mimo_v2(c, mt):
    h, n = c["hidden_size"], 0
    n = embed(c, h, mt=mt) + h
    for i, (swa, ex) in enumerate(zip(c["hybrid_layer_pattern"], c["moe_layer_freq"])):
        p = "swa_" if swa else ""
        nh, kv = c[p + "num_attention_heads"], c[p + "num_key_value_heads"]
        n += gqa(h, nh, kv, c[p + "head_dim"], c["attention_bias"], False, vd=c[p + "v_head_dim"]) + 2 * h
        n += nh if c["add_swa_attention_sink_bias" if swa else "add_full_attention_sink_bias"] else 0
        n += (moe(h, c["n_routed_experts"], c["moe_intermediate_size"], router_bias=c["n_routed_experts"]) if ex
              else glu(h, c["intermediate_size"]))
    return n


FAMILIES = {
    "llama": f_llama, "mistral": f_llama, "ministral3": f_llama, "baichuan": f_llama, "internlm3": f_internlm2, "smollm3": f_llama, "granite": f_llama,
    "phi3": f_llama, "Yi": f_llama, "mixtral": f_mixtral, "qwen2": f_qwen2, "qwen2_vl": f_qwen2, "qwen2_5_vl": f_qwen2,
    "qwen2_5_omni_text": f_qwen2, "mimo": f_qwen2, "qwen2_moe": f_qwen_moe, "qwen3_moe": f_qwen_moe, "qwen3_vl_moe_text": f_qwen_moe,
    "qwen3": f_qwen3, "qwen3_vl_text": f_qwen3, "qwen3_next": f_qwen3_next, "qwen3_5_moe_text": f_qwen3_next, "qwen3_5_text": f_qwen3_next,
    "deepseek": f_deepseek, "deepseek_v2": f_deepseek, "deepseek_v3": f_deepseek, "deepseek_v32": f_deepseek,
    "kimi_k2": f_deepseek, "glm4_moe": f_deepseek, "glm4_moe_lite": f_deepseek, "glm_moe_dsa": f_deepseek,
    "dots1": f_deepseek, "bailing_moe": f_deepseek, "bailing_moe_linear": f_bailing_linear, "minicpm3": f_minicpm3, "longcat_flash": f_longcat, "kimi_linear": f_kimi_linear,
    "glm4": f_glm4, "glm": f_qwen2, "chatglm": f_chatglm, "minimax_text_01": f_minimax, "minimax_m1": f_minimax, "minimax_m2": f_minimax_m2,
    "llama4_text": f_llama4, "gemma": f_gemma, "gemma2": f_gemma2, "gemma3_text": f_gemma3, "gemma3n_text": f_gemma3n,
    "gemma4_text": f_gemma4, "gpt_oss": f_gpt_oss, "nemotron_h": f_nemotron_h, "nemotron": f_nemotron, "phi": f_phi,
    "phimoe": f_phimoe, "granitemoe": f_granitemoe, "granitemoehybrid": f_granitehybrid, "starcoder2": f_starcoder2,
    "falcon": f_falcon, "falcon_h1": f_falcon_h1, "internlm2": f_internlm2, "jamba": f_jamba, "olmo": f_olmo, "olmo2": f_olmo2,
    "olmo3": f_olmo2, "olmoe": f_olmoe, "cohere": f_cohere, "cohere2": f_cohere, "dbrx": f_dbrx, "gpt2": f_gpt2, "gpt_neox": f_neox,
    "gptj": f_gptj, "opt": f_opt, "bloom": f_bloom, "mpt": f_mpt, "mamba2": f_mamba2, "mamba": f_mamba,
    "falcon_mamba": f_mamba, "qwen": f_qwen, "mamba_ssm": f_mamba_ssm,
    "ernie4_5": f_ernie, "ernie4_5_moe": f_ernie_moe, "hunyuan_v1_moe": f_hunyuan_moe, "hunyuan_v1_dense": f_hunyuan,
    "seed_oss": f_seed, "step3_text": f_step3, "mimo_v2_flash": f_mimo_v2,
}


# class defaults of transformers for keys that the hub's file leaves out
DEFAULTS = {"gemma3_text": dict(num_attention_heads=8, num_key_value_heads=4, head_dim=256, vocab_size=262208)}


def text_part(config, model_type):
    """The text model's keys and its model_type; the outer tie flag reaches inwards as transformers does it."""
    c, mt = config, model_type
    if "thinker_config" in c:
        c = c["thinker_config"]
    if "text_config" in c:
        outer = config
        c = dict(c["text_config"])
        mt = c.get("model_type", mt)
        if "tie_word_embeddings" not in c and "tie_word_embeddings" in outer:
            c["tie_word_embeddings"] = outer["tie_word_embeddings"]
    if mt in ("", None) and "ssm_cfg" in c:
        mt = "mamba_ssm"
    if mt == "hunyuan":
        mt = "hunyuan_v1_moe"
    return dict(DEFAULTS.get(mt, {}), **c), mt


def count(config, model_type):
    c, mt = text_part(config, model_type)
    return FAMILIES[mt](c, mt)

"""Reads and checks the question and the plan in the JSON of the contract.

A case that the step cannot run is refused with the field's name. What it runs differently from what
was asked is listed by `departures` and shown in the environment line.
"""

import json
import types

from .fields import (REQUIRED, InvalidCase, anything, counts, only, positive, ratio, read_fields, text,
                     truth, whole, word)

MODEL = {
    "name": (text, ""), "layer_count": (whole(), REQUIRED), "hidden_size": (whole(), REQUIRED),
    "ffn_hidden_size": (whole(), REQUIRED), "attention_head_count": (whole(), REQUIRED),
    "kv_head_count": (whole(), None), "head_dim": (whole(2), None), "vocab_size": (whole(2), REQUIRED),
    "mlp": (word("gelu", "swiglu", "geglu"), "swiglu"), "norm": (word("layernorm", "rmsnorm"), "rmsnorm"),
    "tied_embeddings": (truth, False), "moe": (anything, None), "mla": (only(None), None),
    "sliding_window": (only(0), 0), "mtp_layer_count": (only(0), 0),
    "linear_attention": (only(None), None), "state_space": (only(None), None), "layers": (only([]), []),
    "qkv_bias": (only(False), False), "qk_norm": (only(False), False),
    "attention_output_gate": (only(False), False), "post_norms": (only(False), False),
    "position_count": (only(0), 0), "rotary_base": (positive, 10000.0), "norm_epsilon": (positive, 1e-5),
    "rope_scaling": (only(None), None), "biases": (only(None), None), "pre_norms": (only(True), True),
    "qk_norm_spans_heads": (only(False), False), "attention_sinks": (only(False), False),
    "parallel_feed_forward": (only(False), False), "glu_offset": (only(0), 0),
    "activation_clamp": (only(None), None), "attention_soft_cap": (only(None), None),
    "output_soft_cap": (only(None), None), "attention_scale": (only(None), None),
    "embedding_scale": (only(None), None), "residual_scale": (only(None), None),
    "output_scale": (only(None), None)}
MOE = {
    "expert_count": (whole(), REQUIRED), "experts_per_token": (whole(), REQUIRED),
    "expert_ffn_hidden_size": (whole(), REQUIRED), "shared_expert_ffn_hidden_size": (whole(0), 0),
    "first_dense_layer_count": (whole(0), 0), "imbalance_ratio": (only(1), 1),
    "group_count": (only(0), 0), "groups_per_token": (only(0), 0),
    "router_score": (only("softmax"), "softmax"), "routed_scaling_factor": (only(1), 1),
    "router_bias": (only(False), False)}
WORKLOAD = {
    "sequence_length": (whole(2), REQUIRED), "global_batch_size": (whole(), REQUIRED),
    "precision": (word("bf16", "fp32", others=("fp16", "fp8")), "bf16"),
    "attention_kernel": (word("unfused", "fused_softmax", "flash1", "flash2", "flash3", "cudnn", "vendor"),
                         "unfused"),
    "norm_kernel": (word("unfused", "fused"), None),  # default: the kernel that runs
    "cross_entropy_kernel": (word("unfused", "fused"), "unfused"),
    "optimizer": (word("adam", others=("adam8bit", "sgd")), "adam"),
    "gradient_dtype": (word("fp32", "bf16", others=("fp16",)), "fp32"),
    "fp8_recipe": (anything, ""),  # has no effect without fp8, which is refused above
    "grouped_gemm": (truth, False), "dropout_ratio": (only(0), 0),
    "overlap": (anything, {}), "moe": (anything, {}), "framework": (anything, {})}
OVERLAP = {"gradient_reduce": (truth, False), "parameter_gather": (truth, False),
           "tensor_parallel": (truth, False), "pipeline_p2p": (truth, True),
           "expert_parallel": (truth, False), "shared_expert": (truth, False)}
MOE_TRAINING = {
    "dispatcher": (word("alltoall", "allgather", "deepep", "hybridep"), "alltoall"),
    "dispatch_dtype": (word("bf16", others=("fp8",)), "bf16"), "capacity_factor": (only(0), 0)}
FRAMEWORK = {"name": (text, "generic"), "version": (text, ""), "facts": (anything, [])}
PLAN = {
    "tensor_parallel": (whole(), 1), "sequence_parallel": (truth, False),
    "pipeline_parallel": (whole(), 1), "virtual_pipeline": (whole(), 1), "data_parallel": (whole(), None),
    "context_parallel": (whole(), 1),
    "context_parallel_kind": (word("ring", "ulysses", "all_gather", others=("hybrid",)), "ring"),
    "expert_parallel": (whole(), 1), "expert_tensor_parallel": (whole(), 1),
    "micro_batch_size": (whole(), 1), "zero_stage": (whole(0, 3), 0), "zero_group_size": (whole(0), 0),
    "schedule": (word("gpipe", "1f1b", "interleaved_1f1b",
                      others=("zb_h1", "zb_v", "dualpipe", "dualpipe_v", "chimera")), None),
    "recompute": (anything, {}), "layers_per_stage": (counts, []),
    "optimizer_offload_ratio": (only(0), 0), "stages": (only([]), []),
    "rank_order": (word("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"), "tp-cp-ep-dp-pp"),
    "activation_offload_ratio": (only(0), 0), "whole_weights_ratio": (ratio, 0),
    "pools": (only([]), []), "replica_groups": (only([]), [])}
RECOMPUTE = {
    "granularity": (word("none", "selective", "full"), "none"), "layer_counts": (counts, []),
    "modules": (only([], ["core_attn"]), []), "selective_layer_counts": (counts, [])}


def read_case(path, plan_path, world_size):
    """Returns (model, workload, plan) from a case, or from a question and a separate file with the
    plan. Raises InvalidCase."""
    wrong = []
    document = _read_json(path, wrong)
    if plan_path is not None:
        plan = _read_json(plan_path, wrong)
        if isinstance(plan, dict) and "plan" in plan:
            wrong += [(plan_path, f"holds {name}; must hold only the plan")
                      for name in plan if name not in ("id", "plan")]
            plan = plan["plan"]
        if isinstance(document, dict) and "plan" in document:
            wrong.append((path, "holds a plan, and so does --plan"))
        elif isinstance(document, dict):
            document["plan"] = plan
    if wrong:
        raise InvalidCase(wrong)
    return check_case(document, world_size)


def _read_json(path, wrong):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        wrong.append((path, f"cannot be read as JSON: {error}"))
        return None


def check_case(document, world_size):
    wrong = []
    if not isinstance(document, dict):
        raise InvalidCase([("case", "must be a JSON object")])
    for name in document:
        if name not in ("id", "model", "workload", "cluster", "plan"):
            wrong.append((name, "no such field; there are model, workload, cluster, plan"))

    if isinstance(document.get("model"), dict) and "model_type" in document["model"]:
        raise InvalidCase([("model", "is a Hugging Face config.json; the step takes the contract's model")])

    def read(table, path, value):
        return types.SimpleNamespace(**read_fields(value, table, path, wrong))
    model = read(MODEL, "model", document.get("model", {}))
    model.moe = None if model.moe is None else read(MOE, "model.moe", model.moe)
    workload = read(WORKLOAD, "workload", document.get("workload", {}))
    workload.overlap = read(OVERLAP, "workload.overlap", workload.overlap)
    workload.moe = read(MOE_TRAINING, "workload.moe", workload.moe)
    workload.framework = read(FRAMEWORK, "workload.framework", workload.framework)
    plan = read(PLAN, "plan", document.get("plan", {}))
    plan.recompute = read(RECOMPUTE, "plan.recompute", plan.recompute)
    _check_cluster(document.get("cluster"), world_size, wrong)
    if not wrong:
        if model.head_dim is None and model.hidden_size % model.attention_head_count:
            wrong.append(("model.hidden_size", f"is {model.hidden_size}; must be a multiple of the "
                          f"{model.attention_head_count} attention heads when head_dim is not stated"))
        _fill_in(model, plan, world_size)
        _check_together(model, workload, plan, world_size, wrong)
    if wrong:
        raise InvalidCase(wrong)
    return model, workload, plan


def _check_cluster(cluster, world_size, wrong):
    """Checks the number of devices. Nothing else of the cluster matters here, because the chips are
    those that the ranks run on."""
    if cluster is None:
        return
    try:
        devices = sum(pool["node_count"] * pool["devices_per_node"] for pool in cluster["pools"])
    except (TypeError, KeyError):
        wrong.append(("cluster.pools", "needs node_count and devices_per_node of each pool"))
        return
    if devices != world_size:
        wrong.append(("cluster.pools", f"have {devices} devices, but {world_size} ranks were started"))


def _fill_in(model, plan, world_size):
    model.kv_head_count = model.kv_head_count or model.attention_head_count
    model.head_dim = model.head_dim or model.hidden_size // model.attention_head_count
    if plan.data_parallel is None:
        rest = plan.tensor_parallel * plan.context_parallel * plan.pipeline_parallel
        plan.data_parallel = max(1, world_size // rest)
    if plan.schedule is None:
        plan.schedule = "interleaved_1f1b" if plan.virtual_pipeline > 1 else "1f1b"
    if not plan.layers_per_stage:
        # If the layers do not divide evenly, the first stages take the rest.
        each, more = divmod(model.layer_count, plan.pipeline_parallel)
        plan.layers_per_stage = [each + (i < more) for i in range(plan.pipeline_parallel)]


def _check_together(model, workload, plan, world_size, wrong):
    t, c, d, p = (plan.tensor_parallel, plan.context_parallel, plan.data_parallel,
                  plan.pipeline_parallel)
    v, moe = plan.virtual_pipeline, model.moe

    def need(holds, field, what):
        if not holds:
            wrong.append((field, what))
    need(t * c * d * p == world_size, "plan.data_parallel",
         f"tensor {t} x context {c} x data {d} x pipeline {p} is not the {world_size} ranks")
    for field, size in (("attention_head_count", model.attention_head_count),
                        ("kv_head_count", model.kv_head_count),
                        ("ffn_hidden_size", model.ffn_hidden_size)):
        need(size % t == 0, "plan.tensor_parallel", f"is {t}; must divide model.{field} = {size}")
    need(model.attention_head_count % model.kv_head_count == 0, "model.kv_head_count",
         f"must divide model.attention_head_count = {model.attention_head_count}")
    need(model.head_dim % 2 == 0, "model.head_dim", "must be even: its halves are rotated together")
    need(t > 1 or not plan.sequence_parallel, "plan.sequence_parallel", "needs tensor_parallel > 1")
    need(workload.global_batch_size % (d * plan.micro_batch_size) == 0, "plan.micro_batch_size",
         f"data_parallel x micro_batch_size must divide the batch of {workload.global_batch_size}")
    micro_batches = workload.global_batch_size // (d * plan.micro_batch_size)
    need((plan.schedule == "interleaved_1f1b") == (v > 1), "plan.virtual_pipeline",
         f"is {v} with {plan.schedule}; must be above 1 with interleaved_1f1b, else 1")
    need(v == 1 or p > 1, "plan.virtual_pipeline", "needs pipeline_parallel > 1")
    need(v == 1 or micro_batches % p == 0, "plan.pipeline_parallel",
         f"must divide the {micro_batches} micro-batches of interleaving")
    need(len(plan.layers_per_stage) == p and sum(plan.layers_per_stage) == model.layer_count,
         "plan.layers_per_stage", f"must be {p} counts that sum up to {model.layer_count} layers")
    recompute = plan.recompute
    for field in ("layer_counts", "selective_layer_counts"):
        counts_given = getattr(recompute, field)
        need(not counts_given or (len(counts_given) == p and all(
            count <= layers for count, layers in zip(counts_given, plan.layers_per_stage))),
            f"plan.recompute.{field}", f"must be empty or {p} counts of the layers of a stage")
    need(recompute.granularity != "none" or not recompute.layer_counts, "plan.recompute.layer_counts",
         "says nothing with granularity none")
    need(not recompute.selective_layer_counts
         or (recompute.granularity == "full" and recompute.layer_counts),
         "plan.recompute.selective_layer_counts", "needs granularity full with layer_counts")
    parts = c if plan.context_parallel_kind == "ulysses" or c == 1 else 2 * c
    need(workload.sequence_length % (parts * (t if plan.sequence_parallel else 1)) == 0,
         "workload.sequence_length", "context_parallel (twice that, but for ulysses) x "
         "tensor_parallel under sequence_parallel must divide it")
    need(plan.context_parallel_kind != "ulysses" or model.kv_head_count // t % c == 0,
         "plan.context_parallel", f"is {c}; must divide the key-value heads of a tensor-parallel rank")
    need(c * d % (plan.zero_group_size or 1) == 0, "plan.zero_group_size",
         f"must divide data x context = {c * d}")
    need(plan.zero_stage > 0 or plan.zero_group_size == 0, "plan.zero_group_size",
         "says nothing with zero_stage 0")
    need(plan.zero_stage == 3 or plan.whole_weights_ratio == 0, "plan.whole_weights_ratio",
         "says nothing without zero_stage 3")
    ex = plan.expert_parallel * plan.expert_tensor_parallel
    need(t * c * d % ex == 0, "plan.expert_parallel",
         f"x expert_tensor_parallel = {ex} must divide tensor x context x data = {t * c * d}")
    if moe is None:
        need(ex == 1, "plan.expert_parallel", "the model has no experts")
        return
    need(t == 1 or plan.sequence_parallel, "plan.sequence_parallel",
         "must be true for experts under tensor parallelism")
    need(moe.expert_count % plan.expert_parallel == 0, "plan.expert_parallel",
         f"must divide model.moe.expert_count = {moe.expert_count}")
    need(moe.expert_ffn_hidden_size % plan.expert_tensor_parallel == 0, "plan.expert_tensor_parallel",
         f"must divide model.moe.expert_ffn_hidden_size = {moe.expert_ffn_hidden_size}")
    need(moe.shared_expert_ffn_hidden_size % t == 0, "plan.tensor_parallel",
         f"must divide model.moe.shared_expert_ffn_hidden_size = {moe.shared_expert_ffn_hidden_size}")
    need(moe.experts_per_token <= moe.expert_count, "model.moe.experts_per_token",
         f"is more than the {moe.expert_count} experts")


def departures(model, workload, attention_kernel):
    """Returns what runs differently from what the workload says: [{"field", "asked", "used"}]."""
    found = []

    def note(field, asked, used):
        if asked != used:
            found.append({"field": f"workload.{field}", "asked": asked, "used": used})
    note("attention_kernel", workload.attention_kernel, attention_kernel)
    norm_kernel = "fused" if model.norm == "layernorm" else "unfused"
    note("norm_kernel", workload.norm_kernel or norm_kernel, norm_kernel)
    note("cross_entropy_kernel", workload.cross_entropy_kernel, "unfused")
    note("grouped_gemm", workload.grouped_gemm, False)
    if model.moe is not None:
        note("moe.dispatcher", workload.moe.dispatcher, "alltoall")
    for name in OVERLAP:
        note(f"overlap.{name}", getattr(workload.overlap, name), name == "pipeline_p2p")
    own = workload.framework.name in ("generic", "train-step")  # generic means that no framework was stated
    note("framework.name", workload.framework.name, workload.framework.name if own else "train-step")
    note("framework.facts", workload.framework.facts, [])
    return found

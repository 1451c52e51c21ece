"""Runs a plan on a pool's ranks and compares every rank with the model in a single process."""

import functools
import json
import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "workloads"))

from train import comm
from train.adam import Adam, update
from train.case import check_case
from train.devices import DEVICES
from train.ranks import make_groups
from train.schedules import Pass
from train.trainer import Trainer

MODEL = {"layer_count": 4, "hidden_size": 32, "ffn_hidden_size": 64, "attention_head_count": 8,
         "kv_head_count": 4, "vocab_size": 100}  # so that each tensor_parallel pads differently
MOE = {"expert_count": 4, "experts_per_token": 2, "expert_ffn_hidden_size": 32,
       "shared_expert_ffn_hidden_size": 48, "first_dense_layer_count": 1}
WORKLOAD = {"sequence_length": 16, "global_batch_size": 4, "precision": "fp32"}
STEPS = 2

# A large epsilon makes Adam's step roughly proportional to the gradient if that is small. With
# 1e-8, it is roughly the gradient's sign, and two equal runs differ by whole steps if a gradient is
# rounding.
ADAM = Adam(learning_rate=0.01, epsilon=1e-3)


def case_of(model=None, workload=None, plan=None, ranks=1):
    document = {"model": {**MODEL, **(model or {})}, "workload": {**WORKLOAD, **(workload or {})},
                "plan": plan or {}}
    return check_case(document, ranks)


def train(case, rank, size):
    """Returns the trainer after its steps, [(loss, norm)], and the gradients of the first step."""
    trainer = Trainer(case, make_groups(case[2], rank, size, DEVICES["cpu"]), seed=1, adam=ADAM)
    figures, first = [], {}
    for step in range(STEPS):
        figures.append(trainer.gradients(trainer.batches(step)))
        if step == 0:
            for unit in trainer.stage.units:
                first.update(parts(unit, unit.gradient))
        trainer.step_count += 1
        update(trainer.stage.units, figures[-1][1], trainer.step_count, ADAM)
    return trainer, figures, first


def parts(unit, shard):
    """Returns the unit's tensors on this tensor-parallel rank, by the name of the weight."""
    whole = comm.all_gather(shard.clone(), unit.shard_group)
    found, offset = {}, 0
    for weight in unit.weights:
        shape = weight.tensor.shape
        found[weight.name] = whole[offset:offset + shape.numel()].view(shape).clone()
        offset += shape.numel()
    return found


def padded(weight, wanted):
    """Pads a weight as this plan does, with zeros, which the padding must still have after
    training."""
    whole = wanted.new_zeros(weight.shape)
    weight.without_padding(whole).copy_(wanted)
    return whole


@functools.lru_cache(maxsize=None)
def single(model, workload):
    """Returns the same from one process: whole gradients and weights by name."""
    workload = json.loads(workload)
    batch = workload.get("global_batch_size", WORKLOAD["global_batch_size"])
    case = case_of(json.loads(model), workload, {"micro_batch_size": batch})
    trainer, figures, gradients = train(case, 0, 1)
    weights = {}
    for unit in trainer.stage.units:
        weights.update(parts(unit, unit.master))
        for weight in unit.weights:
            for found in (gradients, weights):
                found[weight.name] = weight.without_padding(found[weight.name])
    return figures, gradients, weights


def differences(rank, size, model, workload, plan):
    """Returns the largest differences of this rank from the single process, each relative to the
    largest value of its tensor; where the worst were; and which weights the rank and the single
    process have."""
    figures, gradients, weights = single(json.dumps(model), json.dumps(workload))
    trainer, mine, my_gradients = train(case_of(model, workload, plan, size), rank, size)
    found = {"loss": 0.0, "norm": 0.0, "gradient": 0.0, "weight": 0.0, "worst": {}, "names": [],
             "all_names": list(weights)}
    for (loss, norm), (wanted_loss, wanted_norm) in zip(mine, figures):
        found["loss"] = max(found["loss"], _number(abs(loss / wanted_loss - 1)))
        found["norm"] = max(found["norm"], _number(abs(norm / wanted_norm - 1)))
    for unit in trainer.stage.units:
        my_weights = parts(unit, unit.master)
        for weight in unit.weights:
            name = weight.name
            found["names"].append(name)
            for figure, value, wanted in (("gradient", my_gradients[name], gradients[name]),
                                          ("weight", my_weights[name], weights[name])):
                wanted = weight.part_of(padded(weight, wanted))
                assert value.shape == wanted.shape, (name, value.shape, wanted.shape)
                error = (value - wanted).abs().max() / wanted.abs().max().clamp_min(1e-12)
                error = _number(error.item())
                if error >= found[figure]:
                    found[figure], found["worst"][figure] = error, name
    return found


def _number(error):
    """Returns infinity for a NaN. Every comparison with a NaN is false, so a maximum would skip
    it."""
    return math.inf if math.isnan(error) else error


def holdings(rank, size, plan):
    """Returns the numbers of values that this rank keeps between the forward and the backward pass
    of a micro-batch, and after it."""
    case = case_of({"vocab_size": 256}, plan=plan, ranks=size)  # a multiple of every padded size
    trainer = Trainer(case, make_groups(case[2], rank, size, DEVICES["cpu"]), seed=1)
    units, saved = trainer.stage.units, {}
    weights = {unit.flat.data_ptr() for unit in units}

    def keep(tensor):
        if tensor.storage().data_ptr() not in weights:
            saved[tensor.storage().data_ptr()] = tensor.storage().size()
        return tensor
    batch = trainer.batches(0)[0]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        trainer.stage.forward(Pass(True, 0, 0), None, batch)
    whole = sum(unit.flat.storage().size() for unit in units)
    trainer.stage.backward(Pass(False, 0, 0), None, batch)
    return {"saved": sum(saved.values()), "weights": whole,
            "states": sum(unit.states[0].numel() for unit in units),
            "gradients": sum(unit.gradient.numel() for unit in units)}

"""The blocks of one pipeline stage, and their forward and backward passes, block by block.

Autograd works only inside a block, because its input is detached from what made it. So weights can
be gathered before a block and gradients reduced after it without hooks. A block that recomputes
fully keeps only its input.
"""

import collections

import torch

from .layers import Embedding, Head, Layer
from .moe import MoeLayer
from .zero import make_units

Kept = collections.namedtuple("Kept", "given out")  # a block's input and output; `out` is None if it is recomputed


class Stage:
    def __init__(self, setting):
        self.setting = setting
        self.chunks = [[] for _ in range(setting.plan.virtual_pipeline)]
        self.units = []  # for the optimizer: each unit once
        self.units_of = {}  # name of a block -> the units that it uses
        self.recompute = {}  # name of a layer -> full or selective
        self.whole = set()  # names of layers whose weights stay whole until the step ends
        self.kept = {}  # (micro, chunk) -> [Kept]
        self._build()

    def _build(self):
        setting, plan, group = self.setting, self.setting.plan, self.setting.groups["pipeline"]
        split = split_layers(plan)
        done = 0  # layers of this stage so far
        for chunk, blocks in enumerate(self.chunks):
            is_first = chunk == 0 and group.rank == 0
            is_last = chunk + 1 == len(self.chunks) and group.rank + 1 == group.size
            if is_first:
                self._add(blocks, Embedding(setting))
            for index in split[chunk][group.rank]:
                moe = setting.model.moe
                is_moe = moe is not None and index >= moe.first_dense_layer_count
                layer = (MoeLayer if is_moe else Layer)(index, setting)
                self._add(blocks, layer)
                self.recompute[layer.name] = _recompute(plan.recompute, group.rank, done)
                if done < int(plan.whole_weights_ratio * plan.layers_per_stage[group.rank]):
                    self.whole.add(layer.name)
                done += 1
            if is_last:
                self._add_head(blocks)

    def _add(self, blocks, block):
        blocks.append(block)
        self.units_of[block.name] = make_units(block, self.setting)
        self.units += self.units_of[block.name]

    def _add_head(self, blocks):
        tied, group = self.setting.model.tied_embeddings, self.setting.groups["ends"]
        first = self.chunks[0][0] if self.chunks[0] else None
        shares = tied and group.size == 1
        self._add(blocks, Head(self.setting, first.weights["table"] if shares else None))
        if shares:
            self.units_of["head"] = self.units_of["head"] + self.units_of["embedding"]

    def forward(self, one, x, batch):
        kept = self.kept[one.micro, one.chunk] = []
        for block in self.chunks[one.chunk]:
            self._gather(block)
            x = None if x is None else x.detach().requires_grad_()
            how = self.recompute.get(block.name)
            with torch.set_grad_enabled(how != "full"):
                out = block.forward(x, batch, how == "selective")
            kept.append(Kept(x, None if how == "full" else out))
            x = out.detach()
            self._release(block)
        return x

    def backward(self, one, grad, batch):
        kept = self.kept.pop((one.micro, one.chunk))
        for block in reversed(self.chunks[one.chunk]):
            given, out = kept.pop()
            self._gather(block)
            if out is None:
                out = block.forward(given, batch, False)
            torch.autograd.backward(out, grad)
            for unit in self.units_of[block.name]:
                unit.take_gradients()
            self._release(block)
            grad = None if given is None else given.grad
        return grad

    def _gather(self, block):
        self.setting.progress()
        for unit in self.units_of[block.name]:
            unit.gather()

    def _release(self, block):
        if block.name in self.whole:
            return
        for unit in self.units_of[block.name]:
            unit.release()


def split_layers(plan):
    """Returns [chunk][stage] -> the layers there. Layers go chunk after chunk, and each chunk
    through all stages. If they do not divide evenly, the first chunks of a stage take the rest."""
    chunks = plan.virtual_pipeline
    split, next_layer = [], 0
    for chunk in range(chunks):
        row = []
        for layers in plan.layers_per_stage:
            count = layers // chunks + (chunk < layers % chunks)
            row.append(range(next_layer, next_layer + count))
            next_layer += count
        split.append(row)
    return split


def _recompute(recompute, stage, layer):
    """Returns how a layer of a stage recomputes."""
    if recompute.granularity == "none":
        return None
    first = recompute.layer_counts[stage] if recompute.layer_counts else None
    if first is None or layer < first:
        return recompute.granularity
    after = recompute.selective_layer_counts[stage] if recompute.selective_layer_counts else 0
    return "selective" if layer < first + after else None

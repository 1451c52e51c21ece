"""The weights of a block: their whole shapes, and the part of each that this rank has."""

import dataclasses
import zlib

import torch

_STD = 0.02  # a larger value fills the backward pass with denormals, which are slow on CPUs


@dataclasses.dataclass
class Weight:
    """`kind` says which ranks share it. "split" and "replicated" weights are on all tensor-parallel
    ranks, in parts or as copies; "expert" weights are on those that hold the expert. `cut` is the
    dimension along which it is split."""
    name: str
    shape: tuple  # whole shape
    kind: str = "replicated"
    cut: int = 0
    group: object = None  # the ranks that have the parts; None if it is not split
    used: int = None  # size used of the split dimension; the rest is padding and stays 0
    fill: float = None  # None for random values
    tensor: torch.Tensor = None  # this rank's part, as autograd sees it

    def part_of(self, whole):
        if self.group is None:
            return whole
        size = self.shape[self.cut] // self.group.size
        return whole.narrow(self.cut, self.group.rank * size, size)

    def local_shape(self):
        return tuple(size // (self.group.size if self.group and i == self.cut else 1)
                     for i, size in enumerate(self.shape))

    def initial(self, seed, device):
        """Returns this rank's part of the initial weight. The whole weight is the same under every
        plan."""
        if self.fill is not None:
            return torch.full(self.local_shape(), self.fill, device=device)
        torch.manual_seed(seed ^ zlib.crc32(self.name.encode()))
        if self.used is None:
            return self.part_of(torch.empty(self.shape, device=device).normal_(0, _STD))
        whole = torch.zeros(self.shape, device=device)
        self.without_padding(whole).normal_(0, _STD)
        return self.part_of(whole)

    def without_padding(self, whole):
        return whole if self.used is None else whole.narrow(self.cut, 0, self.used)


class Block:
    """Consecutive operations whose weights are gathered, recomputed and reduced together. A
    subclass adds weights and a forward(x, batch)."""

    def __init__(self, name, setting):
        self.name, self.setting = name, setting
        self.weights = {}

    def add(self, name, shape, **how):
        self.weights[name] = Weight(f"{self.name}.{name}", shape, **how)

    def add_split(self, name, shape, cut, **how):
        self.add(name, shape, cut=cut, kind="split", group=self.setting.groups["tensor"], **how)

    def add_norm(self, name):
        self.add(f"{name}.scale", (self.setting.model.hidden_size,), fill=1.0)
        if self.setting.model.norm == "layernorm":
            self.add(f"{name}.bias", (self.setting.model.hidden_size,), fill=0.0)

    def __getitem__(self, name):
        weight = self.weights.get(name)
        return None if weight is None else weight.tensor

"""The weights of a block: their whole shapes, and which part of each this rank has."""

import dataclasses
import zlib

import torch

_STD = 0.02  # a larger one fills the backward pass with denormals, which CPUs are slow at


@dataclasses.dataclass
class Weight:
    """`kind` says who shares it: "split" and "replicated" lie on all tensor-parallel ranks, in parts
    or as copies; "expert" on those that hold the expert. `cut`: the dimension of the parts."""
    name: str
    shape: tuple  # whole
    kind: str = "replicated"
    cut: int = 0
    group: object = None  # the ranks that have the parts; None: not cut
    used: int = None  # of the cut dimension; what lies behind is padding, and stays 0
    fill: float = None  # None: random
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
        """The same whole weight under every plan, of which this rank's part is taken."""
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
    """Consecutive operations that hold their weights together: what is gathered, recomputed and
    reduced as a whole. A subclass adds weights and a forward(x, batch)."""

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

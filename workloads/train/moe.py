"""A layer whose feed-forward network is a mixture of experts: top-k routing without dropped tokens."""

import torch
import torch.nn.functional as F

from . import comm
from .layers import Layer, feed_forward, up_count


class MoeLayer(Layer):
    def add_feed_forward(self):
        model, groups = self.setting.model, self.setting.groups
        moe, h = model.moe, model.hidden_size
        self.has_bias = False  # experts have no bias
        self.add("router", (moe.expert_count, h))
        local = moe.expert_count // groups["expert"].size
        self.experts = range(groups["expert"].rank * local, (groups["expert"].rank + 1) * local)
        how = {"kind": "expert", "group": groups["expert_tensor"]}
        for e in self.experts:
            self.add(f"experts.{e}.up", (up_count(model), moe.expert_ffn_hidden_size, h), cut=1, **how)
            self.add(f"experts.{e}.down", (h, moe.expert_ffn_hidden_size), cut=1, **how)
        if moe.shared_expert_ffn_hidden_size:
            self.add_mlp("shared", moe.shared_expert_ffn_hidden_size)

    def feed_forward(self, x):
        # Ranks that share experts by columns and rows all need the tokens of each of these ranks.
        tokens = comm.gather(x.flatten(0, 1), self.setting.groups["expert_tensor"])
        routed = comm.scatter_sum(self.routed(tokens), self.setting.groups["expert_tensor"])
        routed = routed.view_as(x)
        if self.setting.model.moe.shared_expert_ffn_hidden_size:
            routed = routed + self.mlp(x, "shared")
        return routed

    def routed(self, tokens):
        """Returns each token's sum over its experts; only a part of it if experts are split."""
        moe = self.setting.model.moe
        chances = F.linear(tokens.float(), self["router"].float()).softmax(-1)
        chances, experts = chances.topk(moe.experts_per_token, -1)
        chances = chances / chances.sum(-1, keepdim=True)
        order = experts.flatten().argsort(stable=True)
        source = order // moe.experts_per_token  # the token of each routed copy
        counts = experts.flatten().bincount(minlength=moe.expert_count)
        answers = self.dispatch(tokens[source], counts)
        answers = answers * chances.flatten()[order, None].to(answers.dtype)
        return torch.zeros_like(tokens).index_add(0, source, answers)

    def dispatch(self, copies, counts):
        """Sends copies, sorted by expert, to the ranks of their experts, and returns the
        results."""
        group = self.setting.groups["expert"]
        arriving = comm.all_to_all(counts, group).view(group.size, -1)  # one row per source, one column per expert
        send = counts.view(group.size, -1).sum(1).tolist()
        receive = arriving.sum(1).tolist()
        copies = comm.exchange(copies, group, send, receive)
        # The copies arrive sorted by source, then expert, but each expert needs all of its copies
        # together.
        expert = torch.arange(len(self.experts), device=copies.device).repeat(group.size)
        order = expert.repeat_interleave(arriving.flatten()).argsort(stable=True)
        parts = copies[order].split(arriving.sum(0).tolist())
        answers = torch.cat([
            feed_forward(part, self[f"experts.{e}.up"], self[f"experts.{e}.down"], self.setting.model.mlp)
            for e, part in zip(self.experts, parts)])
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        return comm.exchange(answers[back], group, receive, send)

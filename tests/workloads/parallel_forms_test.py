"""Tests that every parallel form of the reference step gives the losses, gradients and weights of
one process.

The tolerances are relative to the largest value of a tensor. Everything is fp32, which rounds at
6e-8. Sums of some hundred terms in another order differ by a few 1e-7; the largest difference seen
of gradients is 9e-7. Adam turns an error e of a gradient into up to e / epsilon of its step, so
weights differ by up to largest gradient / epsilon = 100 times more; the largest seen is 2.4e-5. A
missing or doubled term shows as 1e-2 or more.
"""

import unittest

import compare
import torch
from pool import Pool

TOLERANCE = {"loss": 1e-6, "norm": 2e-6, "gradient": 5e-6, "weight": 1e-4}

MOE = {"moe": compare.MOE}
GPT = {"mlp": "gelu", "norm": "layernorm"}  # with biases
TIED = {"tied_embeddings": True}
SP = {"tensor_parallel": 2, "sequence_parallel": True}
FULL = {"recompute": {"granularity": "full"}}
SELECTIVE = {"recompute": {"granularity": "selective"}}

ODD_SIZES = {"layer_count": 1, "hidden_size": 18, "ffn_hidden_size": 7, "attention_head_count": 3,
             "kv_head_count": 1, "head_dim": 6, "vocab_size": 200}

# name: (ranks, changes of the model, plan)
CASES = {
    "micro_batches": (1, {}, {}),
    "experts": (1, MOE, {}),
    "recompute_full": (1, {}, FULL),
    "recompute_selective": (1, {}, SELECTIVE),
    "recompute_full_experts": (1, MOE, FULL),
    "recompute_by_counts": (1, GPT, {"recompute": {"granularity": "full", "layer_counts": [1],
                                                   "selective_layer_counts": [2]}}),
    "tensor": (2, {}, {"tensor_parallel": 2}),
    "tensor_of_4": (4, {}, {"tensor_parallel": 4}),
    "tensor_of_4_tied": (4, TIED, {"tensor_parallel": 4}),
    "tensor_gpt": (2, GPT, {"tensor_parallel": 2}),
    "sequence": (2, {}, SP),
    "sequence_gpt_tied": (2, {**GPT, **TIED}, SP),
    "zero_0": (2, {}, {"zero_stage": 0}),
    "zero_1": (2, {}, {"zero_stage": 1}),
    "zero_2": (2, {}, {"zero_stage": 2}),
    "zero_3": (2, {}, {"zero_stage": 3}),
    "zero_3_tied": (2, TIED, {"zero_stage": 3}),
    "zero_3_recompute": (2, {}, {"zero_stage": 3, **FULL}),
    "zero_3_whole_weights": (2, {}, {"zero_stage": 3, "whole_weights_ratio": 0.5}),
    "gpipe": (2, {}, {"pipeline_parallel": 2, "schedule": "gpipe"}),
    "1f1b": (2, {}, {"pipeline_parallel": 2}),
    "1f1b_uneven": (2, {}, {"pipeline_parallel": 2, "layers_per_stage": [3, 1]}),
    "1f1b_tied": (2, TIED, {"pipeline_parallel": 2}),
    "1f1b_empty_stage": (2, {}, {"pipeline_parallel": 2, "layers_per_stage": [4, 0]}),
    "interleaved": (2, {}, {"pipeline_parallel": 2, "virtual_pipeline": 2}),
    "interleaved_uneven": (2, {}, {"pipeline_parallel": 2, "virtual_pipeline": 2,
                                   "layers_per_stage": [3, 1]}),
    "ring": (2, {}, {"context_parallel": 2}),
    "ring_selective": (2, {}, {"context_parallel": 2, **SELECTIVE}),
    "ring_selective_gpt": (2, {**GPT, "kv_head_count": 8}, {"context_parallel": 2, **SELECTIVE}),
    "ulysses": (2, {}, {"context_parallel": 2, "context_parallel_kind": "ulysses"}),
    "gathered_keys": (2, {}, {"context_parallel": 2, "context_parallel_kind": "all_gather"}),
    "experts_data": (2, MOE, {}),
    "experts_2": (2, MOE, {"expert_parallel": 2}),
    "experts_2_zero_3": (2, MOE, {"expert_parallel": 2, "zero_stage": 3}),
    "experts_within_tensor": (2, MOE, {**SP, "expert_parallel": 2}),
    "experts_cut": (2, MOE, {**SP, "expert_tensor_parallel": 2}),
    "tensor_and_zero_3": (4, {}, {**SP, "zero_stage": 3}),
    "pipeline_and_tensor": (4, {}, {"tensor_parallel": 2, "pipeline_parallel": 2}),
    "pipeline_tied_and_zero_1": (4, TIED, {"pipeline_parallel": 2, "zero_stage": 1}),
    "pipeline_inside_data": (4, {}, {"pipeline_parallel": 2, "zero_stage": 2,
                                     "rank_order": "tp-cp-ep-pp-dp"}),
    "interleaved_and_zero_3": (4, {}, {"pipeline_parallel": 2, "virtual_pipeline": 2, "zero_stage": 3}),
    "shards_in_groups": (4, {}, {"zero_stage": 3, "zero_group_size": 2}),
    "ring_and_tensor": (4, {}, {**SP, "context_parallel": 2}),
    "ring_of_4": (4, {}, {"context_parallel": 4, **FULL}),
    "ring_and_zero_2": (4, {}, {"context_parallel": 2, "zero_stage": 2}),
    "experts_2_and_data": (4, MOE, {"expert_parallel": 2, "zero_stage": 1}),
    "experts_of_all_ranks": (4, MOE, {**SP, "expert_parallel": 4, "zero_stage": 3}),
    "experts_and_pipeline": (4, MOE, {"pipeline_parallel": 2, "expert_parallel": 2}),
}


class ParallelFormsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.pools = {}
        for size in (2, 4):
            cls.pools[size] = Pool(size)
            cls.addClassCleanup(cls.pools[size].close)

    def differences(self, ranks, model, plan, workload=None):
        arguments = (model, workload or {}, plan)
        if ranks == 1:
            return [compare.differences(0, 1, *arguments)]
        return self.pools[ranks].run(compare.differences, *arguments)

    def check(self, found):
        for rank, one in enumerate(found):
            for figure, tolerance in TOLERANCE.items():
                self.assertLess(one[figure], tolerance, f"{figure} on rank {rank}: {one['worst']}")
        # Together the ranks have every weight.
        names = set().union(*(one["names"] for one in found))
        self.assertEqual(names, set(found[0]["all_names"]))

    def test_bf16(self):
        """Tests moves and sums of bf16, which this backend lacks. Roundings of 4e-3 differ between
        plans."""
        for ranks, model, plan in ((4, {}, {**SP, "zero_stage": 3}), (2, MOE, {"expert_parallel": 2}),
                                   (2, {}, {"pipeline_parallel": 2, "zero_stage": 1}),
                                   (2, {}, {"context_parallel": 2})):
            for one in self.differences(ranks, model, plan, {"precision": "bf16"}):
                self.assertLess(one["loss"], 1e-3, plan)
                self.assertLess(one["norm"], 2e-2, plan)

    def test_gradients_in_bf16(self):
        for one in self.differences(2, {}, {"zero_stage": 2}, {"gradient_dtype": "bf16"}):
            self.assertLess(one["norm"], 1e-2)
            self.assertLess(one["gradient"], 2e-2)

    def test_padding_of_the_vocabulary_and_odd_sizes(self):
        # Flat pieces have odd lengths, so the ranks that share them pad them.
        self.check(self.differences(2, ODD_SIZES, {"zero_stage": 3, "micro_batch_size": 3},
                                    {"global_batch_size": 6}))


class MemoryTest(unittest.TestCase):
    """Tests that forms with the same numbers also save the memory that they are meant to save."""

    def setUp(self):
        torch.set_num_threads(1)

    def test_zero(self):
        pool = Pool(2)
        self.addCleanup(pool.close)
        found = [pool.run(compare.holdings, {"zero_stage": stage})[0] for stage in range(4)]
        whole = found[0]["states"]
        self.assertEqual([one["states"] for one in found], [whole, whole // 2, whole // 2, whole // 2])
        self.assertEqual([one["gradients"] for one in found], [whole, whole, whole // 2, whole // 2])
        self.assertEqual([one["weights"] for one in found], [whole, whole, whole, 0])
        some = pool.run(compare.holdings, {"zero_stage": 3, "whole_weights_ratio": 0.5})[0]
        # 2 of 4 layers: query, key, value and output, 32 x (32 + 2 x 16 + 32), 3 x 32 x 64, 2 norms.
        self.assertEqual(some["weights"], 2 * (32 * 96 + 3 * 32 * 64 + 2 * 32))
        split = pool.run(compare.holdings, SP)[0]
        self.assertLess(split["states"], 0.52 * whole)
        self.assertLess(split["saved"], 0.6 * found[0]["saved"])

    def test_recompute(self):
        none, selective, full = (compare.holdings(0, 1, plan)["saved"] for plan in ({}, SELECTIVE, FULL))
        # This counts the scores: 4 layers x 8 heads x 16 x 16 tokens, at least before and after
        # softmax.
        self.assertGreater(none - selective, 4 * 8 * 16 * 16)
        self.assertLess(full, 0.2 * none)


def _add(name, ranks, model, plan):
    setattr(ParallelFormsTest, f"test_{name}",
            lambda self: self.check(self.differences(ranks, model, plan)))


for _name, _case in CASES.items():
    _add(_name, *_case)

if __name__ == "__main__":
    unittest.main()

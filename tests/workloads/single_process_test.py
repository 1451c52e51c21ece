"""Tests the reference step in one process against results that do not come from its own code."""

import math
import unittest
import unittest.mock

import torch
from compare import MOE, case_of
from train.attention import attend, positions_of
from train.devices import DEVICES, index_of
from train.layers import rotate
from train.ranks import make_groups
from train.schedules import passes
from train.stage import split_layers
from train.trainer import Trainer


def trainer_of(model=None, workload=None, plan=None):
    case = case_of(model, workload, plan)
    return Trainer(case, make_groups(case[2], 0, 1, DEVICES["cpu"]), seed=1)


def gradients_of(trainer):
    """Returns (loss, norm of the gradient) of the first step."""
    return trainer.gradients(trainer.batches(0))


class ModelTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def test_first_loss_is_that_of_a_guess(self):
        loss, _ = gradients_of(trainer_of())
        self.assertAlmostEqual(loss, math.log(100), delta=0.05)

    def test_it_learns_what_it_sees_again(self):
        trainer = trainer_of({"moe": MOE})
        batches = trainer.batches(0)
        trainer.batches = lambda step: batches
        losses = [trainer.step()[1] for _ in range(12)]
        self.assertLess(losses[-1], losses[0] - 0.05)

    def test_gradient_is_the_slope_of_the_loss(self):
        """Along the gradient g of one weight, the loss changes by |g| per unit of length."""
        # Each token uses all experts, because the choice of some is not continuous.
        for model in ({}, {"moe": {**MOE, "experts_per_token": 4}},
                      {"mlp": "geglu", "norm": "layernorm", "tied_embeddings": True}):
            trainer = trainer_of(model)
            batches = trainer.batches(0)
            trainer.gradients(batches)
            units = trainer.stage.units
            gradients = [unit.gradient for unit in units]
            for unit, gradient in zip(units, gradients):
                norm, losses = gradient.norm(), []
                before = unit.flat.clone()
                for sign in (1, -1):
                    unit.flat.copy_(before + sign * 0.005 * gradient / norm)
                    for one in units:
                        one.gradient = None
                    losses.append(trainer.gradients(batches)[0])
                unit.flat.copy_(before)
                slope = (losses[0] - losses[1]) / 0.01
                # fp32 losses of 5.5 leave 5e-7 / 0.01 = 5e-5 of noise.
                self.assertAlmostEqual(slope, norm.item(), delta=0.01 * norm.item() + 1e-4,
                                       msg=unit.weights[0].name)

    def test_no_token_sees_a_later_one(self):
        trainer = trainer_of({"moe": MOE}, {"global_batch_size": 1})
        batch, = trainer.batches(0)
        blocks = trainer.stage.chunks[0][:-1]

        def last_activations():
            x = None
            for block in blocks:
                x = block.forward(x, batch, False)
            return x
        before = last_activations()
        batch.tokens[9] = (batch.tokens[9] + 1) % 100
        changed = (last_activations() - before).abs().amax((1, 2)) > 0
        self.assertEqual(changed.tolist(), [False] * 9 + [True] * 7)

    def test_attention_by_hand(self):
        # There are one head of two numbers and two tokens: the second weighs keys by exp(q k / sqrt
        # 2).
        setting = trainer_of().setting
        setting.positions = torch.arange(2)
        q = torch.tensor([[1.0, 0.0], [2.0, 0.0]]).view(2, 1, 1, 1, 2)
        k = torch.tensor([[1.0, 0.0], [0.0, 5.0]]).view(2, 1, 1, 2)
        v = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).view(2, 1, 1, 2)
        first = math.exp(2 / math.sqrt(2))
        share = first / (first + 1)
        wanted = torch.tensor([[1.0, 0.0], [share, 1 - share]])
        torch.testing.assert_close(attend(q, k, v, setting).view(2, 2), wanted)

    def test_fused_attention_is_given_the_same(self):
        """PyTorch 1 has no fused attention, so a plain one with its signature replaces it."""
        def plain(q, k, v, is_causal):
            self.assertTrue(is_causal)
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            later = torch.ones_like(scores).triu(1).bool()
            return scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        setting = trainer_of().setting
        q, k, v = torch.randn(16, 3, 4, 2, 8), torch.randn(16, 3, 4, 8), torch.randn(16, 3, 4, 8)
        wanted = attend(q, k, v, setting)
        setting.fused_attention = True
        name = "scaled_dot_product_attention"
        with unittest.mock.patch.object(torch.nn.functional, name, plain, create=True):
            torch.testing.assert_close(attend(q, k, v, setting), wanted)

    def test_rotation_keeps_what_depends_on_distance(self):
        x, y = torch.randn(1, 1, 8), torch.randn(1, 1, 8)
        speeds = torch.tensor([1.0, 0.3, 0.1, 0.01])

        def product(i, j):
            return (rotate(x, i * speeds[None]) * rotate(y, j * speeds[None])).sum()
        torch.testing.assert_close(product(7, 4), product(5, 2))

    def test_bf16_is_near_fp32(self):
        losses = [gradients_of(trainer_of(None, {"precision": precision}))
                  for precision in ("fp32", "bf16")]
        self.assertAlmostEqual(losses[0][0], losses[1][0], delta=0.01)
        self.assertAlmostEqual(losses[0][1], losses[1][1], delta=0.02)


class PlaceTest(unittest.TestCase):
    def test_positions(self):
        self.assertEqual(positions_of(1, 2, 8, "ring").tolist(), [2, 3, 4, 5])
        self.assertEqual(positions_of(0, 2, 8, "all_gather").tolist(), [0, 1, 6, 7])
        self.assertEqual(positions_of(1, 2, 8, "ulysses").tolist(), [4, 5, 6, 7])

    def test_layers(self):
        plan = case_of({"layer_count": 5}, None, {"pipeline_parallel": 2, "virtual_pipeline": 2,
                                                  "layers_per_stage": [3, 2]}, 2)[2]
        self.assertEqual([[list(layers) for layers in row] for row in split_layers(plan)],
                         [[[0, 1], [2]], [[3], [4]]])


class DeviceTest(unittest.TestCase):

    def test_ranks_take_the_devices_that_were_leased(self):
        for leased, device_count, expected in (("2,3", 4, [2, 3]), ("", 4, [0, 1]), ("2,3", 1, [0, 0]), ("5", 8, [5, 1]),
                                               ("0,1", 2, [0, 1]), ("1,2", 2, [0, 1]), ("2,3", 2, [0, 1])):
            variables = {"MESHWRIGHT_DEVICES": leased}
            self.assertEqual([index_of(rank, device_count, variables) for rank in (0, 1)], expected, leased)


class ScheduleTest(unittest.TestCase):
    SHAPES = [("gpipe", 3, 1, 5), ("1f1b", 3, 1, 5), ("1f1b", 4, 1, 2), ("interleaved_1f1b", 2, 2, 4),
              ("interleaved_1f1b", 3, 4, 6), ("interleaved_1f1b", 4, 2, 4)]

    def test_1f1b_by_hand(self):
        words = ["".join("BF"[one.is_forward] + str(one.micro) for one in passes("1f1b", stage, 2, 1, 3))
                 for stage in (0, 1)]
        self.assertEqual(words, ["F0F1B0F2B1B2", "F0B0F1B1F2B2"])

    def test_every_pass_runs_once_and_after_what_it_needs(self):
        for schedule, stages, chunks, micro_batches in self.SHAPES:
            orders = [passes(schedule, stage, stages, chunks, micro_batches) for stage in range(stages)]
            for order in orders:
                self.assertEqual(len(set(order)), 2 * chunks * micro_batches)
            done, at = set(), [0] * stages
            while True:
                ready = [stage for stage in range(stages) if at[stage] < len(orders[stage])
                         and self.needs(orders[stage][at[stage]], stage, stages, chunks) <= done]
                if not ready:
                    break
                for stage in ready:
                    done.add((stage, orders[stage][at[stage]]))
                    at[stage] += 1
            self.assertEqual(at, [len(order) for order in orders], (schedule, "waits for ever"))

    def needs(self, one, stage, stages, chunks):
        step = -1 if one.is_forward else 1
        place = one.chunk * stages + stage + step  # position among the chunks, in the order of the model
        needed = {(stage, one._replace(is_forward=True))} if not one.is_forward else set()
        if 0 <= place < chunks * stages:
            needed.add((place % stages, one._replace(chunk=place // stages)))
        return needed

    def test_stages_hold_no_more_than_their_schedule_says(self):
        for stage, most in ((0, 3), (1, 2), (2, 1)):
            held, peak = 0, 0
            for one in passes("1f1b", stage, 3, 1, 8):
                held += 1 if one.is_forward else -1
                peak = max(peak, held)
            self.assertEqual(peak, most)


if __name__ == "__main__":
    unittest.main()

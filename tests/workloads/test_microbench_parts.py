"""Tests the parts of microbench.py: the design of shapes, flags, the file, and how items continue
if something fails."""

import collections
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "workloads"
sys.path.insert(0, str(WORKLOADS))

import microbench
from calibration import attention, chip, document, flags, items, network, shapes, step, timing
from calibration.bench import Bench, group_sizes
from calibration.collectives import sizes
from calibration.point import LeftOut, Point, Skip
from train import devices
from train.case import check_case
from train.ranks import Rank


class DesignTest(unittest.TestCase):
    def test_sizes_are_in_range_and_of_the_kinds_that_were_asked_for(self):
        for smallest, largest in ((64, 1024), (64, 2048), (128, 16384)):
            found = shapes.design(32, smallest, largest)
            self.assertEqual(len(set(found)), 32)
            kinds = collections.Counter()
            for m, n, k in found:
                self.assertTrue(1 <= m <= largest and 64 <= n <= largest and 64 <= k <= 4 * largest, (m, n, k))
                if m <= 4:
                    kinds["rows"] += 1
                elif m % 128:
                    kinds["odd"] += 1
                    self.assertEqual({size % 128 for size in (m, n, k)}, {64})
                else:
                    kinds["deep" if k >= 2 * max(m, n) and max(m, n) <= largest / 4 + 64 else "whole"] += 1
                    self.assertEqual({size % 128 for size in (m, n, k)}, {0})
            # Six of every 8 shapes are whole, of which at least one is deep; one is odd, and one
            # has few rows. A shape that was met before is replaced by the next.
            self.assertTrue(22 <= kinds["whole"] + kinds["deep"] <= 26, kinds)
            self.assertGreaterEqual(min(kinds[kind] for kind in ("rows", "odd", "deep")), 3)

    def test_it_is_one_sequence(self):
        self.assertEqual(shapes.design(232, 64, 2048)[:32], shapes.design(32, 64, 2048))
        # Index 1 in bases 3, 5, 7 is a third, a fifth and a seventh of the way from 64 to 2048, by
        # the logarithm: 64 x 32^(1/3) = 203, 64 x 32^(1/5) = 128, 64 x 32^(1/7) = 105.
        self.assertEqual(shapes.design(1, 64, 2048), [(256, 128, 128)])

    def test_sizes_cover_the_range(self):
        found = [shape for shape in shapes.design(64, 64, 2048) if shape[0] > 4]
        for place in range(3):
            self.assertLessEqual(min(shape[place] for shape in found), 128)
            self.assertGreaterEqual(max(shape[place] for shape in found), 1536)

    def test_batched(self):
        found = shapes.batched_design(8, 2048)
        self.assertEqual(len(set(found)), 8)
        for count, m, n, k in found:
            self.assertIn(count, (8, 32))
            self.assertIn(min(n, k), (64, 128))
            self.assertTrue(m == n or m == k)
            self.assertLessEqual(m, 1024)


class SizesTest(unittest.TestCase):
    def test_collectives(self):
        found = sizes(2**30)
        self.assertEqual((len(found), found[0], found[-1]), (11, 2**12, 2**30))
        self.assertEqual(found, sorted(found))
        self.assertEqual(sizes(2**20)[-1], 2**19)
        self.assertEqual([group_sizes(most) for most in (1, 2, 6, 8)], [[], [2], [2, 4, 6], [2, 4, 8]])

    def test_layouts(self):
        self.assertEqual(network.layouts([[0, 1], [2, 3]]),
                         {"rail": [[0, 2], [1, 3]], "strided": [[0, 3], [1, 2]], "all": [[0, 1, 2, 3]]})
        self.assertEqual(network.layouts([[0], [1]]), {"rail": [[0, 1]]})
        # The ranks are assigned to nodes one by one.
        self.assertEqual(network.layouts([[0, 2], [1, 3]])["strided"], [[0, 3], [1, 2]])

    def test_steps_are_cases_of_the_reference_step(self):
        for kind in ("cpu", "device", "quick"):
            for ranks in (1, 2, 3, 6, 8, 12):
                found = list(step.cases(kind, ranks))
                self.assertEqual(len(found), 2)
                self.assertNotEqual(*found)
                for case in found:
                    check_case(case, ranks)  # raises an error if the case is invalid


class FlagsTest(unittest.TestCase):
    def refused(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit) as ended:
            microbench.main(["--output", "unused.json", *arguments])
        self.assertEqual(ended.exception.code, 2)
        return errors.getvalue().splitlines()[-1]

    def test_all_that_is_wrong_is_named(self):
        said = self.refused("--device", "abacus", "--only", "gem,memory", "--skip", "step,stepp", "--precisions",
                            "fp31", "--gemm-shapes", "0", "--seconds-per-point", "nan", "--max-bytes", "5",
                            "--processes", "0", "--timeout", "-1")
        for text in ("--device abacus; there are cpu, cuda", "--only gem; there are device, memory", "--skip stepp",
                     "--precisions fp31", "give --only or --skip", "--gemm-shapes is 0", "--seconds-per-point is nan",
                     "--max-bytes is 5", "--processes is 0", "--timeout is -1"):
            self.assertIn(text, said)
        self.assertIn("--again needs --only", self.refused("--again"))

    def test_what_cannot_be_written_is_refused_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, why in ((folder, "is a folder"), (f"{folder}/none/chip.json", "No such file or directory"),
                              ("/proc/chip.json", "cannot be written")):
                said = self.refused("--output", path)
                self.assertIn(f"--output {path} ", said)
                self.assertIn(why, said)
            self.assertEqual(flags.unwritable(f"{folder}/chip.json"), [])
            self.assertEqual(os.listdir(folder), [])

    def test_a_device_that_is_not_here_is_refused(self):
        self.assertIn("--device npu: its PyTorch is not here (No module named 'torch_npu')",
                      self.refused("--device", "npu"))
        with mock.patch.object(devices, "module_of", lambda _row: types.SimpleNamespace(device_count=lambda: 0)):
            self.assertIn("--device cuda: PyTorch sees no such device", self.refused("--device", "cuda"))

    def test_presets(self):
        def options(*arguments):
            return flags.parse(["--output", "f", *arguments], "")[0]
        self.assertEqual(options().precisions, ["fp32"])
        self.assertEqual(options("--device", "cuda").precisions, ["bf16", "fp32", "fp8"])
        self.assertEqual((options().seconds_per_point, options("--device", "npu").seconds_per_point), (0.2, 0.05))
        self.assertEqual(options("--quick", "--gemm-shapes", "9").gemm_shapes, 9)
        self.assertEqual(flags.asked(options("--skip", "gemm,step")),
                         [name for name in document.ITEMS if name not in ("gemm", "step")])


class FakeGraphs:
    """A module of torch whose graphs record calls, or refuse to."""

    def __init__(self, refuses=False):
        self.refuses, self.recorded, self.replays = refuses, 0, 0
        outer = self

        class Graph:
            def replay(self):
                outer.replays += 1
        self.Graph = Graph

    def synchronize(self):
        pass

    def current_stream(self):
        return "stream"

    @contextlib.contextmanager
    def graph(self, graph, stream, capture_error_mode):
        assert isinstance(graph, self.Graph) and stream == "stream" and capture_error_mode == "thread_local"
        yield
        if self.refuses:
            raise RuntimeError("a call waits for the device")


class TimingTest(unittest.TestCase):
    def measured(self, module, graph="Graph"):
        """Returns (members of the row, number of calls)."""
        options, _ = flags.parse(["--output", "f", "--quick"], "")
        calls = []
        bench = types.SimpleNamespace(module=module, options=options, row=types.SimpleNamespace(graph=graph),
                                      synchronize=lambda: None)
        return timing.of_device(bench, lambda: calls.append(0)), len(calls)

    def test_a_device_replays_what_was_recorded(self):
        module = FakeGraphs()
        row, calls = self.measured(module)
        self.assertEqual(set(row), {"time_seconds", "host_seconds", "is_in_graph"})
        self.assertTrue(row["is_in_graph"] and row["host_seconds"] > 0)
        # Two calls before; one and five times up to twenty for the host; and up to a hundred that are
        # recorded, twice if the replay shows that more of them fit.
        self.assertTrue(2 + 1 + 5 < calls <= 2 + 1 + 5 * 20 + 2 * 100, calls)
        self.assertGreaterEqual(module.replays, 2 + 5)

    def test_calls_that_cannot_be_recorded_run_one_by_one(self):
        for module, graph in ((FakeGraphs(refuses=True), "Graph"), (FakeGraphs(), "")):
            row, calls = self.measured(module, graph)
            self.assertFalse(row["is_in_graph"])
            self.assertGreaterEqual(calls, 2 + 1 + 5 + 5)
            self.assertEqual(module.replays, 0)

    def test_the_cpu_has_one_time(self):
        self.assertEqual(set(self.measured(None)[0]), {"time_seconds"})


class ItemsTest(unittest.TestCase):
    """Tests with items that measure nothing."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "chip.json")
        self.calls = []

    def bench(self, *arguments):
        options, _ = flags.parse(["--output", str(self.path), *arguments], "")
        bench = Bench(Rank(0, 1, 0), devices.DEVICES["cpu"], options, "cpu")
        found = document.load(self.path)
        self.assertNotIsInstance(found, str)
        bench.document = found or document.new({"device": "cpu"})
        return bench

    def module(self, count, trouble=None):
        """Returns an item with `count` points, the last of which raises."""
        def point(number):
            def prepare():
                self.calls.append(number)
                if trouble and number == count - 1:
                    raise trouble
                return number
            return Point({"number": number}, prepare, lambda bench, number: {"time_seconds": 0.5 + number})

        def points(_bench, _notes):
            if count == 0:
                raise Skip("there is none")
            for number in range(count):
                row = yield point(number)
                self.calls.append(row and row["time_seconds"])
        return types.SimpleNamespace(points=points)

    def run_all(self, modules, *arguments):
        full = {name: modules.get(name, self.module(1)) for name in document.ITEMS}
        with contextlib.redirect_stderr(io.StringIO()) as self.said:
            items.run_all(self.bench(*arguments), full)
        return json.loads(self.path.read_text())["items"]

    def test_what_fails_is_noted_and_the_rest_goes_on(self):
        found = self.run_all({"memory": self.module(3, ValueError("boom")), "gemm": self.module(0),
                              "overlap": self.module(2, MemoryError()),
                              "elementwise": self.module(2, LeftOut("no compiler"))})
        self.assertEqual((found["memory"]["status"], found["memory"]["reason"]),
                         ("failed", '{"number": 2}: ValueError: boom'))
        self.assertEqual(found["memory"]["rows"], [{"number": 0, "time_seconds": 0.5},
                                                   {"number": 1, "time_seconds": 1.5}])
        self.assertEqual((found["gemm"]["status"], found["gemm"]["reason"]), ("skipped", "there is none"))
        # Points that do not fit are left out.
        self.assertEqual((found["overlap"]["status"], found["overlap"]["reason"], len(found["overlap"]["rows"])),
                         ("measured", 'does not fit in memory: {"number": 1}', 1))
        self.assertEqual((found["elementwise"]["status"], found["elementwise"]["reason"],
                          len(found["elementwise"]["rows"])), ("measured", '{"number": 1}: no compiler', 1))
        self.assertEqual(found["step"]["status"], "measured")
        self.assertEqual(len(self.said.getvalue().splitlines()), len(document.ITEMS))

    def test_only_what_is_missing_is_measured(self):
        self.run_all({"memory": self.module(3, ValueError("boom"))}, "--only", "memory")
        self.assertEqual(self.calls, [0, 0.5, 1, 1.5, 2])
        self.calls.clear()
        found = self.run_all({"memory": self.module(3)}, "--only", "memory")
        self.assertEqual(self.calls, [0.5, 1.5, 2, 2.5])  # points of the file are not prepared, but reported
        self.assertEqual([row["number"] for row in found["memory"]["rows"]], [0, 1, 2])
        self.assertEqual(found["memory"]["status"], "measured")
        self.calls.clear()
        found = self.run_all({"memory": self.module(2)}, "--only", "memory", "--again")
        self.assertEqual(self.calls, [0, 0.5, 1, 1.5])
        self.assertEqual([row["number"] for row in found["memory"]["rows"]], [0, 1])

    def test_attention_where_pytorch_has_it(self):
        def fused(q, k, v, is_causal):
            self.assertTrue(is_causal and q.shape == k.shape == v.shape)
            return (q @ k.transpose(-2, -1)).softmax(-1) @ v
        with mock.patch.object(attention, "HAS_FUSED", True), \
                mock.patch.object(attention.F, "scaled_dot_product_attention", fused, create=True):
            found = self.run_all({"attention": attention}, "--only", "attention", "--quick")["attention"]
        self.assertEqual((found["status"], found["reason"]), ("measured", ""))
        self.assertEqual([(row["pass"], row["head_count"], row["kv_head_count"], row["kernel"])
                          for row in found["rows"]],
                         [(name, 8, kv_heads, "vendor") for kv_heads in (8, 2) for name in ("forward", "backward")])

    def test_what_the_device_does_not_tell_is_left_out(self):
        row, = self.run_all({"device": chip}, "--only", "device", "--quick")["device"]["rows"]
        self.assertNotIn("runtime_context_bytes", row)
        self.assertEqual(row["eager_op_seconds"], row["queued_op_seconds"])

    def test_an_item_that_was_measured_stays_when_it_is_skipped(self):
        self.run_all({})
        found = self.run_all({}, "--skip", "memory")
        self.assertEqual(found["memory"]["status"], "measured")

    def test_the_file_is_whole_at_any_time(self):
        bench = self.bench()
        document.save(self.path, bench.document)
        before = self.path.read_text()
        with mock.patch.object(document.os, "rename", side_effect=OSError("no")), self.assertRaises(OSError):
            document.save(self.path, {"items": {}})
        self.assertEqual(self.path.read_text(), before)
        self.assertEqual(list(self.path.parent.iterdir()), [self.path])
        self.path.write_text(before[:-20])
        self.assertIn("cannot be read as JSON", document.refusals(self.path, document.load(self.path), {})[0])


if __name__ == "__main__":
    unittest.main()

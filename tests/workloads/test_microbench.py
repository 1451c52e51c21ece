"""Tests microbench.py as people run it: two ranks on gloo, a killed run that is continued,
refusals, and an item that fails."""

import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "workloads"
sys.path[:0] = [str(WORKLOADS), str(WORKLOADS.parent / "tests")]

from calibration.document import ITEMS
from calibration.flags import SOME_FAILED
from events.wait_for import wait_until
from train.exit_codes import ExitCode

GEMM = {"precision", "pass", "count", "m", "n", "k", "accumulates_fp32", "time_seconds"}
MEMBERS = {
    "device": {"eager_op_seconds", "queued_op_seconds", "stream_creation_seconds", "precisions",
               "has_fused_attention", "runtime_context_bytes"},
    "memory": {"operation", "bytes", "working_set_bytes", "time_seconds"},
    "gemm": GEMM,
    "sustained_gemm": {"precision", "m", "n", "k", "burst_time_seconds", "time_seconds", "rank_count",
                       "slowest_time_seconds"},
    "attention": {"precision", "kernel", "pass", "batch", "sequence_length", "head_dim", "head_count",
                  "kv_head_count", "is_causal", "time_seconds"},
    "elementwise": {"operation", "pass", "kernel", "element_count", "bytes", "time_seconds"},
    "collectives": {"kind", "rank_count", "bytes", "time_seconds"},
    "network": {"kind", "rank_count", "bytes", "time_seconds", "node_count", "layout"},
    "overlap": {"rank_count", "bytes", "gemm_alone_seconds", "collective_alone_seconds", "together_seconds"},
    "step": {"case", "rank_count", "step_time_seconds", "step_time_low_seconds", "step_time_high_seconds",
             "peak_memory_bytes"},
}
MACHINE = {"device", "is_quick", "backend", "device_name", "torch", "python", "libraries", "device_count", "node_count",
           "threads_per_rank", "memory_bytes", "started_at"}


class MicrobenchTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="meshwright-microbench-test-")
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, "chip.json")

    def start(self, *arguments, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK") and not name.startswith("SLURM")}
        return subprocess.Popen(
            [sys.executable, WORKLOADS / "microbench.py", "--output", self.path, "--quick", *arguments], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**clean, **environment}, start_new_session=True)

    def run_it(self, *arguments, code=0, **environment):
        """Returns (document, output)."""
        process = self.start(*arguments, **environment)
        out, errors = process.communicate(timeout=400)
        self.assertEqual(process.returncode, code, out + errors)
        self.assertEqual([path.name for path in self.path.parent.iterdir() if path != self.path], [])
        return (json.loads(self.path.read_text()) if self.path.exists() else None), errors

    def check_rows(self, name, item):
        self.assertTrue(item["rows"], name)
        for row in item["rows"]:
            self.assertEqual(set(row), MEMBERS[name])
            for member, value in row.items():
                if member.endswith("_seconds") and member != "stream_creation_seconds":
                    self.assertTrue(0 < value < math.inf, row)

    def test_two_ranks_measure_every_item_that_a_cpu_has(self):
        found, said = self.run_it("--processes", "2", "--precisions", "fp32,bf16")
        self.assertEqual((found["format"], found["version"]), ("meshwright.microbench", 1))
        self.assertEqual(set(found["machine"]), MACHINE)
        self.assertEqual([found["machine"][name] for name in ("device", "backend", "device_count", "node_count",
                                                              "threads_per_rank")], ["cpu", "gloo", 2, 1, 1])
        self.assertEqual(tuple(found["items"]), ITEMS)
        skipped = {"host_link": "the device is the host", "network": "one node",
                   "grouped_gemm": "on the CPU, experts run one by one"}
        if not found["items"]["device"]["rows"][0]["has_fused_attention"]:
            skipped["attention"] = "scaled_dot_product_attention"
        for name, item in found["items"].items():
            with self.subTest(item=name):
                self.assertIn(f"microbench: {name}: {item['status']}", said)
                self.assertGreater(item["seconds"], 0)
                self.assertEqual(item["status"], "skipped" if name in skipped else "measured")
                if name in skipped:
                    self.assertIn(skipped[name], item["reason"])
                else:
                    self.check_rows(name, item)
        self.check_gemm(found["items"]["gemm"]["rows"])
        self.check_collectives(found["items"]["collectives"]["rows"])
        self.check_memory(found["items"]["memory"]["rows"])
        plans = [row["case"]["plan"] for row in found["items"]["step"]["rows"]]
        self.assertEqual([(plan["tensor_parallel"], plan["data_parallel"]) for plan in plans], [(2, 1), (1, 2)])

    def check_gemm(self, rows):
        # 4 shapes and 2 batched ones, 3 passes, 2 precisions; with bf16, the unbatched weight
        # gradients count twice.
        self.assertEqual(len(rows), 2 * (4 + 2) * 3 + 4)
        self.assertEqual({(row["precision"], row["pass"]) for row in rows if row["accumulates_fp32"]},
                         {("bf16", "weight_gradient")})
        self.assertEqual(len({row["count"] for row in rows}), 3)

    def check_collectives(self, rows):
        self.assertEqual({row["kind"] for row in rows},
                         {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"})
        self.assertEqual({row["rank_count"] for row in rows}, {2})
        # The design has 2^12 to 2^30 in eleven steps, and --quick takes those up to 2^20.
        self.assertEqual({row["bytes"] for row in rows}, {2**power for power in (12, 14, 16, 17, 19)})

    def check_memory(self, rows):
        for operation in ("copy", "scale", "triad"):
            # Whole elements of up to three arrays are up to 2^16, 2^18 and 2^20 bytes.
            self.assertEqual([-(-row["bytes"] // 2**16) for row in rows if row["operation"] == operation], [1, 4, 16])

    def test_a_killed_run_is_taken_up_again(self):
        process = self.start("--processes", "2", "--only", "device,memory,sustained_gemm", "--sustained-seconds", "60")

        def items():
            return json.loads(self.path.read_text())["items"] if self.path.exists() else {}
        self.assertTrue(wait_until(lambda: items().get("memory", {}).get("status") == "measured"))
        # The next item takes 60 seconds.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        before = json.loads(self.path.read_text())
        self.assertEqual([before["items"][name]["status"] for name in ("device", "memory")], ["measured"] * 2)
        self.assertNotEqual(before["items"]["sustained_gemm"]["status"], "measured")
        found, _ = self.run_it("--processes", "2", "--only", "device,memory,sustained_gemm")
        self.assertEqual(found["machine"], before["machine"])
        for name in ("device", "memory"):
            self.assertEqual(found["items"][name]["rows"], before["items"][name]["rows"])
        self.assertEqual(found["items"]["sustained_gemm"]["status"], "measured")

    def test_shapes_are_added_to_a_file(self):
        first, _ = self.run_it("--only", "gemm")
        more, _ = self.run_it("--only", "gemm", "--gemm-shapes", "6")
        old, new = first["items"]["gemm"]["rows"], more["items"]["gemm"]["rows"]
        self.assertEqual(new[:len(old)], old)
        self.assertEqual(len(new), len(old) + 2 * 3)
        again, _ = self.run_it("--only", "gemm", "--again")
        self.assertEqual(len(again["items"]["gemm"]["rows"]), len(old))
        self.assertNotEqual(again["items"]["gemm"]["rows"], old)
        self.assertEqual(again["items"]["memory"]["reason"], "not asked for")

    def test_a_file_of_another_machine_is_refused(self):
        self.run_it("--only", "device")
        document = json.loads(self.path.read_text())
        _, said = self.run_it("--only", "device", "--processes", "2", code=ExitCode.INVALID_CONFIG)
        self.assertIn("machine.device_count is 1 in the file and 2 here", said)
        for change, expected in ((dict(version=2), "version is 2 in the file and 1 here"),
                                 (dict(format="other"), "format is 'other' in the file and 'meshwright.microbench'"),
                                 (dict(machine={**document["machine"], "device": "cuda", "device_name": "X9"}),
                                  "machine.device is 'cuda' in the file and 'cpu' here")):
            text = json.dumps({**document, **change})
            self.path.write_text(text)
            _, said = self.run_it("--only", "device", code=ExitCode.INVALID_CONFIG)
            self.assertIn(expected, said)
            self.assertEqual(self.path.read_text(), text)
        self.assertIn("machine.device_name is 'X9' in the file", said)

    def test_a_python_without_pytorch_is_one_line(self):
        def refused(*python, **environment):
            done = subprocess.run([sys.executable, *python, WORKLOADS / "microbench.py", "--output", self.path,
                                   "--processes", "2"], text=True, capture_output=True, timeout=400,
                                  env={**os.environ, **environment})
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertFalse(self.path.exists())
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            return done.stderr
        without = refused("-S")  # without the packages of the site
        self.assertIn(f"microbench: needs PyTorch, which this Python ({sys.executable}) cannot load: No module named "
                      "'torch'; ", without)
        self.assertIn("install PyTorch (Debian: apt install python3-torch;", without)
        broken = pathlib.Path(self.folder.name, "torch.py")
        broken.write_text('raise OSError("libcudart.so.12: cannot open shared object file\\nand more")\n')
        self.assertIn("cannot load: libcudart.so.12: cannot open shared object file; ",
                      refused(PYTHONPATH=self.folder.name))

    def test_a_failing_item_does_not_stop_the_rest(self):
        for arguments in ((), ("--processes", "2")):
            found, said = self.run_it("--skip", "gemm,sustained_gemm,collectives,elementwise,overlap,attention",
                                      *arguments, code=SOME_FAILED, MESHWRIGHT_TROUBLE="raise:*:1")
            items = found["items"]
            self.assertEqual(items["step"]["status"], "failed")
            self.assertIn("trouble on demand", items["step"]["reason"])
            self.assertEqual(items["memory"]["status"], "measured")
            self.assertEqual((items["gemm"]["status"], items["gemm"]["reason"]), ("skipped", "--skip"))
            self.path.unlink()

    def test_ranks_that_another_launcher_starts(self):
        """Runs on what looks like two nodes of two ranks."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        ranks = [self.start("--only", "network,step", "--max-bytes", "131072", RANK=str(rank), WORLD_SIZE="4",
                            LOCAL_RANK=str(rank % 2), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                            GLOO_SOCKET_IFNAME="lo", SLURMD_NODENAME=f"node{rank // 2}") for rank in range(4)]
        for rank in ranks:
            out, errors = rank.communicate(timeout=400)
            self.assertEqual(rank.returncode, 0, out + errors)
        found = json.loads(self.path.read_text())
        self.assertEqual((found["machine"]["device_count"], found["machine"]["node_count"]), (4, 2))
        rows = found["items"]["network"]["rows"]
        self.check_rows("network", found["items"]["network"])
        self.assertEqual({(row["layout"], row["node_count"], row["rank_count"]) for row in rows},
                         {("rail", 2, 2), ("strided", 2, 2), ("all", 2, 4)})
        # The steps run on the first node's ranks.
        self.assertEqual([row["rank_count"] for row in found["items"]["step"]["rows"]], [2, 2])


if __name__ == "__main__":
    unittest.main()

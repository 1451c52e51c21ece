"""Tests how the tables of rules explain failures: harness_failures_test.py"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "workloads"))

from measure import failures  # noqa: E402

# The lines that each rule must find, and its verdict. Each line has the form of the source that the
# rule names.
FAILING_LINES = [
    ('{"event": "failure", "class": "OUT_OF_DEVICE_MEMORY", "rank": 3}', "train_step says memory", "oom_device"),
    ('{"event": "failure", "class": "OUT_OF_HOST_MEMORY", "rank": 3}', "train_step says host memory", "oom_host"),
    ('{"event": "failure", "class": "INVALID_CONFIG", "rank": 0}', "train_step says settings", "invalid_config"),
    ('{"event": "failure", "class": "NUMERIC", "rank": 0}', "train_step says loss", "numeric"),
    ('{"event": "failure", "class": "COLLECTIVE_TIMEOUT", "rank": 0}', "train_step says collective", "hang"),
    ("  exitcode  : 40 (pid: 2910)", "torchrun: rank out of memory", "oom_device"),
    ("  exitcode  : 41 (pid: 2910)", "torchrun: rank out of host memory", "oom_host"),
    ("  exitcode  : 42 (pid: 2910)", "torchrun: rank refused its settings", "invalid_config"),
    ("  exitcode  : 43 (pid: 2910)", "torchrun: rank lost its numbers", "numeric"),
    ("  exitcode  : 44 (pid: 2910)", "torchrun: rank timed out", "hang"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "ECC", "node_failure"),
    ("NVRM: Xid (PCI:0000:02:00): 79, GPU has gone", "Xid", "node_failure"),
    ("NVRM: GPU at 0000:02:00.0 has fallen off the bus.", "device lost", "node_failure"),
    ("HW Exception by GPU node-1 (Agent handle: 0x1) reason :GPU Hang", "device lost", "node_failure"),
    ("mlx5_core 0000:1a:00.0 ib0: Link down", "link down", "node_failure"),
    ("slurmstepd: error: *** STEP 7.0 CANCELLED AT 2025-01-01 DUE TO NODE FAILURE ***", "node lost", "node_failure"),
    ("Out of memory: Killed process 4711 (python3)", "kernel out of memory", "oom_host"),
    ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=47.0.", "kernel out of memory", "oom_host"),
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:72] . DefaultCPUAllocator: can't allocate memory",
     "host allocator", "oom_host"),
    ("OSError: [Errno 12] Cannot allocate memory", "host allocator", "oom_host"),
    ("MemoryError", "host allocator", "oom_host"),
    ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.", "host allocator", "oom_host"),
    ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.05 GiB", "PyTorch allocator", "oom_device"),
    ("RuntimeError: NPU out of memory. Tried to allocate 52.00 MiB (NPU 0; 60.96 GiB total capacity",
     "PyTorch allocator", "oom_device"),
    ("RuntimeError: MLU out of memory. Tried to allocate 2.00 GiB (MLU 0;", "PyTorch allocator", "oom_device"),
    ("RuntimeError: MUSA out of memory. Tried to allocate 896.00 MiB", "PyTorch allocator", "oom_device"),
    ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 16.00 GiB", "PyTorch allocator", "oom_device"),
    ("NCCL WARN Cuda failure 2 'out of memory'", "device runtime", "oom_device"),
    ("failed to allocate 890.06M from device: HIP_ERROR_OutOfMemory", "device runtime", "oom_device"),
    ("RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::939524096",
     "device runtime", "oom_device"),
    ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.",
     "XLA", "oom_device"),
    ("Error: the device is out of memory", "out of memory", "oom_device"),
    ("train.py: error: unrecognized arguments: --tp 3", "argument refused", "invalid_config"),
    ("train.py: error: argument --tp: invalid int value: 'x'", "argument refused", "invalid_config"),
    ("AssertionError: world size (8) is not divisible by tensor model parallel size (3)",
     "sizes do not divide", "invalid_config"),
    ("AssertionError: Check batch related parameters. train_batch_size is not equal", "sizes do not divide",
     "invalid_config"),
    ('  File "/opt/megatron/training/arguments.py", line 9, in validate_args', "settings refused", "invalid_config"),
    ("[rank0]:[E626 06:24:44 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=808, OpType=ALLREDUCE) ran for 600020 milliseconds before timing out.",
     "collective timed out", "hang"),
    ("RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete",
     "collective timed out", "hang"),
    ("EI0002: [PID: 13075] The wait execution of the Notify register times out.", "Ascend wait", "hang"),
    ("EI0006: [PID: 12] Getting socket times out.", "Ascend wait", "hang"),
    ("torch.distributed.DistStoreError: wait timeout after 300000ms", "rendezvous", "hang"),
    ("ModuleNotFoundError: No module named 'megatron'", "module or library missing", "launch_error"),
    ("train_step: needs PyTorch, which this Python (/usr/bin/python3) cannot load: No module named 'torch'; start it",
     "module or library missing", "launch_error"),
    ("python3: can't open file '/x/train.py': [Errno 2]", "module or library missing", "launch_error"),
    ("PermissionError: [Errno 13] Permission denied: '/data'", "no permission, space or port", "launch_error"),
    ("RuntimeError: No CUDA-capable device is detected", "device not usable", "launch_error"),
    ("AssertionError: Rank 5: found NaN in local grad norm in backward pass", "loss is not a number", "numeric"),
    ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15",
     "torchrun told to end", "cancelled"),
    ('{"event": "failure", "class": "PEER_LOST", "rank": 0}', "train_step says crash", "crash"),
    ("RuntimeError: something else", "exception", "crash"),
    ("[rank3]: ValueError: something else", "exception", "crash"),
    ("run.sh: line 3:    12 Segmentation fault      (core dumped) ./train", "shell says crash", "crash"),
]
# Lines of runs that are healthy or fail for another reason. They must not decide anything.
HARMLESS_LINES = [
    "Warning: The HCCL execution timeout was set to never timeout, so it is bigger than watchdog timeout 1800000ms",
    "NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
    "If you run out of memory, lower the micro-batch size.",
    "iteration 5/ 10 | lm loss: 1.0E+01 | loss scale: 1.0 | grad norm: 2.0 | number of nan iterations:   0 |",
    "Xid (PCI:0000:02:00): 31, pid=12, MMU fault",
    "0 errors, all exceptions handled",
]


def ended(exit_code=None, signal=None):
    return {"exit_code": exit_code, "signal": signal, "error": None, "left_behind": []}


class FailuresTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rules, _ = failures.load()

    def test_lines(self):
        for line, rule, name in FAILING_LINES:
            with self.subTest(line):
                lines = [(1, "all is well"), (2, line), (3, "goodbye")]
                found, matched, message = failures.classify(self.rules, ended(1), lines, 0)
                self.assertEqual((found, matched["rule"]), (name, rule))
                self.assertEqual((matched["line"], matched["line_number"]), (line, 2))
                self.assertIn("exit code 1", message)

    def test_every_rule_of_lines_has_an_example(self):
        asked = {rule["name"] for rule in self.rules
                 if (rule["patterns"] or rule.get("exception")) and not rule.get("oom_kill")}
        self.assertEqual(asked, {rule for _, rule, _ in FAILING_LINES})

    def test_harmless_lines(self):
        for line in HARMLESS_LINES:
            with self.subTest(line):
                found, matched, _ = failures.classify(self.rules, ended(1), [(1, line)], 0)
                self.assertEqual((found, matched["rule"]), ("crash", "none"))

    def test_ends(self):
        for end, oom_kills, name in (
                (ended(40), 0, "oom_device"), (ended(41), 0, "oom_host"), (ended(42), 0, "invalid_config"),
                (ended(43), 0, "numeric"), (ended(44), 0, "hang"), (ended(45), 0, "crash"),
                (ended(86), 0, "oom_device"), (ended(85), 0, "oom_host"), (ended(84), 0, "invalid_config"),
                (ended(83), 0, "numeric"), (ended(81), 0, "hang"), (ended(82), 0, "crash"), (ended(80), 0, "crash"),
                (ended(126), 0, "launch_error"), (ended(127), 0, "launch_error"),
                (ended(signal=9), 1, "oom_host"), (ended(137), 2, "oom_host"), (ended(signal=9), 0, "crash"),
                (ended(signal=11), 0, "crash"), (ended(3), 0, "crash"), (ended(signal=15), 0, "cancelled"),
                (ended(143), 0, "cancelled")):
            with self.subTest(end=end, oom_kills=oom_kills):
                self.assertEqual(failures.classify(self.rules, end, [], oom_kills)[0], name)

    def test_the_cause_wins_over_what_it_brings_about(self):
        lines = [(1, "[rank0]: Watchdog caught collective operation timeout"),
                 (2, "[rank3]: torch.OutOfMemoryError: CUDA out of memory."), (3, "RuntimeError: broken")]
        for code in (1, 44, 45):
            self.assertEqual(failures.classify(self.rules, ended(code), lines, 0)[0], "oom_device")

    def test_a_line_that_is_often_harmless(self):
        port = "node1:33:33 [0] NET/IB : mlx5_2 port 1 link down"
        missing = "ModuleNotFoundError: No module named 'megatron'"
        for lines, name, number in (
                (["WARNING: apex not found (ImportError), using torch", "RuntimeError: shape mismatch"], "crash", 2),
                (["ImportError: no apex", "handled it", "RuntimeError: shape mismatch"], "crash", 2 + 1),
                (["WARNING: apex not found (ImportError), using torch"], "crash", None),
                (["RuntimeError: no cache yet", missing], "launch_error", 2),
                (["[rank3]: " + missing, "RuntimeError: NCCL error: remote process exited",
                  "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"], "launch_error", 1),
                (["bash: torchrun: command not found"], "launch_error", 1),
                (["libnvinfer.so.7: cannot open shared object file", *["working"] * 30], "crash", None),
                ([port + ", skipping", "ValueError: odd"], "crash", 2), ([port + ", skipping"], "crash", None),
                ([port, "ValueError: odd"], "crash", 2),
                ([port, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp"], "node_failure", 1),
                (["Permission denied: no cache", "RuntimeError: odd"], "crash", 2),
                (["RuntimeError: a", "torch.distributed.DistBackendError: NCCL error"], "crash", 1)):
            with self.subTest(lines):
                found, matched, _ = failures.classify(self.rules, ended(1), list(enumerate(lines, 1)), 0)
                self.assertEqual((found, matched["line_number"]), (name, number))

    def test_the_source_shown_in_a_traceback_decides_nothing(self):
        lines = [(1, "Traceback (most recent call last):"), (2, '  File "/x/train.py", line 9, in <module>'),
                 (3, '    raise OutOfMemoryError("CUDA out of memory") if full else ValueError("odd")'),
                 (4, "ValueError: odd")]
        for prefix in ("", "[rank3]: "):
            found, matched, _ = failures.classify(self.rules, ended(1), [(i, prefix + text) for i, text in lines], 0)
            self.assertEqual((found, matched["line_number"]), ("crash", 4))

    def test_a_vendors_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "vendor.json")

            def load(text):
                pathlib.Path(path).write_text(text)
                return failures.load([path])[0]

            good = {"rules": [{"name": "acme", "class": "oom_device", "patterns": ["ACME-E17"], "source": "acme"}]}
            found, matched, _ = failures.classify(load(json.dumps(good)), ended(1), [(1, "Error: ACME-E17")], 0)
            self.assertEqual((found, matched["rule"]), ("oom_device", "acme"))
            for change, said in (({"class": "ok"}, "class = ok"), ({"class": "oom"}, "class = oom"),
                                 ({"patterns": ["("]}, "patterns|\\("), ({"patterns": "x"}, "must be a list of texts"),
                                 ({"patterns": []}, "needs one of"), ({"codes": [1]}, "unknown member codes"),
                                 ({"name": 5}, "name must be a text"), ({"exit_codes": ["1"]}, "list of numbers")):
                bad = {"rules": [{**good["rules"][0], **change}]}
                with self.subTest(change), self.assertRaisesRegex(failures.RulesError, f"rules.0.*({said})"):
                    load(json.dumps(bad))
            for text in ("", "[]", '{"rules": 5}', '{"rules": [5]}'):
                with self.subTest(text), self.assertRaisesRegex(failures.RulesError, "vendor.json"):
                    load(text)


if __name__ == "__main__":
    unittest.main()

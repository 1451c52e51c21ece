"""Tests the catalogue of chips as users see it: cli_chips_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import sys
import unittest

from programs import EXAMPLES, Folder


class ChipsTest(Folder):
    def test_catalogue(self):
        chips = json.loads(self.run_cli("chip", "list", "--output", "json").stdout)
        self.assertIn("nvidia-a100-sxm4-80gb", [chip["id"] for chip in chips["chips"]])
        self.assertTrue(all(chip["missing"] for chip in chips["unmodelled_chips"]))
        shown = self.run_cli("chip", "show", "nvidia-a100-sxm4-80gb").stdout
        self.assertIn("source", shown)
        # The output shows the nominal and the measured peak, and the bandwidth of each group size.
        self.assertRegex(shown, r"\n +peak_bf16_flops_per_second +312000000000000 +published")
        self.assertRegex(shown, r"\n +measured_peak_bf16_flops_per_second +271200000000000 +measured +high\s+MAMF")
        for ranks, rate in ((2, 228200000000), (4, 228800000000), (8, 231300000000)):
            self.assertRegex(shown, rf"collective_all_reduce_{ranks}_ranks\s[^;]*bandwidth_bytes_per_second {rate}")
        self.run_cli("chip", "show", "nvidia-a1000", expect=5)
        self.assertIn("megatron-core", self.run_cli("server", "info").stdout)

    def test_a_new_chip(self):
        chips = ["--chips", str(EXAMPLES / "new-chip")]
        shown = self.run_cli(*chips, "chip", "show", "acme-x1").stdout
        self.assertRegex(shown, r"\n +peak_bf16_flops_per_second +\S+ +published")
        self.assertIn("assumed", shown)
        example = EXAMPLES / "llama2-70b"
        cluster = json.loads((example / "cluster.json").read_text())
        cluster["pools"][0]["chip"] = "acme-x1"
        answer = json.loads(self.run_cli(*chips, "tune", "--model", str(example / "config.json"), "--workload",
                                         str(example / "workload.json"), "--cluster",
                                         self.write("cluster.json", cluster), "--output", "json").stdout)
        self.assertTrue(answer["plans"])
        self.assertIn("acme-x1", " ".join(answer["warnings"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)

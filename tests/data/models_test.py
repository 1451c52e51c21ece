"""Checks the table of published models: each row, and its parameters against those of its family.

    models_test.py

models.tsv has a model a row. `parameters` is what was published for the language part, `exact` or to
so many digits; `config` has the keys of its config.json that decide its structure, under their own
names. `other_keys` has the keys of that file that state nothing about the sizes, for some of the models; a
reader of files must not stumble over them. A row whose parameters were not published says so in `note`.
"""

import csv
import json
import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from family_parameters import count, text_part

COLUMNS = ["name", "released", "architectures", "model_type", "parameters", "precision", "has_other_parts", "config",
           "other_keys", "source", "note"]
LISTS = ("layer_types", "attn_type_list", "hybrid_override_pattern", "hybrid_layer_pattern", "no_rope_layers",
         "intermediate_size", "moe_topk", "num_shared_expert", "moe_intermediate_size", "moe_layer_freq")


def read():
    with open(FOLDER / "models.tsv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def tolerance(parameters, precision):
    if precision == "exact":
        return 0.001
    return 0.5 * 10 ** (len(parameters) - int(precision)) / int(parameters)


class ModelsTest(unittest.TestCase):
    def test_rows_are_well_formed(self):
        rows = read()
        self.assertEqual(list(rows[0]), COLUMNS)
        self.assertEqual(len({row["name"] for row in rows}), len(rows))
        self.assertGreaterEqual(len(rows), 86)
        for row in rows:
            with self.subTest(row["name"]):
                self.assertRegex(row["released"], r"^20(19|2[0-6])-(0[1-9]|1[0-2])$")
                self.assertIn(row["has_other_parts"], ("", "vision", "audio", "vision,audio"))
                self.assertTrue(row["source"])
                self.assertEqual(bool(row["parameters"]), bool(row["precision"]))
                self.assertTrue(row["parameters"] or row["note"])
                config, other = json.loads(row["config"]), json.loads(row["other_keys"] or "{}")
                for key in set(config) & set(other):
                    self.assertIsInstance(config[key], dict, f"{key} stands in both columns")
                text, _ = text_part(json.loads(row["config"]), row["model_type"])
                for name in LISTS:
                    if isinstance(text.get(name), (list, str)):
                        self.assertEqual(len(text[name]), text["num_hidden_layers"], name)

    def test_parameters_are_those_of_the_family(self):
        confirmed = 0
        for row in read():
            if not row["parameters"]:
                continue
            with self.subTest(row["name"]):
                found = count(json.loads(row["config"]), row["model_type"])
                limit = tolerance(row["parameters"], row["precision"])
                self.assertLessEqual(abs(found / int(row["parameters"]) - 1), limit, found)
                confirmed += row["precision"] == "exact"
        self.assertGreaterEqual(confirmed, 150)


if __name__ == "__main__":
    unittest.main()

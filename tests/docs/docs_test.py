"""Holds the documentation to its rules, and the rules to a small tree that breaks each of them once.

    docs_test.py SOURCE [MESHWRIGHT]     without the program, the cases of the reference are not run
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import pages
import shown_commands
import translation

SOURCE = pathlib.Path(sys.argv[1])
PROGRAM = sys.argv[2] if len(sys.argv) > 2 else None

WIDE = "word " * 19 + "words"  # 100 columns

# A tree without errors.
TREE = {
    "README.md": "# Name\n\nSee [first](docs/first.md) and `docs/first.md`.\n",
    "CONTRIBUTING.md": "# How\n",
    "CHANGELOG.md": "# Changes\n",
    "code/plan.cc": "",
    "docs/first.md": f"""# First page

{WIDE}

See [the second](more/second.md#a-heading-of-it), [itself](#first-page) and
[a site](https://example.org/x#y).

- An item of a list:

      indented code of any width {WIDE}

| a table of any width {WIDE} |
|---|

```bash
fenced code {WIDE} [no link](nowhere.md)
```

- [{WIDE}](more/second.md)

Paths: `code/plan.cc`, `code/`, `code/<name>.cc`, `plan.cc`, `elsewhere/plan.cc`;
`[no link](nowhere.md)`.
""",
    "docs/more/second.md": "# Second page\n\n## A `heading` of it\n\n" + "word\n" * 1494,
    "docs/more/written.md": "<!-- written by a script -->\n\n# Table\n\n" + "| word |\n" * 2000,
}

# The mutations: page, old text, new text, and the one error that it makes.
CASES = {
    "file of a link": ("docs/first.md", "more/second.md#", "second.md#", "links to second.md, which is not there"),
    "link out of the tree": ("docs/more/second.md", "word\n", "[up](../../..)\n",
                             "links to ../../.., which is not there"),
    "anchor": ("docs/first.md", "#a-heading", "#the-heading",
               "links to more/second.md#the-heading-of-it, which has no such heading"),
    "anchor of the page itself": ("docs/first.md", "#first-page", "#last-page",
                                  "links to #last-page, which has no such heading"),
    "heading": ("docs/more/second.md", "A `heading`", "The `heading`", None),
    "link of the README": ("README.md", "(docs/first.md)", "(first.md)", "links to first.md, which is not there"),
    "link of CONTRIBUTING": ("CONTRIBUTING.md", "How", "[How](a.md)", "links to a.md, which is not there"),
    "link of the changelog": ("CHANGELOG.md", "Changes", "[Changes](a.md)", "links to a.md, which is not there"),
    "words": ("docs/more/second.md", "word\n", "word word\n", "has 1501 words; at most 1500"),
    "words of a written page": ("docs/more/written.md", "# Table\n", ("word " * 19 + "\n") * 80,
                                "has 1524 words; at most 1500"),
    "table of a page that nobody writes": ("docs/more/written.md", "<!-- written by a script -->", "<!-- table -->",
                                           "has 2002 words; at most 1500"),
    "columns": ("docs/first.md", f"\n{WIDE}\n", f"\n{WIDE}s\n", "line 3 has 101 columns; at most 100"),
    "columns of an item": ("docs/first.md", "- An item", f"- {WIDE}\n- An item", "line 8 has 102 columns; at most 100"),
    "columns of the text of an item": ("docs/first.md", "list:\n", f"list:\n\n  {WIDE}\n",
                                       "line 10 has 102 columns; at most 100"),
    "columns of the README": ("README.md", "See", f"{WIDE}s\nSee", "line 3 has 101 columns; at most 100"),
    "path": ("docs/first.md", "`code/plan.cc`", "`code/plans.cc`", "names code/plans.cc, which is not there"),
    "path of a command": ("docs/first.md", "`code/plan.cc`", "`sh -c code/run.sh`",
                          "names code/run.sh, which is not there"),
    "path over two lines": ("docs/first.md", "`code/plan.cc`", "`sh\ncode/run.sh`",
                            "names code/run.sh, which is not there"),
    "path of the README": ("README.md", "`docs/first.md`", "`docs/last.md`", "names docs/last.md, which is not there"),
}


def tests_of(source):
    """Returns the names of all tests of GoogleTest, of Python and of the browser in a tree."""
    names = set()
    for file in (source / "tests").rglob("*.cc"):
        found = re.findall(r"^TEST(?:_F|_P)?\((\w+), *(\w+)\)", file.read_text(), re.MULTILINE)
        names |= {".".join(name) for name in found}
    for file in (source / "tests").rglob("*.py"):
        names |= set(re.findall(r"def (test_\w+)", file.read_text()))
    for file in (source / "web/tests/browser").glob("*.ts"):
        names |= set(re.findall(r"\bit(?:\.each\([^)]*\))?\('([^']+)'", file.read_text()))
    return names


class BehavioursTest(unittest.TestCase):
    def test_each_behaviour_has_tests_that_there_are(self):
        known = tests_of(SOURCE)
        text = (SOURCE / "docs/behaviours.md").read_text()
        behaviours = re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]
        self.assertEqual(len(behaviours), 25)
        for behaviour in behaviours:
            words = " ".join(behaviour.split())
            named = re.findall(r"`(\w+\.\w+|test_\w+)`", words) + re.findall(r'"([^"]+)"', words)
            self.assertGreater(len(named), 0, words)
            self.assertEqual([name for name in named if name not in known], [])


class RulesTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-docs-"))
        self.addCleanup(shutil.rmtree, self.root)
        for name, text in TREE.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def test_a_tree_without_errors_has_none(self):
        self.assertEqual(list(pages.errors_of(self.root)), [])

    def test_each_mutation_is_found(self):
        for name, (page, old, new, said) in CASES.items():
            with self.subTest(name):
                text = TREE[page]
                self.assertIn(old, text)
                (self.root / page).write_text(text.replace(old, new, 1))
                errors = list(pages.errors_of(self.root))
                (self.root / page).write_text(text)
                self.assertEqual(len(errors), 1, errors)
                if said is None:  # the page that links to the heading is at fault
                    page, said = "docs/first.md", "which has no such heading"
                self.assertTrue(errors[0].startswith(f"{page}: "), errors)
                self.assertIn(said, errors[0])


class PagesTest(unittest.TestCase):
    maxDiff = None

    def test_the_pages_keep_the_rules(self):
        self.assertEqual(list(pages.errors_of(SOURCE)), [])


ORIGINAL = """# Name

Read [this](a.md).

## Try

    run a
    run b

| [x](x.md) |
|---|
"""

# The changes of a translation, and the one difference that each makes.
TRANSLATIONS = {
    "heading": ("## Try\n", "", ["has 1 headings; the original has 2"]),
    "level": ("## Try", "### Try", ['has another heading where the original has "Try"']),
    "command": ("run b", "run c", ['lacks run b below "Try"', 'has run c below "Try", which the original has not']),
    "order": ("    run a\n    run b", "    run b\n    run a", ['has the code below "Try" in another order']),
    "row": ("|---|\n", "", ['lacks | a row below "Try"']),
    "link": ("(a.md)", "(b.md)", ['lacks a.md below "Name"', 'has b.md below "Name", which the original has not']),
}


class TranslationTest(unittest.TestCase):
    maxDiff = None

    def test_other_words_are_no_difference(self):
        self.assertEqual(list(translation.differences(ORIGINAL, ORIGINAL.replace("Read", "读").replace("Name", "名"))), [])

    def test_each_change_is_found(self):
        for name, (old, new, said) in TRANSLATIONS.items():
            with self.subTest(name):
                self.assertIn(old, ORIGINAL)
                found = list(translation.differences(ORIGINAL, ORIGINAL.replace(old, new)))
                self.assertEqual(found[-len(said):] if name == "heading" else found, said)

    def test_the_chinese_readme_is_in_step(self):
        self.assertEqual(list(translation.differences((SOURCE / "README.md").read_text(),
                                                      (SOURCE / "README.zh.md").read_text())), [])


# Lines of code, and what is wrong with each.
COMMANDS = {
    "meshwright tune --model m.json --output json | grep '--nonsense'": [],
    "$ answer=$(meshwright --db x.db history list --page-size 1)": [],
    "build/release/bin/meshwrightd --listen 127.0.0.1:0  # --nonsense": [],
    "meshwright tunes": ["shows the command meshwright tunes, which there is not"],
    "meshwright tune --modle m.json": ["shows meshwright tune --modle, which there is not"],
    "meshwright history list --modle": ["shows meshwright history list --modle, which there is not"],
    "python3 -m meshwright ask --server host:1": [],
    "python3 -m meshwright tell --serve x": ["shows python3 -m meshwright tell, which there is not",
                                             "shows python3 -m meshwright --serve, which there is not"],
    "scripts/absent.sh": ["shows scripts/absent.sh, which is not there"],
}


@unittest.skipIf(PROGRAM is None, "needs the program")
class CommandsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.programs = shown_commands.Programs(pathlib.Path(PROGRAM).parent)

    def test_mistakes_are_found(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-docs-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "clients").symlink_to(SOURCE.resolve() / "clients")
        for line, said in COMMANDS.items():
            (folder / "page.md").write_text(f"# Page\n\n    {line}\n")
            found = list(shown_commands.mistakes_of(folder, folder / "page.md", self.programs))
            self.assertEqual(found, said, line)

    def test_the_pages_show_commands_that_there_are(self):
        found = [f"{page.relative_to(SOURCE)}: {mistake}"
                 for page in [*SOURCE.glob("*.md"), *sorted((SOURCE / "docs").rglob("*.md"))]
                 for mistake in shown_commands.mistakes_of(SOURCE, page, self.programs)]
        self.assertEqual(found, [])


@unittest.skipIf(PROGRAM is None, "needs the program")
class AnswerTest(unittest.TestCase):
    def test_the_readme_shows_the_answer(self):
        example = SOURCE / "examples" / "llama2-70b"
        files = [word for part in ("model", "workload", "cluster")
                 for word in (f"--{part}", example / ("config.json" if part == "model" else f"{part}.json"))]
        answer = subprocess.run([PROGRAM, "tune", "--no-record", *files], check=True, text=True, capture_output=True,
                                env={**os.environ, "COLUMNS": "100"}).stdout
        lines = (SOURCE / "README.md").read_text().splitlines()
        first = lines.index("    " + answer.splitlines()[0])
        shown = lines[first:lines.index("", first)]
        self.assertGreater(len(shown), 12)
        for line in shown:
            if line.strip() != "...":
                self.assertIn(line[4:] + "\n", answer)


class ReferenceTest(unittest.TestCase):
    maxDiff = None

    def test_the_pages_are_what_the_source_says(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "reference.py", "--check"], text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_the_description_of_the_http_api_is_what_the_source_says(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "openapi.py", "--check"], text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_every_schema_of_the_http_api_is_there(self):
        whole = json.loads((SOURCE / "docs" / "reference" / "openapi.json").read_text())
        schemas = whole["components"]["schemas"]
        named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(whole)))
        self.assertEqual(named, set(schemas))
        # An answer's field is there even if it is false; one that may be absent is not required.
        self.assertIn("next_page_token", schemas["ListTrialsResponse"]["required"])
        self.assertNotIn("number", schemas["Trial"].get("required", []))
        self.assertNotIn("estimate", schemas["EvaluateAnswer"].get("required", []))
        self.assertNotIn("required", schemas["RecommendRequest"])

    def test_a_field_of_a_proto_is_read(self):
        sys.path.insert(0, str(SOURCE / "scripts"))
        from reference_proto import FIELD, Field
        line = FIELD.match("  optional int64 memory_bytes = 3;  // The memory of a node. Absent: not known.")
        field = Field(line[3], line[2], False, line[4])
        self.assertEqual((field.unit, field.default, field.meaning), ("bytes", "not known", "The memory of a node."))
        field = Field("sequence_length", "int32", False, "The length of a sequence in tokens. Required.")
        self.assertEqual((field.unit, field.default, field.meaning),
                         ("tokens", "required", "The length of a sequence in tokens."))

    @unittest.skipIf(PROGRAM is None, "needs the program")
    def test_the_examples_are_answered(self):
        done = subprocess.run([PROGRAM, "evaluate", "--cases", SOURCE / "examples" / "every-field" / "cases.jsonl"],
                              text=True, capture_output=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(answer["id"], answer.get("error")) for answer in answers if "error" in answer], [])
        self.assertEqual(len(answers), 9)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""Holds the documentation to its rules, and the rules to a small tree that breaks each of them once.

    docs_test.py SOURCE
"""

import pathlib
import shutil
import sys
import tempfile
import unittest

import pages

SOURCE = pathlib.Path(sys.argv[1])

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""The rules of the documentation: links, length of pages, width of lines, and paths that exist."""

import dataclasses
import pathlib
import re

MOST_WORDS = 1500
SHARE = "/usr/share/meshwright"  # of the package, as pages write it
MOST_COLUMNS = 100
# Folders of the root that are not part of the repository.
FOREIGN = {"build"}

FENCE = re.compile(r"\s*```")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
LINK_ONLY = re.compile(r"\s*(?:(?:[-*]|\d+\.)\s+)?!?\[[^\]]*\]\([^)]*\)[.,;:]?$")
ITEM = re.compile(r"(\s*)(?:[-*]|\d+\.)\s")
PATH = re.compile(r"([A-Za-z_]+)/[\w./+-]*$")
GENERATED = "<!-- written by "


@dataclasses.dataclass
class Line:
    number: int
    text: str
    is_code: bool

    @property
    def is_table(self):
        return not self.is_code and self.text.lstrip().startswith("|")


def lines_of(text):
    """The lines of a page, each marked as code or not. Indented code begins after an empty line, four
    columns to the right of the text that it belongs to."""
    lines, in_fence, after_empty, in_block, margin = [], False, True, False, 0
    for number, line in enumerate(text.split("\n"), 1):
        indent = len(line) - len(line.lstrip())
        if FENCE.match(line):
            in_fence = not in_fence
            lines.append(Line(number, line, True))
            after_empty, in_block = False, False
            continue
        if not line.strip():
            lines.append(Line(number, line, in_fence or in_block))
            after_empty = True
            continue
        if not in_fence:
            if after_empty and indent < margin:
                margin = 0
            in_block = indent >= margin + 4 and (after_empty or in_block)
            item = ITEM.match(line)
            if item and not in_block:
                margin = len(item.group(0))
        lines.append(Line(number, line, in_fence or in_block))
        after_empty = False
    return lines


def commands_of(page):
    """The lines of a page's commands: those that begin with "$ " or "> ", and each after a backslash."""
    commands, is_open = [], False
    for line in lines_of(page.read_text()):
        text = line.text.strip()
        if line.is_code and (is_open or text.startswith(("$ ", "> "))):
            commands.append(text if is_open else text[2:])
            is_open = text.endswith("\\")
        else:
            is_open = False
    return commands


def prose_of(lines):
    """The text without code blocks; line breaks stay where they were."""
    return "\n".join("" if line.is_code else line.text for line in lines)


def without_spans(text):
    return SPAN.sub(lambda span: "\n" * span.group(0).count("\n"), text)


def anchors_of(text):
    """The anchors of a page's headings, as GitHub and GitLab make them."""
    anchors, seen = set(), {}
    for line in lines_of(text):
        heading = None if line.is_code else HEADING.match(line.text)
        if heading is None:
            continue
        words = LINK.sub(lambda link: re.sub(r"!?\[|\].*", "", link.group(0)), heading.group(1))
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        anchors.add(anchor if count == 0 else f"{anchor}-{count}")
    return anchors


def broken_links(root, page, lines):
    for match in LINK.finditer(without_spans(prose_of(lines))):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or not path.is_relative_to(root):
            yield f"links to {target}, which is not there"
        elif anchor and path.suffix == ".md" and anchor not in anchors_of(path.read_text()):
            yield f"links to {match.group(1)}, which has no such heading"


def too_long(lines):
    """A page that a script writes may have tables of any length, because nobody reads those through."""
    is_generated = lines[0].text.startswith(GENERATED)
    counted = [line.text for line in lines if not (is_generated and line.is_table)]
    count = sum(any(c.isalnum() for c in word) for line in counted for word in line.split())
    if count > MOST_WORDS:
        yield f"has {count} words; at most {MOST_WORDS}"


def too_wide(lines):
    for line in lines:
        width = len(line.text)
        may_be_wide = line.is_code or line.is_table or LINK_ONLY.match(line.text)
        if width > MOST_COLUMNS and not may_be_wide:
            yield f"line {line.number} has {width} columns; at most {MOST_COLUMNS}"


def absent_paths(root, lines):
    folders = {entry.name for entry in root.iterdir() if entry.is_dir()} - FOREIGN
    for span in SPAN.finditer(prose_of(lines)):
        for word in span.group(2).split():
            path = PATH.match(word)
            if path and path.group(1) in folders and not (root / word).exists():
                yield f"names {word}, which is not there"


def errors_of(root):
    """Returns the mistakes of the pages below root, each as "page: mistake"."""
    root = root.resolve()
    docs = sorted((root / "docs").rglob("*.md"))
    tops = [root / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for page in [*filter(pathlib.Path.exists, tops), *docs]:
        lines = lines_of(page.read_text())
        found = [*broken_links(root, page, lines), *too_wide(lines), *absent_paths(root, lines)]
        if page in docs:
            found += too_long(lines)
        for words in found:
            yield f"{page.relative_to(root)}: {words}"

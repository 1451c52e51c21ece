"""Lays out the pages for MkDocs as they lie in the repository, with everything that they link to, and
writes mkdocs.yml. Called by scripts/site.sh.

    site_pages.py FOLDER
"""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)")
TOPS = ["README.md", "README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md"]

CONFIG = """\
site_name: Meshwright
docs_dir: pages
use_directory_urls: false
theme:
  name: material
  font: false
  features: [navigation.indexes, navigation.tabs, navigation.top]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
extra_css: [wide.css]
plugins: [search]
markdown_extensions:
  - sane_lists
  - tables
  - pymdownx.superfences
  - toc:
      slugify: !!python/name:pymdownx.slugs.gfm
      permalink: true
nav:
"""

# The tables of the reference have seven columns.
WIDE = ".md-grid { max-width: 85rem; } .md-typeset table:not([class]) th { min-width: 3rem; }\n"


def title_of(page):
    heading = next(line for line in page.read_text().splitlines() if line.startswith("# "))
    return heading[2:].replace("`", "")


def linked_from(page):
    """The files of the repository that a page links to."""
    for target in LINK.findall(page.read_text()):
        path = (page.parent / target).resolve()
        if not re.match(r"[a-z]+:", target) and path.is_relative_to(ROOT) and path.exists():
            yield path


def lay_out(folder):
    """Copies the pages, and what they link to. A link to a folder leads to its README.md, or else stays."""
    queue, done = [ROOT / name for name in TOPS] + sorted((ROOT / "docs").rglob("*.*")), set()
    while queue:
        path = queue.pop()
        if path in done or path.is_dir():
            continue
        done.add(path)
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        if path.suffix == ".md":
            queue += linked_from(path)


def sections():
    """Returns the sections of docs/README.md with the pages that they list, in their order."""
    found = []
    for line in (ROOT / "docs/README.md").read_text().splitlines():
        if line.startswith("## "):
            found.append((line[3:], []))
        elif line.startswith("| ["):
            found[-1][1].append((ROOT / "docs" / LINK.search(line).group(1)).resolve())
    return found


def navigation():
    """Every page of docs once: below the page that docs/README.md lists, if it lies in its folder."""
    rows = ['  - "Meshwright": README.md', '  - "简体中文": README.zh.md']
    entry = lambda depth, page: f'{"  " * depth}- "{title_of(page)}": {page.relative_to(ROOT)}'
    listed = {page for _, pages in sections() for page in pages}
    for name, pages in sections():
        rows.append(f'  - "{name}":')
        for page in pages:
            inner = page.parent if page.name == "README.md" else page.with_suffix("")
            below = [p for p in sorted(inner.rglob("*.md")) if p not in listed] if inner.is_dir() else []
            if not below:
                rows.append(entry(3, page))
                continue
            rows.append(f'      - "{title_of(page)}":')
            rows += [entry(5, p) for p in [page, *below]]
            listed.update(below)
    rows += ['  - "Changes":', "      - CHANGELOG.md", "      - CONTRIBUTING.md"]
    return "\n".join(rows) + "\n"


def main(folder):
    lay_out(folder / "pages")
    (folder / "pages" / "wide.css").write_text(WIDE)
    (folder / "mkdocs.yml").write_text(CONFIG + navigation())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

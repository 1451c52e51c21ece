"""Holds a translated page to the original: the same headings, code, tables and links, in their order."""

import pages


def outline_of(text):
    """Returns for each heading its words, its level, and the code, rows of tables and links below it."""
    sections = [("the beginning", 0, [])]
    for line in pages.lines_of(text):
        heading = None if line.is_code else pages.HEADING.match(line.text)
        if heading:
            level = len(line.text) - len(line.text.lstrip("#"))
            sections.append((heading.group(1), level, []))
        elif line.is_code and line.text.strip():
            sections[-1][2].append(line.text.rstrip())
        elif not line.is_code:
            text_of_line = pages.without_spans(line.text)
            sections[-1][2].extend(match.group(1) for match in pages.LINK.finditer(text_of_line))
            if line.is_table:
                sections[-1][2].append("| a row")
    return sections


def differences(original, translation):
    """Yields what the translation lacks or has too much, section by section."""
    ours, theirs = outline_of(original), outline_of(translation)
    for (words, level, parts), (_, other_level, other_parts) in zip(ours, theirs):
        if level != other_level:
            yield f"has another heading where the original has \"{words}\""
            return
        for part in dict.fromkeys(parts):
            if parts.count(part) > other_parts.count(part):
                yield f"lacks {part.strip()} below \"{words}\""
        for part in dict.fromkeys(other_parts):
            if other_parts.count(part) > parts.count(part):
                yield f"has {part.strip()} below \"{words}\", which the original has not"
        code = [part for part in parts if part.startswith(" ")]
        if sorted(parts) == sorted(other_parts) and code != [part for part in other_parts if part.startswith(" ")]:
            yield f"has the code below \"{words}\" in another order"
    if len(ours) != len(theirs):
        yield f"has {len(theirs) - 1} headings; the original has {len(ours) - 1}"

"""The commands that pages show: programs know their words and flags, and scripts are there."""

import functools
import re
import subprocess

import pages

COMMAND = re.compile(r"(?:^|(?<!-m)[\s/(`])(meshwrightd?)\s+(-?[a-z-].*)")
CLIENT = re.compile(r"python3 -m meshwright\s+([a-z]+)(.*)")  # its flags stand in its source
END = re.compile(r"\s(?:[|>;&#]|2>|\))")  # the rest of the line is for others
FLAG = re.compile(r"--[a-z][a-z-]*")
SCRIPT = re.compile(r"(?:^|\s)((?:\./)?(?:scripts|workloads|examples|tests)/[\w./-]+)")


class Programs:
    """The help of meshwright and meshwrightd, which says what they know."""

    def __init__(self, folder):
        self.folder = folder

    @functools.cache
    def help_of(self, *words):
        done = subprocess.run([self.folder / words[0], *words[1:], "--help"], text=True, capture_output=True)
        return done.stdout if done.returncode == 0 else ""

    def is_command(self, *path):
        shown = self.help_of(*path)
        return bool(shown) and shown != self.help_of(*path[:-1])

    def mistakes(self, program, words):
        """Yields the commands and flags among the words that the program does not know. A word is a
        command if its help is another one."""
        path, before = [program], []
        while words and words[0].startswith("--"):  # flags of all commands, with their values
            before.append(words[0])
            words = words[1:]
            if words and not words[0].startswith("-") and not self.is_command(program, words[0]):
                words = words[1:]
        while words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
            if not self.is_command(*path, words[0]):
                break
            path, words = [*path, words[0]], words[1:]
        if len(path) == 1 and program == "meshwright" and words and not words[0].startswith("-"):
            yield f"shows the command {program} {words[0]}, which there is not"
            return
        known = {"--help", *FLAG.findall(self.help_of(program) + self.help_of(*path))}
        for word in [*before, *words]:
            flag = FLAG.match(word)
            if flag and flag.group(0) not in known:
                yield f"shows {' '.join(path)} {flag.group(0)}, which there is not"


def shown(lines):
    """Yields the lines of code and the spans of a page, with continued lines as one."""
    text = "\n".join(line.text for line in lines if line.is_code)
    yield from re.sub(r"\\\n\s*", "", text).split("\n")
    for span in pages.SPAN.finditer(pages.prose_of(lines)):
        yield " ".join(span.group(2).split())


def mistakes_of(root, page, programs):
    lines = pages.lines_of(page.read_text())
    for text in shown(lines):
        for script in SCRIPT.findall(text):
            if not (root / script).exists() and not (page.parent / script).exists():
                yield f"shows {script}, which is not there"
        client = CLIENT.search(text)
        if client:
            source = (root / "clients" / "python" / "meshwright" / "__main__.py").read_text()
            words = [client.group(1), *FLAG.findall(END.split(client.group(2))[0])]
            for word in words:
                if f'"{word}"' not in source:
                    yield f"shows python3 -m meshwright {word}, which there is not"
        command = COMMAND.search(text)
        if command and programs is not None:
            words = END.split(command.group(2))[0].split()
            yield from programs.mistakes(command.group(1), words)

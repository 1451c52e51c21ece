"""Reads .proto files as text: messages, fields, services, and their comments. Used by reference.py
and openapi.py."""
import dataclasses
import re

# The units that the ends of names state.
UNITS = [("_gigabits_per_second", "Gbit/s"), ("_tokens_per_second", "tokens/s"),
         ("_tokens_per_second_per_device", "tokens/s"), ("_bytes_per_second", "bytes/s"),
         ("_bytes_per_second_per_node", "bytes/s"), ("_parameters_per_second", "parameters/s"),
         ("_seconds_per_token", "s"), ("_bytes", "bytes"), ("_seconds", "s"), ("_watts", "W"), ("_ratio", "ratio"),
         ("_ratios", "ratio")]
UNIT_IN_WORDS = re.compile(r"\bin (tokens|sequences|bytes|devices)\b|^The (sequences) of")
DEFAULT = re.compile(r"\b[Aa]bsent: ([^;]*?)(?:\.(?= |$)|;|$)|\bdefault (\S+?)[.;,]?(?= |$)")

FIELD = re.compile(r"\s*(optional |repeated |)(map<[^>]*>|[\w.]+) (\w+) = \d+"
                   r"(?: \[\(printed_if_stated\) = true\])?;\s*(?://\s*(.*))?$")
RPC = re.compile(r"\s*rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\)")


@dataclasses.dataclass
class Field:
    name: str
    type: str
    is_repeated: bool
    comment: str
    has_presence: bool = False  # it can be absent although it is no message and no list
    is_printed_if_stated: bool = False  # a list or map that is absent if it is empty

    @property
    def unit(self):
        found = [(len(end), unit) for end, unit in UNITS if ("_" + self.name).endswith(end)]
        if found:
            return max(found)[1]
        words = UNIT_IN_WORDS.search(self.comment)
        return next(group for group in words.groups() if group) if words else ""

    @property
    def default(self):
        if re.search(r"\bRequired\.", self.comment):
            return "required"
        if needed := re.search(r"\bRequired (if [^.]*)\.", self.comment):
            return "required " + needed.group(1)
        found = DEFAULT.search(self.comment)
        return (found.group(1) or found.group(2)) if found else ""

    @property
    def meaning(self):
        """The comment without what stands in other columns."""
        words = re.sub(r"\bRequired( if [^.]*)?\.", "", self.comment)
        return re.sub(r"\s*[.;]?\s*\b[Aa]bsent: [^;]*?(?:\.(?= |$)|;|$)", ".", words.strip()).strip().removeprefix(".").strip()


@dataclasses.dataclass
class Message:
    name: str
    file: str
    comment: str
    fields: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Rpc:
    name: str
    request: str
    response: str
    is_stream: bool
    comment: str


@dataclasses.dataclass
class Service:
    name: str
    comment: str
    rpcs: list = dataclasses.field(default_factory=list)


class Protos:
    """All messages and services of a folder of .proto files."""

    def __init__(self, folder):
        self.messages, self.services = {}, []
        for path in sorted(folder.glob("*.proto")):
            if path.name == "options.proto":  # of fields, in no message
                continue
            self._read(path)

    def _read(self, path):
        owner, comment, in_oneof = None, [], False
        for line in path.read_text().splitlines():
            words = re.match(r"\s*//\s?(.*)$", line)
            if words:
                comment.append(words.group(1))
                continue
            said, comment = " ".join(comment), []
            in_oneof = (in_oneof or line.startswith("  oneof ")) and line != "  }"
            if begun := re.match(r"(message|service) (\w+) \{", line):
                owner = self._begin(begun.group(1), begun.group(2), path.name, wrapped(said))
            elif rpc := RPC.match(line):
                owner.rpcs.append(Rpc(rpc[1], rpc[2], rpc[4], bool(rpc[3]), said))
            elif field := FIELD.match(line):
                owner.fields.append(Field(field[3], field[2], field[1] == "repeated ",
                                          " ".join(filter(None, [said, field[4]])),
                                          in_oneof or field[1] == "optional ", "(printed_if_stated)" in line))
            elif line.startswith(("message ", "service ")) or re.match(r"  \w.*=.*;", line):
                if not line.startswith("  reserved"):
                    raise SystemExit(f"{path}: cannot read this line: {line}")

    def _begin(self, kind, name, file, comment):
        if kind == "service":
            self.services.append(Service(name, comment))
            return self.services[-1]
        self.messages[name] = Message(name, file, comment)
        return self.messages[name]

    def type_of(self, field):
        name = field.type
        words = {"int32": "integer", "int64": "integer", "double": "number", "bool": "true or false",
                 "string": "string"}
        if name.startswith("map<"):
            key, value = (part.strip() for part in name[4:-1].split(","))
            return f"map from {words.get(key, key)} to {words.get(value, value)}"
        shown = words.get(name, name)
        return f"list of {shown}" if field.is_repeated else shown


def cell(text):
    """The text as a cell of a table, with names as code."""
    text = text.replace("|", "\\|")
    text = re.sub(r"(^|[\s(])(\w+_\w+)(?=[\s.,;:)]|$)", r"\1`\2`", re.sub(r"<([^>]*)>", r"`<\1>`", text))
    return text


def table(head, rows):
    """A table of Markdown, without the columns that are empty everywhere."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    line = lambda cells: "| " + " | ".join(cells[i] for i in kept) + " |"
    return "\n".join([line(head), "|" + "---|" * len(kept), *map(line, rows)])


def wrapped(text, columns=100):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])

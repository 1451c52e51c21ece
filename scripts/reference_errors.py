"""Reads exit codes and the reasons of errors from the source as text. Used by reference.py."""
import re

from reference_proto import cell, table

FOLDERS = ["cli", "estimator", "proto", "pruner", "recorder", "search_space", "server", "vendor_models"]
LITERAL = r'"((?:[^"\\]|\\.)*)"'


def camel_to_code(name):
    """kInvalidArgument or InvalidArgument as INVALID_ARGUMENT."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removeprefix("k")).upper()


def exit_codes(root):
    text = (root / "server/process/exit_code.h").read_text()
    found = re.findall(r"constexpr int (kExit\w+) = (\d+);\s*// (.*)", text)
    if len(found) != text.count("constexpr int"):
        raise SystemExit("server/process/exit_code.h: each exit code needs a comment on its line")
    return {name: (int(number), words) for name, number, words in found}


def exits_of(root):
    """Returns the exit codes of reasons, and of canonical codes."""
    text = (root / "cli/program/exit_code.cc").read_text()
    reasons = dict(re.findall(r'ReasonCode\{"(\w+)", (kExit\w+)\}', text))
    codes = {camel_to_code(code): name for code, name in re.findall(r"StatusCode::(\w+), (kExit\w+)\}", text)}
    return reasons, codes


def call_at(text, start):
    """The text between the parentheses that open at start."""
    depth, i, in_text = 0, start, False
    while True:
        c = text[i]
        if in_text:
            i += c == "\\"
            in_text = c != '"'
        elif c == '"':
            in_text = True
        elif c in "()":
            depth += 1 if c == "(" else -1
            if depth == 0:
                return text[start + 1:i]
        i += 1


def reasons_of(root):
    """Returns for each reason its canonical codes and the words of one error, with ... for values."""
    found = {}
    headers = [path.read_text() for folder in FOLDERS for path in (root / folder).rglob("*.h")]
    constants = {name: text for header in headers
                 for name, text in re.findall(r'constexpr char (k\w+Reason)\[\] = "(\w+)";', header)}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.cc")):
            text = path.read_text()
            for begun in re.finditer(r"\bWithReason\(", text):
                body = call_at(text, begun.end() - 1)
                reason = re.search(r',\s*(?:"([A-Z][A-Z_]+)"|(k\w+Reason))\s*$', body)
                if reason is None:
                    continue
                name = reason.group(1) or constants[reason.group(2)]
                code = re.search(r"absl::(\w+)Error\(", body)
                status = camel_to_code(code.group(1)) if code else ""
                if not code and ("InvalidFields" in body or name == "INVALID_FIELDS"):
                    status = "INVALID_ARGUMENT"
                row = found.setdefault(name, [set(), ""])
                row[0].add(status)
                row[1] = row[1] or words_of(body[:reason.start()])
    return found


def words_of(body):
    """The longest literal of a message, with values left out."""
    runs = ["".join(re.findall(LITERAL, run.group(0))) for run in re.finditer(rf"{LITERAL}(?:\s*{LITERAL})*", body)]
    text = max(runs, key=len, default="").replace('\\"', '"')
    text = re.sub(r"\{[^}]*\}", "...", text)
    return text + "..." if text.endswith(" ") else text


def exit_codes_page(root):
    reasons, codes = exits_of(root)
    rows = []
    for name, (number, words) in exit_codes(root).items():
        causes = sorted(c for c, n in codes.items() if n == name) + sorted(r for r, n in reasons.items() if n == name)
        rows.append([str(number), cell(words), " ".join(f"`{c}`" for c in causes)])
    return ["`meshwright` and `meshwrightd` end with these codes. Scripts may rely on the numbers.\n"
            "`meshwright evaluate` ends with 0 if every line got an answer. The answer may also be an error of\n"
            "the line, or that the plan does not fit.",
            table(["code", "meaning", "codes and reasons of errors"], rows),
            "The reasons are explained on the page of [errors](errors.md)."]


def errors_page(root):
    reasons, codes = exits_of(root)
    numbers = exit_codes(root)
    rows = []
    for reason, (statuses, words) in sorted(reasons_of(root).items()):
        exits = {numbers[reasons.get(reason, codes.get(status, "kExitInternal"))][0] for status in statuses}
        rows.append([f"`{reason}`", " ".join(f"`{s}`" for s in sorted(statuses) if s),
                     " ".join(map(str, sorted(exits))), cell(words)])
    return ["An error has a canonical code, a stable reason that programs can test, and a message. It often has\n"
            "the fields that are wrong, each with its value and its limit. With `--output json`, these are\n"
            "`error.reason`, `error.message` and `error.fields`. Over gRPC, they are in the details of the\n"
            "status, and over HTTP in the body ([http](../http.md)). An error without a reason of its own has its\n"
            "code as the reason.",
            table(["reason", "code", "exit", "for example"], rows)]

"""Reads the limits of inputs and the words of closed sets from search_space/spec as text. Used by
reference.py."""
import re

# Where a path in a check ("moe.expert_count") belongs: the messages of its parts.
PARTS = {"moe": "Moe", "mla": "Mla", "linear_attention": "LinearAttention", "state_space": "StateSpace",
         "rope_scaling": "RopeScaling", "intra_node": "IntraNodeLink", "inter_node": "InterNodeLink", "host": "Host", "topology": "Topology",
         "inter_pool": "InterPoolLink"}

CONSTANT = re.compile(r"constexpr (?:int|std::int64_t|double) (k\w+) = ([\d'.e]+);")
CHECKS = [
    re.compile(r'\.Range\((?P<at>field\(|at\()?"(?P<name>[\w.]+)"\)?,\s*[^,;]+,\s*(?P<low>[^,;]+),\s*(?P<high>[^,;]+)\);'),
    re.compile(r'\.AtLeast\((?P<at>field\(|at\()?"(?P<name>[\w.]+)"\)?,\s*[^;]+,\s*(?P<low>\d+)\);'),
    re.compile(r'(?:\.Positive\(|(?P<at>\bpositive\())"(?P<name>[\w.]+)",\s*[^;]+\);'),
    re.compile(r'required\((?P<at>)"(?P<name>\w+)",\s*[^,;]+,\s*(?P<high>k\w+)\);'),
    re.compile(r'\.Add\((?P<at>at\()?"(?P<name>[\w.]+)"\)?,\s*fmt::format\("\{\}; must be (?P<words>[><][^"{]+)"'),
]
FILES = {"model_limits.cc": ("Model", "LayerRun"), "workload.cc": ("Workload", "Workload"),
         "cluster.cc": ("Cluster", "NodePool")}
TABLES = {"kRecomputeFields": "RecomputePlan", "kStageFields": "StagePlan", "kReplicaGroupFields": "ReplicaGroup",
          "kPlanFields": "Plan"}


def number(text, constants):
    text = text.strip()
    if inner := re.fullmatch(r"[^?]+\? 1 : (\d+)", text):  # the wider of two
        text = inner.group(1)
    if text in constants:
        text = constants[text]
    digits = text.replace("'", "")
    return f"{int(digits):,}" if digits.isdigit() else text.lstrip("*").removeprefix("pool.")


def constants_of(text):
    return dict(CONSTANT.findall(text))


def checks_of(path, whole, part):
    text = path.read_text()
    constants = constants_of(text)
    for pattern in CHECKS:
        for found in pattern.finditer(text):
            groups = found.groupdict()
            owner = part if groups["at"] else whole
            *parts, name = groups["name"].split(".")
            if parts:
                owner = PARTS[parts[-1]]
            low, high = groups.get("low"), groups.get("high")
            if groups.get("words"):
                shown = groups["words"]
            elif high:
                shown = f"{number(low or '1', constants)} .. {number(high, constants)}"
            else:
                shown = f">= {low}" if low else "> 0"
            yield f"{owner}.{name}", shown


def plan_rows(path):
    text = path.read_text()
    constants = constants_of(text)
    for variable, message in TABLES.items():
        body = text[text.index(f"std::tuple {variable} = {{"):]
        body = body[:body.index("\n};")]
        for row in re.split(r"\bFieldRow\(", body)[1:]:
            name = re.match(r'\s*"(\w+)"', row).group(1)
            least = re.search(r"\.least = (\d+)", row)
            most = re.search(r"\.most = (\w+)", row)
            low = least.group(1) if least else "0"
            high = number(most.group(1) if most else "kLargestSize", constants)
            yield f"{message}.{name}", f"{low} .. {high}"


def words_of(path):
    for name, body in re.findall(r"Choices<(\w+)>\(\) \{(.*?)\n\}", path.read_text(), re.DOTALL):
        yield name, re.findall(r'"([^"]+)"\}', body)


def limits(folder, types=None):
    """Returns the range of each field as text, by "Message.field", and the words of each closed set, by
    the name of its type."""
    found = dict(plan_rows(folder / "plan_fields.h"))
    for file, (whole, part) in FILES.items():
        found.update(checks_of(folder / file, whole, part))
    found.update(words_of(folder / "choices.cc"))
    return found

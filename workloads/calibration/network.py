"""Item `network`: the collectives again, across nodes.

Layouts: in `rail`, each group has the ranks at one place on every node, so its traffic can stay
on its rail. In `strided`, it has another place on each node. In both, all groups communicate at
once, as the data-parallel groups of a step do. In `all`, one group has all ranks.
"""

from .bench import group_sizes
from .collectives import KINDS, sweep
from .point import Skip


def points(bench, _notes):
    if len(bench.nodes) < 2:
        raise Skip("one node")
    each = min(map(len, bench.nodes))
    for count in group_sizes(len(bench.nodes)):
        nodes = [node[:each] for node in bench.nodes[:count]]
        everyone = sorted(rank for node in nodes for rank in node)
        bench.group(everyone)
        for layout, groups in layouts(nodes).items():
            mine = [group for group in map(bench.group, groups) if group]
            for kind in KINDS:
                if kind == "point_to_point" and layout == "all":
                    continue  # its first two ranks are neighbours on a node
                row = {"kind": kind, "rank_count": len(groups[0]), "node_count": count, "layout": layout}
                yield from sweep(bench, row, mine[0] if mine else None, everyone)


def layouts(nodes):
    """Returns name -> groups of ranks. With one rank per node, all layouts are the same."""
    each = len(nodes[0])
    found = {"rail": [[node[place] for node in nodes] for place in range(each)]}
    if each > 1:
        # Sorted by rank, because torch.distributed orders them so.
        found["strided"] = [sorted(node[(place + index) % each] for index, node in enumerate(nodes))
                            for place in range(each)]
        found["all"] = [[rank for node in nodes for rank in node]]
    return found

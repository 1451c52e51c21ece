"""The design of GEMM shapes. It is a fixed sequence, so that a run can extend another's.

Sizes are spread evenly over their logarithms by Halton's sequence (Halton 1960), so that a few
points cover the range of each size and of each pair of sizes. In every eight shapes, six have
multiples of 128, and one of these is deep (large k, small m and n, as in weight gradients). One has
odd multiples of 64, and one has 1 to 4 rows.
"""

_BASES = (3, 5, 7)  # none has a common factor with the 8 kinds, or a kind would always get the same sizes
_KINDS = ("whole", "whole", "odd", "whole", "deep", "whole", "rows", "whole")
_TILE = 128  # the size that matrix units are efficient at


def design(count, smallest, largest):
    """Returns a list of (m, n, k), all different."""
    found, index = [], 0
    while len(found) < count:
        index += 1
        shape = _shape(index, smallest, largest)
        if shape not in found:
            found.append(shape)
    return found


def batched_design(count, largest):
    """Returns a list of (count, m, n, k) for attention without a fused kernel. `count` is heads x
    sequences. The shapes are those of the scores (n is the sequence and k the head) and of their
    product with the values (the other way round)."""
    found = []
    for index in range(1, count + 1):
        length = _near(_between(_halton(index, 3), _TILE, max(_TILE, largest // 2)), _TILE)
        head, heads = (64, 128)[index % 2], (8, 32)[index // 2 % 2]
        found.append((heads, length, length, head) if index // 4 % 2 else (heads, length, head, length))
    return found


def _shape(index, smallest, largest):
    kind = _KINDS[index % len(_KINDS)]
    places = [_halton(index, base) for base in _BASES]
    if kind == "deep":
        small = [_near(_between(place, smallest, largest / 4), _TILE) for place in places[:2]]
        return (*small, _near(_between(places[2], largest / 2, 4 * largest), _TILE))
    if kind == "rows":
        return (1 + int(4 * places[0]), *(_near(_between(place, smallest, largest), _TILE) for place in places[1:]))
    sizes = [_between(place, smallest, largest) for place in places]
    if kind == "odd":
        return tuple(min(2 * int(size / _TILE) + 1, largest // 64 - 1) * 64 for size in sizes)
    return tuple(_near(size, _TILE) for size in sizes)


def _halton(index, base):
    """Returns the digits of the index after the point, in reverse order."""
    found, digit = 0.0, 1.0
    while index:
        index, rest = divmod(index, base)
        digit /= base
        found += rest * digit
    return found


def _between(place, low, high):
    return low * (high / low) ** place


def _near(size, multiple):
    return max(1, round(size / multiple)) * multiple

"""Scatter plots of predicted against measured figures, as SVG; used by accuracy_report.py."""
import collections
import math

STAMP = "<!-- written by scripts/accuracy.sh: do not edit -->"

# The colours of Okabe and Ito, which colour-blind readers can tell apart, without yellow (because
# the background is white).
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333", "#7f5fc7"]


def chip_of(item):
    return item["case"]["cluster"]["pools"][0]["chip"]


def ticks(low, high):
    """Returns (value, is printed): 1, 2, 5 of each decade if there are few decades, else the
    decades."""
    found = []
    for power in range(math.floor(low), math.ceil(high) + 1):
        for digit in (1, 2, 5):
            at = power + math.log10(digit)
            if low <= at <= high:
                found.append((at, f"{digit * 10.0**power:g}", digit == 1 or high - low < 2.6))
    return found


def colours(exam, chips):
    """Returns one colour per chip. It is the same on every page (by their order in the exam),
    unless two chips on a page have the same."""
    order = list(dict.fromkeys(chip for _, chip in exam.score.CHIPS))
    chosen = {}
    for chip in sorted(chips, key=lambda c: (order.index(c) if c in order else len(order), c)):
        start = order.index(chip) if chip in order else len(order)
        tried = [COLOURS[(start + i) % len(COLOURS)] for i in range(len(COLOURS))]
        chosen[chip] = next((c for c in tried if c not in chosen.values()), tried[0])
    return chosen


def scatter(exam, points, title, unit):
    logs = collections.defaultdict(set)
    for item, _, measured, predicted in points:
        if predicted > 0:
            logs[chip_of(item)].add((math.log10(measured), math.log10(predicted)))
    colour = colours(exam, logs)
    counts = collections.Counter(chip_of(p[0]) for p in points)
    ends = [x for chip in logs.values() for point in chip for x in point] or [0]
    low, high = min(ends), max(ends)
    margin = max(0.04 * (high - low), 0.06, (0.7 - high + low) / 2)
    low, high = low - margin, high + margin
    side, left, top = 440, 70, 44 + 20 * len(logs)
    width, height = left + side + 24, top + side + 58
    x = lambda v: left + (v - low) / (high - low) * side
    y = lambda v: top + side - (v - low) / (high - low) * side
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
           f' viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
           STAMP, f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<clipPath id="plot"><rect x="{left}" y="{top}" width="{side}" height="{side}"/></clipPath>',
           f'<text x="{left}" y="24" font-size="15" font-weight="bold" fill="#222222">{title}</text>']
    for i, chip in enumerate(colour):
        words = f"{chip}, {counts[chip]} run" + "s" * (counts[chip] > 1)
        out.append(f'<circle cx="{left + 6}" cy="{40 + 20 * i}" r="5" fill="{colour[chip]}"/>'
                   f'<text x="{left + 18}" y="{44.5 + 20 * i}" fill="#222222">{words}</text>')
    out.append(f'<text x="{left + side}" y="44.5" text-anchor="end" fill="#666666">line 1:1, band ±20 %</text>')
    out += axes(low, high, (x, y), (left, top, side))
    out.append('<g clip-path="url(#plot)">')
    below, above = math.log10(0.8), math.log10(1.2)
    corners = [(low, low + below), (high, high + below), (high, high + above), (low, low + above)]
    out.append('<polygon fill="#999999" fill-opacity="0.22" points="'
               + " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners) + '"/>')
    out.append(f'<path d="M{x(low):.1f} {y(low):.1f}L{x(high):.1f} {y(high):.1f}" stroke="#444444"/>')
    for chip in sorted(logs, key=lambda c: (-len(logs[c]), c)):  # draws few points above many
        out += dots(logs[chip], (x, y), colour[chip])
    out.append("</g>")
    out.append(f'<text x="{left + side / 2:.0f}" y="{top + side + 44}" text-anchor="middle" fill="#222222">'
               f'measured, {unit}</text>')
    out.append(f'<text transform="translate(18 {top + side / 2:.0f}) rotate(-90)" text-anchor="middle"'
               f' fill="#222222">predicted, {unit}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def axes(low, high, scales, box):
    (x, y), (left, top, side) = scales, box
    out = []
    for at, words, printed in ticks(low, high):
        out.append(f'<path d="M{x(at):.1f} {top}v{side}M{left} {y(at):.1f}h{side}"'
                   f' stroke="{"#d8d8d8" if printed else "#efefef"}"/>')
        if printed:
            out.append(f'<text x="{x(at):.1f}" y="{top + side + 18}" text-anchor="middle" fill="#444444">{words}</text>')
            out.append(f'<text x="{left - 8}" y="{y(at) + 4.5:.1f}" text-anchor="end" fill="#444444">{words}</text>')
    out.append(f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="#888888"/>')
    return out


def dots(points, scales, colour):
    """Returns circles; if there are very many, one translucent path of round dots per line (a tenth
    of the bytes)."""
    x, y = scales
    places = sorted({(f"{x(a):.1f}", f"{y(b):.1f}") for a, b in points}, key=lambda p: (float(p[0]), float(p[1])))
    if len(places) <= 300:
        return [f'<g fill="{colour}" fill-opacity="0.6" stroke="{colour}" stroke-width="0.7">',
                *(f'<circle cx="{a}" cy="{b}" r="3.2"/>' for a, b in places), "</g>"]
    strides = [places[i::8] for i in range(8)]  # neighbours are in different paths, so that density shows
    out = [f'<g fill="none" stroke="{colour}" stroke-opacity="0.45" stroke-width="4.4" stroke-linecap="round">']
    for stride in strides:
        out.append('<path d="' + "\n".join("".join(f"M{a} {b}h0" for a, b in stride[i:i + 8])
                                           for i in range(0, len(stride), 8)) + '"/>')
    return [*out, "</g>"]

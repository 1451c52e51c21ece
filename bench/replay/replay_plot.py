"""Plots mean regret against trials, as an SVG."""

STAMP = "<!-- written by scripts/replay.sh: do not edit -->"
COLOURS = ("#0072b2", "#56b4e9", "#333333", "#d55e00", "#009e73")  # Okabe and Ito's, as in scripts/strategies_plots.py
WIDTH, HEIGHT, LEFT, TOP = 620, 320, 70, 94


def axes(last, top, x, y):
    out = []
    for trial in (1, *range(4, last + 1, 4)):
        out.append(f'<path d="M{x(trial):.1f} {TOP}v{HEIGHT}" stroke="#d8d8d8"/>'
                   f'<text x="{x(trial):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle" fill="#444444">{trial}</text>')
    for tenth in range(round(top * 10) + 1):
        at = y(tenth / 10)
        out.append(f'<path d="M{LEFT} {at:.1f}h{WIDTH}" stroke="#d8d8d8"/>'
                   f'<text x="{LEFT - 8}" y="{at + 4.5:.1f}" text-anchor="end" fill="#444444">{tenth * 10} %</text>')
    return [*out, f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888888"/>']


def plot(title, curves):
    """Returns the plot. `curves`: name -> regret after 1, 2, ... trials."""
    last = len(next(iter(curves.values())))
    top = max(0.1, -(-max(max(curve) for curve in curves.values()) * 10 // 1) / 10)
    x = lambda trial: LEFT + (trial - 1) / (last - 1) * WIDTH
    y = lambda regret: TOP + HEIGHT * (1 - regret / top)
    width, height = LEFT + WIDTH + 24, TOP + HEIGHT + 58
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
           f' viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
           STAMP, f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold" fill="#222222">{title}</text>',
           *axes(last, top, x, y)]
    for i, (colour, (name, curve)) in enumerate(zip(COLOURS, curves.items())):
        at, row = LEFT + i % 3 * 200, 48 + i // 3 * 22
        points = "L".join(f"{x(k):.1f} {y(regret):.1f}" for k, regret in enumerate(curve, 1))
        out.append(f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="2.2"/>'
                   f'<path d="M{at} {row}h18" stroke="{colour}" stroke-width="3"/>'
                   f'<text x="{at + 24}" y="{row + 4.5}" fill="#222222">{name}</text>')
    out.append(f'<text x="{LEFT + WIDTH / 2:.0f}" y="{TOP + HEIGHT + 42}" text-anchor="middle"'
               ' fill="#222222">trials</text>')
    out.append(f'<text transform="translate(18 {TOP + HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle"'
               ' fill="#222222">best so far, above the best of the group</text>')
    return "\n".join([*out, "</svg>"]) + "\n"

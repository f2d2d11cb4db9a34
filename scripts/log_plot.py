# SPDX-License-Identifier: MIT
"""A plot of time against size, both logarithmic, as SVG: for scripts/compare."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 78, 190, 44, 56
COLORS = ("#0b5cad", "#c0392b", "#d68910", "#1e8449", "#7d3c98", "#5d6d7e")


def bytes_text(count):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} B"


def microseconds_text(exponent):
    return f"{10 ** exponent:g} µs" if exponent < 3 else f"{10 ** (exponent - 3):g} ms"


def plot(path, title, series):
    """series: {name: [(bytes, microseconds)]}, the first one drawn last and thickest."""
    points = [point for line in series.values() for point in line]
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    first_octave, last_octave = math.floor(math.log2(low_x)), math.ceil(math.log2(high_x))
    last_octave = max(last_octave, first_octave + 1)
    first_decade = math.floor(math.log10(min(y for _, y in points)))
    last_decade = max(math.ceil(math.log10(max(y for _, y in points))), first_decade + 1)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at_x(count):
        return LEFT + inner_width * (math.log2(count) - first_octave) / (last_octave - first_octave)

    def at_y(microseconds):
        decades = (math.log10(microseconds) - first_decade) / (last_decade - first_decade)
        return HEIGHT - BOTTOM - inner_height * decades

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="26" font-size="16">{escape(title)}</text>']
    step = max(1, math.ceil((last_octave - first_octave) / 8))
    for octave in range(first_octave, last_octave + 1, step):
        x = at_x(2 ** octave)
        svg.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        svg.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">'
                   f'{bytes_text(2 ** octave)}</text>')
    for decade in range(first_decade, last_decade + 1):
        y = at_y(10 ** decade)
        svg.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{microseconds_text(decade)}</text>')
    for index, (name, line) in reversed(list(enumerate(series.items()))):
        color, width = COLORS[index % len(COLORS)], 3 if index == 0 else 1.6
        path_data = "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in line)
        svg.append(f'<path d="M{path_data}" fill="none" stroke="{color}" stroke-width="{width}"/>')
        svg += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="{width + 0.8}" fill="{color}"/>' for x, y in line]
        legend_y = TOP + 14 + 22 * index
        svg.append(f'<path d="M{WIDTH - RIGHT + 14} {legend_y - 4}h26" stroke="{color}" stroke-width="{width}"/>')
        svg.append(f'<text x="{WIDTH - RIGHT + 46}" y="{legend_y}">{escape(name)}</text>')
    svg.append(f'<text x="{LEFT + inner_width / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
               'size of the vector</text></svg>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(svg) + "\n")

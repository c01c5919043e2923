"""Curves over the number of connections as one SVG, written by hand: a grid of panels, each with lines
that carry their names at their ends."""
import html
import math

WIDTH, HEIGHT = 560, 360 # of a panel
LEFT, RIGHT, TOP, BOTTOM = 64, 128, 56, 46
INK, FAINT, GRID = "#222", "#666", "#e4e4e4"
FONT = 'font-family="system-ui, Helvetica, Arial, sans-serif"'


class Line:
    """name: written at its end; "" for one whose colour has been named."""

    def __init__(self, name, colour, points, dashed=False):
        self.name, self.colour, self.points, self.dashed = name, colour, points, dashed


class Panel:
    """lines: what is shown; log: the y axis; form: how a number on it is written."""

    def __init__(self, title, note, lines, log=False, form=lambda v: f"{v:g}"):
        self.title, self.note, self.lines, self.log, self.form = title, note, lines, log, form


def text(x, y, what, size=12, colour=INK, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(str(what))}</text>')


def linear_ticks(high):
    step = 10 ** math.floor(math.log10(high))
    for part in (0.2, 0.5, 1, 2):
        if high / (step * part) <= 6:
            step *= part
            break
    n = math.ceil(high / step - 1e-9)
    return [step * k for k in range(n + 1)]


def log_ticks(low, high):
    """Whole decades around the values; 2 and 5 between them where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [m * 10.0 ** k for k in range(first, last + 1) for m in parts]
    below = max((t for t in ticks if t <= low), default=ticks[0])
    above = min((t for t in ticks if t >= high), default=ticks[-1])
    return [t for t in ticks if below <= t <= above]


def spread_out(wanted, gap, low, high):
    """Places near those that are wanted, at least a gap apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [min(max(wanted[i], low), high) for i in order]
    for _ in range(200):
        moved = False
        for a in range(len(places) - 1):
            short = gap - (places[a + 1] - places[a])
            if short > 0.01:
                places[a] = max(low, places[a] - short / 2)
                places[a + 1] = places[a] + gap
                moved = True
        over = places[-1] - high if places else 0
        if over > 0.01:
            places = [p - over for p in places]
            moved = True
        if not moved:
            break
    found = [0.0] * len(wanted)
    for place, i in zip(places, order):
        found[i] = place
    return found


def draw(panel, x0, y0):
    xs = sorted({x for line in panel.lines for x, _ in line.points})
    ys = [y for line in panel.lines for _, y in line.points if y > 0]
    out = [text(x0 + LEFT, y0 + 22, panel.title, 15, weight="600"), text(x0 + LEFT, y0 + 40, panel.note, 11.5, FAINT)]
    if not ys:
        return out + [text(x0 + LEFT, y0 + 90, "not measured", 12, FAINT)]
    ticks = log_ticks(min(ys), max(ys)) if panel.log else linear_ticks(max(ys))
    scale = math.log10 if panel.log else float
    low, high = scale(ticks[0]), scale(ticks[-1])
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def px(x):
        span = math.log2(xs[-1] / xs[0]) or 1
        return x0 + LEFT + width * math.log2(x / xs[0]) / span

    def py(y):
        return y0 + TOP + height * (1 - (scale(max(y, ticks[0])) - low) / (high - low or 1))

    for tick in ticks:
        out.append(f'<line x1="{x0 + LEFT}" x2="{x0 + LEFT + width}" y1="{py(tick):.1f}" y2="{py(tick):.1f}" '
                   f'stroke="{GRID}"/>')
        out.append(text(x0 + LEFT - 8, py(tick) + 4, panel.form(tick), 11, FAINT, "end"))
    for x in xs:
        out.append(text(px(x), y0 + TOP + height + 18, x, 11, FAINT, "middle"))
    out.append(text(x0 + LEFT + width / 2, y0 + TOP + height + 36, "connections", 11, FAINT, "middle"))
    lines = [line for line in panel.lines if line.points]
    named = [line for line in lines if line.name]
    places = dict(zip(map(id, named), spread_out([py(line.points[-1][1]) for line in named], 15, y0 + TOP, y0 + TOP + height)))
    for line in lines:
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in line.points)
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dash} '
                   f'stroke-linejoin="round"/>')
        out += [f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="3" fill="{"#fff" if line.dashed else line.colour}" '
                f'stroke="{line.colour}" stroke-width="1.5"/>' for x, y in line.points]
        if not line.name:
            continue
        place, end = places[id(line)], (px(line.points[-1][0]), py(line.points[-1][1]))
        if abs(place - end[1]) > 3 or end[0] < x0 + LEFT + width - 1: # a thread from the line to its name
            out.append(f'<line x1="{end[0] + 5:.1f}" y1="{end[1]:.1f}" x2="{x0 + LEFT + width + 10}" y2="{place:.1f}" '
                       f'stroke="{line.colour}" stroke-width="0.7" opacity="0.6"/>')
        out.append(text(x0 + LEFT + width + 13, place + 4, line.name, 12, line.colour))
    return out


def svg(panels, columns=2):
    rows = math.ceil(len(panels) / columns)
    width, height = columns * WIDTH, rows * HEIGHT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'{FONT}>', f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, panel in enumerate(panels):
        out += draw(panel, i % columns * WIDTH, i // columns * HEIGHT)
    return "\n".join([*out, "</svg>", ""])

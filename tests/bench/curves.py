"""Curves over time as one SVG, written by hand."""
import html

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 460, 70, 110, 50, 50
COLOURS = ("#c0392b", "#2471a3", "#7d8b99", "#239b56", "#222222", "#8e44ad")


def ticks(high):
    """Round numbers from 0 to at least high, at most seven."""
    step = 1
    while high > 6 * step:
        step *= 2.5 if str(step)[0] == "2" else 2
    return [k * step for k in range(int(-(-high // step)) + 1)]


def svg(title, x_name, y_name, x, lines):
    """lines: name -> values, one for each of x; both from 0."""
    xs, ys = ticks(max(x)), ticks(max(max(values) for values in lines.values()))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(a, b):
        return f"{LEFT + wide * a / xs[-1]:.1f},{TOP + high * (1 - b / ys[-1]):.1f}"

    def text(a, b, what, anchor="middle", colour="#444"):
        return f'<text x="{a:.1f}" y="{b:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(what)}</text>'

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', text(LEFT, 28, title, "start", "#222"),
           text(LEFT + wide / 2, HEIGHT - 10, x_name), text(LEFT - 8, TOP - 12, y_name, "end")]
    for y in ys:
        out.append(f'<polyline points="{at(0, y)} {at(xs[-1], y)}" stroke="#e4e4e4"/>')
        out.append(text(LEFT - 8, TOP + high * (1 - y / ys[-1]) + 4, f"{y:g}", "end"))
    out += [text(LEFT + wide * v / xs[-1], TOP + high + 20, f"{v:g}") for v in xs]
    below = -100
    for (name, values), colour in sorted(zip(lines.items(), COLOURS), key=lambda one: -one[0][1][-1]):
        points = " ".join(at(a, b) for a, b in zip(x, values))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        below = max(below + 16, TOP + high * (1 - values[-1] / ys[-1]) + 4)
        out.append(text(LEFT + wide * x[-1] / xs[-1] + 8, below, name, "start", colour))
    return "\n".join([*out, "</svg>", ""])

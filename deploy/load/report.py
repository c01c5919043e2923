"""What was measured, as text and as a picture."""
import json
import os
import time

from picture import Line, Panel, svg

COLOURS = {"GET /v1/isa": "#777777", "JSON": "#c2410c", "binary": "#1d4ed8", "shared memory": "#15803d"}


def thousands(v):
    return f"{v:,.0f}" if v >= 10 else f"{v:g}"


def duration(us):
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


def lines(series, value, dashed=False):
    return [Line("" if dashed else name, COLOURS[name], [(p.connections, value(p)) for p in points if p.requests], dashed)
            for name, points in series.items()]


def latency(title, series):
    return Panel(title, "half of all answers within the full lines, 99 % within the dashed ones",
                 lines(series, lambda p: p.microseconds[50]) +
                 lines(series, lambda p: p.microseconds[99], True), True, duration)


def picture(small, big, moved, sizes):
    def megabytes(p):
        return p.rate * moved / 1e6
    return svg([
        Panel(f"Small calls: op.add of {sizes[0]} floats", "answers a second", lines(small, lambda p: p.rate),
              form=thousands),
        latency("Small calls: latency", small),
        Panel(f"Big calls: op.add of {sizes[1]} MiB tensors", "MB/s of tensors in and out, whatever they travel as",
              lines(big, megabytes), True, thousands),
        latency("Big calls: latency", big)])


def table(series, columns, row):
    out = ["| | connections | " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) + 1)]
    for name, points in series.items():
        out += [f"| {name} | {p.connections} | " + " | ".join(row(p)) + " |" for p in points]
    return out


def percentiles(p):
    return [duration(p.microseconds[at]) for at in (50, 90, 99, 99.9, 100)]


def markdown(facts, small, big, moved, sizes, notes):
    names = ["p50", "p90", "p99", "p99.9", "max", "errors"]
    out = ["# Load test", "", f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, `{facts['command']}`", ""]
    out += [f"- {line}" for line in (*facts["lines"], *notes)]
    out += ["", "![Throughput and latency over connections](load.svg)", ""]
    out += [f"## Small calls: `op.add` of {sizes[0]} floats", ""]
    out += table(small, ["answers/s", *names], lambda p: [f"{p.rate:,.0f}", *percentiles(p), str(p.errors)])
    out += ["", f"## Big calls: `op.add` of two tensors of {sizes[1]} MiB", ""]
    out += table(big, ["answers/s", "MB/s", *names],
                 lambda p: [f"{p.rate:,.1f}", f"{p.rate * moved / 1e6:,.0f}", *percentiles(p), str(p.errors)])
    return "\n".join([*out, ""])


def write(directory, facts, small, big, moved, sizes, notes):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "load.svg"), "w") as f:
        f.write(picture(small, big, moved, sizes))
    with open(os.path.join(directory, "report.md"), "w") as f:
        f.write(markdown(facts, small, big, moved, sizes, notes))
    with open(os.path.join(directory, "figures.json"), "w") as f:
        json.dump({**facts, "notes": notes, **{
            kind: {name: [vars(p) for p in points] for name, points in series.items()}
            for kind, series in (("small", small), ("big", big))}}, f, indent=1)

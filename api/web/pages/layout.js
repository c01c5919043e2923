// Where the boxes of a graph go: in layers from top to bottom, each below all that it reads. Its time grows with the
// boxes and with the layers that lines cross, so that thousands of boxes take a part of a second.
const GAP = 22, BETWEEN = 34, LANE = 10, MOST_LANES = 20000, SWEEPS = 6;

const mean = (cells) => cells.reduce((sum, c) => sum + c.x * (c.lane ? 3 : 1), 0) / cells.reduce((sum, c) => sum + (c.lane ? 3 : 1), 0);
const apart = (a, b) => (a.w + b.w) / 2 + (a.lane && b.lane ? 4 : GAP);

/** Ranks: a box is below the lowest that it reads; one that reads nothing is right above who reads it. */
function rank(items) {
  const at = new Map(items.map((n) => [n.id, Object.assign(n, {up: [], down: [], to: [], rank: 0, x: 0})]));
  for (const n of items) {
    n.from = [...new Set(n.reads)].map((id) => at.get(id)).filter((f) => f && f !== n);
    for (const f of n.from) {
      n.rank = Math.max(n.rank, f.rank + 1);
      f.to.push(n);
    }
  }
  for (const n of items) if (!n.from.length && n.to.length) n.rank = n.to.reduce((least, t) => Math.min(least, t.rank), Infinity) - 1;
}

/** The boxes by layers, and in the layers that a line crosses a lane for it; those of one box share theirs. */
function layer(items) {
  const layers = [];
  let lanes = MOST_LANES;
  const put = (cell) => (layers[cell.rank] ??= []).push(cell);
  items.forEach(put);
  for (const n of items) {
    let last = n;
    for (const t of n.to.sort((a, b) => a.rank - b.rank)) {
      for (; last.rank < t.rank - 1 && lanes > 0; lanes--) {
        const lane = {lane: true, of: n, rank: last.rank + 1, w: LANE, h: 0, x: 0, up: [last], down: []};
        last.down.push(lane);
        put(last = lane);
      }
      t.up.push(last);
      last.down.push(t);
    }
  }
  return layers;
}

function pack(cells) {
  let x = 0;
  cells.forEach((c, i) => { c.x = x += i ? apart(cells[i - 1], c) : 0; });
  for (const c of cells) c.x -= x / 2;
}

/** Each layer in the order of what its cells are joined with, so that few lines cross. */
function order(layers) {
  layers.forEach(pack);
  for (let k = 0; k < SWEEPS; k++) {
    const side = k % 2 ? 'down' : 'up';
    for (const cells of k % 2 ? [...layers].reverse() : layers) {
      const keys = new Map(cells.map((c) => [c, c[side].length ? mean(c[side]) : c.x]));
      pack(cells.sort((a, b) => keys.get(a) - keys.get(b)));
    }
  }
}

/** Cells as near as can be to where they want to be, in their order and apart (pool adjacent violators). */
function place(cells, want) {
  const blocks = [];
  let offset = 0;
  cells.forEach((c, i) => {
    offset += i ? apart(cells[i - 1], c) : 0;
    let b = {sum: (want(c) - offset) * (c.lane ? 3 : 1), weight: c.lane ? 3 : 1, cells: [[c, offset]]};
    for (let a = blocks.at(-1); a && a.sum / a.weight > b.sum / b.weight; a = blocks.at(-1)) {
      blocks.pop();
      b = {sum: a.sum + b.sum, weight: a.weight + b.weight, cells: a.cells.concat(b.cells)};
    }
    blocks.push(b);
  });
  for (const b of blocks) for (const [c, o] of b.cells) c.x = b.sum / b.weight + o;
}

function straighten(layers) {
  for (let k = 0; k < 2 * SWEEPS; k++) {
    const near = k >= 2 * SWEEPS - 3 ? (c) => [...c.up, ...c.down] : k % 2 ? (c) => c.down : (c) => c.up;
    for (const cells of k % 2 ? [...layers].reverse() : layers) place(cells, (c) => (near(c).length ? mean(near(c)) : c.x));
  }
}

/** items: {id, w, h, reads: [ids]}, each behind what it reads. Gives them x (the middle) and y (the top); returns the size. */
export function layout(items) {
  rank(items);
  const layers = layer(items);
  order(layers);
  straighten(layers);
  let y = 0, left = Infinity, right = -Infinity;
  for (const cells of layers) {
    const tall = cells.reduce((most, c) => Math.max(most, c.h), 0);
    for (const c of cells) {
      c.y = c.lane ? y : y + (tall - c.h) / 2;
      if (c.lane) c.h = tall;
      left = Math.min(left, c.x - c.w / 2);
      right = Math.max(right, c.x + c.w / 2);
    }
    y += tall + BETWEEN;
  }
  for (const cells of layers) for (const c of cells) c.x -= left;
  return {width: Math.max(0, right - left), height: Math.max(0, y - BETWEEN)};
}

const f = (v) => Math.round(v * 10) / 10;
const step = (a, b) => {
  const from = a.y + a.h, to = b.y, bend = Math.min(40, (to - from) / 2);
  return `M${f(a.x)} ${f(from)}C${f(a.x)} ${f(from + bend)} ${f(b.x)} ${f(to - bend)} ${f(b.x)} ${f(to)}${b.lane ? `V${f(b.y + b.h)}` : ''}`;
};
/** The lines from a box to all that read it, as an SVG path; and how far down they go. */
export function lines(n) {
  const parts = [], stack = [n];
  let low = n.y + n.h;
  for (let c = stack.pop(); c; c = stack.pop())
    for (const d of c.down) {
      parts.push(step(c, d));
      low = Math.max(low, d.y);
      if (d.lane) stack.push(d);
    }
  return {path: parts.join(''), low};
}
/** The lines into a box, back to what it reads. */
export function linesInto(n) {
  const parts = [];
  for (let c of n.up) {
    parts.push(step(c, n));
    for (; c.lane; [c] = c.up) parts.push(step(c.up[0], c));
  }
  return parts.join('');
}

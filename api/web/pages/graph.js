// A graph of boxes that can be moved, zoomed and walked through. Its elements are made when they come into sight.
import {h} from './dom.js';
import {layout, lines, linesInto} from './layout.js';

const s = (tag, attributes, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value !== undefined) e.setAttribute(name, value);
  e.append(...children);
  return e;
};
const WIDE = 178, HIGH = 40, PORT = 26, PAD = 8, HEAD = 18, NEAR = 0.4, LEAST = 0.0005, MOST = 3;
const cut = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);

/** Boxes of steps, of which those that are computed together are one with parts. */
function boxes({inputs, steps, outputs}) {
  const groups = new Map(), owner = new Map();
  for (const t of steps) {
    const key = t.with ?? t.id;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(t);
    owner.set(t.id, `g${key}`);
  }
  const of = (ids) => ids.map((id) => owner.get(id) ?? id);
  const made = [...groups].map(([key, parts]) => (parts.length > 1 ?
    {id: `g${key}`, parts, w: WIDE + 2 * PAD, h: HEAD + parts.length * (HIGH + 4) + PAD - 4, reads: of(parts.flatMap((t) => t.reads))} :
    {id: `g${key}`, parts, w: WIDE, h: HIGH, reads: of(parts[0].reads)}));
  const port = (p) => ({...p, port: true, w: Math.min(WIDE, 30 + 7.4 * Math.min(22, p.name.length)), h: PORT, reads: of(p.reads || [])});
  return {items: [...inputs.map(port), ...made, ...outputs.map(port)], owner};
}

/** program: {inputs: [{id, name}], steps: [{id, name, note, title, heat, with, reads}], outputs: [{id, name, reads}]}. */
export function graph(label, program, onselect) {
  const {items, owner} = boxes(program), size = layout(items), byId = new Map(items.map((n) => [n.id, n]));
  const under = s('g', {class: 'edges'}), chosen = s('path', {class: 'chosen'}), over = s('g'), root = s('g', null, under, chosen, over);
  const svg = s('svg', {class: 'graph', tabindex: 0, role: 'application', 'aria-label': `${label}. Arrows walk through the steps, + and - zoom, 0 shows all.`}, root);
  const view = {x: 0, y: 0, k: 1}, elements = new Map(), made = new Set();
  let waiting = false, selected = null, only = null;

  const heat = (e, t) => e.querySelector('rect').style.setProperty('--heat', `${(100 * (t.heat || 0)).toFixed(1)}%`);
  function stepBox(t, x, y) {
    const e = s('g', {class: 'step', 'data-id': t.id, transform: `translate(${x - WIDE / 2} ${y})`},
      s('title', null, t.title), s('rect', {width: WIDE, height: HIGH, rx: 7}),
      s('text', {x: 9, y: 17, class: 'name'}, cut(t.name, 22)), s('text', {x: 9, y: 32}, cut(t.note, 26)));
    heat(e, t);
    elements.set(t.id, e);
    e.classList.toggle('faint', Boolean(only && !only(t)));
    e.classList.toggle('on', t.id === selected);
    return e;
  }
  function make(n) {
    made.add(n);
    if (n.port) over.append(s('g', {class: 'port', transform: `translate(${n.x - n.w / 2} ${n.y})`}, s('title', null, n.name), s('rect', {width: n.w, height: PORT, rx: 13}), s('text', {x: n.w / 2, y: 17}, cut(n.name, 22))));
    else if (n.parts.length === 1) over.append(stepBox(n.parts[0], n.x, n.y));
    else over.append(s('rect', {class: 'together', x: n.x - n.w / 2, y: n.y, width: n.w, height: n.h, rx: 10}),
      s('text', {class: 'together', x: n.x - n.w / 2 + PAD + 2, y: n.y + 13}, `${n.parts.length} together`), ...n.parts.map((t, i) => stepBox(t, n.x, n.y + HEAD + i * (HIGH + 4))));
  }
  const drawn = items.map((n) => ({n, ...lines(n)}));
  function draw() {
    waiting = false;
    const high = svg.clientHeight || 400, wide = svg.clientWidth || 600;
    view.x = Math.min(wide - 40, Math.max(40 - size.width * view.k, view.x));
    view.y = Math.min(high - 40, Math.max(40 - size.height * view.k, view.y));
    root.setAttribute('transform', `translate(${view.x} ${view.y}) scale(${view.k})`);
    svg.classList.toggle('far', view.k < NEAR);
    const top = -view.y / view.k - 200, end = (high - view.y) / view.k + 200;
    for (const d of drawn) {
      if (d.path && d.n.y < end && d.low > top) {
        under.append(s('path', {d: d.path}));
        d.path = '';
      }
      if (!made.has(d.n) && d.n.y < end && d.n.y + d.n.h > top) make(d.n);
    }
  }
  const later = () => { if (!waiting) requestAnimationFrame(draw); waiting = true; };
  function zoom(by, x = svg.clientWidth / 2, y = svg.clientHeight / 2) {
    const k = Math.min(MOST, Math.max(LEAST, view.k * by));
    view.x = x - (x - view.x) * k / view.k;
    view.y = y - (y - view.y) * k / view.k;
    view.k = k;
    later();
  }
  function show(k, y, middle = size.width / 2) {
    view.k = Math.min(1, Math.max(LEAST, k));
    view.x = svg.clientWidth / 2 - middle * view.k;
    view.y = y ?? (svg.clientHeight - size.height * view.k) / 2;
    later();
  }
  const whole = () => Math.min((svg.clientWidth - 24) / size.width, (svg.clientHeight - 24) / size.height);
  /** All of it where that can be read, else its top. */
  const begin = () => {
    const fits = (svg.clientWidth - 24) / size.width, first = items.filter((n) => n.rank === 0);
    if (whole() > 0.6) show(whole());
    else show(Math.max(0.7, Math.min(1, fits)), 12, fits > 0.7 ? undefined : first.reduce((sum, n) => sum + n.x, 0) / first.length);
  };

  function select(id, move = true) {
    elements.get(selected)?.classList.remove('on');
    selected = id;
    const n = byId.get(owner.get(id));
    chosen.setAttribute('d', n ? linesInto(n) + lines(n).path : '');
    if (n && move) {
      const k = view.k = Math.max(view.k, NEAR), y = n.y + (n.parts.length > 1 ? HEAD + n.parts.findIndex((t) => t.id === id) * (HIGH + 4) : 0);
      if (n.x * k + view.x < 90 || n.x * k + view.x > svg.clientWidth - 90) view.x = svg.clientWidth / 2 - n.x * k;
      if (y * k + view.y < 10 || y * k + view.y > svg.clientHeight - 60) view.y = svg.clientHeight / 2 - y * k;
      draw();
    }
    elements.get(id)?.classList.add('on');
    onselect(id);
  }
  const walk = (by) => {
    const ids = program.steps.map((t) => t.id), i = ids.indexOf(selected);
    if (ids.length) select(ids[i < 0 && by !== Infinity ? 0 : Math.min(ids.length - 1, Math.max(0, i + by))]);
  };
  const keys = {ArrowDown: () => walk(1), ArrowRight: () => walk(1), ArrowUp: () => walk(-1), ArrowLeft: () => walk(-1), PageDown: () => walk(10), PageUp: () => walk(-10),
    Home: () => walk(-Infinity), End: () => walk(Infinity), '+': () => zoom(1.25), '=': () => zoom(1.25), '-': () => zoom(0.8), 0: () => show(whole()), Escape: () => select(null)};
  svg.addEventListener('keydown', (e) => { if (keys[e.key] && !e.ctrlKey && !e.metaKey) { e.preventDefault(); keys[e.key](); } });
  svg.addEventListener('wheel', (e) => {
    if (!e.ctrlKey && !e.metaKey) return; // the page is scrolled
    e.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.004)), e.clientX - box.left, e.clientY - box.top);
  }, {passive: false});
  const fingers = new Map();
  let hit = null, moved = 0;
  svg.addEventListener('pointerdown', (e) => {
    if (e.button) return;
    hit = fingers.size ? null : e.target.closest('[data-id]');
    moved = 0;
    fingers.set(e.pointerId, [e.clientX, e.clientY]);
    svg.setPointerCapture(e.pointerId);
  });
  svg.addEventListener('pointermove', (e) => {
    const was = fingers.get(e.pointerId), other = [...fingers].find(([id]) => id !== e.pointerId)?.[1];
    if (!was) return;
    const dx = e.clientX - was[0], dy = e.clientY - was[1], box = svg.getBoundingClientRect();
    moved += Math.abs(dx) + Math.abs(dy);
    fingers.set(e.pointerId, [e.clientX, e.clientY]);
    if (other) {
      const far = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
      zoom(far([e.clientX, e.clientY]) / far(was), (e.clientX + other[0]) / 2 - box.left, (e.clientY + other[1]) / 2 - box.top);
    } else {
      view.x += dx;
      view.y += dy;
      later();
    }
  });
  for (const kind of ['pointerup', 'pointercancel']) svg.addEventListener(kind, (e) => {
    fingers.delete(e.pointerId);
    if (kind === 'pointerup' && hit && moved < 5) select(+hit.dataset.id, false);
    hit = null;
  });
  svg.addEventListener('dblclick', (e) => { const box = svg.getBoundingClientRect(); zoom(1.6, e.clientX - box.left, e.clientY - box.top); });
  let was = 0;
  new ResizeObserver(() => { if (svg.clientWidth !== was) begin(); was = svg.clientWidth; }).observe(svg);

  const button = (words, name, onclick) => h('button.quiet', {type: 'button', 'aria-label': name, title: name, onclick}, words);
  return {
    e: h('div.canvas', null, h('div.tools', null, button('+', 'Zoom in', () => zoom(1.4)), button('−', 'Zoom out', () => zoom(1 / 1.4)), button('All', 'All of it', () => show(whole())), button('Top', 'Top of it', begin)), svg),
    select,
    /** Only those steps in full colour; null: all. */
    mark(which) {
      only = which;
      for (const t of program.steps) elements.get(t.id)?.classList.toggle('faint', Boolean(only && !only(t)));
    },
    /** heat of a step: 0 to 1. */
    colour(by) {
      for (const t of program.steps) {
        t.heat = by(t);
        if (elements.has(t.id)) heat(elements.get(t.id), t);
      }
    },
    size: () => items.length,
  };
}

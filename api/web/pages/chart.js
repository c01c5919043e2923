// Numbers over the last minutes, with axes. What is under the pointer, or the newest, stands beside the title.
import {h} from './dom.js';

const s = (tag, attributes) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
};
const SPANS = [[5, 5], [15, 3], [30, 3], [60, 4]]; // minutes of an axis, and its parts

/** The least of 1, 2, 5, 10, 20, 50 ... that is no less than v. */
export function ceiling(v) {
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= v * (1 - 1e-9));
}

/** The axis for so many steps of step_s seconds: its minutes, and into how many parts it is cut. */
export const axis = (n, step_s) => SPANS.find(([m]) => m * 60 >= n * step_s) ?? SPANS.at(-1);

/** chart(title, format): {e, set(values, step_s, until, least)}: until: when the last value's step ended; the axis is not lower than least. */
export function chart(title, format) {
  const line = s('path', {class: 'line'}), area = s('path', {class: 'area'}), at = s('path', {class: 'at'});
  const svg = s('svg', {viewBox: '0 0 720 100', preserveAspectRatio: 'none', role: 'img', 'aria-label': title});
  svg.append(s('path', {class: 'grid', d: 'M0 0H720M0 50H720M0 100H720'}), area, line, at);
  const now = h('span.soft.small'), high = h('div.high', {'aria-hidden': 'true'}), wide = h('div.wide', {'aria-hidden': 'true'});
  let shown = null, pointer = null;
  function say() {
    const {values, span, step_s, until} = shown;
    const back = pointer === null ? 0 : Math.min(values.length - 1, Math.max(0, Math.round((1 - pointer) * span / step_s - 0.5)));
    at.setAttribute('d', pointer === null || !values.length ? '' : `M${720 * (1 - (back + 0.5) * step_s / span)} 0V100`);
    now.textContent = !values.length ? 'nothing yet' : `${format(values.at(-1 - back))} ${back ? `at ${new Date(until - back * step_s * 1000).toLocaleTimeString()}` : 'in the last seconds'}`;
  }
  svg.addEventListener('pointermove', (e) => { const box = svg.getBoundingClientRect(); pointer = (e.clientX - box.left) / box.width; if (shown) say(); });
  svg.addEventListener('pointerleave', () => { pointer = null; if (shown) say(); });
  return {
    e: h('div.chart', null, h('div.row', null, h('h3', null, title), now), h('div.plot', null, high, svg, wide)),
    set(values, step_s, until, least) {
      const [minutes, parts] = axis(values.length, step_s), span = 60 * minutes, most = Math.max(...values, 0), top = ceiling(Math.max(most, least));
      const points = values.map((v, i) => [720 * (1 - (values.length - i - 0.5) * step_s / span), 100 - 100 * v / top]);
      const path = points.map(([x, y], i) => `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
      line.setAttribute('d', path);
      area.setAttribute('d', points.length ? `${path}V100H${points[0][0].toFixed(1)}Z` : '');
      high.replaceChildren(...[top, top / 2, 0].map((v) => h('span', null, format(v))));
      wide.replaceChildren(...Array.from({length: parts + 1}, (_, i) => h('span', null, i < parts ? `−${minutes * (parts - i) / parts} min` : 'now')));
      svg.setAttribute('aria-label', `${title}, the last ${minutes} minutes: at most ${format(most)}, now ${format(values.at(-1) ?? 0)}`);
      shown = {values, span, step_s, until};
      say();
    },
  };
}

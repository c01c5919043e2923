// A form that runs a model: its inputs, prefilled by their types and shapes, and what came out.
import {h, count, digits, shape, time, toCopy} from './dom.js';
import {ask} from './server.js';

const WRITTEN = 256, SHOWN = 120, MOST = 4e6;
const fills = {
  'a wave from -1 to 1': (i) => Math.round(1000 * Math.sin(0.7 * i + 0.3)) / 1000,
  'all 0': () => 0, 'all 1': () => 1, '0, 1, 2, ...': (i) => i,
};
const whole = (p) => /INT|BOOL/.test(p.datatype);
const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

/** Sizes to begin with: those of the last calls, else small ones where any are taken. */
function sizes(port, k, plans) {
  const last = plans.find((p) => p.inputs[k]?.shape.length === port.shape.length)?.inputs[k].shape;
  return last || port.shape.map((n, i) => (n >= 0 ? n : i === 0 ? 1 : port.shape.length > 3 ? 64 : 8));
}

/** "1, 3, 48" or "1 × 3 × 48" or "[1,3,48]" as numbers. */
export function readShape(text) {
  const parts = text.replace(/^\s*\[|\]\s*$/g, '').split(/[\s,×x]+/).filter(Boolean);
  if (!parts.every((p) => /^\d+$/.test(p))) throw new Error('a shape is whole numbers, as 1, 3, 48');
  const found = parts.map(Number);
  if (product(found) > MOST) throw new Error(`${count(product(found))} elements are more than a page should write; ${count(MOST)} at most`);
  return found;
}

const written = (port, make, n) => Array.from({length: n}, (_, i) => (port.datatype === 'BOOL' ? Boolean(make(i)) : make(i)));

function field(port, k, plans) {
  const id = `port-${k}`, begin = sizes(port, k, plans);
  const size = h('input.mono', {id, spellcheck: 'false', autocomplete: 'off'}), fill = h('select', {id: `${id}-fill`}), text = h('textarea', {id: `${id}-data`, rows: 3, spellcheck: 'false'});
  const own = h('div.wide', null, h('label', {for: text.id}, `Values of ${port.name}, flat or nested`), text);
  fill.append(h('option', null, 'as written below'), ...Object.keys(fills).map((f) => h('option', null, f)));
  size.value = begin.join(', ');
  const make = fills[whole(port) ? 'all 1' : 'a wave from -1 to 1'], n = product(begin);
  if (n <= WRITTEN) text.value = JSON.stringify(written(port, make, n));
  else fill.value = whole(port) ? 'all 1' : 'a wave from -1 to 1';
  const turn = () => { own.hidden = fill.selectedIndex > 0; };
  fill.addEventListener('change', turn);
  size.addEventListener('change', () => { // what is written no longer fits
    try {
      const now = product(readShape(size.value));
      if (fill.selectedIndex === 0 && now <= WRITTEN) text.value = JSON.stringify(written(port, make, now));
      else if (fill.selectedIndex === 0) fill.value = whole(port) ? 'all 1' : 'a wave from -1 to 1';
      turn();
    } catch { /* it is told when it is sent */ }
  });
  turn();
  return {
    e: h('fieldset', null, h('legend', null, h('code', null, port.name), ` ${port.datatype} ${shape(port.shape)}${port.optional ? ', may be left out: empty its shape' : ''}`),
      h('div.fields', null, h('div', null, h('label', {for: id}, 'Shape'), size), h('div', null, h('label', {for: fill.id}, 'Values'), fill), own)),
    read() {
      if (port.optional && !size.value.trim()) return null;
      try {
        const dims = readShape(size.value);
        const data = fill.selectedIndex ? written(port, fills[fill.value], product(dims)) : JSON.parse(text.value.replace(/(?<!["\w])(NaN|-?Infinity)\b/g, '"$1"'));
        return {name: port.name, shape: dims, datatype: port.datatype, data};
      } catch (e) {
        throw new Error(`${port.name}: ${e.message}`);
      }
    },
  };
}

/** Values as nested arrays where they are few, else the first of them. */
function values(out) {
  const data = out.data.flat(Infinity);
  if (data.length > SHOWN) return `${data.slice(0, SHOWN).map((v) => JSON.stringify(v)).join(', ')}, ... of ${count(data.length)}`;
  const nest = (dims, from) => (dims.length < 2 ? `[${data.slice(from, from + (dims[0] ?? 1)).map((v) => JSON.stringify(v)).join(', ')}]` :
    `[${Array.from({length: dims[0]}, (_, i) => nest(dims.slice(1), from + i * product(dims.slice(1)))).join(',\n ')}]`);
  return out.shape.length ? nest(out.shape, 0) : JSON.stringify(data[0]);
}

function summary(out) {
  const numbers = out.data.flat(Infinity).map(Number).filter(Number.isFinite);
  if (!numbers.length || out.datatype === 'BOOL') return '';
  let low = Infinity, high = -Infinity, sum = 0;
  for (const v of numbers) { low = Math.min(low, v); high = Math.max(high, v); sum += v; }
  return `from ${digits(low)} to ${digits(high)}, ${digits(sum / numbers.length)} on average`;
}

export function form(model, plans, after) {
  const fields = model.inputs.map((p, k) => field(p, k, plans)), results = h('div', {'aria-live': 'polite'});
  const path = `/v2/models/${encodeURIComponent(model.name)}/infer`, run = h('button', {type: 'submit'}, 'Run');
  async function send(event) {
    event.preventDefault();
    run.disabled = true;
    try {
      const body = JSON.stringify({inputs: fields.map((f) => f.read()).filter(Boolean), ...(model.state?.length ? {parameters: {session: ''}} : {})}), begin = performance.now();
      const reply = await ask(path, {method: 'POST', body, headers: {'Content-Type': 'application/json'}}), p = reply.parameters || {};
      const passed = (performance.now() - begin) * 1000;
      results.replaceChildren(h('p', null, `It took ${time(passed)} with HTTP and JSON${p.compute_us > 0 ? `, ${time(p.compute_us)} of these in the model` : ''}.`),
        ...reply.outputs.map((out) => h('div', null, h('h3', null, h('code', null, out.name), h('span.soft', null, ` ${out.datatype} ${shape(out.shape)} `), h('span.soft.small', null, summary(out))),
          h('pre', {tabindex: 0, 'aria-label': `Output ${out.name}`}, values(out)))),
        ...(body.length < 2000 ? [toCopy('The same by curl', `curl -s ${location.origin}${path} -d '${body.replaceAll("'", "'\\''")}'`)] : []));
      await after();
    } catch (e) {
      results.replaceChildren(h('p.problem', {role: 'alert'}, e.message));
    }
    run.disabled = false;
  }
  return [h('form', {onsubmit: send}, fields.map((f) => f.e), h('div.row', null, run, h('span.soft.small', null, 'Unknown sizes begin small, or as in the last call.'))), results];
}

// Try it: an operator on plain arrays; what it gave, which kernel ran and why, where the time went,
// and the same call for elsewhere.
import {curl, h, operatorField, table, time, toCopy} from './dom.js';
import {guarded} from './access.js';
import {ask, once} from './server.js';
import {fill, inOrder, isPlain, typeOf} from './samples.js';

export const title = 'Try it';

const sameCall = (url, body) => [toCopy('curl', curl('POST', url, body, guarded())),
  toCopy('Python', `import json, ${guarded() ? 'os, ' : ''}urllib.request\n\nbody = r"""${body}"""\n${guarded() ? `call = urllib.request.Request("${url}", body.encode(), {"Authorization": "Bearer " + os.environ["TOKEN"]})\nreply = urllib.request.urlopen(call)` : `reply = urllib.request.urlopen("${url}", body.encode())`}\nprint(json.load(reply))`)];

/** Results as text: the innermost arrays in a line each. */
function pretty(value, indent = '') {
  if (!Array.isArray(value)) return JSON.stringify(value);
  if (!value.some(Array.isArray)) return `[${value.map((v) => JSON.stringify(v)).join(', ')}]`;
  return `[${value.map((v) => pretty(v, indent + ' ')).join(`,\n${indent} `)}]`;
}

function split(parts) {
  const all = parts.reduce((sum, p) => sum + p[1], 0), colours = ['--p1', '--p0', '--p2'];
  return [h('div.split', {'aria-hidden': 'true'}, parts.map(([, v]) => { const i = h('i'); i.style.setProperty('--v', `${100 * v / all}%`); return i; })),
    h('ul.key', null, parts.map(([name, v], k) => { const li = h('li.dot', null, `${name} ${time(v)}`); li.style.setProperty('--c', `var(${colours[k]})`); return li; }))];
}

function outcome(reply, took, url, body) {
  const {parameters, ...results} = reply, p = parameters, why = p.explain || {};
  return [h('section.card', null, h('h2', null, 'Result'),
    Object.entries(results).map(([name, v]) => h('div', null, h('h3', null, h('code', null, name)), h('pre', {tabindex: 0, 'aria-label': `Result ${name}`}, pretty(v)))),
    h('p', null, 'Kernel ', h('b', null, `${p.kernel} at ${p.isa}`), ` in pool ${p.pool}${why.threads > 1 ? `, ${why.threads} threads` : ''}${why.inline ? ', on the HTTP thread' : ''}.`),
    split([['queue', p.queue_us], ['kernel', p.compute_us], ['browser, HTTP and JSON', Math.max(0, took - p.queue_us - p.compute_us)]])),
  h('section.card', null, h('h2', null, 'Candidates'), h('p.soft.small', null, `${why.operator}: dispatched by key ${why.key} (${why.provenance}).`),
    table('Candidates', ['Kernel', 'Level', 'Verdict'], (why.candidates || []).map((c) =>
      [h('code', null, c.kernel), c.isa, h(c.verdict.startsWith('chosen') ? 'b.good' : 'span.soft', null, c.measured_us ? `${c.verdict}: ${time(c.measured_us)}` : c.verdict)]))),
  h('section.card.columns', null, sameCall(url, body))];
}

function argument(a) {
  const id = `arg-${a.name}`, type = a.type;
  const e = type.startsWith('Tensor') ? h('textarea', {id, rows: 4, spellcheck: 'false'}) : h('input.mono', {id, placeholder: a.default ?? '', spellcheck: 'false', autocomplete: 'off'});
  return {a, e, field: h(type.startsWith('Tensor') ? 'div.wide' : 'div', null, h('label', {for: id}, h('code', null, a.name), ` ${type}${a.default !== undefined ? `, ${a.default} unless given` : type.endsWith('?') ? ', may be empty' : ''}`), e)};
}

/** The text of a field as JSON text; words stand for themselves. */
function asJson(a, text) {
  try {
    JSON.parse(text.replace(/\b(NaN|-?Infinity)\b/g, '0'));
    return text;
  } catch (e) {
    if (!a.type.startsWith('Tensor') && /^[\w.]+$/.test(text)) return JSON.stringify(text);
    throw new Error(`${a.name}: ${e.message}`);
  }
}

function form(op) {
  const fields = op.arguments.map(argument), samples = inOrder(op);
  const results = h('div', {'aria-live': 'polite'});
  const put = (sample) => { const given = fill(op, sample); for (const f of fields) f.e.value = (given[f.a.name] ?? '').replace(/^"(.*)"$/, '$1'), f.e.rows = Math.min(8, f.e.value.split('\n').length + 1); };
  const sample = h('select', {id: 'sample', onchange: () => put(samples[sample.selectedIndex])}, samples.map((s) => h('option', null, s)));
  const kernel = h('select', {id: 'kernel'}, h('option', {value: ''}, 'the best'), [...new Set(op.kernels.map((k) => k.name))].map((k) => h('option', null, k)));
  const own = op.arguments.some((a) => a.name === 'dtype');
  const dtype = h('select', {id: 'dtype'}, h('option', {value: ''}, 'FP32 and INT64, as written'), op.dtypes.map((t) => h('option', {selected: t === typeOf(op)}, t)));
  async function run(event) {
    event?.preventDefault();
    try {
      const members = fields.filter((f) => f.e.value.trim()).map((f) => `"${f.a.name}": ${asJson(f.a, f.e.value.trim())}`);
      if (kernel.value) members.push(`"kernel": "${kernel.value}"`);
      if (dtype.value && !own) members.push(`"dtype": "${dtype.value}"`);
      const path = `/v1/ops/${op.name}`, body = (more) => `{${[...members, ...more].join(',\n ')}}`;
      const begin = performance.now();
      const reply = await ask(path, {method: 'POST', body: body(['"explain": true']), headers: {'Content-Type': 'application/json'}});
      results.replaceChildren(...outcome(reply, (performance.now() - begin) * 1000, location.origin + path, body([])));
    } catch (e) {
      results.replaceChildren(h('p.problem', {role: 'alert'}, e.message));
    }
  }
  if (samples.length) put(samples[0]);
  const field = (id, words, e) => h('div', null, h('label', {for: id}, words), e);
  return [h('form.card', {onsubmit: run, onkeydown: (e) => e.key === 'Enter' && e.ctrlKey && run(e)},
    h('pre', null, op.schema), h('p', null, op.doc),
    h('div.fields', null, samples.length > 1 && field('sample', 'Begin with', sample), field('kernel', 'Kernel', kernel), !own && field('dtype', 'Type of tensors', dtype)),
    samples.length > 0 && !isPlain(op, samples[0]) && h('p.soft.small', null, 'It mixes types that plain arrays cannot say; ', h('a', {href: '#api/runOp'}, 'the longer form'), ' can.'),
    h('div.fields', null, fields.map((f) => f.field)),
    h('div.row', null, h('button', {type: 'submit'}, 'Run'), h('span.soft.small', null, 'Ctrl+Enter runs it too'))), results];
}

export async function open(arg = 'softmax.int') {
  const {ops} = await once('/v1/ops');
  const {overloads} = await once(`/v1/ops/${encodeURIComponent(arg)}`);
  const go = (name) => ops.some((o) => o.name === name || o.op === name) && (location.hash = `#try/${name}`);
  const others = ops.filter((o) => o.op === overloads[0].op);
  return [h('div.fields', null, operatorField(ops, arg, go),
    others.length > 1 && h('div', null, h('label', {for: 'overload'}, 'Overload'), (() => {
      const select = h('select', {id: 'overload', onchange: () => go(select.value)}, others.map((o) => h('option', {selected: o.name === overloads[0].name}, o.name)));
      return select;
    })())), ...form(overloads[0])];
}

// Every operator: its overloads, kernels, types, levels, error bounds; searchable.
import {h, chips, count, table, time} from './dom.js';
import {glance, once} from './server.js';

export const title = 'Operators';

/** What calls of an overload have taken so far. */
function timings(o, seen) {
  const mine = (by) => by.op === o.name, name = 'tensord_op_duration_seconds', n = seen.total(`${name}_count`, mine);
  const ran = (seen.metrics.tensord_op_calls_total || []).filter(([by]) => mine(by)).map(([by, v]) => `${by.kernel} ${by.isa} ${count(v)}`);
  return n > 0 && h('p', null, `Called ${count(n)} times (${ran.join(', ')}): half within ${time(seen.quantile(name, 0.5, mine) * 1e6)}, `,
    `99 % within ${time(seen.quantile(name, 0.99, mine) * 1e6)}, ${time(seen.total(`${name}_sum`, mine) / n * 1e6)} on average.`);
}

function overload(o, seen) {
  return h('div.inner', null, h('pre', null, o.schema), h('p', null, o.doc),
    table(`Kernels of ${o.name}`, ['Kernel, best first', 'Level', 'Types', 'Here'], o.kernels.map((k) =>
      [h('code', null, k.name), k.isa, chips(k.dtypes), k.runnable ? h('span.good', null, 'runs') : h('span.soft', null, 'cannot run')])), timings(o, seen),
    h('div.row', null, h('span.soft.small', null, o.ulp ? `Within ${o.ulp} units in the last place of the exact result.` : 'Exact.'),
      h('span', null, h('a.button.quiet', {href: `#try/${o.name}`}, 'Try it'), ' ', h('a.button.quiet', {href: `#dispatch/${o.name}`}, 'Dispatch'))));
}

function entry(name, overloads, calls, seen) {
  const first = overloads[0], best = first.kernels.find((k) => k.runnable);
  const details = h('details', {ontoggle: () => details.open && details.children.length === 1 && details.append(...overloads.map((o) => overload(o, seen)))},
    h('summary', null, h('b', null, name), h('span', null, first.doc),
      h('em', null, `${best.name} ${best.isa}${calls ? `, ${count(calls)} ${calls === 1 ? 'call' : 'calls'}` : ''}`)));
  const words = overloads.map((o) => `${o.schema} ${o.doc} ${o.kernels.map((k) => `${k.name} ${k.isa}`).join(' ')}`).join(' ').toLowerCase();
  const types = new Set(overloads.flatMap((o) => o.dtypes));
  const levels = new Set(overloads.flatMap((o) => o.kernels.map((k) => k.isa)));
  return {details, words, types, levels};
}

export async function open(arg = '') {
  const [{ops}, {levels}, seen] = await Promise.all([once('/v1/ops'), once('/v1/isa'), glance()]);
  const calls = {}, groups = new Map();
  for (const [{op}, n] of seen.metrics.tensord_op_calls_total || []) { const name = op.split('.')[0]; calls[name] = (calls[name] || 0) + n; }
  for (const o of ops) groups.set(o.op, [...(groups.get(o.op) || []), o]);
  const entries = [...groups].sort(([a], [b]) => (a.startsWith('_') - b.startsWith('_') || (a < b ? -1 : 1))).map(([name, list]) => entry(name, list, calls[name], seen));
  const found = h('p.soft.small', {role: 'status'});
  const search = h('input', {id: 'find', type: 'search', placeholder: 'a name, an argument, a formula', oninput: filter});
  const choice = (id, words) => h('select', {id, onchange: filter}, h('option', {value: ''}, 'any'), words.map((w) => h('option', null, w)));
  const type = choice('type', [...new Set(ops.flatMap((o) => o.dtypes))]), level = choice('level', levels.map((l) => l.name));
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const e of entries) {
      const fits = words.every((w) => e.words.includes(w)) && (!type.value || e.types.has(type.value)) && (!level.value || e.levels.has(level.value));
      e.details.hidden = !fits;
      n += fits;
    }
    found.textContent = `${n} of ${entries.length} operators, ${ops.length} overloads in all`;
  }
  search.value = arg;
  filter();
  const field = (id, words, e) => h('div', null, h('label', {for: id}, words), e);
  return [h('div.fields', null, field('find', 'Search', search), field('type', 'Takes the type', type), field('level', 'Has a kernel for', level)),
    found, h('div.card', null, entries.map((e) => e.details))];
}

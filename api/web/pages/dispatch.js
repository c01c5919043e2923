// How calls find their kernels: what is registered for an operator, and the table made of it.
import {h, operatorField, table, chips} from './dom.js';
import {ask, once} from './server.js';

export const title = 'Dispatch';

export async function open(arg = 'silu') {
  const path = `/v1/dispatch/ops/${encodeURIComponent(arg)}`;
  const [{ops}, state, {table: rows}] = await Promise.all([once('/v1/ops'), ask(`${path}/state`), ask(`${path}/table`)]);
  const groups = new Map();
  for (const r of rows) {
    const name = `${r.provenance}\n${r.kernel}\n${r.origin || ''}`;
    groups.set(name, [...(groups.get(name) || []), r.key]);
  }
  const go = (name) => ops.some((o) => o.name === name || o.op === name) && (location.hash = `#dispatch/${name}`);
  return [h('p.soft', null, 'A call carries a set of keys; the highest of them picks a row of the operator\'s table. The table is computed from what is registered.'),
    h('div.fields', null, operatorField(ops, arg, go)),
    h('section.card', null, h('h2', null, state.operator), h('pre', null, state.schema),
      state.composite && h('p', null, 'By others: ', h('code', null, state.composite))),
    h('section.card', null, h('h2', null, 'Registered'), table('Registrations', ['Key', 'Kernel', 'From', 'State', 'Rows, best first'],
      state.registrations.map((r) => [r.key + (r.alias ? ' (alias)' : ''), r.kernel, h('code', null, r.origin), r.active ? 'active' : 'behind a newer one', chips(r.rows || [])]))),
    h('section.card', null, h('h2', null, `The table, ${rows.length} keys`), table('Dispatch table', ['What a call gets', 'Kernel', 'From', 'Keys'],
      [...groups].map(([name, keys]) => { const [what, kernel, origin] = name.split('\n'); return [what, kernel, h('code', null, origin), chips(keys)]; })))];
}

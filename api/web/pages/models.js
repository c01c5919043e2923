// Models in the server, as GET /v1/models lists them: what is known is shown well, the rest as it comes.
import {h, bar, bytes, count, percent, table} from './dom.js';

export const title = 'Models';
export const paths = ['/v1/models', '/v1/tensors'];
let budget, list, seen;

export async function open() {
  budget = h('section.card');
  list = h('div');
  seen = '';
  return [h('p.soft', null, 'A model is a file of PyTorch or ONNX, put under a name; its weights are kept as stored tensors are.'), budget, list];
}

const shape = (sizes) => sizes.map((n) => (n === -1 ? 'any' : n)).join(' × ') || 'one number';
const isTensors = (v) => Array.isArray(v) && v.length > 0 && v.every((t) => t?.name !== undefined && Array.isArray(t.shape));

function value(name, v) {
  if (typeof v === 'number') return /bytes$/.test(name) ? bytes(v) : count(v);
  return v === null || typeof v === 'object' ? h('code', null, JSON.stringify(v)) : String(v);
}

function card(model) {
  const words = (name) => name.replaceAll('_', ' '), {name, ...rest} = model, all = Object.entries(rest);
  const tensors = all.filter(([, v]) => isTensors(v));
  return h('section.card', null, h('h2', null, h('code', null, name)),
    h('dl.facts', null, all.filter(([, v]) => !isTensors(v) && v !== '').map(([k, v]) => h('div', null, h('dt', null, words(k)), h('dd', null, value(k, v))))),
    tensors.map(([k, v]) => table(`${words(k)} of ${name}`, [words(k), 'Type', 'Shape'], v.map((t) => [h('code', null, t.name), t.datatype || t.dtype || '', shape(t.shape)]))));
}

export function draw({models, tensors: {store}}) {
  const now = JSON.stringify([models, store]);
  if (now === seen) return;
  seen = now;
  budget.replaceChildren(h('div.row', null, h('h2', null, 'Budget'), h('span', null, `${bytes(store.bytes)} of ${bytes(store.limit_bytes)}, ${percent(store.bytes / store.limit_bytes)}, stored tensors with them`)),
    bar(store.bytes / store.limit_bytes).e);
  list.replaceChildren(...models.models.map(card), models.models.length ? '' : h('p', null, 'None yet.'));
}

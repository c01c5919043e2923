// Tensors kept in the server, and what they take of what they may have.
import {h, bar, bytes, percent, table} from './dom.js';

export const title = 'Tensors';
export const paths = ['/v1/tensors'];
let budget, list, seen;

export async function open() {
  budget = h('section.card');
  list = h('section.card');
  seen = '';
  return [h('p.soft', null, 'Weights stay in the server, with the forms that kernels have packed of them; a call names one in place of data.'), budget, list];
}

const share = (name, now) => [h('div.row', null, h('h3', null, name), h('span', null, `${bytes(now.bytes)} of ${bytes(now.limit_bytes)}, ${percent(now.bytes / now.limit_bytes)}`)), bar(now.bytes / now.limit_bytes).e, h('p')];

export function draw({tensors: {tensors, store, memory}}) {
  const now = JSON.stringify([tensors, store]);
  budget.replaceChildren(h('h2', null, 'Budget'), ...share('Stored tensors', store), ...share('All memory of requests, tasks and tensors', memory));
  if (now === seen) return;
  seen = now;
  list.replaceChildren(h('h2', null, `${tensors.length} stored`), tensors.length ? table('Stored tensors', ['Name', 'Type', 'Shape', '#Bytes', '#With all forms', 'Packed forms'],
    tensors.map((t) => [h('code', null, t.name), t.datatype, JSON.stringify(t.shape), bytes(t.bytes), bytes(t.total_bytes), t.packed.length ? t.packed.map((p) => h('div', null, h('code', null, p.form), ` ${bytes(p.bytes)}`)) : '–'])) :
    h('div', null, h('p', null, 'None yet. A JSON tensor, a .npy or a .safetensors file becomes one:'), h('pre', null, `curl -X PUT ${location.origin}/v1/tensors/w -H 'Content-Type: application/x-npy' --data-binary @w.npy`)));
}

// Models in the server, as GET /v1/models lists them; a file that is dropped here becomes one.
import {h, bar, bytes, confirm, count, facts, nameOf, percent, portTable, time} from './dom.js';
import {may} from './access.js';
import {ask} from './server.js';

export const title = 'Models';
export const paths = ['/v1/models', '/v1/tensors'];
let budget, list, cards, known, state;

async function load(file) {
  const name = nameOf(file.name);
  if (known.has(name) && !await confirm(`Replace the model ${name}?`, 'Calls under way finish on the old one; later ones get the new.', 'Replace')) return;
  state.className = 'soft';
  state.textContent = `Loading ${name}, ${bytes(file.size)}...`;
  try {
    await ask(`/v1/models/${encodeURIComponent(name)}`, {method: 'PUT', body: file, headers: {'Content-Type': 'application/octet-stream'}});
    known.add(name);
    state.replaceChildren(`Loaded `, h('a', {href: `#model/${name}`}, name), '.');
  } catch (e) {
    state.className = 'problem';
    state.textContent = `${file.name}: ${e.message}`;
  }
}

async function loadAll(files) {
  for (const file of files) await load(file);
}

/** Where files are dropped, or chosen by those who do not drag. */
function zone() {
  const input = h('input', {type: 'file', id: 'file', multiple: true, accept: '.onnx,.pt2,.json', onchange: async () => { await loadAll([...input.files]); input.value = ''; }});
  const over = (on) => (e) => {
    if (![...e.dataTransfer.types].includes('Files')) return;
    e.preventDefault();
    e.currentTarget.classList.toggle('over', on);
  };
  state = h('p.soft', {role: 'status'});
  return h('section.card.drop', {ondragenter: over(true), ondragover: over(true), ondragleave: over(false), ondrop: (e) => {
    over(false)(e);
    loadAll([...e.dataTransfer.files]);
  }}, h('div.row', null, h('label', {for: 'file'}, 'Drop a file of ONNX or PyTorch (.onnx, .pt2) here, or choose one'), input), state);
}

export async function open() {
  [budget, list, cards, known] = [h('section.card'), h('div'), new Map(), new Set()];
  return [h('p.soft', null, 'A model is a file of PyTorch or ONNX, put under a name. It is part of what stored tensors may hold.'), budget, may('store') && zone(), list].filter(Boolean);
}

function card(model, form) {
  const {name} = model, figures = h('div');
  const section = h('section.card.model', null, h('div.row', null, h('h2', null, h('a', {href: `#model/${name}`}, h('code', null, name))), h('a.button.quiet', {href: `#model/${name}`, 'aria-label': `Graph and form of ${name}`}, 'Graph and form')), figures, portTable(model));
  return {section, form, figures};
}

const figures = (m) => facts([['format', m.format], ['nodes', count(m.nodes)], ['memory', bytes(m.bytes)], ['file', bytes(m.file_bytes)], ['loaded in', time(m.load_us)], ['calls', count(m.calls)],
  m.calls > 0 && m.compute_us > 0 && ['a call', time(m.compute_us / m.calls)],
  m.sessions >= 0 && ['sessions', count(m.sessions)], m.state?.length > 0 && ['remembers', m.state.length > 4 ? `${m.state.length} tensors` : m.state.map((s) => s.name).join(', ')]]);

export function draw({models: {models}, tensors: {tensors, store}}) {
  const stored = tensors.reduce((sum, t) => sum + t.total_bytes, 0), row = (name, value) => h('div.row', null, h('span', null, name), h('span', null, value));
  budget.replaceChildren(h('div.row', null, h('h2', null, 'Budget'), h('span', null, `${bytes(store.bytes)} of ${bytes(store.limit_bytes)}, ${percent(store.bytes / store.limit_bytes)}`)), bar(store.bytes / store.limit_bytes).e,
    row('Models', `${count(models.length)}, ${bytes(models.reduce((sum, m) => sum + m.bytes, 0))}`), row(h('a', {href: '#tensors'}, 'Stored tensors'), `${count(tensors.length)}, ${bytes(stored)}`));
  known = new Set(models.map((m) => m.name));
  const had = cards;
  cards = new Map(models.map((m) => {
    const form = JSON.stringify([m.inputs, m.outputs]), old = had.get(m.name), one = old?.form === form ? old : card(m, form);
    one.figures.replaceChildren(figures(m));
    return [m.name, one];
  }));
  const sections = [...cards.values()].map((c) => c.section); // what stays is left where it is
  if (sections.some((e, i) => list.children[i] !== e) || list.children.length !== sections.length || !sections.length)
    list.replaceChildren(...sections, sections.length ? '' : h('p', null, 'None yet. A shell puts one here as well: ', h('code', null, `curl -T model.onnx ${location.origin}/v1/models/NAME`)));
}

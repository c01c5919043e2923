// Models in the server, as GET /v1/models lists them: what is known is shown well, the rest as it comes.
import {h, bar, bytes, count, percent, table, time} from './dom.js';
import {ask} from './server.js';

export const title = 'Models';
export const paths = ['/v1/models'];
let budget, list, cards;

export async function open() {
  budget = h('section.card');
  list = h('div');
  cards = new Map();
  return [h('p.soft', null, 'A model is a file of PyTorch or ONNX, put under a name. It is part of what stored tensors may hold.'), budget, list];
}

const words = (name) => name.replace(/_(us|bytes)$/, (unit) => (unit === '_us' ? '' : unit)).replaceAll('_', ' ');
const shape = (sizes) => sizes.map((n) => (n === -1 ? 'any' : n)).join(' × ') || 'one number';
const isTensors = (v) => Array.isArray(v) && v.every((t) => t?.name !== undefined && Array.isArray(t.shape));

function figure(name, v) {
  if (typeof v === 'number') return /bytes$/.test(name) ? bytes(v) : /_us$/.test(name) ? time(v) : count(v);
  return v === null || typeof v === 'object' ? h('code', null, JSON.stringify(v)) : String(v);
}

const fact = (name, value) => h('div', null, h('dt', null, name), h('dd', null, value));

function facts({name, ...rest}) {
  return [...Object.entries(rest).filter(([, v]) => !isTensors(v)).map(([k, v]) => fact(words(k), figure(k, v))),
    rest.calls > 0 && rest.compute_us > 0 ? fact('a call', time(rest.compute_us / rest.calls)) : ''];
}

const whatPassed = ({name, done, refused, why}) => h('li', null, h('code', null, name), ` did ${count(done)}`,
  refused > 0 && `, refused ${count(refused)}: ${why.map((r) => `${r.node}, ${r.why}`).join('; ')}${refused > why.length ? '; ...' : ''}`);

/** What inputs of some types and shapes get. */
function planned(p) {
  const label = p.inputs.map((i) => `${i.datatype} ${shape(i.shape)}`).join(', ');
  if (p.op_by_op) return [h('h3', null, label), h('p', null, `Node by node: ${p.op_by_op}`)];
  return [h('h3', null, label), h('p', null, `${p.steps.length} calls, threads: ${p.threads}. Results between them take ${bytes(p.memory_bytes)}; ${bytes(p.unshared_bytes)} if none lay where another was.`),
    h('ul', null, p.passes.map(whatPassed)),
    table(`Calls for ${label}`, ['Node', 'Operator', 'Kernel', 'Result', '#Last time'],
      p.steps.map((t) => [h('code', null, t.node), h('code', null, t.operator), `${t.kernel} ${t.isa}`, `${t.datatype} ${shape(t.shape)}`, time(t.us)]))];
}

/** What has been made of it, asked when it is opened. */
function plan(name) {
  const inner = h('div.inner'), path = `/v1/models/${encodeURIComponent(name)}/plan`;
  const e = h('details', {ontoggle: async () => {
    if (e.open) inner.replaceChildren(...await ask(path).then((p) => [...p.plans.flatMap(planned), p.plans.length ? '' : h('p', null, 'None yet: a call makes one for the shapes of its inputs.'),
      h('p', null, h('a', {href: path}, 'All of it as JSON'))], (error) => [h('p', null, error.message)]));
  }}, h('summary', null, h('span', null, 'Its plan')), inner);
  return e;
}

function card(model, form) {
  const {name} = model, e = h('dl.facts');
  const section = h('section.card', null, h('h2', null, h('code', null, name)), e,
    Object.entries(model).filter(([, v]) => isTensors(v) && v.length).map(([k, v]) => table(`${words(k)} of ${name}`, [words(k), 'Type', 'Shape'],
      v.map((t) => [h('code', null, t.name), t.datatype || '', shape(t.shape)]))), plan(name));
  return {section, form, facts: e};
}

export function draw({models: {models, store}}) {
  if (store) budget.replaceChildren(h('div.row', null, h('h2', null, 'Budget'), h('span', null, `${bytes(store.bytes)} of ${bytes(store.limit_bytes)}, ${percent(store.bytes / store.limit_bytes)}, stored tensors with them`)),
    bar(store.bytes / store.limit_bytes).e);
  const had = cards;
  cards = new Map(models.map((m) => {
    const form = JSON.stringify(Object.entries(m).filter(([, v]) => typeof v === 'object')), old = had.get(m.name);
    const one = old?.form === form ? old : card(m, form);
    one.facts.replaceChildren(...facts(m));
    return [m.name, one];
  }));
  const sections = [...cards.values()].map((c) => c.section); // what is open stays so
  if (sections.some((e, i) => list.children[i] !== e) || list.children.length !== sections.length || !sections.length)
    list.replaceChildren(...sections, sections.length ? '' : h('p', null, 'None yet: ', h('code', null, `curl -T model.onnx ${location.origin}/v1/models/NAME`), ' puts one here.'));
}

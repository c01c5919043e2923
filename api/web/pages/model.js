// A model's page: the graph of its plan with the time of each step, a form to run it, and what passes did and refused.
import {h, bar, bytes, confirm, count, digits, facts, portTable, shape, table, tile, time} from './dom.js';
import {ask} from './server.js';
import {graph} from './graph.js';
import {agree, parse, program, refusals, shares} from './program.js';
import {guarded, may} from './access.js';
import {form} from './infer.js';

export let title = '';
export const under = 'models', paths = ['/v1/models'];
const SHOWN = 12;
let name, model, tiles, picture, passes, plans, said, planned, calls;
let chosen = {}; // the step that is looked at, and of which plan: it stays when that is drawn again

const url = (more = '') => `/v1/models/${encodeURIComponent(name)}${more}`;
const level = (t) => `${t.kernel} at ${t.isa}${t.compute_type && t.compute_type !== t.datatype ? ` in ${t.compute_type}` : ''}`;
const result = (t) => (t.datatype ? `${t.datatype} ${shape(t.shape)}` : '–');
const took = (t) => (t.with !== undefined && t.with !== t.step ? `with step ${t.with}` : t.us > 0 ? time(t.us) : 'not timed');
const share = (v) => (v < 0.001 ? '< 0.1 %' : `${digits(100 * v)} %`);
const bound = (t) => (t.percent_of_bound === undefined ? '–' : t.bound === 'overhead' ? 'overhead' : `${digits(t.percent_of_bound)} % of ${t.bound}`);
const threads = (n) => `${count(n)} thread${n === 1 ? '' : 's'}`;
const takes = (p) => p.inputs.map((i, k) => `${model.inputs[k]?.name ?? k} ${i.datatype} ${shape(i.shape)}`).join(', ');

/** What is known of a step, as text. */
function details(plan, all, id, select) {
  const t = plan.steps.find((x) => x.step === id);
  if (!t) return [h('p.soft', null, 'Click a step, or walk with the arrows: its operator, kernel, shapes and time are shown here.')];
  const total = plan.steps.reduce((sum, x) => sum + x.us, 0), group = plan.steps.filter((x) => t.with !== undefined && x.with === t.with);
  const link = (to) => h('button.quiet', {type: 'button', onclick: () => select(to)}, `${to} ${plan.steps.find((x) => x.step === to)?.operator}`);
  const steps = (ids) => ids.filter((x) => typeof x === 'number').map(link);
  const readers = [...all.reads].filter(([, from]) => from.includes(id)).map(([to]) => to);
  const why = plan.passes.flatMap((p) => p.why.filter((r) => r.node === t.node).map((r) => `${p.name}: ${r.why}`));
  const last = plan.steps.find((x) => x.step === t.with);
  return [h('h3', null, h('code', null, t.operator)), facts([
    ['Step', `${t.step}${t.in_place ? ', in place of what it reads' : ''}`], ['Node', h('code', null, t.node || '–')], ['Kernel', level(t)], ['Result', result(t)],
    ['Time', t.us > 0 ? `${time(t.us)}, ${share(t.us / total)}${group.length > 1 ? `, of all ${group.length} together` : ''}` : last && last !== t && last.us > 0 ? `in that of step ${t.with}: ${time(last.us)}` : 'not timed yet'],
    t.flops !== undefined && ['Work', `${count(t.flops)} operations, ${bytes(t.bytes)}`],
    t.bound && ['Bound', t.bound === 'overhead' ? 'less than 1 µs of work: calling the kernel takes longer' : `${t.bound}: ${time(t.bound_us)} at least; ${digits(t.percent_of_bound ?? 0)} % of that was reached`],
    t.flops !== undefined && !t.bound && ['Bound', ['known once the peaks of such a pool are measured: ', h('code', null, 'POST /v1/pools/{name}/measure')]],
    all.reads.get(id)?.length > 0 && ['Reads', [steps(all.reads.get(id)), all.inputs.filter((p) => all.reads.get(id).includes(p.id)).map((p) => h('code', null, `${p.name} `))]],
    readers.length > 0 && ['Read by', readers.length > 8 ? [steps(readers.slice(0, 8)), `and ${readers.length - 8} more`] : steps(readers)],
    group.length > 1 && ['Together with', steps(group.map((x) => x.step).filter((x) => x !== id))],
    ['Why not fused', why.length ? h('ul', null, why.map((w) => h('li', null, w))) : group.length > 1 ? 'it is, with those above' : 'no pass refused it']]),
  said?.[plans.indexOf(plan)]?.lines.has(id) && h('pre', {tabindex: 0, 'aria-label': 'As a line of the program'}, said[plans.indexOf(plan)].lines.get(id))];
}

function shareBars(plan, mark) {
  const rows = shares(plan).filter((r) => r.us > 0), total = rows.reduce((sum, r) => sum + r.us, 0);
  if (!total) return h('p', null, 'No step has been timed yet.');
  const rest = rows.slice(SHOWN), shown = rest.length > 1 ? [...rows.slice(0, SHOWN), {name: `${rest.length} others`, us: rest.reduce((sum, r) => sum + r.us, 0), steps: new Set(rest.flatMap((r) => [...r.steps]))}] : rows;
  const list = h('ul.shares', {'aria-label': 'Time by operator'}, shown.map((r) => {
    const button = h('button.share', {type: 'button', 'aria-pressed': 'false', onclick: () => {
      const on = button.getAttribute('aria-pressed') !== 'true';
      for (const b of list.querySelectorAll('button')) b.setAttribute('aria-pressed', String(on && b === button));
      mark(on ? (t) => r.steps.has(t.id) : null);
    }}, h('code', null, r.name), h('span', null, `${share(r.us / total)}`), h('span.soft', null, `${time(r.us)}, ${count(r.steps.size)} step${r.steps.size === 1 ? '' : 's'}`), bar(r.us / rows[0].us).e);
    return h('li', null, button);
  }));
  return list;
}

function drawPlan(k) {
  const plan = plans[k], heading = h('h2', null, `Plan for ${takes(plan)}`);
  if (plan.op_by_op) return [heading, h('p', null, `Node by node: ${plan.op_by_op}`)];
  const all = program(plan, said?.[k], model), total = plan.steps.reduce((sum, t) => sum + t.us, 0), most = Math.max(...plan.steps.map((t) => t.us), 0);
  const panel = h('div.details', {'aria-live': 'polite', role: 'region', tabindex: 0, 'aria-label': 'The chosen step'});
  const g = graph(`Graph of ${plan.steps.length} steps`, {...all, steps: plan.steps.map((t) => ({id: t.step, with: t.with, reads: all.reads.get(t.step), name: t.operator,
    note: `${took(t)} · ${t.shape ? shape(t.shape).replaceAll(' ', '') : ''}`, title: `${t.operator}, ${took(t)}${t.bound ? `, ${bound(t)}` : ''}\n${t.node}\n${result(t)}`, of: t}))},
  (id) => {
    chosen = {of: takes(plan), id};
    panel.replaceChildren(...details(plan, all, id, g.select).flat(9).filter(Boolean));
  });
  g.select(chosen.of === takes(plan) ? chosen.id : null, false);
  const colours = {'share of time': ({of: t}) => most && Math.sqrt(t.us / most), 'distance from its bound': ({of: t}) => (t.percent_of_bound === undefined || t.bound === 'overhead' ? 0 : 1 - Math.min(1, t.percent_of_bound / 100))};
  const by = h('select', {id: 'colour', onchange: () => g.colour(colours[by.value])}, Object.keys(colours).map((c) => h('option', null, c)));
  const known = plan.steps.some((t) => t.percent_of_bound !== undefined);
  g.colour(colours[by.value]);
  return [heading, h('p', null, `${count(plan.steps.length)} steps, ${threads(plan.threads)}${plan.turns > 1 ? `, ${count(plan.turns)} turns of a loop` : ''}${total ? `, ${time(total)} in kernels the last time` : ''}. Results between steps take ${bytes(plan.memory_bytes)}; ${bytes(plan.unshared_bytes)} if none lay where another was.`),
    h('div.drawing', null, h('div', null, g.e, h('p.soft.small.legend', null, h('i'), known ? [h('label', {for: 'colour'}, 'Colour: '), by] : 'share of time.', ' Drag moves, Ctrl and wheel zooms; a frame holds steps that are computed together, a tile at a time.')), panel),
    h('h3', null, 'Share of time'), shareBars(plan, g.mark),
    h('details', null, h('summary', null, h('span', null, `All ${count(plan.steps.length)} steps as a table`)), lazily(() => table(`Steps for ${takes(plan)}`, ['#Step', 'Node', 'Operator', 'Kernel', 'Result', '#Last time', '#Of its bound'],
      plan.steps.map((t) => [t.step, h('code', null, t.node), h('code', null, t.operator), level(t), result(t), took(t), bound(t)]))))];
}

/** Made when the fold that it is in is opened. */
function lazily(make) {
  const e = h('div.inner');
  queueMicrotask(() => e.closest('details')?.addEventListener('toggle', () => { if (!e.firstChild) e.append(make()); }));
  return e;
}

function drawPasses({passes: all, folded_calls: folded}) {
  const did = all.filter((p) => p.done || p.refused), why = refusals(all);
  return [h('h2', null, 'Passes over it'), h('p', null, folded ? `${count(folded)} calls depend on no input and were made once.` : ''),
    did.length ? table('Passes', ['Pass', '#Steps changed', '#Left'], did.map((p) => [h('code', null, p.name), count(p.done), count(p.refused)])) : h('p', null, 'None found anything to change.'),
    why.length > 0 && [h('h3', null, 'What was left, and why'), h('ul', null, why.map((r) => h('li', null, h('b', null, `${r.pass}: `), r.why, h('div.soft.small', null, h('code', null, r.nodes.slice(0, 4).join(', ')), r.nodes.length > 4 && ` and ${r.nodes.length - 4} more`))))]];
}

/** Shows plan k; what is asked of the server's is text everywhere. */
function drawAll(k = 0) {
  if (!plans.length) {
    picture.replaceChildren(h('h2', null, 'Plan'), h('p', null, 'None yet: a call makes one for the shapes of its inputs. The form below makes a call.'));
    passes.hidden = true;
    return;
  }
  const choice = plans.length > 1 && h('div.fields', null, h('div', null, h('label', {for: 'plan'}, `One of ${plans.length} plans, the latest first`),
    h('select', {id: 'plan', onchange: (e) => drawAll(e.target.selectedIndex)}, plans.map((p, i) => h('option', {selected: i === k}, `${takes(p)}, ${threads(p.threads)}`)))));
  picture.replaceChildren(...[choice, drawPlan(k)].flat(9).filter(Boolean));
  passes.hidden = Boolean(plans[k].op_by_op);
  passes.replaceChildren(...drawPasses(plans[k]).flat(9).filter(Boolean));
}

async function look() {
  const mine = name;
  for (let i = 0; i < 3; i++) {
    const [plan, text] = await Promise.all([ask(url('/plan')), ask(url('/source'))]);
    if (mine !== name) return;
    [planned, plans, said] = [plan, plan.plans, parse(text)];
    if (agree(plans, said)) break;
    said = null; // the graph is without lines rather than with wrong ones
  }
  drawAll();
}

async function remove() {
  if (!await confirm(`Delete the model ${name}?`, 'Calls under way finish; later ones are told that there is none.', 'Delete')) return;
  await ask(url(), {method: 'DELETE'});
  location.hash = '#models';
}

export async function open(wanted = '') {
  [name, title, plans, said, chosen] = [wanted, wanted, [], null, {}];
  const {models} = await ask('/v1/models');
  model = models.find((m) => m.name === name);
  if (!model) throw new Error(`There is no model ${name}.`);
  calls = model.calls;
  tiles = {calls: tile('Calls'), one: tile('A call'), nodes: tile('Nodes'), bytes: tile('Memory'), load: tile('Loaded in')};
  [picture, passes] = [h('section.card'), h('section.card')];
  const problem = h('p.problem', {role: 'alert', hidden: true}), fail = (e) => { problem.textContent = e.message; problem.hidden = false; };
  await look();
  return [h('div.row', null, h('a', {href: '#models'}, 'All models'), !guarded() && h('a', {href: url('/plan')}, 'Plan as JSON'), !guarded() && h('a', {href: url('/source')}, 'As a program'),
    h('button.quiet', {type: 'button', onclick: () => look().catch(fail)}, 'Look again'), may('store') && h('button.quiet.danger', {type: 'button', onclick: () => remove().catch(fail)}, 'Delete')), problem,
  h('div.tiles', null, Object.values(tiles).map((t) => t.e)), picture,
  may('run') ? h('section.card', null, h('h2', null, 'Run it'), form(model, plans, () => look().catch(fail))) : '',
  h('div.columns', null, h('section.card', null, h('h2', null, 'Ports'), portTable(model)), passes)];
}

export function draw({models: {models}}) {
  const now = models.find((m) => m.name === name);
  if (!now) {
    picture.replaceChildren(h('p', null, 'This model is no longer in the server.'));
    return;
  }
  tiles.calls.set(count(now.calls), 'since it was loaded');
  tiles.one.set(now.calls ? time(now.compute_us / now.calls) : '–', now.calls ? 'on average' : 'none yet');
  tiles.nodes.set(count(now.nodes), now.format);
  tiles.bytes.set(bytes(now.bytes), `of a file of ${bytes(now.file_bytes)}`);
  tiles.load.set(time(now.load_us), planned.folded_nodes ? `${count(planned.folded_nodes)} nodes made constants` : '');
  if (now.calls !== calls && !plans.length) look().catch(() => {});
  calls = now.calls;
}

// Pools and routes, live.
import {h, table, bytes, count, digits, percent, time} from './dom.js';
import {chart} from './chart.js';

export const title = 'Pools';
export const paths = ['/metrics', '/v1/pools', '/v1/history'];
let list, routes, busy, all;

export async function open() {
  list = h('div.columns');
  routes = h('section.card');
  busy = new Map();
  const rate = (v) => `${v < 10 ? digits(v) : count(v)}/s`;
  all = {requests: chart('Requests', rate), errors: chart('Answered with an error', rate), p99: chart('99 % within', time)};
  return [h('p.soft', null, 'A pool is a set of pinned cores with a queue. Calls known to be small run on its HTTP thread without waiting.'), list,
    h('p'), h('section.card', null, h('h2', null, 'The last hour'), h('div.columns.three', null, Object.values(all).map((c) => c.e))), routes];
}

/** What histograms saw since the last look: on average, and 99 % of it. */
function took(look, name, fits) {
  const average = look.rate(`${name}_sum`, fits) / look.rate(`${name}_count`, fits), most = look.quantile(name, 0.99, fits);
  return [average, most].map((s) => (s >= 0 ? time(s * 1e6) : '–'));
}

function card(pool, was, look, i) {
  const mine = (by) => by.pool === pool.name, {seconds, history} = look;
  const load = look.rate('tensord_compute_duration_seconds_sum', mine) / pool.streams;
  const queued = was ? (pool.done - was.done) / seconds : 0;
  const plot = busy.get(pool.name) || busy.set(pool.name, chart('Computing', percent)).get(pool.name);
  const steps = history.pools.find((p) => p.name === pool.name)?.compute_us || history.requests.map(() => 0);
  plot.set(steps.map((us) => us / history.step_s / 1e6 / pool.streams), history.step_s, Date.parse(history.until), 1);
  const fact = (name, value, small) => h('dl.tile', null, h('dt', null, name), h('dd', null, value, small && h('small', null, small)));
  const [kernel, kernels] = took(look, 'tensord_compute_duration_seconds', mine), [wait, waits] = took(look, 'tensord_queue_duration_seconds', mine);
  const off = pool.thread_list.filter((t) => !t.ok).length;
  return h(`section.card`, null, h('div.row', null, h('h2.dot', {class: `dot p${i % 6}`}, pool.name), h('span.soft.small', null,
    `CPUs ${pool.cpus}, ${pool.threads} threads${pool.pinned ? ', pinned' : ''}${off ? `, ${off} not where they should be` : ''}`)),
    h('div.tiles', null, fact('Computing', percent(load), 'of the time'),
      fact('Calls', `${count(look.rate('tensord_compute_duration_seconds_count', mine))}/s`, `${count(queued)}/s through the queue`),
      fact('Kernel', kernel, `99 % within ${kernels}`), fact('Wait', wait, `99 % within ${waits}`),
      fact('Queue', `${pool.depth} of ${count(pool.queue_depth)}`, `${pool.running} running`), fact('Turned away', count(pool.rejected), `${count(pool.late)} late`)),
    plot.e,
    pool.warnings.map((w) => h('p.bad.small', null, w)));
}

export function draw(look) {
  const was = new Map(look.before?.pools.pools.map((p) => [p.name, p]));
  list.replaceChildren(...look.pools.pools.map((p, i) => card(p, was.get(p.name), look, i)));
  const {history} = look, until = Date.parse(history.until), rates = (steps) => steps.map((n) => n / history.step_s);
  all.requests.set(rates(history.requests), history.step_s, until, 1);
  all.errors.set(rates(history.errors), history.step_s, until, 1);
  all.p99.set(history.p99_us, history.step_s, until, 100);
  const by = new Map();
  for (const [l] of look.metrics.tensord_http_requests_total || []) {
    const mine = (o) => o.method === l.method && o.route === l.route, of = (fits) => look.total('tensord_http_requests_total', (o) => mine(o) && fits(o));
    by.set(`${l.method} ${l.route}`, [look.rate('tensord_http_requests_total', mine), of(() => true), of((o) => !/^[23]/.test(o.code))]);
  }
  const busiest = [...by].filter(([, [, total]]) => total).sort(([, a], [, b]) => b[0] - a[0] || b[1] - a[1]);
  const part = (name, words) => [words, ...took(look, name)];
  const at = document.activeElement?.getAttribute('aria-label');
  routes.replaceChildren(h('div.row', null, h('h2', null, 'Requests'), h('span.soft.small', null, `${count(look.rate('tensord_http_requests_total'))}/s now`)), table('Where time goes', ['Since the last look', '#Average', '#99 % within'], [
    part('tensord_request_duration_seconds', 'A request, from its head to its reply'),
    part('tensord_queue_duration_seconds', 'Waiting in a queue'), part('tensord_compute_duration_seconds', 'In a kernel')]),
  h('p'), table('Routes', ['Route', '#/s', '#So far', '#Errors'], busiest.map(([name, figures]) => [name, ...figures.map(count)])),
  h('p.soft.small', null, `${bytes(look.total('tensord_memory_bytes'))} are held by requests, tasks and stored tensors; ${count(look.total('tensord_tasks'))} tasks are kept.`));
  if (at) routes.querySelector(`[aria-label="${at}"]`)?.focus();
}

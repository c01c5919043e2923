// Pools and routes, live.
import {h, table, bytes, count, percent, sparkline, time} from './dom.js';
import {remember} from './server.js';

export const title = 'Pools';
export const paths = ['/metrics', '/v1/pools'];
let list, routes, lines, all;

export async function open() {
  list = h('div.columns');
  routes = h('section.card');
  lines = new Map();
  all = sparkline();
  return [h('p.soft', null, 'A pool is a set of pinned cores with a queue. Calls known to be small run on its HTTP thread without waiting.'), list, h('p'), routes];
}

/** What histograms saw since the last look: on average, and 99 % of it. */
function took(look, name, fits) {
  const average = look.rate(`${name}_sum`, fits) / look.rate(`${name}_count`, fits), most = look.quantile(name, 0.99, fits);
  return [average, most].map((s) => (s >= 0 ? time(s * 1e6) : '–'));
}

function card(pool, was, look, i) {
  const mine = (by) => by.pool === pool.name, {seconds} = look;
  const busy = look.rate('tensord_compute_duration_seconds_sum', mine) / pool.streams;
  const queued = was ? (pool.done - was.done) / seconds : 0;
  const line = lines.get(pool.name) || lines.set(pool.name, sparkline()).get(pool.name);
  line.set(remember(`load of ${pool.name}`, busy), 1);
  const fact = (name, value, small) => h('dl.tile', null, h('dt', null, name), h('dd', null, value, small && h('small', null, small)));
  const [kernel, kernels] = took(look, 'tensord_compute_duration_seconds', mine), [wait, waits] = took(look, 'tensord_queue_duration_seconds', mine);
  const off = pool.thread_list.filter((t) => !t.ok).length;
  return h(`section.card`, null, h('div.row', null, h('h2.dot', {class: `dot p${i % 6}`}, pool.name), h('span.soft.small', null,
    `CPUs ${pool.cpus}, ${pool.threads} threads${pool.pinned ? ', pinned' : ''}${off ? `, ${off} not where they should be` : ''}`)),
    h('div.tiles', null, fact('Computing', percent(busy), 'of the time'),
      fact('Calls', `${count(look.rate('tensord_compute_duration_seconds_count', mine))}/s`, `${count(queued)}/s through the queue`),
      fact('Kernel', kernel, `99 % within ${kernels}`), fact('Wait', wait, `99 % within ${waits}`),
      fact('Queue', `${pool.depth} of ${count(pool.queue_depth)}`, `${pool.running} running`), fact('Turned away', count(pool.rejected), `${count(pool.late)} late`)),
    line.e, h('p.soft.small', null, 'Computing, over the last two minutes.'),
    pool.warnings.map((w) => h('p.bad.small', null, w)));
}

export function draw(look) {
  const was = new Map(look.before?.pools.pools.map((p) => [p.name, p]));
  list.replaceChildren(...look.pools.pools.map((p, i) => card(p, was.get(p.name), look, i)));
  const by = new Map();
  for (const [l] of look.metrics.tensord_http_requests_total || []) {
    const name = `${l.method} ${l.route}`, mine = (o) => o.method === l.method && o.route === l.route;
    by.set(name, [name, count(look.rate('tensord_http_requests_total', mine)), count(look.total('tensord_http_requests_total', mine)),
      count(look.total('tensord_http_requests_total', (o) => mine(o) && !/^[23]/.test(o.code)))]);
  }
  const part = (name, words) => [words, ...took(look, name)];
  all.set(remember('requests', look.rate('tensord_http_requests_total')));
  const at = document.activeElement?.getAttribute('aria-label');
  routes.replaceChildren(h('div.row', null, h('h2', null, 'Requests'), h('span.soft.small', null, `${count(look.rate('tensord_http_requests_total'))}/s now; the last two minutes:`)), all.e, table('Where time goes', ['Since the last look', '#Average', '#99 % within'], [
    part('tensord_request_duration_seconds', 'A request, from its head to its reply'),
    part('tensord_queue_duration_seconds', 'Waiting in a queue'), part('tensord_compute_duration_seconds', 'In a kernel')]),
  h('p'), table('Routes', ['Route', '#/s', '#So far', '#Errors'], [...by.values()]),
  h('p.soft.small', null, `${bytes(look.total('tensord_memory_bytes'))} are held by requests, tasks and stored tensors; ${count(look.total('tensord_tasks'))} tasks are kept.`));
  if (at) routes.querySelector(`[aria-label="${at}"]`)?.focus();
}

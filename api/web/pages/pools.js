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

function card(pool, was, seconds, i) {
  const load = was ? (pool.busy_us - was.busy_us) / 1e6 / seconds / pool.threads : 0;
  const rate = was ? (pool.done - was.done) / seconds : 0;
  const line = lines.get(pool.name) || lines.set(pool.name, sparkline()).get(pool.name);
  line.set(remember(`load of ${pool.name}`, load), 1);
  const fact = (name, value) => h('dl.tile', null, h('dt', null, name), h('dd', null, value));
  const off = pool.thread_list.filter((t) => !t.ok).length;
  return h(`section.card`, null, h('div.row', null, h('h2.dot', {class: `dot p${i % 6}`}, pool.name), h('span.soft.small', null,
    `CPUs ${pool.cpus}, ${pool.threads} threads${pool.pinned ? ', pinned' : ''}${off ? `, ${off} not where they should be` : ''}`)),
    h('div.tiles', null, fact('Load', percent(load)), fact('Through the queue', `${count(rate)}/s`), fact('Waiting', `${pool.depth} of ${pool.queue_depth}`),
      fact('Running', pool.running), fact('Refused', count(pool.rejected)), fact('Late', count(pool.late))),
    line.e, h('p.soft.small', null, 'Load over the last two minutes.'),
    pool.warnings.map((w) => h('p.bad.small', null, w)));
}

export function draw(look) {
  const was = new Map(look.before?.pools.pools.map((p) => [p.name, p]));
  list.replaceChildren(...look.pools.pools.map((p, i) => card(p, was.get(p.name), look.seconds, i)));
  const by = new Map();
  for (const [l] of look.metrics.tensord_http_requests_total || []) {
    const name = `${l.method} ${l.route}`, mine = (o) => o.method === l.method && o.route === l.route;
    by.set(name, [name, count(look.rate('tensord_http_requests_total', mine)), count(look.total('tensord_http_requests_total', mine)),
      count(look.total('tensord_http_requests_total', (o) => mine(o) && !/^[23]/.test(o.code)))]);
  }
  const part = (name, words) => {
    const [half, most] = [0.5, 0.99].map((q) => look.quantile(name, q) * 1e6);
    return [words, half >= 0 ? time(half) : '–', most >= 0 ? time(most) : '–'];
  };
  all.set(remember('requests', look.rate('tensord_http_requests_total')));
  const at = document.activeElement?.getAttribute('aria-label');
  routes.replaceChildren(h('div.row', null, h('h2', null, 'Requests'), h('span.soft.small', null, `${count(look.rate('tensord_http_requests_total'))}/s now; the last two minutes:`)), all.e, table('Where time goes', ['Since the last look', '#Median', '#99 %'], [
    part('tensord_request_duration_seconds', 'A request, from its head to its reply'),
    part('tensord_queue_duration_seconds', 'Waiting in a queue'), part('tensord_compute_duration_seconds', 'In a kernel')]),
  h('p'), table('Routes', ['Route', '#A second', '#So far', '#Errors'], [...by.values()]),
  h('p.soft.small', null, `${bytes(look.total('tensord_memory_bytes'))} are held by requests, tasks and stored tensors; ${count(look.total('tensord_tasks'))} tasks are kept.`));
  if (at) routes.querySelector(`[aria-label="${at}"]`)?.focus();
}

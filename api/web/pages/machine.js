// The machine as the server sees it: packages, nodes, caches, cores; who owns them; what they do now.
import {h, tile, bar, bytes, count, cpus, percent, time, chips} from './dom.js';
import {ask, once} from './server.js';

export const title = 'Machine';
export const paths = ['/metrics', '/v1/pools', '/v1/topology'];
let tiles, loads, owners, quota;

const distinct = (list) => [...new Set(list)];

/** CPU -> [pool's name, its number]. */
export function ownersOf(pools) {
  const found = new Map();
  pools.forEach((pool, i) => cpus(pool.cpus).forEach((cpu) => found.set(cpu, [pool.name, i % 6])));
  return found;
}

function drawCpu(pu) {
  const [pool, i] = owners.get(pu.cpu) || ['', ''];
  const load = bar(0), text = h('span', null, '');
  loads.set(pu.cpu, {load, text, pool});
  return h(pool ? `div.cpu.p${i}` : 'div.cpu', null, h('span', null, h('b', null, `CPU ${pu.cpu}`), pu.allowed ? text : 'not ours'),
    load.e, h('span.soft.pool', null, pool || (pu.allowed ? 'in no pool' : '')));
}

const cacheSizes = (caches, cpu, level) => caches.filter((c) => c.level === level && cpus(c.cpus).includes(cpu))
  .map((c) => `L${level}${c.type === 'unified' ? '' : c.type[0]} ${bytes(c.size)}`);

function drawCores(pus, caches) {
  const cores = distinct(pus.map((p) => p.core));
  return h('div.cores', null, cores.map((core) => {
    const own = pus.filter((p) => p.core === core);
    return h('div.box', null, h('p', null, `Core ${core}`),
      h('p.cache', null, [2, 1].flatMap((level) => cacheSizes(caches, own[0].cpu, level)).join(', ')), own.map(drawCpu));
  }));
}

function drawMachine(t) {
  const l3 = t.caches.filter((c) => c.level === 3).map((c) => [c, new Set(cpus(c.cpus))]);
  return distinct(t.pus.map((p) => p.package)).map((pack) => h('div.box', null, h('p', null, `Package ${pack}`),
    distinct(t.pus.filter((p) => p.package === pack).map((p) => p.numa_node)).map((node) => {
      const pus = t.pus.filter((p) => p.package === pack && p.numa_node === node);
      const shared = l3.filter(([, set]) => pus.some((p) => set.has(p.cpu)));
      const rest = pus.filter((p) => !shared.some(([, set]) => set.has(p.cpu)));
      return h('div.box', null, h('p', null, `NUMA node ${node}`),
        shared.map(([c, set]) => h('div.box', null, h('p', null, `L3 ${bytes(c.size)}, CPUs ${c.cpus}`),
          drawCores(pus.filter((p) => set.has(p.cpu)), t.caches))),
        rest.length > 0 && drawCores(rest, t.caches));
    })));
}

function drawLadder(isa) {
  return h('ol.ladder', {'aria-label': 'ISA levels, the highest first'}, isa.levels.map((l) => {
    const now = l.name === isa.current, can = l.cpu && l.binary;
    const why = now ? 'in use' : l.missing.length ? `lacks ${l.missing.join(', ')}` : !l.binary ? 'not in this program: the compiler that built it lacks it'
      : l.in_use ? 'usable' : `above the cap ${isa.requested || ''}`;
    return h(`li${can ? '.can' : ''}${now ? '.now' : ''}`, now ? {'aria-current': 'true'} : null, h('b.mono', null, l.name), h('span.soft', null, why));
  }));
}

export async function open() {
  const [isa, topology, {pools}] = await Promise.all([once('/v1/isa'), ask('/v1/topology'), ask('/v1/pools')]);
  loads = new Map();
  owners = ownersOf(pools);
  tiles = {level: tile('ISA level'), rate: tile('Requests'), wait: tile('Latency'), cpu: tile('CPU time'), memory: tile('Memory'), store: tile('Stored tensors')};
  tiles.level.set(isa.current, `oneDNN ${isa.onednn.version}`);
  quota = h('p.soft.small');
  const features = Object.entries(isa.features);
  return [h('p.soft', null, `${topology.decision}.`), h('div.tiles', null, Object.values(tiles).map((t) => t.e)),
    h('div.columns', null,
      h(topology.cores > 16 ? 'section.card.wide.many' : 'section.card', null, h('h2', null, 'Packages, caches, cores'), quota,
        pools.length > 1 || topology.cores > 16 ? h('ul.key', null, pools.map((p, i) => h(`li.dot.p${i % 6}`, null, p.name))) : null, drawMachine(topology)),
      h('section.card', null, h('h2', null, 'What it can do'),
        h('p.soft.small', null, 'A level is used when processor, system and program have it and no cap (TENSORD_CPU_CAPABILITY) stands below it.'),
        drawLadder(isa),
        h('details', null, h('summary', null, h('span', null, `${features.filter(([, v]) => v).length} of ${features.length} CPU features`)),
          h('div.inner', null, chips(features.map(([k]) => k), (k) => isa.features[k])))))];
}

export function draw(look) {
  const {pools} = look.pools, {cgroup} = look.topology;
  const rate = look.rate('tensord_http_requests_total'), used = look.rate('process_cpu_seconds_total');
  const q = (p) => look.quantile('tensord_request_duration_seconds', p) * 1e6;
  tiles.rate.set(`${count(rate)}/s`, `${count(look.total('tensord_http_requests_total'))} so far, ${Math.max(0, look.total('tensord_requests_in_flight') - 1)} under way`);
  tiles.wait.set(q(0.5) ? time(q(0.5)) : '–', q(0.5) ? `median; 99 % within ${time(q(0.99))}` : 'median since the last look');
  tiles.cpu.set(percent(used), `of a core, of ${look.topology.allowed.count}`);
  tiles.memory.set(bytes(look.total('tensord_memory_bytes')), `of ${bytes(look.total('tensord_memory_limit_bytes'))}; process ${bytes(look.total('process_resident_memory_bytes'))}`);
  tiles.store.set(bytes(look.total('tensord_store_bytes')), `of ${bytes(look.total('tensord_store_limit_bytes'))}`);
  const was = new Map(look.before?.topology.pus.map((p) => [p.cpu, p.busy_s]));
  for (const pu of look.topology.pus) {
    const now = loads.get(pu.cpu), busy = (pu.busy_s - was.get(pu.cpu)) / look.seconds;
    if (!now || !(busy >= 0)) continue;
    now.load.set(busy);
    now.text.textContent = percent(Math.min(1, busy));
  }
  const now = (cgroup.nr_throttled - look.before?.topology.cgroup.nr_throttled) / look.seconds;
  const throttled = cgroup.nr_throttled === null ? '' : `, throttled ${count(cgroup.nr_throttled)} times${now > 0 ? `, ${count(Math.ceil(now))} times a second now` : ''}`;
  quota.className = now > 0 ? 'bad small' : 'soft small';
  quota.textContent = `${pools.length === 1 ? 'One pool' : pools.length + ' pools'}. CPU quota: ${cgroup.quota_cpus === null ? 'none' : cgroup.quota_cpus + ' CPUs'}${throttled}. Memory: ${bytes(look.topology.memory)}.`;
}

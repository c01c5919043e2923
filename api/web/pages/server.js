// What the server says: answers once, and figures again and again while somebody looks.

/** The token that goes with all that is asked, or null; given one, it is kept for this tab, or with '' forgotten. */
export function carry(secret) {
  if (secret) sessionStorage.setItem('token', secret);
  else if (secret === '') sessionStorage.removeItem('token');
  return sessionStorage.getItem('token');
}

export async function ask(path, options = {}) {
  const secret = carry();
  const reply = await fetch(path, secret ? {...options, headers: {...options.headers, Authorization: `Bearer ${secret}`}} : options);
  const said = reply.headers.get('Content-Type')?.includes('json') ? await reply.json() : await reply.text();
  if (!reply.ok) throw Object.assign(new Error(said.detail || reply.statusText), {status: reply.status});
  return said;
}

const kept = {};
/** An answer that does not change while the server runs. */
export const once = (path) => (kept[path] ??= ask(path).catch((e) => { delete kept[path]; throw e; }));

/** Prometheus text as name -> [[labels, value], ...]. */
function samples(text) {
  const found = {};
  for (const [, name, labels = '', value] of text.matchAll(/^(\w+)(?:{(.*)})? (\S+)$/gm)) {
    const by = Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
    (found[name] ??= []).push([by, +value]);
  }
  return found;
}

/** One look at the server; of two, rates are made. */
class Look {
  constructor(at, answers, before) {
    Object.assign(this, answers, {at, before});
    if (answers.metrics) this.metrics = samples(answers.metrics);
    if (before) before.before = null;
  }
  total(name, fits = () => true) {
    return (this.metrics[name] || []).reduce((sum, [by, v]) => (fits(by) ? sum + v : sum), 0);
  }
  get seconds() { return this.before ? (this.at - this.before.at) / 1000 : 0; }
  rate(name, fits) {
    return this.before ? Math.max(0, this.total(name, fits) - this.before.total(name, fits)) / this.seconds : 0;
  }
  /** Within what a share q of histograms was since the last look, or ever in the first, in their unit; NaN when nothing came. */
  quantile(name, q, fits = () => true) {
    const sums = new Map();
    for (const [look, sign] of [[this, 1], [this.before, -1]]) {
      for (const [by, v] of look?.metrics[name + '_bucket'] || []) if (fits(by)) sums.set(by.le, (sums.get(by.le) || 0) + sign * v);
    }
    const rows = [...sums].map(([le, n]) => [+le.replace('+Inf', 'Infinity'), n]);
    const all = rows.at(-1)?.[1];
    let low = 0, below = 0;
    for (const [le, n] of rows) {
      if (all && n >= q * all) return le === Infinity ? low : low === 0 ? le : low + (le - low) * (q * all - below) / (n - below || 1);
      [low, below] = [le, n];
    }
    return NaN;
  }
}

/** One look at the metrics, of all since the server began. */
export const glance = async () => new Look(0, {metrics: await ask('/metrics')});

let timer, last, watching;
async function look() {
  const mine = watching;
  clearTimeout(timer);
  if (!mine || document.hidden) return;
  try {
    const answers = await Promise.all(mine.paths.map((p) => ask(p)));
    if (mine !== watching) return;
    last = new Look(performance.now(), Object.fromEntries(mine.paths.map((p, i) => [p.split('/').at(-1), answers[i]])), last?.paths === mine.paths ? last : null);
    last.paths = mine.paths;
    mine.draw(last);
    mine.state('');
  } catch (e) {
    if (mine === watching) mine.state(e instanceof TypeError ? 'The server does not answer. This page goes on asking.' : e.message, e.status);
  }
  timer = setTimeout(look, last?.before ? 2000 : 500);
}

/** Asks for paths every two seconds, while the page is visible, and has each look drawn. */
export function watch(paths, draw, state) {
  last = null;
  watching = paths.length ? {paths, draw, state} : null;
  look();
}
document.addEventListener('visibilitychange', () => { last = null; look(); });

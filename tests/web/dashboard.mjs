// What a person meets at /: in a browser, at two widths and in both colour schemes.
import assert from 'node:assert';
import {execFileSync} from 'node:child_process';
import {readdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import test from 'node:test';
import {axis, ceiling} from '../../api/web/pages/chart.js';
import {bytes, nameOf, time} from '../../api/web/pages/dom.js';
import {layout, lines} from '../../api/web/pages/layout.js';
import {agree, parse, program, refusals, shares} from '../../api/web/pages/program.js';
import {fill, inOrder, isPlain, typeOf} from '../../api/web/pages/samples.js';

const require = createRequire(new URL('../../.deps/npm/node_modules/', import.meta.url));
const {chromium} = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');
const {PAGE, CHROMIUM, MODEL, FOUL, LONG} = process.env;
const VIEWS = ['machine', 'pools', 'operators', 'try/softmax.int', 'dispatch/silu', 'tensors', 'api', 'book/isa.md'];

const browser = await chromium.launch({executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage']});

/** A page that notes what it should not do. */
async function open({width = 1440, scheme = 'light', before} = {}) {
  const context = await browser.newContext({viewport: {width, height: 900}, colorScheme: scheme, bypassCSP: false, permissions: ['clipboard-read', 'clipboard-write']});
  const page = await context.newPage(), wrong = [], asked = [];
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && wrong.push(`${m.text()} ${m.location().url}`));
  page.on('pageerror', (e) => wrong.push(String(e)));
  page.on('request', (r) => { asked.push(r.url()); if (!r.url().startsWith(PAGE) && !r.url().startsWith('data:')) wrong.push(`asks ${r.url()}`); });
  if (before) await page.addInitScript(before);
  await page.goto(`${PAGE}/`);
  return {page, wrong, asked, async view(name, ready = 'h1') {
    await page.evaluate((v) => { location.hash = v; }, name);
    const title = {try: 'Try it', api: 'API', model: name.split('/')[1]}[name.split('/')[0]] || name[0].toUpperCase() + name.slice(1).split('/')[0];
    await page.locator('h1', {hasText: title}).waitFor();
    await page.locator(ready).first().waitFor();
  }, async close() {
    assert.deepEqual(wrong, []);
    await context.close();
  }};
}

const post = (path, body) => fetch(PAGE + path, {method: 'POST', body, headers: {'Content-Type': 'application/json'}});

/** What keeps somebody out of a page. */
async function barriers(page) {
  await page.evaluate(readFileSync(axe, 'utf8'));
  const {violations} = await page.evaluate(() => window.axe.run({resultTypes: ['violations']}));
  return violations.filter((x) => ['serious', 'critical'].includes(x.impact)).map((x) => `${x.id}: ${x.nodes[0].html}: ${x.nodes[0].failureSummary}`);
}

const askModel = () => post('/v2/models/scores/infer', '{"inputs":[{"name":"x","shape":[2,3],"datatype":"FP32","data":[1,2,3,4,5,6]}]}');
const put = (name, file) => fetch(`${PAGE}/v1/models/${name}`, {method: 'PUT', body: readFileSync(file), headers: {'Content-Type': 'application/octet-stream'}});
const putModel = () => put('scores', MODEL);
const drop = (name) => fetch(`${PAGE}/v1/models/${name}`, {method: 'DELETE'});

async function loaded(seconds, work) {
  let on = true;
  const load = (async () => { while (on) await post('/v1/ops/add', '{"self":[1.5,2],"other":3}').then((r) => r.text()); })();
  try { return await work(); } finally { on = false; await load; }
}

if (process.argv[2] === '--pictures') {
  const folder = process.argv[3];
  await putModel();
  for (let i = 0; i < 100; i++) await askModel();
  for (const [width, scheme] of [[1440, 'light'], [1440, 'dark'], [390, 'light'], [390, 'dark']]) {
    const o = await open({width, scheme});
    await loaded(8, async () => {
      for (const v of [...VIEWS, 'models', 'model/scores']) {
        await o.view(v);
        if (v === 'model/scores') await o.page.locator('.step').first().click();
        if (v === 'try/softmax.int') await o.page.locator('button[type=submit]').click();
        if (v === 'operators') {
          await o.page.fill('#find', 'softmax');
          await o.page.locator('summary', {hasText: 'softmax'}).first().click();
        }
        await o.page.waitForTimeout(['machine', 'pools'].includes(v) ? 5000 : 700);
        await o.page.screenshot({path: `${folder}/${v.split('/')[0]}-${width}-${scheme}.png`, fullPage: v !== 'operators'});
      }
    });
    if (o.wrong.length) console.log(o.wrong);
  }
  await browser.close();
  process.exit();
}

if (process.argv[2] === '--cost') {
  const seconds = Number(process.argv[3]), of = `/proc/${process.env.PID}/task`;
  const used = () => readdirSync(of).reduce((sum, t) => sum + Number(readFileSync(`${of}/${t}/schedstat`, 'utf8').split(' ')[0]), 0);
  const spent = async () => {
    const before = used();
    await new Promise((after) => setTimeout(after, seconds * 1000));
    return `${((used() - before) / seconds / 1e7).toFixed(3)} % of a core`;
  };
  console.log(`no page: ${await spent()}`);
  await putModel();
  for (const v of [...VIEWS, 'models', 'model/scores']) {
    const o = await open();
    await o.view(v);
    await o.page.waitForTimeout(1000);
    console.log(`${v}: ${await spent()}`);
    await o.close();
  }
  await browser.close();
  process.exit();
}

test.after(() => browser.close());

for (const width of [390, 1440])
  for (const scheme of ['light', 'dark'])
    test(`each view is clean and for everybody: ${width} px, ${scheme}`, async () => {
      await putModel();
      const o = await open({width, scheme});
      for (let i = 0; i < 2; i++) await askModel(); // the second makes a plan
      for (const v of [...VIEWS, 'models', 'model/scores', 'api/softmax.int']) {
        await o.view(v, v === 'tensors' ? 'table' : v.startsWith('api/') ? '[id="softmax.int"][open] pre' : 'h1');
        if (v.startsWith('try')) {
          await o.page.locator('button[type=submit]').click();
          await o.page.locator('h2', {hasText: 'Candidates'}).waitFor();
        }
        if (v === 'model/scores') {
          await o.page.locator('summary').click();
          await o.page.locator('td', {hasText: /^softmax/}).first().waitFor();
          await o.page.locator('.step').last().click();
          await o.page.locator('.details code', {hasText: /^softmax/}).first().waitFor();
          await o.page.click('form button[type=submit]');
          await o.page.locator('pre[aria-label="Output y"]').waitFor();
        }
        assert.ok(await o.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${v} is wider than ${width} px`);
        assert.equal((await barriers(o.page)).join(), '', v);
      }
      await o.close();
      await drop('scores');
    });

test('it follows the load, and asks nothing while nobody looks', async () => {
  const o = await open({before: () => Object.defineProperty(document, 'hidden', {get: () => Boolean(window.away)})});
  await o.view('machine');
  await loaded(10, async () => {
    await o.page.waitForFunction(() => /[1-9][\d,]*\/s/.test(document.querySelector('main').textContent), null, {timeout: 10000});
    await o.view('pools', 'td:has-text("POST /v1/ops/{op}")');
    const tile = (name) => o.page.locator('section', {has: o.page.locator('h2', {hasText: 'default'})}).locator('dl', {hasText: name});
    for (const [name, figure] of [['Calls', /[1-9][\d,]*\/s/], ['Kernel', /Kernel\d[\d.]* µs99 % within \d/], ['Wait', /Wait\d[\d.]* µs99 % within \d/], ['Queue', /\d of 1,024\d running/]])
      await tile(name).filter({hasText: figure}).waitFor({timeout: 10000});
    await o.view('operators/add', 'details:not([hidden])');
    await o.page.locator('summary', {has: o.page.locator('b', {hasText: /^add$/})}).click();
    await o.page.locator('p', {hasText: /^Called [\d,]+ times \(simd \w+ [\d,]+.*\): half within [\d.]+ µs, 99 % within [\d.]+ [µm]s, [\d.]+ [µm]s on average/}).waitFor();
    await o.view('pools', 'table');
  });
  await o.page.evaluate(() => { window.away = true; document.dispatchEvent(new Event('visibilitychange')); });
  await o.page.waitForTimeout(300);
  const before = o.asked.length;
  await o.page.waitForTimeout(3000);
  assert.equal(o.asked.length, before);
  await o.page.evaluate(() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); });
  await o.page.waitForTimeout(1000);
  assert.ok(o.asked.length > before);
  await o.close();
});

test('try it runs, explains, and gives the call to take along', async () => {
  const o = await open();
  await o.view('try/add.Tensor', '#arg-self');
  await o.page.fill('#arg-self', '[[1, 2], [3, 4]]');
  await o.page.fill('#arg-other', '[10]');
  await o.page.click('button[type=submit]');
  await o.page.locator('pre', {hasText: /^\[\[11, 12\],\s+\[13, 14\]\]$/}).waitFor();
  assert.equal(await o.page.locator('b.good').textContent(), 'chosen');
  assert.match(await o.page.locator('main').textContent(), /Kernel \w+ at \w+ in pool default/);
  for (const [name, command] of [['curl', ['sh', '-c']], ['Python', ['python3', '-c']]]) {
    const row = o.page.locator('div.row', {has: o.page.locator('h3', {hasText: name})});
    await row.locator('button').click();
    await row.locator('button', {hasText: 'Copied'}).waitFor();
    const call = await o.page.evaluate(() => navigator.clipboard.readText());
    const said = execFileSync(command[0], [command[1], call], {encoding: 'utf8'});
    assert.match(said.replaceAll(' ', '').replaceAll("'", '"'), /"out":\[\[11,12\],\[13,14\]\]/);
  }
  await o.page.selectOption('#kernel', 'ref');
  await o.page.click('button[type=submit]');
  await o.page.locator('p b', {hasText: 'ref at DEFAULT'}).waitFor();
  await o.page.fill('#arg-other', '[1, 2, 3]');
  await o.page.click('button[type=submit]');
  await o.page.locator('[role=alert]', {hasText: /shape|size|broadcast/}).waitFor();
  await o.page.fill('#arg-other', '[1, 2');
  await o.page.click('button[type=submit]');
  await o.page.locator('[role=alert]', {hasText: 'other:'}).waitFor();
  assert.equal(o.wrong.splice(0).filter((w) => !w.includes('400 (Bad Request)')).length, 0);
  await o.close();
});

test('the keyboard alone is enough', async () => {
  const o = await open(), press = (k) => o.page.keyboard.press(k), at = () => o.page.evaluate(() => document.activeElement.textContent + document.activeElement.id);
  await press('Tab');
  assert.match(await at(), /^Skip to content/);
  await press('Enter');
  assert.match(await at(), /main$/);
  await o.page.locator('#skip').focus();
  for (let i = 0; i < 12 && await at() !== 'Try it'; i++) await press('Tab');
  await press('Enter');
  await o.page.locator('#arg-self').waitFor();
  for (let i = 0; i < 20 && !(await at()).endsWith('arg-dim'); i++) await press('Tab');
  await press('Control+a');
  await o.page.keyboard.type('-1');
  await press('Control+Enter');
  await o.page.locator('b.good', {hasText: 'chosen'}).waitFor();
  await o.view('operators', '#find');
  await o.page.locator('#find').focus();
  await o.page.keyboard.type('layer_norm');
  await o.page.locator('[role=status]', {hasText: /^[1-9] of/}).waitFor();
  for (let i = 0; i < 6 && !(await at()).startsWith('native_layer_norm') && !(await at()).startsWith('layer_norm'); i++) await press('Tab');
  await press('Enter');
  await o.page.locator('pre', {hasText: 'layer_norm('}).first().waitFor();
  await o.close();
});

test('what is offered to begin with is right for every operator', async () => {
  const {ops} = await (await fetch(`${PAGE}/v1/ops`)).json(), wrong = [];
  let plain = 0;
  for (const {name} of ops) {
    const [op] = (await (await fetch(`${PAGE}/v1/ops/${name}`)).json()).overloads, [sample] = inOrder(op);
    if (!isPlain(op, sample)) continue; // the page says so
    plain++;
    const body = `{${Object.entries(fill(op, sample)).map(([k, v]) => `"${k}":${v}`).concat(typeOf(op) ? `"dtype":"${typeOf(op)}"` : []).join()}}`;
    const reply = await post(`/v1/ops/${name}`, body);
    const said = await reply.json();
    if (!reply.ok) wrong.push(`${name} (${sample}): ${said.detail}`);
  }
  assert.deepEqual(wrong, []);
  assert.ok(plain > 0.97 * ops.length, `${plain} of ${ops.length}`);
});

test('the reference has every operation, and each can be opened', async () => {
  const o = await open(), api = await (await fetch(`${PAGE}/openapi.json`)).json();
  await o.page.goto(`${PAGE}/docs`);
  await o.page.locator('h1', {hasText: 'API'}).waitFor();
  const wanted = Object.values(api.paths).flatMap((p) => ['get', 'put', 'post', 'delete'].filter((m) => p[m]).map((m) => p[m].operationId));
  assert.deepEqual((await o.page.locator('main details[id]').evaluateAll((all) => all.map((e) => e.id))).sort(), wanted.sort());
  for (let depth = 0; depth < 4; depth++) {
    await o.page.evaluate(() => document.querySelectorAll('main details:not(.many, .many *)').forEach((e) => { e.open = true; }));
    await o.page.waitForTimeout(200);
  }
  assert.match(await o.page.locator('#runOp').textContent(), /Body.*inputs.*Replies.*200/);
  await o.page.fill('#call', 'PUT pools');
  await o.page.locator('[role=status]', {hasText: '1 of'}).waitFor();
  await o.page.goto(`${PAGE}/docs#api/getIsa`);
  await o.page.locator('#getIsa[open]').waitFor();
  await o.view('api/softmax.int', '[id="softmax.int"][open]');
  const one = o.page.locator('[id="softmax.int"]');
  await one.locator('pre', {hasText: '{"self":[['}).waitFor();
  for (const name of ['brief', 'full']) { // each example runs as it is copied
    const button = one.getByRole('button', {name: `Copy: Example, ${name}, as a call by curl`});
    await button.focus();
    await o.page.keyboard.press('Enter');
    await one.locator('button', {hasText: 'Copied'}).nth(+(name === 'full')).waitFor();
    const call = await o.page.evaluate(() => navigator.clipboard.readText());
    assert.match(execFileSync('sh', ['-c', call], {encoding: 'utf8'}), name === 'full' ? /"outputs":\[\{/ : /"out":\[\[/);
  }
  await one.locator('summary', {hasText: 'The short form'}).click();
  await one.locator('li', {hasText: /^dim integer, must be there/}).waitFor();
  await one.locator('a', {hasText: 'try it'}).click();
  await o.page.locator('#arg-dim').waitFor();
  await o.close();
});

test('a machine of 128 CPUs fits, and says whose each is', async () => {
  for (const [width, height] of [[1440, 2600], [390, 6500]]) {
    const o = await open({width});
    const topology = await (await fetch(`${PAGE}/v1/topology`)).json(), {pools: [pool]} = await (await fetch(`${PAGE}/v1/pools`)).json();
    const pus = Array.from({length: 128}, (_, cpu) => ({cpu, core: cpu >> 1, package: cpu >> 6, numa_node: cpu >> 5, allowed: cpu < 120, busy_s: Date.now() / 1000}));
    await o.page.route('**/v1/topology', (r) => r.fulfill({json: {...topology, cores: 64, pus: pus.map((p) => ({...p, busy_s: Date.now() / 1000}))}}));
    await o.page.route('**/v1/pools', (r) => r.fulfill({json: {pools: [{...pool, name: 'day', cpus: '0-63'}, {...pool, name: 'night', cpus: '64-99'}]}}));
    await o.page.reload();
    await o.page.locator('.cpu', {hasText: '100 %'}).nth(119).waitFor();
    assert.deepEqual(await o.page.evaluate(() => [...document.querySelectorAll('.cpu')].filter((e) => e.textContent.includes('night')).length), 36);
    assert.equal(await o.page.locator('.cpu', {hasText: 'not ours'}).count(), 8);
    assert.deepEqual(await o.page.locator('.key li').allTextContents(), ['day', 'night']);
    assert.deepEqual(await o.page.evaluate(() => [...document.querySelectorAll('.cpu')].filter((e) => e.scrollWidth > e.clientWidth || e.getBoundingClientRect().right > innerWidth).length), 0);
    assert.ok(await o.page.evaluate(() => document.documentElement.scrollHeight) < height);
    await o.close();
  }
});

test('axes end at round numbers, and at the minutes that there are', () => {
  assert.deepEqual([1, 1.01, 2, 3, 5.5, 10, 999, 0.03].map(ceiling), [1, 2, 2, 5, 10, 10, 1000, 0.05]);
  assert.deepEqual([0, 1, 60, 61, 180, 181, 720].map((n) => axis(n, 5)[0]), [5, 5, 5, 15, 15, 30, 60]);
});

test('the last hour is drawn, of the server and of each pool', async () => {
  const o = await open(), steps = (value, last) => Array.from({length: 720}, (_, i) => (i < 719 ? value : last));
  await o.page.route('**/v1/history', (r) => r.fulfill({json: {step_s: 5, until: '2026-01-02T03:04:05Z', requests: steps(3700, 50), errors: steps(0, 5), p99_us: steps(1500, 250),
    pools: [{name: 'default', calls: steps(1, 1), compute_us: steps(2500000, 1000000), queue_us: steps(0, 0)}]}}));
  const {pools: [{streams}]} = await (await fetch(`${PAGE}/v1/pools`)).json();
  await o.view('pools', '.chart');
  const label = (name) => o.page.locator(`.chart svg[aria-label^="${name}"][aria-label*=", the last "]`).getAttribute('aria-label');
  assert.equal(await label('Requests'), 'Requests, the last 60 minutes: at most 740/s, now 10/s');
  assert.equal(await label('Answered'), 'Answered with an error, the last 60 minutes: at most 1/s, now 1/s');
  assert.equal(await label('99 %'), '99 % within, the last 60 minutes: at most 1.5 ms, now 250 µs');
  assert.equal(await label('Computing'), `Computing, the last 60 minutes: at most ${Math.round(50 / streams)} %, now ${Math.round(20 / streams)} %`);
  const chart = o.page.locator('.chart', {has: o.page.locator('h3', {hasText: /^Requests$/})});
  assert.deepEqual(await chart.locator('.high span').allTextContents(), ['1,000/s', '500/s', '0/s']);
  assert.deepEqual(await chart.locator('.wide span').allTextContents(), ['−60 min', '−45 min', '−30 min', '−15 min', 'now']);
  await chart.locator('svg').hover({position: {x: 20, y: 20}});
  await chart.locator('.row span', {hasText: /^740\/s at \d/}).waitFor();
  await o.close();
});

test('the key / goes to a search', async () => {
  const o = await open(), focused = () => o.page.evaluate(() => document.activeElement.id);
  await o.view('pools', 'table');
  await o.page.keyboard.press('/');
  await o.page.waitForFunction(() => document.activeElement.id === 'find');
  assert.equal(await o.page.evaluate(() => location.hash), '#operators');
  await o.page.keyboard.type('a/b');
  assert.equal(await o.page.inputValue('#find'), 'a/b');
  await o.view('book/isa.md', '#words');
  await o.page.keyboard.press('/');
  assert.equal(await focused(), 'words');
  await o.close();
});

test('a model is coloured by share of time, or by how far each step is from its bound', async () => {
  await putModel();
  await askModel();
  const o = await open(), plan = await (await fetch(`${PAGE}/v1/models/scores/plan`)).json();
  plan.plans[0].steps.forEach((t, i) => Object.assign(t, {bound: 'compute', bound_us: 1, percent_of_bound: i ? 100 : 25}));
  await o.page.route('**/v1/models/scores/plan', (r) => r.fulfill({json: plan}));
  await o.view('model/scores', '.step');
  await o.page.selectOption('#colour', 'distance from its bound');
  const heat = await o.page.evaluate(() => [...document.querySelectorAll('.step rect')].map((e) => e.style.getPropertyValue('--heat')));
  assert.deepEqual([...new Set(heat)].sort(), ['0.0%', '75.0%']);
  assert.equal(heat.filter((v) => v === '75.0%').length, 1);
  await o.close();
  await drop('scores');
});

test('models are listed as they come, what is stored beside them', async () => {
  const o = await open();
  await o.page.locator('a[href="#models"]').click();
  await o.page.locator('p', {hasText: 'None yet'}).waitFor();
  await o.page.locator('section', {hasText: /Budget.* of .*GiB.*Models0, 0 B.*Stored tensors2, [\d.]+ KiB/s}).waitFor();
  assert.equal((await putModel()).status, 201);
  const card = o.page.locator('section', {has: o.page.locator('h2', {hasText: 'scores'})});
  await card.filter({hasText: /format\s*onnx.*nodes\s*4.*calls\s*0.*x\s*input\s*FP32\s*any × 3.*y\s*output\s*FP32\s*any × 3/s}).waitFor();
  assert.equal((await askModel()).status, 200);
  await card.filter({hasText: /calls\s*1.*a call\s*[\d.]+ [µm]s/s}).waitFor();
  await card.locator('h2 a').click();
  await o.page.locator('h1', {hasText: 'scores'}).waitFor();
  assert.equal(await o.page.locator('#views a[aria-current]').textContent(), 'Models');
  await drop('scores');
  await o.page.locator('p', {hasText: 'no longer in the server'}).waitFor();
  await o.close();
});

test('a model has a graph of its plan, of which each step can be asked', async () => {
  await putModel();
  const o = await open();
  await o.view('model/scores');
  await o.page.locator('p', {hasText: /^None yet: a call makes one/}).waitFor();
  for (let i = 0; i < 2; i++) assert.equal((await askModel()).status, 200);
  await o.page.locator('.step').first().waitFor();
  assert.deepEqual(await o.page.locator('h2', {hasText: 'Plan'}).allTextContents(), ['Plan for x FP32 2 × 3']);
  const {plans: [plan]} = await (await fetch(`${PAGE}/v1/models/scores/plan`)).json();
  assert.equal(await o.page.locator('.step').count(), plan.steps.length);
  assert.equal(await o.page.locator('.port').count(), 2);
  assert.equal((await o.page.locator('.edges path').evaluateAll((all) => all.map((p) => p.getAttribute('d')).join(''))).split('M').length - 1, plan.steps.length + 1, 'a line from port to port through all steps');
  const hot = await o.page.locator('.step rect').evaluateAll((all) => all.map((e) => [e.style.getPropertyValue('--heat'), getComputedStyle(e).fill]));
  assert.ok(hot.some(([v]) => v === '100.0%') && new Set(hot.map(([, fill]) => fill)).size > 1, `${hot}`);
  await o.page.locator('.step').last().click();
  const last = plan.steps.at(-1), panel = o.page.locator('.details');
  await panel.filter({hasText: new RegExp(`${last.operator}.*Step${last.step}.*Kernel${last.kernel} at ${last.isa}.*ResultFP32 2 × 3.*Time[\\d.]+ µs, [\\d.]+ %.*Reads.*v${last.step} = ${last.operator}\\(`, 's')}).waitFor();
  assert.match(await o.page.locator('path.chosen').getAttribute('d'), /^M/);
  await o.page.locator('svg.graph').focus();
  await o.page.keyboard.press('Home');
  await panel.filter({hasText: new RegExp(`Step${plan.steps[0].step}`)}).waitFor();
  await panel.locator('button').first().click();
  await panel.filter({hasText: new RegExp(`Step${plan.steps[1].step}`)}).waitFor();
  await o.page.locator('svg.graph').focus();
  const scale = () => o.page.locator('svg.graph > g').evaluate((e) => e.getAttribute('transform').match(/translate\((\S+) (\S+)\) scale\((\S+)\)/).slice(1).map(Number));
  const [x, y, k] = await scale();
  await o.page.keyboard.press('+');
  await o.page.waitForTimeout(100);
  assert.ok((await scale())[2] > 1.2 * k);
  await o.page.keyboard.press('0');
  await o.page.waitForTimeout(100);
  assert.ok((await scale())[2] <= 1);
  const box = await o.page.locator('svg.graph').boundingBox(), before = await scale();
  await o.page.mouse.move(box.x + 20, box.y + 200);
  await o.page.mouse.down();
  await o.page.mouse.move(box.x + 80, box.y + 190, {steps: 3});
  await o.page.mouse.up();
  await o.page.waitForTimeout(100);
  const moved = await scale();
  assert.ok(Math.abs(moved[0] - before[0] - 60) < 1 && Math.abs(moved[1] - before[1] + 10) < 1, `${before} ${moved} ${x} ${y}`);
  await o.page.keyboard.down('Control');
  await o.page.mouse.wheel(0, -200);
  await o.page.keyboard.up('Control');
  await o.page.waitForTimeout(100);
  assert.ok((await scale())[2] > moved[2]);
  const rows = o.page.locator('.shares button');
  assert.equal((await rows.locator('span:nth-of-type(1)').allTextContents()).reduce((sum, t) => sum + parseFloat(t.replace('<', '')), 0).toFixed(0), '100');
  await rows.filter({hasText: 'softmax'}).click();
  assert.equal(await o.page.locator('.step.faint').count(), plan.steps.length - 1);
  await o.close();
  await drop('scores');
});

/** A model whose plan is as a test has it. */
async function show(plan, text) {
  await putModel();
  const o = await open();
  const whole = await (await fetch(`${PAGE}/v1/models/scores/plan`)).json();
  await o.page.route('**/v1/models/scores/plan', (r) => r.fulfill({json: {...whole, plans: [].concat(plan)}}));
  await o.page.route('**/v1/models/scores/source', (r) => r.fulfill({body: text, contentType: 'text/plain'}));
  await o.view('model/scores');
  return o;
}
const step = (n, more) => ({step: n, node: `n${n}`, operator: 'add.Tensor', kernel: 'simd', isa: 'AVX2', datatype: 'FP32', shape: [2, 3], us: 0, ...more});
const TOGETHER = {inputs: [{datatype: 'FP32', shape: [2, 3], fixed: false}], threads: 1, op_by_op: null, folded_calls: 0, memory_bytes: 48, unshared_bytes: 96, scratch_bytes: 0, turns: 1,
  passes: [{name: 'views', done: 1, refused: 3, why: [{node: 'n0', why: 'too far'}, {node: 'n5', why: 'too far'}, {node: 'n7', why: 'too near'}]}],
  steps: [step(0, {us: 1}), step(1, {with: 2}), step(2, {with: 2, us: 3, operator: 'relu'}), step(3)]};
const TOGETHER_TEXT = '// 1 thread\nrun(FP32[2,3] x)\n{\n    v0 = add.Tensor(x, FP32[3]); // FP32\n    for (each tile of [2,3]) {\n        v1 = add.Tensor(v0, 1); // FP32\n        v2 = relu(v1, \'v3\'); // FP32\n    }\n' +
  '    v3 = add.Tensor(v2, x); // FP32\n    return v3;\n}\n';

test('steps that are computed together are in one frame, and what was refused is told once', async () => {
  const o = await show([TOGETHER, {...TOGETHER, threads: 2}, {...TOGETHER, steps: [], op_by_op: 'its sizes <b>follow</b> from values'}], `${TOGETHER_TEXT}\n${TOGETHER_TEXT}\n// 1 thread\nrun(FP32[2,3] x)\n{\n    // node by node: its\n}\n`);
  const frame = await o.page.locator('rect.together').boundingBox(), boxes = await Promise.all((await o.page.locator('.step').all()).map((e) => e.locator('rect').boundingBox()));
  const inside = (b) => b.x > frame.x && b.y > frame.y && b.x + b.width < frame.x + frame.width && b.y + b.height < frame.y + frame.height;
  assert.deepEqual(boxes.map(inside), [false, true, true, false]);
  assert.deepEqual(await o.page.locator('.step text:nth-of-type(2)').allTextContents(), ['1 µs · 2×3', 'with step 2 · 2×3', '3 µs · 2×3', 'not timed · 2×3']);
  assert.deepEqual(await o.page.locator('.shares code').allTextContents(), ['add.Tensor + relu', 'add.Tensor']);
  assert.deepEqual(await o.page.locator('.shares span:nth-of-type(1)').allTextContents(), ['75 %', '25 %']);
  await o.page.locator('li', {hasText: /^views: too farn0, n5$/}).waitFor();
  await o.page.locator('.step').first().click();
  await o.page.locator('.details', {hasText: 'Why not fusedviews: too far'}).waitFor();
  assert.ok(!/\b0 [µm]s/.test(await o.page.locator('main').textContent()));
  assert.deepEqual(await o.page.locator('#plan option').allTextContents(), ['x FP32 2 × 3, 1 thread', 'x FP32 2 × 3, 2 threads', 'x FP32 2 × 3, 1 thread']);
  await o.page.selectOption('#plan', {index: 2});
  await o.page.locator('p', {hasText: 'Node by node: its sizes <b>follow</b> from values'}).waitFor();
  assert.equal(await o.page.locator('h2', {hasText: 'Plan for'}).count(), 1);
  await o.close();
  await drop('scores');
});

test('a model is run from a form', async () => {
  await putModel();
  const o = await open();
  await o.view('model/scores');
  assert.equal(await o.page.inputValue('#port-0'), '1, 3');
  assert.equal(JSON.parse(await o.page.inputValue('#port-0-data')).length, 3);
  await o.page.fill('#port-0', '2, 3');
  await o.page.locator('#port-0').blur();
  assert.equal(JSON.parse(await o.page.inputValue('#port-0-data')).length, 6);
  await o.page.fill('#port-0-data', '[[1, 2, 3], [4, 5, 6]]');
  const out = o.page.locator('pre[aria-label="Output y"]');
  const same = await (await askModel()).json();
  for (let i = 0; i < 2; i++) await o.page.click('form button[type=submit]').then(() => out.waitFor());
  assert.deepEqual(JSON.parse(await out.textContent()).flat(), same.outputs[0].data);
  await o.page.locator('.step').first().waitFor(); // the call made a plan
  const plans = () => o.asked.filter((u) => u.endsWith('/plan')).length, before = plans();
  await o.page.click('form button[type=submit]');
  for (let i = 0; i < 100 && plans() === before; i++) await o.page.waitForTimeout(50);
  assert.ok(plans() > before, 'the times stay as they were before the run');
  await o.page.locator('button', {hasText: 'Copy'}).click();
  const said = JSON.parse(execFileSync('sh', ['-c', await o.page.evaluate(() => navigator.clipboard.readText())], {encoding: 'utf8'}));
  assert.deepEqual(said.outputs[0].data, same.outputs[0].data);
  await o.page.selectOption('#port-0-fill', 'all 0');
  assert.equal(await o.page.locator('#port-0-data').isVisible(), false);
  await o.page.fill('#port-0', '300, 3');
  await o.page.click('form button[type=submit]');
  await out.filter({hasText: /, \.\.\. of 900$/}).waitFor();
  const alarm = o.page.locator('form + div [role=alert]');
  for (const [text, told] of [['2, 4', /shape|size|3/], ['2, x, -1', /x: a shape is whole numbers/], ['9000, 9000', /x: 81,000,000 elements are more/]]) {
    await o.page.fill('#port-0', text);
    await o.page.click('form button[type=submit]');
    await alarm.filter({hasText: told}).waitFor();
  }
  assert.equal(o.wrong.splice(0).filter((w) => !w.includes('400 (Bad Request)')).length, 0);
  await o.close();
  await drop('scores');
});

test('a file that is dropped or chosen becomes a model; deleting one asks first', async () => {
  const o = await open(), names = async () => (await (await fetch(`${PAGE}/v1/models`)).json()).models.map((m) => m.name);
  await o.view('models');
  const state = o.page.locator('.drop p');
  await o.page.locator('p', {hasText: 'None yet'}).waitFor();
  await o.page.evaluate(([base64, name]) => {
    const data = new DataTransfer(), file = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    data.items.add(new File([file], name));
    for (const kind of ['dragover', 'drop']) document.querySelector('.drop').dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
  }, [readFileSync(MODEL).toString('base64'), 'my scores (1).onnx']);
  await state.filter({hasText: 'Loaded my_scores_1_'}).waitFor();
  assert.deepEqual(await names(), ['my_scores_1_']);
  await o.page.locator('section.model').waitFor();
  await o.page.setInputFiles('#file', {name: 'my_scores_1_.onnx', mimeType: '', buffer: readFileSync(MODEL)});
  const dialog = o.page.locator('dialog', {hasText: 'Replace the model my_scores_1_?'});
  await dialog.locator('button', {hasText: 'Replace'}).click();
  await state.filter({hasText: 'Loaded my_scores_1_'}).waitFor();
  await o.page.setInputFiles('#file', {name: '<b>bad</b>.onnx', mimeType: '', buffer: Buffer.from('no model')});
  await o.page.locator('.drop .problem', {hasText: /^<b>bad<\/b>\.onnx: ./}).waitFor();
  await state.filter({hasText: /./}).waitFor();
  await o.view('model/my_scores_1_');
  for (const leave of [() => o.page.locator('dialog button', {hasText: 'Keep it'}).click(), () => o.page.keyboard.press('Escape')]) {
    await o.page.locator('main button.danger').click();
    await o.page.locator('dialog', {hasText: 'Delete the model my_scores_1_?'}).waitFor();
    assert.equal((await barriers(o.page)).join(), '');
    await leave();
    await o.page.locator('dialog').waitFor({state: 'detached'});
    assert.deepEqual(await names(), ['my_scores_1_']);
  }
  await o.page.locator('main button.danger').click();
  await o.page.locator('dialog button.danger').click();
  await o.page.locator('h1', {hasText: 'Models'}).waitFor();
  await o.page.locator('p', {hasText: 'None yet'}).waitFor();
  assert.deepEqual(await names(), []);
  assert.equal(o.wrong.splice(0).filter((w) => !w.includes('400 (Bad Request)')).length, 0);
  await o.close();
});

test('names in a file are text, whatever they are', async () => {
  assert.equal((await put('foul', FOUL)).status, 201);
  const o = await open();
  await o.view('models', 'section.model');
  await o.page.locator('code', {hasText: 'in<img src=x onerror='}).waitFor();
  await o.view('model/foul');
  for (let i = 0; i < 2; i++) {
    await o.page.click('form button[type=submit]');
    await o.page.locator('pre[aria-label^="Output out<img src=x"]').waitFor();
  }
  await o.page.locator('.step').last().click();
  await o.page.locator('.details code', {hasText: "two<img src=x onerror='window.foul=1'>"}).waitFor();
  await Promise.all([o.page.waitForResponse((r) => r.url().endsWith('/source')), o.page.locator('.row button', {hasText: 'Look again'}).click()]);
  await o.page.locator('.details code', {hasText: "two<img src=x onerror='window.foul=1'>"}).waitFor(); // the plan is drawn again
  await o.page.locator('summary').click();
  await o.page.locator('td', {hasText: "one<img src=x onerror='window.foul=1'>"}).waitFor();
  assert.equal(await o.page.locator('main img').count(), 0);
  assert.equal(await o.page.evaluate(() => window.foul), undefined);
  await o.page.locator('.edges path').nth(1).waitFor({state: 'attached'}); // names with odd letters keep their lines
  await o.close();
  await drop('foul');
});

test('a model of 2,000 steps does not hold the page up', async () => {
  assert.equal((await put('long', LONG)).status, 201);
  for (let i = 0; i < 2; i++) assert.ok((await post('/v2/models/long/infer', '{"inputs":[{"name":"v0","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}')).ok);
  const o = await open({before: () => {
    window.held = [];
    new PerformanceObserver((list) => window.held.push(...list.getEntries().map((e) => e.duration))).observe({type: 'longtask', buffered: true});
  }});
  const begin = performance.now();
  await o.view('model/long', '.step');
  const shown = performance.now() - begin;
  await o.page.locator('p', {hasText: /^2,000 steps/}).waitFor();
  assert.ok(await o.page.locator('.step').count() < 60, 'more is made than is seen');
  await o.page.locator('button', {hasText: /^All$/}).click();
  await o.page.waitForFunction(() => document.querySelectorAll('.step').length === 2000);
  await o.page.locator('svg.graph').focus();
  await o.page.keyboard.press('End');
  await o.page.locator('.details', {hasText: 'node1999'}).waitFor();
  await o.page.waitForTimeout(200);
  const held = Math.max(0, ...await o.page.evaluate(() => window.held));
  console.log(`2,000 steps: shown after ${shown.toFixed(0)} ms, the page was held up for ${held.toFixed(0)} ms at most`);
  assert.ok(shown < 15000 && held < 3000, `${shown} ms, ${held} ms`);
  await o.close();
  await drop('long');
});

test('the layout keeps boxes apart, and each below what it reads', () => {
  let seed = 1;
  const random = (n) => (seed = seed * 48271 % 2147483647) % n;
  for (let round = 0; round < 20; round++) {
    const items = Array.from({length: 1 + random(150)}, (_, i) => ({id: i, w: 40 + random(150), h: 20 + random(90), reads: i ? Array.from({length: random(4)}, () => random(i)) : []}));
    const size = layout(items);
    for (const n of items) {
      assert.ok(n.x - n.w / 2 > -0.01 && n.x + n.w / 2 < size.width + 0.01 && n.y >= 0 && n.y + n.h < size.height + 0.01);
      for (const id of n.reads) assert.ok(items[id].y + items[id].h < n.y);
      for (const m of items) if (m.id < n.id) assert.ok(Math.abs(m.x - n.x) > (m.w + n.w) / 2 || m.y + m.h < n.y || n.y + n.h < m.y, 'two overlap');
    }
    const ends = items.flatMap((n) => new Set(n.reads).size).reduce((a, b) => a + b, 0), drawn = items.map((n) => lines(n).path.match(/[\d.]+C/g)?.length || 0).reduce((a, b) => a + b, 0);
    assert.ok(drawn >= ends - items.length && (drawn > 0) === (ends > 0));
  }
  const many = Array.from({length: 5000}, (_, i) => ({id: i, w: 178, h: 40, reads: [i - 1, i - 2, i % 97].filter((k) => k >= 0 && k < i)})), begin = process.cpuUsage();
  layout(many);
  assert.ok(process.cpuUsage(begin).user < 3e6);
});

test('a program is read as it is written, and figures as people read them', () => {
  const [said] = parse(TOGETHER_TEXT), all = program(TOGETHER, said, {inputs: [{name: 'x'}, {name: 'unread'}], outputs: [{name: 'y'}]});
  assert.deepEqual([...all.reads], [[0, ['in0']], [1, [0]], [2, [1]], [3, [2, 'in0']]]);
  assert.deepEqual([all.inputs.map((p) => p.name), all.outputs], [['x'], [{id: 'out0', name: 'y', reads: [3]}]]);
  assert.ok(agree([TOGETHER], [said]));
  assert.ok(!agree([TOGETHER], []) && !agree([{...TOGETHER, steps: TOGETHER.steps.slice(1)}], [said]));
  assert.deepEqual(shares(TOGETHER).map((r) => [r.name, r.us, r.steps.size]), [['add.Tensor + relu', 3, 2], ['add.Tensor', 1, 2]]);
  assert.deepEqual(refusals(TOGETHER.passes).map((r) => [r.why, r.nodes]), [['too far', ['n0', 'n5']], ['too near', ['n7']]]);
  assert.deepEqual([0.0571234, 12.3456, 999.7, 123456, 5e6].map(time), ['0.0571 µs', '12.3 µs', '1 ms', '123 ms', '5 s']);
  assert.deepEqual([0, 1000, 1024, 1.234 * 2 ** 20, 123.4 * 2 ** 30, 1500 * 2 ** 30].map(bytes), ['0 B', '1,000 B', '1 KiB', '1.23 MiB', '123 GiB', '1,500 GiB']);
  assert.deepEqual(['a.onnx', 'b c.pt2', '../x', 'op.add.onnx', '.onnx'].map(nameOf), ['a', 'b_c', '_x', 'add', 'model']);
});

test('the book has every page of docs/, and its links lead somewhere', async () => {
  const o = await open();
  const names = readdirSync(new URL('../../docs', import.meta.url)).filter((n) => n.endsWith('.md')).sort();
  for (const name of names) {
    await o.view(`book/${name}`, 'article h2');
    assert.equal(await o.page.locator('nav[aria-label=Pages] a').count(), names.length);
    const text = readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
    await o.page.locator('article h2', {hasText: text.split('\n')[0].slice(2)}).waitFor();
    assert.equal(await o.page.locator('article table').count(), (text.match(/^\|[ :|-]*---[ :|-]*$/gm) || []).length, name);
    assert.equal(await o.page.locator('article pre').count(), (text.match(/^```\w+$/gm) || []).length + (text.match(/^\n {4}|\n\n {4}/gm) || []).length, name);
    const lost = await o.page.locator('article a[href^="#book/"]').evaluateAll((all) => all.map((a) => a.hash.split('/')).filter(([, , id]) => id && !document.getElementById(id)));
    assert.deepEqual(lost, [], name);
  }
  await o.page.fill('#words', 'AMX tile');
  await o.page.locator('nav li a').first().waitFor();
  await o.close();
});

test('the page is small', async () => {
  const o = await open();
  await o.view('machine');
  const files = [...new Set(o.asked.filter((u) => u === `${PAGE}/` || u.includes('/web/')))];
  assert.ok(files.length > 8);
  const sizes = await Promise.all(files.map(async (f) => +(await fetch(f, {method: 'HEAD', headers: {'Accept-Encoding': 'gzip', Accept: 'text/html'}})).headers.get('content-length')));
  assert.ok(sizes.reduce((a, b) => a + b) < 40000, `${sizes}`);
  await o.close();
});

// What a person meets at /: in a browser, at two widths and in both colour schemes.
import assert from 'node:assert';
import {execFileSync} from 'node:child_process';
import {readdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import test from 'node:test';
import {fill, inOrder, isPlain, typeOf} from '../../api/web/pages/samples.js';

const require = createRequire(new URL('../../.deps/npm/node_modules/', import.meta.url));
const {chromium} = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');
const {PAGE, CHROMIUM, MODEL} = process.env;
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
    const title = {try: 'Try it', api: 'API'}[name.split('/')[0]] || name[0].toUpperCase() + name.slice(1).split('/')[0];
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
  return violations.filter((x) => ['serious', 'critical'].includes(x.impact)).map((x) => [x.id, x.nodes[0].html, x.nodes[0].failureSummary]);
}

const askModel = () => post('/v2/models/scores/infer', '{"inputs":[{"name":"x","shape":[2,3],"datatype":"FP32","data":[1,2,3,4,5,6]}]}');
const putModel = () => fetch(`${PAGE}/v1/models/scores`, {method: 'PUT', body: readFileSync(MODEL), headers: {'Content-Type': 'application/octet-stream'}});

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
      for (const v of [...VIEWS, 'models']) {
        await o.view(v);
        if (v === 'models') await o.page.locator('summary').click();
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
  for (const v of [...VIEWS, 'models']) {
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
      for (const v of [...VIEWS, 'models', 'api/softmax.int']) {
        await o.view(v, v === 'tensors' ? 'table' : v.startsWith('api/') ? '[id="softmax.int"][open] pre' : 'h1');
        if (v.startsWith('try')) {
          await o.page.locator('button[type=submit]').click();
          await o.page.locator('h2', {hasText: 'Candidates'}).waitFor();
        }
        if (v === 'models') {
          for (let i = 0; i < 2; i++) await askModel(); // the second makes a plan
          await o.page.locator('summary').click();
          await o.page.locator('td', {hasText: /^softmax/}).first().waitFor();
        }
        assert.ok(await o.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${v} is wider than ${width} px`);
        assert.deepEqual(await barriers(o.page), [], v);
      }
      await o.close();
      await fetch(`${PAGE}/v1/models/scores`, {method: 'DELETE'});
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

test('models are shown as soon as there are any', async () => {
  const o = await open(), link = o.page.locator('a[href="#models"]'), at = `${PAGE}/v1/models/scores`;
  assert.equal(await link.isVisible(), false);
  assert.equal((await putModel()).status, 201);
  await o.page.reload();
  await link.click();
  const card = o.page.locator('section', {has: o.page.locator('h2', {hasText: 'scores'})});
  await card.filter({hasText: /format\s*onnx.*nodes\s*4.*calls\s*0.*x\s*FP32\s*any × 3.*y\s*FP32\s*any × 3/s}).waitFor();
  await o.page.locator('section', {hasText: /Budget.* of .*GiB/}).waitFor();
  await card.locator('summary', {hasText: 'Its plan'}).click();
  await card.locator('p', {hasText: 'None yet'}).waitFor();
  assert.equal((await askModel()).status, 200);
  await card.filter({hasText: /calls\s*1.*a call\s*[\d.]+ [µm]s/s}).waitFor();
  assert.ok(await card.locator('details[open]').count(), 'what was open is closed');
  assert.equal((await askModel()).status, 200);
  await card.locator('summary').click();
  await card.locator('summary').click();
  await card.locator('h3', {hasText: /^FP32 2 × 3$/}).first().waitFor();
  await card.locator('li', {hasText: /^clean did \d/}).first().waitFor();
  const last = await card.locator('table').last().locator('tr').last().locator('td').allTextContents();
  assert.match(last.join('|'), /^[^|]+\|softmax[.\w]*\|(simd|ref) \w+\|FP32 2 × 3\|[\d.]+ [µm]s$/);
  assert.deepEqual(await barriers(o.page), []);
  await fetch(at, {method: 'DELETE'});
  await o.page.locator('p', {hasText: 'None yet'}).waitFor();
  await o.close();
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

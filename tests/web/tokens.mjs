// What a person meets at / where the server asks for tokens, over TLS, and where it asks nobody. The browser does not know
// the authority of tests.
import assert from 'node:assert';
import {readFileSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import test from 'node:test';

const require = createRequire(new URL('../../.deps/npm/node_modules/', import.meta.url));
const {chromium} = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');
const {PAGE, INSECURE, CHROMIUM, TOKENS, READER, RUNNER, USER, KEEPER} = process.env;

const browser = await chromium.launch({executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage']});
test.after(() => browser.close());

async function open(at = PAGE, hash = '') {
  const context = await browser.newContext({viewport: {width: 1440, height: 900}, ignoreHTTPSErrors: true});
  const page = await context.newPage(), wrong = [], sent = [];
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && !m.text().includes('401') && wrong.push(m.text()));
  page.on('pageerror', (e) => wrong.push(String(e)));
  page.on('request', (r) => { sent.push([r.url(), r.headers().authorization]); if (!r.url().startsWith(at)) wrong.push(r.url()); });
  await page.goto(`${at}/${hash}`);
  return {page, context, sent, async use(secret) {
    await page.locator('#token').fill(secret);
    await page.locator('button[type=submit]').click();
  }, views: () => page.locator('#views a:visible').allTextContents(), async close() {
    assert.deepEqual(wrong, []);
    await context.close();
  }};
}

test('it asks for a token, says what is wrong with one, keeps it for the tab alone, and forgets it', async () => {
  const o = await open();
  await o.page.locator('h1', {hasText: 'Token'}).waitFor();
  await o.page.evaluate(readFileSync(axe, 'utf8'));
  const {violations} = await o.page.evaluate(() => window.axe.run({resultTypes: ['violations']}));
  assert.deepEqual(violations.filter((x) => ['serious', 'critical'].includes(x.impact)).map((x) => x.id), []);
  await o.use('nosuch');
  await o.page.locator('.problem', {hasText: 'no such token'}).waitFor();
  await o.use(USER);
  await o.page.locator('h1', {hasText: 'Machine'}).waitFor();
  await o.page.locator('#who', {hasText: 'as USER'}).waitFor();
  assert.deepEqual(await o.page.evaluate(() => [sessionStorage.length, localStorage.length, document.cookie]), [1, 0, '']);
  await o.page.reload();
  await o.page.locator('h1', {hasText: 'Machine'}).waitFor();
  const asked = o.sent.filter(([url, token]) => token === `Bearer ${USER}`).map(([url]) => url);
  assert.ok(asked.some((url) => url.endsWith('/metrics')) && !asked.some((url) => url.includes('/web/')), `${asked}`);
  const other = await o.context.newPage(); // another tab has none
  await other.goto(PAGE);
  await other.locator('h1', {hasText: 'Token'}).waitFor();
  await o.page.locator('#who button').click();
  await o.page.locator('h1', {hasText: 'Token'}).waitFor();
  assert.equal(await o.page.evaluate(() => sessionStorage.length), 0);
  await o.close();
});

test('it shows what the scopes allow', async () => {
  const book = ['API', 'Book'], look = ['Machine', 'Pools', 'Operators', 'Dispatch', 'Tensors', 'Models'];
  for (const [secret, views, drops, runs] of [[READER, [...look, ...book], 0, 0], [RUNNER, book, 0, 0],
    [USER, ['Machine', 'Pools', 'Operators', 'Try it', 'Dispatch', 'Tensors', 'Models', ...book], 0, 1],
    [KEEPER, ['Machine', 'Pools', 'Operators', 'Try it', 'Dispatch', 'Tensors', 'Models', ...book], 1, 1]]) {
    const o = await open();
    await o.use(secret);
    await o.page.locator('#who', {hasText: 'as'}).waitFor();
    assert.deepEqual((await o.views()).sort(), views.sort());
    if (views.includes('Models')) {
      await o.page.evaluate(() => { location.hash = 'models'; });
      await o.page.locator('section.model').waitFor();
      assert.equal(await o.page.locator('section.drop').count(), drops);
      await o.page.evaluate(() => { location.hash = 'model/scores'; });
      await o.page.locator('h2', {hasText: 'Ports'}).waitFor();
      assert.deepEqual([await o.page.locator('button.danger').count(), await o.page.locator('h2', {hasText: 'Run it'}).count()], [drops, runs]);
    } else {
      await o.page.locator('h1', {hasText: 'API'}).waitFor();
    }
    await o.close();
  }
});

test('an operator runs with the token, and the call for elsewhere has a place for one', async () => {
  const o = await open(PAGE, '#try/softmax.int');
  await o.use(USER);
  await o.page.locator('h1', {hasText: 'Try it'}).waitFor();
  await o.page.locator('button[type=submit]').click();
  await o.page.locator('h2', {hasText: 'Result'}).waitFor();
  const text = await o.page.locator('pre[aria-label=curl]').textContent();
  assert.ok(text.includes('Authorization: Bearer $TOKEN') && !text.includes(USER), text);
  await o.close();
});

test('a token that is removed meanwhile is asked for anew', async () => {
  const o = await open();
  await o.use(READER);
  await o.page.locator('h1', {hasText: 'Machine'}).waitFor();
  const before = readFileSync(TOKENS, 'utf8');
  try {
    writeFileSync(TOKENS, before.split('\n').filter((line) => !line.startsWith('READER')).join('\n'));
    await o.page.locator('h1', {hasText: 'Token'}).waitFor();
    await o.use(USER);
    await o.page.locator('#who', {hasText: 'as USER'}).waitFor();
  } finally {
    writeFileSync(TOKENS, before);
  }
  await o.close();
});

test('a server that asks nobody says so', async () => {
  const o = await open(INSECURE);
  await o.page.locator('#insecure', {hasText: 'other machines may reach it'}).waitFor();
  assert.equal(await o.page.locator('#token').count(), 0);
  await o.close();
});

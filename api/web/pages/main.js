// The views and the way between them: #VIEW or #VIEW/OPERATOR in the address.
import {h} from './dom.js';
import {ask, once, watch} from './server.js';
import * as machine from './machine.js';
import * as pools from './pools.js';
import * as operators from './operators.js';
import * as attempt from './try.js';
import * as dispatch from './dispatch.js';
import * as tensors from './tensors.js';
import * as models from './models.js';
import * as api from './reference.js';
import * as book from './book.js';

const views = {machine, pools, operators, try: attempt, dispatch, tensors, models, api, book};
const later = {model: () => import('./model.js')}; // it is large, and loaded when it is looked at
const main = document.getElementById('main'), alarm = document.getElementById('alarm');
let shown = 0;

function say(text) {
  if (alarm.textContent !== text) alarm.textContent = text;
  alarm.hidden = !text;
}

async function show() {
  const [name, ...args] = decodeURIComponent(location.hash.slice(1)).split('/');
  const mine = ++shown, view = views[name] || await later[name]?.() || (location.pathname === '/docs' ? api : machine);
  if (mine !== shown) return;
  for (const a of document.querySelectorAll('#views a'))
    if (views[a.hash.slice(1)] === (views[view.under] || view)) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  watch([], null, null);
  try {
    const parts = await view.open(...args);
    if (mine !== shown) return;
    say('');
    document.title = `${view.title} · tensord`;
    main.replaceChildren(h('h1', null, view.title), ...parts.flat(9));
    if (view.paths) watch(view.paths, view.draw, say);
  } catch (e) {
    say(e.message);
  }
}

document.getElementById('skip').addEventListener('click', (e) => { e.preventDefault(); main.focus(); });
window.addEventListener('hashchange', () => { show().then(() => { main.focus({preventScroll: true}); if (!document.querySelector('main details[open]')) scrollTo(0, 0); }); });
show();
once('/v1/isa').then(async (isa) => {
  const {version} = await ask('/v1');
  document.getElementById('host').textContent = `${version} on ${isa.cpu.model}, ${isa.cpu.uarch}`;
}).catch((e) => say(e.message));

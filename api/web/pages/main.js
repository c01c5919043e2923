// The views and the way between them: #VIEW or #VIEW/OPERATOR in the address.
import {h} from './dom.js';
import {enter, guarded, may} from './access.js';
import {ask, carry, once, watch} from './server.js';
import * as machine from './machine.js';
import * as pools from './pools.js';
import * as operators from './operators.js';
import * as attempt from './try.js';
import * as dispatch from './dispatch.js';
import * as tensors from './tensors.js';
import * as models from './models.js';
import * as api from './reference.js';
import * as book from './book.js';

const needs = {machine: ['read'], pools: ['read'], operators: ['read'], try: ['read', 'run'], dispatch: ['read'], tensors: ['read'], models: ['read']}; // others none
const views = {machine, pools, operators, try: attempt, dispatch, tensors, models, api, book};
const later = {model: () => import('./model.js')}; // it is large, and loaded when it is looked at
const main = document.getElementById('main'), alarm = document.getElementById('alarm');
let shown = 0, focusSearch = false;

/** status 401: the token is none any more. */
function say(text, status) {
  if (status === 401 && guarded()) return begin();
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
    say(e.message, e.status);
  }
}

/** Shows what the token allows; without one that the server knows, the form that asks for it. */
async function begin() {
  watch([], null, null);
  say('');
  const {insecure, name} = await enter(main);
  const all = [...document.querySelectorAll('#views a')];
  for (const a of all) a.hidden = !(needs[a.hash.slice(1)] || []).every(may);
  document.getElementById('insecure').hidden = !insecure;
  document.getElementById('who').replaceChildren(...(name ? [`as ${name} `, h('button.quiet', {type: 'button', onclick: () => { carry(''); location.reload(); }}, 'Forget the token')] : []));
  const asked = location.hash.slice(1).split('/')[0] || 'machine';
  if (all.some((a) => a.hidden && a.hash.slice(1) === asked)) location.hash = all.find((a) => !a.hidden).hash;
  show();
  if (!may('read')) return;
  const isa = await once('/v1/isa'), {version} = await ask('/v1');
  document.getElementById('host').textContent = `${version} on ${isa.cpu.model}, ${isa.cpu.uarch}`;
}

/** The key /: the search of the view, or the operators'. */
window.addEventListener('keydown', (e) => {
  if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, textarea, select, dialog, [contenteditable]')) return;
  e.preventDefault();
  const search = main.querySelector('input[type=search]');
  if (search) return search.focus();
  focusSearch = true;
  location.hash = '#operators';
});
document.getElementById('skip').addEventListener('click', (e) => { e.preventDefault(); main.focus(); });
window.addEventListener('hashchange', () => { show().then(() => { (focusSearch && main.querySelector('input[type=search]') || main).focus({preventScroll: true}); focusSearch = false; if (!document.querySelector('main details[open]')) scrollTo(0, 0); }); });
begin().catch((e) => say(e.message));

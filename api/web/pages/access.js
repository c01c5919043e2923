// Who looks: the token that the server may ask for, kept for this tab alone, and what it allows.
import {h} from './dom.js';
import {ask, carry} from './server.js';

let mine = {tokens: false, scopes: []};

/** Whether the token, or anybody where none is asked for, may do what the scope is for. */
export const may = (scope) => mine.scopes.includes(scope);
/** Whether calls from elsewhere need a token, too. */
export const guarded = () => mine.tokens;

/** The form that asks for a token; settled once there is one to try. */
function signIn(place, problem) {
  return new Promise((given) => {
    const input = h('input.mono', {id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true, autofocus: true});
    place.replaceChildren(h('h1', null, 'Token'), h('form.card', {onsubmit: (e) => { e.preventDefault(); carry(input.value.trim()); given(); }},
      h('p', null, 'This server asks for a token. It is sent with what this page asks, and kept until the tab is closed.'),
      problem && h('p.problem', {role: 'alert'}, problem),
      h('div.fields', null, h('div', null, h('label', {for: 'token'}, 'Secret of the token'), input)),
      h('div.row', null, h('button', {type: 'submit'}, 'Use it'), h('a', {href: '/docs#book/access.md'}, 'What tokens are'))));
    input.focus();
  });
}

/** Asks until the server knows the token, or asks for none; gives what it says (GET /v1/access). */
export async function enter(place) {
  for (let tried = carry() !== null; ; tried = true) {
    try {
      return mine = await ask('/v1/access');
    } catch (e) {
      if (e.status !== 401) throw e;
      carry('');
      await signIn(place, tried && e.message);
    }
  }
}

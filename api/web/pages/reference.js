// /openapi.json for people: operations by tag, their parameters, bodies, replies and examples.
import {guarded} from './access.js';
import {curl, h, json, toCopy} from './dom.js';
import {once} from './server.js';
import {inline, markdown} from './markdown.js';

export const title = 'API';
let api;

/** What a node refers to, and what it says beside that, which comes first. */
function resolve(node) {
  if (!node?.$ref) return node;
  const {$ref, ...own} = node, of = resolve($ref.slice(2).split('/').reduce((at, part) => at?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], api));
  return own.properties ? {...of, ...own, properties: {...own.properties, ...of.properties, ...own.properties}} : of;
}
const nameOf = (node) => node?.$ref?.split('/').pop();

function typeOf(schema) {
  const s = resolve(schema) || {};
  if (s.const !== undefined) return JSON.stringify(s.const);
  if (s.enum) return s.enum.length > 12 ? `one of ${s.enum.length} words` : s.enum.map((v) => JSON.stringify(v)).join(' | ');
  if (s.type === 'array' || s.items) return `array of ${nameOf(s.items) || typeOf(s.items)}`;
  const some = s.anyOf || s.oneOf;
  if (some) return some.length > 6 ? `one of ${some.length} forms` : some.map((v) => nameOf(v) || typeOf(v)).join(' | ');
  return [s.type || (s.properties ? 'object' : 'anything')].flat().join(' | ');
}

function limits(s) {
  return ['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems', 'pattern', 'default'].filter((k) => s[k] !== undefined)
    .map((k) => `${k} ${JSON.stringify(s[k])}`).join(', ');
}

/** A schema's members, those that have members of their own behind a fold that is filled when opened. */
function members(schema, seen = []) {
  const s = resolve(schema) || {}, name = nameOf(schema);
  if (name && seen.includes(name)) return h('p.soft', null, `${name}, as above`);
  const inside = name ? [...seen, name] : seen;
  if (s.items) return members(s.items, inside);
  const some = s.anyOf || s.oneOf;
  if (some?.length > 12) return h('p.soft', null, 'Any of the ', h('a', {href: '#operators'}, 'operators'), ', each with its arguments.');
  const all = Object.assign({}, ...(s.allOf || []).map((x) => resolve(x).properties), s.properties);
  const required = [...(s.allOf || []).flatMap((x) => resolve(x).required || []), ...(s.required || [])];
  if (!Object.keys(all).length) return some ? h('div', null, some.map((x) => (resolve(x).title || x.$ref ? fold(h('b', null, resolve(x).title || nameOf(x)), () => [members(x, inside)]) : members(x, inside)))) : h('p.soft', null, typeOf(schema));
  return h('ul.members', null, Object.entries(all).filter(([, value]) => value !== false).map(([key, value]) => {
    const v = resolve(value) || {}, deep = v.properties || v.allOf || v.items?.properties || (v.items && resolve(v.items)?.properties);
    const line = [h('code', null, h('b', null, key)), ' ', h('span.soft', null, `${nameOf(value) || typeOf(value)}${required.includes(key) ? ', must be there' : ''}`),
      limits(v) && h('span.soft', null, `; ${limits(v)}`), (value.description || v.description) && h('span', null, ' — ', inline(value.description || v.description))];
    return h('li', null, deep ? fold(line, () => [members(value, inside)]) : line);
  }));
}

function fold(summary, fill) {
  const e = h('details', {ontoggle: () => e.open && e.children.length === 1 && e.append(...[fill()].flat())}, h('summary', null, h('span', null, summary)));
  return e;
}

/** What a body is, in each media type; call: as what a shell takes an example of it. */
function content(body, call) {
  return Object.entries(body?.content || {}).map(([media, {schema, example, examples}]) => {
    const all = [...Object.entries(examples || {}).map(([name, x]) => [name, resolve(x).value]), ['', example]].filter(([, x]) => x !== undefined);
    return h('div', null, h('p.small', null, 'As: ', h('code', null, media)), schema && members(schema), all.map(([name, x]) => {
      const text = typeof x === 'string' ? x : json(x), asCall = call && media === 'application/json';
      return toCopy(`Example${name && `, ${name}`}${asCall ? ', as a call by curl' : ''}`, asCall ? call(text) : text);
    }));
  });
}

function operation(method, path, item, op) {
  const parameters = [...(item.parameters || []), ...(op.parameters || [])].map(resolve);
  const e = h('details', {id: op.operationId, ontoggle: () => e.open && e.children.length === 1 && e.append(h('div.inner', null,
    op.description && markdown(op.description),
    parameters.length > 0 && [h('h3', null, 'Parameters'), h('ul.members', null, parameters.map((p) => h('li', null, h('code', null, h('b', null, p.name)), ' ',
      h('span.soft', null, `in the ${p.in}, ${typeOf(p.schema)}${p.required ? ', must be there' : ''}`), p.description && [' — ', inline(p.description)])))],
    op.requestBody && [h('h3', null, 'Body'), content(resolve(op.requestBody), (text) => curl(method.toUpperCase(), location.origin + path, text, guarded()))],
    h('h3', null, 'Replies'), Object.entries(op.responses).map(([status, r]) => fold([h('b', null, status), ' ', inline(resolve(r).description || '')], () => {
      const parts = content(resolve(r));
      return parts.length ? parts : [h('p.soft', null, 'Nothing in its body.')];
    })),
    h('p', null, h('a', {href: `#api/${op.operationId}`}, 'Link to this'), op.tags[0] === 'calls' && [', ', h('a', {href: `#try/${op.operationId}`}, 'try it')])))},
  h('summary', null, h('b', null, h('span.verb', null, method.toUpperCase()), ` ${path}`), h('span', null, op.summary), h('em', null, op['x-stability'] || '')));
  e.words = `${method} ${path} ${op.summary} ${op.description || ''} ${op.operationId}`.toLowerCase();
  return e;
}

export async function open(wanted) {
  api = await once('/openapi.json');
  const all = [], found = h('p.soft.small', {role: 'status'});
  const tags = api.tags.map((tag) => {
    const own = Object.entries(api.paths).flatMap(([path, item]) => ['get', 'put', 'post', 'delete'].filter((m) => item[m]?.tags.includes(tag.name)).map((m) => operation(m, path, item, item[m])));
    all.push(...own);
    return h('section.card', {id: `about-${tag.name}`}, h('h2', null, tag.name), h('p.soft', null, tag.description), own.length < 50 ? own :
      h('details.many', null, h('summary', null, `All ${own.length}; or search for one above`), own));
  });
  const search = h('input', {id: 'call', type: 'search', placeholder: 'a path, a method, a word', oninput: filter});
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const e of all) e.hidden = !words.every((w) => e.words.includes(w));
    for (const s of tags) s.hidden = ![...s.querySelectorAll('details[id]')].some((e) => !e.hidden);
    for (const e of document.querySelectorAll('details.many')) e.open ||= words.length > 0;
    found.textContent = `${all.filter((e) => !e.hidden).length} of ${all.length} operations`;
  }
  filter();
  const one = all.find((e) => e.id === wanted) || tags.find((e) => e.id === `about-${wanted}`);
  if (one) requestAnimationFrame(() => { one.closest('.many')?.setAttribute('open', ''); one.open = true; one.scrollIntoView(); });
  return [h('p', null, api.info.summary, ` Version ${api.info.version}; the same as `, h('a', {href: '/openapi.json'}, 'JSON'), ' and ', h('a', {href: '/openapi.yaml'}, 'YAML'), '. How things work: the ', h('a', {href: '#book'}, 'book'), '.'),
    h('div.fields', null, h('div', null, h('label', {for: 'call'}, 'Search'), search)),
    h('p', null, api.tags.map((tag) => [h('a', {href: `#api/${tag.name}`}, tag.name), ' '])), found, tags,
    h('section.card', null, h('h2', null, 'What holds for all'), markdown(api.info.description, undefined, (level, words) => h('h3', null, words))),
    h('section.card', null, h('h2', null, 'Errors'), h('p', null, 'Each is a problem (RFC 9457): '), members({$ref: '#/components/schemas/Problem'}))];
}

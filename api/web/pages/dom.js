// Elements by short words, and figures as people read them.

/** h('td.n', {title: 'x'}, 'text', more...): an element; null and false children are left out. */
export function h(kind, attributes, ...children) {
  const [tag, ...classes] = kind.split('.');
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes || {}))
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, '');
    else if (value !== null && value !== false && value !== undefined) e.setAttribute(name, value);
  e.append(...children.flat(9).filter((c) => c !== null && c !== false && c !== undefined));
  return e;
}

export const chips = (words, on) => words.map((w) => h(on?.(w) ? 'span.chip.on' : 'span.chip', null, w));

/** A table that can be scrolled by keyboard. Columns that begin with # are numbers. */
export function table(label, columns, rows) {
  const kind = (i, tag) => (columns[i].startsWith('#') ? tag + '.n' : tag);
  return h('div.scroll', {tabindex: 0, role: 'region', 'aria-label': label}, h('table', null,
    h('thead', null, h('tr', null, columns.map((c, i) => h(kind(i, 'th'), {scope: 'col'}, c.replace('#', ''))))),
    h('tbody', null, rows.map((r) => h('tr', null, r.map((c, i) => h(kind(i, 'td'), null, c)))))));
}

/** A call as a shell takes it; guarded: with the token of its variable TOKEN. */
export const curl = (method, url, body, guarded) => `curl -s ${method === 'POST' ? '' : `-X ${method} `}${url}${guarded ? ' -H "Authorization: Bearer $TOKEN"' : ''} -d '${body.replaceAll("'", "'\\''")}'`;

/** Text with a button that copies it, or only selects it where a browser has no clipboard for pages. */
export function toCopy(name, text) {
  const pre = h('pre', {tabindex: 0, 'aria-label': name}, text);
  const button = h('button.quiet', {type: 'button', 'aria-label': `Copy: ${name}`, onclick: async () => {
    getSelection().selectAllChildren(pre);
    await navigator.clipboard?.writeText(text);
    button.removeAttribute('aria-label');
    button.textContent = navigator.clipboard ? 'Copied' : 'Selected';
  }}, 'Copy');
  return h('div', null, h('div.row', null, h('h3', null, name), button), pre);
}

/** A value as JSON that is easy to read: what is short stays in a line. */
export function json(value, indent = '') {
  const line = JSON.stringify(value), inner = indent + ' ';
  if (value === null || typeof value !== 'object' || indent.length + line.length < 80) return line;
  const parts = Array.isArray(value) ? value.map((v) => json(v, inner)) : Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${json(v, inner)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return value.length && typeof value[0] !== 'object' ? `${open}${parts.join(', ')}${close}` : `${open}${parts.join(`,\n${inner}`)}${close}`;
}

export const tile = (name) => {
  const value = h('dd', null, '–');
  const e = h('dl.tile', null, h('dt', null, name), value);
  return {e, set: (text, small) => value.replaceChildren(text, small ? h('small', null, small) : '')};
};

export function bar(share) {
  const i = h('i');
  const e = h('div.bar', {'aria-hidden': 'true'}, i);
  const set = (v) => i.style.setProperty('--v', `${Math.min(100, 100 * v || 0).toFixed(1)}%`);
  set(share);
  return {e, set};
}

/** [[name, value], ...] as a list of facts; those that are false are left out. */
export const facts = (list) => h('dl.facts', null, list.filter(Boolean).map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));

/** A port's or result's sizes. */
export const shape = (sizes) => sizes.map((n) => (n === -1 ? 'any' : n)).join(' × ') || 'one number';

/** A model's inputs and outputs. */
export const portTable = ({name, inputs, outputs}) => table(`Inputs and outputs of ${name}`, ['Name', 'Port', 'Type', 'Shape'],
  [['input', inputs], ['output', outputs]].flatMap(([what, all]) => all.map((p) => [h('code', null, p.name), what, p.datatype || '', shape(p.shape)])));

/** Asks before something is done; the answer is what the promise gives. */
export function confirm(question, words, yes) {
  return new Promise((answer) => {
    const close = (said) => { dialog.close(); dialog.remove(); answer(said); };
    const dialog = h('dialog', {'aria-labelledby': 'question', oncancel: (e) => { e.preventDefault(); close(false); }}, h('h2', {id: 'question'}, question), h('p', null, words),
      h('div.row', null, h('button.quiet', {type: 'button', autofocus: true, onclick: () => close(false)}, 'Keep it'), h('button.danger', {type: 'button', onclick: () => close(true)}, yes)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A file's name as a model may be called. */
export const nameOf = (file) => file.replace(/\.(onnx|pt2|json)$/i, '').replace(/[^\w.-]+/g, '_').replace(/^(op\.|\.+)/, '').slice(0, 200) || 'model';

/** A number with three digits that count. */
export const digits = (v) => (Math.abs(v) >= 1000 ? Math.round(v).toLocaleString('en') : String(+(+v).toPrecision(3)));
export function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB'])
    if (n < 1023.5 || unit === 'GiB') return `${digits(n)} ${unit}`;
    else n /= 1024;
}
export function time(us) {
  return us < 999.5 ? `${digits(us)} µs` : us < 999500 ? `${digits(us / 1000)} ms` : `${digits(us / 1e6)} s`;
}
export const count = (n) => Math.round(n).toLocaleString('en');
export const percent = (v) => `${Math.round(100 * v || 0)} %`;

/** "0-2,5" as [0, 1, 2, 5]. */
export function cpus(text) {
  return text.split(',').filter(Boolean).flatMap((part) => {
    const [from, to = from] = part.split('-').map(Number);
    return Array.from({length: to - from + 1}, (_, i) => from + i);
  });
}

/** A field that offers the names of all operators. */
export function operatorField(ops, value, onchange) {
  const list = h('datalist', {id: 'names'}, ops.map((o) => h('option', {value: o.name}, o.doc)));
  const input = h('input.mono', {list: 'names', id: 'op', autocomplete: 'off', spellcheck: 'false', onchange: () => onchange(input.value.trim())});
  input.value = value;
  return h('div', null, h('label', {for: 'op'}, `Operator, of ${ops.length}`), input, list);
}

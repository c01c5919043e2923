// Arguments to begin with, from an operator's samples: "self=[m,n] dim=1 index=[m,k]:i64<n" says
// shapes by letters, a type behind a colon, a bound behind <.
const sizes = {n: 4, m: 5, k: 2};
const size = (text) => sizes[text] ?? (/^[a-z]$/.test(text) ? 2 : +text);

/** Nested arrays as text, a row of the last dimension a line. */
function write(shape, value, at = {i: 0}, indent = '') {
  if (!shape.length) return value(at.i++);
  const rows = Array.from({length: shape[0]}, () => write(shape.slice(1), value, at, indent + ' '));
  return shape.length === 1 ? `[${rows.join(', ')}]` : `[${rows.join(`,\n${indent} `)}]`;
}

function tensor(text, dtypes) {
  const [, dims, type = '', bound] = text.match(/^\[(.*?)\](?::(\w+))?(?:<(\w+))?$/);
  const shape = dims ? dims.split(',').map(size) : [];
  const whole = type.startsWith('i') || (!type && !dtypes.includes('FP32') && dtypes.some((t) => t.includes('INT')));
  const truth = type === 'bool' || (!type && !whole && !dtypes.includes('FP32'));
  return write(shape, (i) => (truth ? String(i % 3 !== 1) : whole ? String((i * 5 + 1) % (bound ? size(bound) : 7)) : (((i * i * 3 + i * 7 + 5) % 13) / 4 - 1).toFixed(2)));
}

const parts = (sample) => sample.split(' ').filter((p) => p.includes('=')).map((p) => [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)]);

function plain(text, type) {
  if (/^(True|False)$/.test(text)) return text.toLowerCase();
  if (text === 'None') return 'null';
  if (text.startsWith('[')) return text.replace(/[A-Za-z]+/g, (w) => (/^(True|False)$/.test(w) ? w.toLowerCase() : size(w)));
  if (/^[a-z]$/.test(text) && !/str/.test(type)) return String(size(text));
  return isNaN(text) ? JSON.stringify(text) : text;
}

/** {argument: text of its JSON} of a sample. */
export function fill(op, sample) {
  const types = Object.fromEntries(op.arguments.map((a) => [a.name, a.type]));
  return Object.fromEntries(parts(sample).map(([name, text]) => {
    const type = types[name] || '';
    if (!type.startsWith('Tensor') || !/^(\[|None\|)/.test(text)) return [name, plain(text, type)];
    return [name, type.includes('[') ? `[${text.split('|').map((t) => (t === 'None' ? 'null' : tensor(t, op.dtypes))).join(',\n')}]` : tensor(text, op.dtypes)];
  }));
}

/** The type to say, where neither FP32 nor INT64 will do and no argument says it. */
export const typeOf = (op) => (op.dtypes.some((t) => /FP32|INT64/.test(t)) || op.arguments.some((a) => a.name === 'dtype') ? '' : op.dtypes.find((t) => t.includes('INT')) || '');

/** Whether plain arrays can say it: they are FP32 and INT64, or all of one type that no argument is called. */
export function isPlain(op, sample) {
  const usual = op.dtypes.some((t) => /FP32|INT64/.test(t));
  return (usual && !sample.includes(':INT8')) || (Boolean(typeOf(op)) && !/:[a-z]+\d/.test(sample));
}

/** Samples, those that are easy to look at first. */
export function inOrder(op) {
  const weight = (s) => { const n = Object.values(fill(op, s)).join().length; return (/\w=\[\]/.test(s) ? 2000 : 0) + (/dtype=/.test(s) ? 900 : 0) + (isPlain(op, s) ? 0 : 4000) + (n < 24 ? 1000 - n : n); };
  return [...op.samples].sort((a, b) => weight(a) - weight(b));
}

// Markdown as the pages of docs/ and the descriptions in /openapi.json are written in it.
import {h} from './dom.js';

export const anchor = (text) => text.toLowerCase().replace(/[^\w]+/g, '-').replace(/^-|-$/g, '');

/** Text with `code`, **bold**, *soft words* and [links](to); link(to) says where one leads, null: nowhere. */
export function inline(text, link = (to) => to) {
  const parts = [];
  let at = 0;
  for (const m of text.matchAll(/`([^`]+)`|\*\*(.+?)\*\*|\*([^*\s][^*]*)\*|(!?)\[([^\]]*)\]\(([^)\s]+)\)/g)) {
    parts.push(text.slice(at, m.index));
    at = m.index + m[0].length;
    const [, code, bold, soft, image, words, to] = m;
    if (code) parts.push(h('code', null, code));
    else if (bold) parts.push(h('b', null, inline(bold, link)));
    else if (soft) parts.push(h('em', null, inline(soft, link)));
    else if (image) parts.push(link(to) ? h('img', {src: link(to), alt: words}) : h('span.soft', null, `(picture in docs/${to}: ${words})`));
    else parts.push(link(to) ? h('a', {href: link(to)}, inline(words)) : h('code', null, words.replaceAll('`', '')));
  }
  return [...parts, text.slice(at)];
}

const cells = (line) => line.replace(/^\s*\||\|\s*$/g, '').split(/(?<!\\)\|/).map((c) => c.trim().replaceAll('\\|', '|'));

/** A text's blocks; heads(level, text) makes a heading. */
export function markdown(text, link, heads = (level, words) => h(`h${Math.min(6, level + 1)}`, {id: anchor(words)}, inline(words))) {
  const lines = text.split('\n'), out = [];
  while (lines.length) {
    const line = lines.shift();
    const take = (fits) => { const got = []; while (lines.length && fits(lines[0])) got.push(lines.shift()); return got; };
    const head = line.match(/^(#+) (.*)/), item = line.match(/^\s*([-*]|\d+\.) (.*)/);
    if (!line.trim()) continue;
    if (line.startsWith('```')) {
      out.push(h('pre', {tabindex: 0}, take((l) => !l.startsWith('```')).join('\n')));
      lines.shift();
    } else if (head) {
      out.push(heads(head[1].length, head[2]));
    } else if (/^    /.test(line)) {
      out.push(h('pre', {tabindex: 0}, [line, ...take((l) => /^    |^$/.test(l))].join('\n').replace(/^    /gm, '').trimEnd()));
    } else if (line.startsWith('|')) {
      const [names, , ...rows] = [line, ...take((l) => l.startsWith('|'))].map(cells);
      out.push(h('div.scroll', {tabindex: 0, role: 'region', 'aria-label': names.join(', ')}, h('table', null,
        h('thead', null, h('tr', null, names.map((n) => h('th', {scope: 'col'}, inline(n, link))))),
        h('tbody', null, rows.map((r) => h('tr', null, r.map((c) => h('td', null, inline(c, link)))))))));
    } else if (item) {
      const items = [item[2]];
      for (const l of take((x) => x.trim() && !/^(#|\||```)/.test(x))) {
        const next = l.match(/^\s*([-*]|\d+\.) (.*)/);
        if (next) items.push(next[2]);
        else items[items.length - 1] += ` ${l.trim()}`;
      }
      out.push(h(/\d/.test(item[1]) ? 'ol' : 'ul', null, items.map((i) => h('li', null, inline(i, link)))));
    } else {
      out.push(h('p', null, inline([line, ...take((l) => l.trim() && !/^(#|\||```|\s*[-*] )/.test(l))].join(' '), link)));
    }
  }
  return out;
}

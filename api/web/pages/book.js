// The pages of docs/, one at a time, and a search through all of them.
import {h} from './dom.js';
import {once} from './server.js';
import {anchor, markdown} from './markdown.js';

export const title = 'Book';

/** Where a link of a page leads: a heading of this page, another page, or a picture that is here; sources are not. */
const link = (names, here) => (to) => {
  const [path, part] = to.replace(/^(\.\/|docs\/)/, '').split('#'), file = path || here;
  if (/^https?:/.test(to)) return to;
  if (names.includes(file)) return `#book/${file}${part ? `/${part}` : ''}`;
  return file.endsWith('.svg') ? `/web/${file}` : null;
};

function finder(pages) {
  const hits = h('ul', {'aria-live': 'polite'});
  const search = h('input', {id: 'words', type: 'search', placeholder: 'words in all pages', oninput() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean), found = [];
    for (const {name, text} of pages)
      for (const part of words.length ? text.split(/\n(?=#)/) : [])
        if (words.every((w) => part.toLowerCase().includes(w))) {
          const head = part.match(/^#+ (.*)/)?.[1] || name;
          found.push(h('li', null, h('a', {href: `#book/${name}/${anchor(head)}`}, head), h('span.soft', null, ` in ${name}`)));
        }
    hits.replaceChildren(...found);
  }});
  return h('div', null, h('label', {for: 'words'}, 'Search'), search, hits);
}

export async function open(arg = '', part) {
  const list = await once('/web/book.json');
  const pages = await Promise.all(list.map(async (p) => ({...p, text: await once(`/web/${p.name}`)})));
  const page = pages.find((p) => p.name === arg) || pages[0];
  const body = markdown(page.text, link(list.map((p) => p.name), page.name), (level, words) => {
    const id = anchor(words), e = h(`h${Math.min(6, level + 1)}`, {id}, words, ' ', h('a.soft', {href: `#book/${page.name}/${id}`, 'aria-label': `Link to ${words}`}, '#'));
    return e;
  });
  if (part) requestAnimationFrame(() => document.getElementById(part)?.scrollIntoView());
  return [h('div.pages', null,
    h('nav.card', {'aria-label': 'Pages'}, finder(pages), list.map((p) => h('a', {href: `#book/${p.name}`, 'aria-current': p === list.find((x) => x.name === page.name) && 'page'}, p.title))),
    h('article.card', null, body))];
}

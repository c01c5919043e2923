// A model's plan with what each step reads, which the program of GET /v1/models/{name}/source says.

/** The plans of a program's text: {head: what run( takes, lines: Map step -> its text, reads: Map step -> names, returns}. */
export function parse(text) {
  const plans = [];
  let plan;
  for (const line of text.split('\n')) {
    const step = line.match(/^ {4,8}v(\d+) = ([\w.]+\(.*\)); \/\/ /), run = line.match(/^run\((.*)\)$/), end = line.match(/^ {4}return (.*);$/);
    if (run) plans.push(plan = {inputs: run[1] ? run[1].split(/, (?=[A-Z]+\d*\b)/).map((p) => p.replace(/^\S+ /, '')) : [], lines: new Map(), reads: new Map(), returns: []});
    else if (step) {
      plan.lines.set(+step[1], `v${step[1]} = ${step[2]}`);
      plan.reads.set(+step[1], names(step[2].slice(step[2].indexOf('('))));
    } else if (end) plan.returns = end[1].split(/, (?![^[]*\])/).map((t) => names(t)[0]);
  }
  return plans;
}

/** Words that may be values: not what is called, an argument's name, or in quotes. */
const names = (text) => (text.replace(/'[^']*'/g, '').match(/\b[A-Za-z_]\w*\b(?![(=\w])/g) || []);

/** For graph(): a plan's inputs, steps and outputs, with what each reads; ports: the model's. */
export function program(plan, said, ports) {
  const steps = new Map(plan.steps.map((t) => [t.step, t])), inputs = new Map((said?.inputs || []).map((name, i) => [name, `in${i}`]));
  const read = (words, before) => [...new Set(words)].map((w) => (/^v\d+$/.test(w) && +w.slice(1) < before && steps.has(+w.slice(1)) ? +w.slice(1) : inputs.get(w))).filter((id) => id !== undefined);
  const reads = new Map(plan.steps.map((t) => [t.step, read(said?.reads.get(t.step) || [], t.step)]));
  const used = new Set([...reads.values()].flat());
  return {
    inputs: ports.inputs.map((p, i) => ({id: `in${i}`, name: p.name})).filter((p) => used.has(p.id)),
    outputs: ports.outputs.map((p, i) => ({id: `out${i}`, name: p.name, reads: said?.returns[i] ? read([said.returns[i]], Infinity) : []})).filter((p) => p.reads.length),
    reads, steps: plan.steps,
  };
}

/** Whether the text is of the same plans, which calls change between two questions. */
export const agree = (plans, said) => plans.length === said.length && plans.every((p, i) => p.op_by_op || (p.steps.length === said[i].lines.size && p.steps.every((t) => said[i].lines.has(t.step))));

/** Time by operator, of those that are computed together by all of their names: [{name, us, steps: ids}], the longest first. */
export function shares(plan) {
  const groups = new Map(), rows = new Map();
  for (const t of plan.steps) groups.set(t.with ?? t.step, [...(groups.get(t.with ?? t.step) || []), t]);
  for (const parts of groups.values()) {
    const name = [...new Set(parts.map((t) => t.operator))].join(' + '), row = rows.get(name) || {name, us: 0, steps: new Set()};
    for (const t of parts) {
      row.us += t.us;
      row.steps.add(t.step);
    }
    rows.set(name, row);
  }
  return [...rows.values()].sort((a, b) => b.us - a.us);
}

/** Refusals of all passes, those for one reason together. */
export function refusals(passes) {
  const rows = new Map();
  for (const p of passes) for (const r of p.why) {
    const key = `${p.name}\n${r.why}`, row = rows.get(key) || {pass: p.name, why: r.why, nodes: []};
    row.nodes.push(r.node);
    rows.set(key, row);
  }
  return [...rows.values()];
}

// The fields of a rule, from its JSON Schema: completion, descriptions under the pointer, and a reference.
//
// The position in the document is found from the text alone: by indentation, and within braces by the brackets that are
// open. A parser would need a complete document, and completion is for incomplete ones.

// schema is loaded once, by the first use. Without it there is no completion.
let schema;
function load() {
  schema ??= fetch("/api/v1/schemas/rule", { headers: { Accept: "application/schema+json" } })
    .then((answer) => (answer.ok ? answer.json() : null))
    .catch(() => null);
  return schema;
}

// ITEM stands for any item of a list in a path.
const ITEM = "[]";

const keyLine = /^(\s*)((?:- +)*)([A-Za-z_]\w*):/;

// blockPath returns the path of the mapping with a key at a column of a line. Lines above with less indentation are its
// parents.
function blockPath(doc, number, column, dash) {
  const path = [];
  let sibling = true; // the keys at the column are in the mapping
  if (dash !== undefined) {
    path.unshift(ITEM);
    column = dash;
    sibling = false;
  }
  for (let n = number - 1; n > 0 && (column > 0 || !sibling); n--) {
    const m = keyLine.exec(doc.line(n).text);
    if (!m) continue;
    const indent = m[1].length, at = indent + m[2].length;
    if (at < column || (at === column && !sibling && !m[2])) {
      path.unshift(m[3]);
      column = at;
      sibling = true;
    } else if (at > column || !sibling) {
      continue;
    }
    if (m[2] && at === column) {
      path.unshift(ITEM);
      column = indent;
      sibling = false;
    }
  }
  return path;
}

// openBrackets returns the positions of the brackets that are open at a position, outermost first.
function openBrackets(doc, pos) {
  const line = doc.lineAt(pos);
  let first = line.number;
  while (first > 1 && line.number - first < 50 && !keyLine.test(doc.line(first).text)) first--;
  const from = doc.line(first).from;
  const open = [];
  let quote = "";
  const text = doc.sliceString(from, pos);
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quote) {
      if (c === "\\" && quote === '"') i++;
      else if (c === quote) quote = "";
    } else if ((c === '"' || c === "'") && /[\s,[{:]/.test(text[i - 1] ?? " ")) quote = c;
    else if (c === "#" && /\s/.test(text[i - 1] ?? " ")) {
      const end = text.indexOf("\n", i);
      if (end < 0) break;
      i = end;
    } else if (c === "{" || c === "[") open.push(from + i);
    else if (c === "}" || c === "]") open.pop();
  }
  return quote ? null : open; // in a quoted text there is no field
}

// pathAt returns the path of the mapping at a position. start is the position of the key, or of the word that becomes one.
// It returns null within a quoted text.
function pathAt(doc, start) {
  const open = openBrackets(doc, start);
  if (!open) return null;
  if (!open.length) {
    const line = doc.lineAt(start), before = line.text.slice(0, start - line.from);
    const m = /^(\s*)((?:- +)*)$/.exec(before);
    if (!m) return null;
    return blockPath(doc, line.number, start - line.from, m[2] ? m[1].length : undefined);
  }
  const outer = doc.lineAt(open[0]);
  const head = keyLine.exec(outer.text);
  const item = /^(\s*)- *$/.exec(outer.text.slice(0, open[0] - outer.from));
  let path;
  if (item) path = [...blockPath(doc, outer.number, item[1].length + 2, item[1].length)];
  else if (head) path = [...blockPath(doc, outer.number, head[1].length + head[2].length, head[2] ? head[1].length : undefined), head[3]];
  else return null;
  open.forEach((at, i) => {
    if (i > 0) {
      const key = /([A-Za-z_]\w*):\s*$/.exec(doc.sliceString(open[i - 1] + 1, at));
      if (key) path.push(key[1]);
    }
    if (doc.sliceString(at, at + 1) === "[") path.push(ITEM);
  });
  return path;
}

// variants resolves references and alternatives of a schema.
function variants(root, s) {
  if (!s) return [];
  if (s.$ref) return variants(root, root.$defs[s.$ref.split("/").pop()]);
  return [s, ...["anyOf", "oneOf", "allOf"].flatMap((of) => (s[of] ?? []).flatMap((v) => variants(root, v)))];
}

// schemasAt returns the schemas of the value at a path.
function schemasAt(root, path) {
  return path.reduce(
    (at, step) => at.flatMap((s) => variants(root, step === ITEM ? s.items : s.properties?.[step])),
    variants(root, root),
  );
}

// fieldsAt returns the fields of the mapping at a path, as [name, schema].
function fieldsAt(root, path) {
  return schemasAt(root, path).flatMap((s) => Object.entries(s.properties ?? {}));
}

// about returns the values that a field takes, in words.
function about(root, field) {
  const all = variants(root, field);
  const words = all.flatMap((s) => s.enum ?? []).filter((v) => typeof v === "string");
  const types = [...new Set(all.map((s) => s.type).filter(Boolean))];
  return [words.length ? words.join(" | ") : types.join(" or "), field.default !== undefined ? `default ${JSON.stringify(field.default)}` : ""].filter(Boolean).join(", ");
}

// complete offers fields at the position of a key, and values behind it.
export async function complete(context) {
  const word = context.matchBefore(/[A-Za-z_]\w*$/) ?? { from: context.pos, text: "" };
  if (!word.text && !context.explicit) return null;
  const root = await load();
  if (!root) return null;
  const { doc } = context.state;
  const before = doc.sliceString(doc.lineAt(word.from).from, word.from);
  const value = /([A-Za-z_]\w*): *"?$/.exec(before);
  if (value) {
    const start = doc.lineAt(word.from).from + value.index;
    const path = pathAt(doc, start);
    const all = path ? schemasAt(root, [...path, value[1]]) : [];
    const words = all.flatMap((s) => s.enum ?? (s.type === "boolean" ? [true, false] : []));
    return words.length ? { from: word.from, options: words.map((w) => ({ label: String(w), type: "enum" })) } : null;
  }
  if (!/(^\s*(- +)*|[{,]\s*)$/.test(before)) return null;
  const path = pathAt(doc, word.from);
  if (!path) return null;
  const options = fieldsAt(root, path).map(([name, field]) => ({
    label: name, type: "property", detail: about(root, field), info: field.description, apply: `${name}: `,
  }));
  return options.length ? { from: word.from, options, validFor: /^\w*$/ } : null;
}

// describe returns the field under a position with its description, or null.
export async function describe(view, pos) {
  const line = view.state.doc.lineAt(pos);
  for (const m of line.text.matchAll(/([A-Za-z_]\w*):/g)) {
    const from = line.from + m.index;
    if (pos < from || pos > from + m[1].length) continue;
    const root = await load();
    const path = root && pathAt(view.state.doc, from);
    const found = path && fieldsAt(root, path).find(([name]) => name === m[1]);
    if (!found) return null;
    return {
      pos: from, end: from + m[1].length, above: true,
      create() {
        const dom = document.createElement("div");
        dom.className = "cm-field";
        const name = document.createElement("b");
        name.textContent = found[0];
        dom.append(name, ` ${about(root, found[1])}`, document.createElement("br"), found[1].description ?? "");
        return { dom };
      },
    };
  }
  return null;
}

// <rule-fields> lists all fields of a rule with their descriptions.
customElements.define("rule-fields", class extends HTMLElement {
  async connectedCallback() {
    const root = await load();
    if (!root) return;
    this.append(list(root, root));
  }
});

function list(root, s) {
  const dl = document.createElement("dl");
  for (const [name, field] of variants(root, s).flatMap((v) => Object.entries(v.properties ?? {}))) {
    const term = document.createElement("dt"), text = document.createElement("dd");
    const code = document.createElement("code");
    code.textContent = name;
    term.append(code, ` ${about(root, field)}`);
    text.append(field.description ?? "");
    const inner = variants(root, field).map((v) => (v.items ? v.items : v)).find((v) => variants(root, v).some((u) => u.properties));
    if (inner) text.append(list(root, inner));
    dl.append(term, text);
  }
  return dl;
}

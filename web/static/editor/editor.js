// <rule-editor> turns its textarea into an editor: highlighted YAML, with the errors of the rule at their
// positions while typing, completion of fields and their descriptions. The textarea keeps the text for its form, so the form works without this script.
//
// Tab indents; Escape and then Tab leave the editor, so there is no keyboard trap.
//
// The editor is in a shadow tree: its style is a constructed sheet, allowed by the content security policy
// of the pages. A style element is not allowed.
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, linter } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, highlightSpecialChars, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { complete, describe } from "./fields.js";

const colours = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "var(--link)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--fine)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--critical)" },
  { tag: [tags.comment, tags.meta], color: "var(--faint)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.bracket], color: "var(--faint)" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--card)", border: "1px solid var(--line)", borderRadius: "var(--edge)", fontSize: ".9rem" },
  "&.cm-focused": { outline: "2px solid var(--info)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", maxHeight: "70vh" },
  ".cm-content, .cm-gutter": { minHeight: "22rem" },
  ".cm-content": { caretColor: "var(--ink)", padding: ".6rem 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--faint)", border: "0", borderRadius: "var(--edge) 0 0 var(--edge)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--info) 6%, transparent)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--info) 25%, transparent)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)", maxWidth: "36rem" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap" },
  ".cm-field": { padding: ".4rem .6rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--info)", color: "var(--card)" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: ".8" },
  ".cm-tooltip.cm-completionInfo": { padding: ".4rem .6rem", maxWidth: "22rem" },
});

// problems returns the errors of the text from the node. It returns none if the node does not answer:
// saving reports them again.
async function problems(view) {
  if (!view.state.doc.toString().trim()) return [];
  const answer = await fetch("/api/v1/rules/lint", {
    method: "POST",
    headers: { "Content-Type": "application/yaml", Accept: "application/json" },
    body: view.state.doc.toString(),
  });
  if (!answer.ok) return [];
  return (await answer.json()).problems.map((p) => placed(p, view.state.doc));
}

// placed positions a problem in the text: from its column to the end of the word, or of its line.
function placed(problem, doc) {
  const line = doc.line(Math.min(Math.max(problem.line || 1, 1), doc.lines));
  const from = Math.min(line.from + Math.max((problem.column || 1) - 1, 0), line.to);
  const rest = line.text.slice(from - line.from);
  const word = /^[^\s,{}[\]]+/.exec(rest);
  const to = Math.max(from + (word ? word[0].length : rest.length), Math.min(from + 1, line.to));
  return { from, to, severity: "error", message: problem.location ? `${problem.location}: ${problem.message}` : problem.message };
}

customElements.define("rule-editor", class extends HTMLElement {
  connectedCallback() {
    const area = this.querySelector("textarea");
    if (!area || this.shadowRoot) return;
    const root = this.attachShadow({ mode: "open" });
    root.append(document.createElement("slot"));
    const label = document.querySelector(`label[for="${area.id}"]`);
    area.hidden = true;
    const copyToTextarea = EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      area.value = update.state.doc.toString();
      area.dispatchEvent(new Event("input", { bubbles: true }));
    });
    const view = new EditorView({
      root, parent: root,
      state: EditorState.create({
        doc: area.value,
        extensions: [
          lineNumbers(), lintGutter(), history(), drawSelection(), highlightActiveLine(), highlightSpecialChars(), indentOnInput(), bracketMatching(),
          EditorState.readOnly.of(area.readOnly), EditorState.tabSize.of(2), yaml(), syntaxHighlighting(colours), theme, linter(problems, { delay: 300 }), copyToTextarea,
          EditorView.lineWrapping, autocompletion({ override: [complete] }), hoverTooltip(describe),
          keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": label ? label.textContent : "The rule, as YAML", spellcheck: "false" }),
        ],
      }),
    });
    // The numbers stand beside the lines as these were measured last: wider letters or another width wrap them elsewhere.
    new ResizeObserver(() => view.requestMeasure()).observe(view.contentDOM);
    view.scrollDOM.tabIndex = 0; // a long rule scrolls by keyboard, too
    if (label) label.addEventListener("click", () => view.focus());
    // Elements with data-line jump to that line.
    document.addEventListener("click", (e) => {
      const to = e.target.closest("[data-line]");
      if (!to) return;
      e.preventDefault();
      const line = view.state.doc.line(Math.min(Number(to.dataset.line), view.state.doc.lines));
      const at = Math.min(line.from + Math.max(Number(to.dataset.column) - 1, 0), line.to);
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      view.focus();
    });
  }
});

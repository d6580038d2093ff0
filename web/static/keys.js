// Script of the keyboard: keys for lists and the search field, and suggestions in filter fields.
"use strict";

(() => {
  // The rows of lists, by the link that j and k focus. Enter opens it.
  const links = () => [...document.querySelectorAll("main tbody tr")]
    .map((row) => [...row.querySelectorAll("td a[href]")].find((link) => link.checkVisibility()))
    .filter(Boolean);
  const rowOf = (e) => e?.closest("main tbody tr");

  function move(by) {
    const all = links(), here = rowOf(document.activeElement);
    const at = here ? all.findIndex((link) => rowOf(link) === here) : -1;
    const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
    all[Math.min(Math.max(to, 0), all.length - 1)]?.focus();
  }

  function send(action, fields) {
    const form = document.createElement("form");
    form.method = "post";
    form.action = action;
    for (const [name, value] of fields) form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    document.body.append(form);
    form.submit();
  }

  // act acknowledges or snoozes the selected rows, or the focused row, or the only object of the page.
  function act(verb, action, kind, more) {
    const selected = [...document.querySelectorAll("main tbody tr:has(input:checked)")], here = rowOf(document.activeElement);
    const rows = selected.length > 0 ? selected : [here].filter(Boolean);
    if (rows.length === 0) {
      const buttons = document.querySelectorAll(`.acts-row button[value="${verb}"]`);
      if (buttons.length === 1) buttons[0].click();
      return;
    }
    const ids = rows.map((row) => row.dataset[kind]).filter(Boolean);
    if (ids.length > 0) send(action, [["do", verb], ["back", location.pathname + location.search], ...more, ...ids.map((id) => [kind, id])]);
  }

  const keys = {
    "/": () => document.querySelector("[name=q]")?.focus(),
    "?": () => document.getElementById("keys")?.showModal(),
    j: () => move(1),
    k: () => move(-1),
    a: () => act("ack", "/alerts", "alert", []),
    s: () => act("snooze", "/jobs", "job", [["for", "1h"]]),
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.repeat && !"jk".includes(e.key) || !Object.hasOwn(keys, e.key)) return;
    if (e.target.closest("input:not([type=checkbox]), textarea, select, rule-editor, dialog, [contenteditable]")) return;
    e.preventDefault();
    keys[e.key]();
  });

  // A field with data-suggest lists values that contain its text. The other fields of its form narrow them.
  const pause = 150;
  let timer = 0, newest = 0;
  document.addEventListener("input", (e) => {
    if (!e.target.dataset?.suggest) return;
    clearTimeout(timer);
    timer = setTimeout(suggest, pause, e.target);
  });
  document.addEventListener("focusin", (e) => { if (e.target.dataset?.suggest) suggest(e.target); });

  async function suggest(field) {
    const list = document.getElementById(field.getAttribute("list")), turn = ++newest;
    const query = new URLSearchParams({ field: field.dataset.suggest, text: field.value });
    for (const name of ["rule", "entity"]) {
      const other = field.form?.elements[name];
      if (other?.value && other !== field) query.set(name, other.value);
    }
    try {
      const answer = await fetch(`/suggestions?${query}`);
      const values = answer.ok ? await answer.json() : [];
      if (turn === newest) list.replaceChildren(...values.map((value) => Object.assign(document.createElement("option"), { value })));
    } catch { list.replaceChildren(); } // the notice of a lost node tells it
  }
})();

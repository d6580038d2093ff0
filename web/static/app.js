// Script of all pages: relative and local times, select-all boxes, pausing of updates, and copying of texts.
// Without it the pages work, with times in UTC.
"use strict";

(() => {
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

  // span formats a number of seconds in one or two units, such as "4 h 12 m".
  function span(seconds) {
    const i = Math.max(0, units.findIndex(([, size]) => seconds >= size * (size === 1 ? 0 : 2) || size === 1));
    const [unit, size] = units[i];
    const whole = Math.floor(seconds / size);
    const rest = units[i + 1] && whole < 10 ? Math.floor((seconds % size) / units[i + 1][1]) : 0;
    return rest > 0 ? `${whole} ${unit} ${rest} ${units[i + 1][0]}` : `${whole} ${unit}`;
  }

  function relative(at, now) {
    const seconds = Math.round((at - now) / 1000);
    if (Math.abs(seconds) < 1) return "now";
    return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
  }

  // The display of times: relative, in the viewer's own zone, or in UTC.
  const times = () => localStorage.getItem("times") ?? "relative";

  const inUTC = (at) => new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");

  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
  const short = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
  const hour = new Intl.DateTimeFormat(undefined, { timeStyle: "short", hourCycle: "h23" });
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

  // chosen formats a time for its place, by the viewer's choice.
  function chosen(place, times, at, now, own) {
    if (place === "hour") return times === "UTC" ? inUTC(at).slice(11, 16) : hour.format(at);
    if (place === "utc") return inUTC(at).replace(/:00 UTC/, " UTC").slice(new Date(at).toDateString() === new Date(now).toDateString() ? 11 : 0);
    if (times === "UTC") return inUTC(at);
    if (times === "own" || place === "exact" || place === "dated") return own;
    return relative(place === "since" ? Math.min(at, now) : at, now);
  }

  // show formats each time of the page: relative, or in the viewer's own zone. Its title has the other
  // form and UTC.
  function show() {
    const now = Date.now(), shown = times();
    document.documentElement.classList.toggle("absolute", shown !== "relative");
    for (const e of document.querySelectorAll("[data-zone]")) e.textContent = shown === "UTC" ? "UTC" : zone;
    for (const t of document.querySelectorAll("time[datetime]")) {
      const at = Date.parse(t.dateTime);
      if (Number.isNaN(at)) continue;
      const near = new Date(at).toDateString() === new Date(now).toDateString();
      const own = near && t.dataset.show !== "dated" ? short.format(at) : exact.format(at);
      const text = chosen(t.dataset.show, shown, at, now, own);
      if (t.textContent !== text) t.textContent = text;
      const title = `${exact.format(at)} (${zone})\n${inUTC(at)}`;
      if (t.title !== title) t.title = title;
    }
  }

  document.addEventListener("change", (e) => {
    const { all } = e.target.dataset;
    // A box with data-all checks all boxes of its form with the given name.
    if (all) for (const box of e.target.form.querySelectorAll(`[name="${CSS.escape(all)}"]`)) box.checked = e.target.checked;
    if (e.target.matches("[data-times]")) {
      localStorage.setItem("times", e.target.value);
      show();
    }
    // A list with data-fill copies the selected value into the named fields.
    if ("fill" in e.target.dataset && e.target.value) {
      for (const [id, value] of Object.entries(JSON.parse(e.target.value))) {
        const field = document.getElementById(id);
        field.value = value;
        field.dispatchEvent(new Event("input", { bubbles: true }));
      }
    }
  });

  // A button with data-add-row copies the last row that matches, with empty fields; one with data-remove-row removes its row,
  // or empties the last one that is left.
  document.addEventListener("click", (e) => {
    const add = e.target.closest("[data-add-row]"), remove = e.target.closest("[data-remove-row]");
    const button = add ?? remove;
    if (!button) return;
    const form = button.form, rows = form.querySelectorAll(button.dataset.addRow ?? button.dataset.removeRow);
    const empty = (row) => { for (const field of row.querySelectorAll("input")) field.value = ""; };
    let row = remove?.closest(remove.dataset.removeRow);
    if (add) {
      row = rows[rows.length - 1].cloneNode(true);
      rows[rows.length - 1].after(row);
    } else if (rows.length > 1) row.remove();
    if (add || rows.length === 1) empty(row);
    (row.isConnected ? row.querySelector("input") : form.querySelector("[data-add-row]")).focus();
    form.dispatchEvent(new Event("input", { bubbles: true }));
  });

  document.addEventListener("DOMContentLoaded", () => {
    for (const e of document.querySelectorAll("[data-scripted]")) e.hidden = false;
    for (const e of document.querySelectorAll("[data-times]")) e.value = times();
    show();
  });

  // A part with data-fold is open in a wide window and closed in a narrow one.
  const narrow = matchMedia("(max-width: 40rem)");
  const fold = () => { for (const e of document.querySelectorAll("[data-fold]")) e.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();

  // Leaving a page closes its stream: browsers cache pages with their streams, and a host has six
  // connections. A page from the cache is reloaded.
  let stream = null;
  document.addEventListener("htmx:sse:after:connection", (e) => { stream = e.detail.connection; });
  addEventListener("pagehide", () => {
    stream?.abortController.abort();
    for (const e of document.querySelectorAll("[hx-sse\\:connect]")) e.dispatchEvent(new Event("htmx:abort"));
  });
  addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });

  // A paused page shows no updates; resuming reloads it.
  let still = false;
  document.addEventListener("htmx:sse:before:message", (e) => {
    if (still || waits(e.detail.message.data)) e.preventDefault();
  });

  // In a part with data-calm no row moves under the pointer or the focus: an update that would move rows
  // waits, and the footer announces it. A minute without input counts as absence.
  let over = null, touched = 0, held = null;
  const absent = 60_000;
  const calm = () => Date.now() - touched < absent && (over?.isConnected || document.activeElement?.closest("[data-calm]"));
  const rows = (of) => [...of.querySelectorAll("[data-calm] tr[id]")].map((row) => row.id);
  function waits(text) {
    const now = rows(document), then = rows(new DOMParser().parseFromString(text, "text/html"));
    held = calm() && now.join() !== then.join() ? text : null;
    const fresh = then.filter((id) => id.startsWith("alert-") && !now.includes(id)).length;
    if (held !== null) says(fresh > 0 ? `${fresh} new, shown when you leave the list` : "Updates, shown when you leave the list");
    else says("");
    return held !== null;
  }
  function says(text) {
    const news = document.querySelector("[data-news]");
    if (news && news.textContent !== text) news.textContent = text;
  }
  function release() {
    if (held === null || still || calm()) return;
    const main = document.querySelector("main"), text = held;
    held = null;
    says("");
    htmx.swap({ sourceElement: main, target: main, swap: "innerMorph swapEmpty:false", text });
  }
  for (const kind of ["pointermove", "pointerdown", "keydown", "focusin"]) {
    document.addEventListener(kind, (e) => {
      touched = Date.now();
      if (kind.startsWith("pointer")) over = e.target.closest?.("[data-calm]") ?? null;
      release();
    });
  }
  document.documentElement.addEventListener("pointerleave", () => { over = null; release(); });
  document.addEventListener("focusout", () => setTimeout(release));
  setInterval(release, 1000);
  document.addEventListener("click", (e) => {
    const copy = e.target.closest("[data-copy]"), live = e.target.closest("[data-live]");
    if (copy) navigator.clipboard.writeText(copy.dataset.copy).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Copy failed"; });
    if (live && still) location.reload();
    else if (live) {
      still = true;
      live.setAttribute("aria-pressed", "true");
      live.textContent = "Resume updates";
    }
  });
  // A link with data-line selects that line in a text field with data-lines, from its column on.
  document.addEventListener("click", (e) => {
    const to = e.target.closest("[data-line]"), field = document.querySelector("textarea[data-lines]");
    if (!to || !field) return;
    e.preventDefault();
    const lines = field.value.split("\n"), line = Math.min(Number(to.dataset.line), lines.length);
    const end = lines.slice(0, line).join("\n").length;
    field.focus();
    field.setSelectionRange(Math.min(end - lines[line - 1].length + Math.max(Number(to.dataset.column) - 1, 0), end), end);
  });
  // A link to the text of a rule moves the focus to its editor, as its label does; the text field itself may be hidden.
  document.addEventListener("click", (e) => {
    if (e.target.closest('a[href="#text"]')) setTimeout(() => document.querySelector("label[for=text]")?.click());
  });
  // A form with data-unsaved asks before unsaved changes are lost, and is submitted by Ctrl-S or Cmd-S.
  const written = () => document.querySelector('form[data-unsaved="yes"]');
  document.addEventListener("input", (e) => {
    const form = e.target.closest("form[data-unsaved]");
    if (form && e.target.name === "text") form.dataset.unsaved = "yes";
  });
  document.addEventListener("submit", (e) => {
    if ("unsaved" in e.target.dataset && e.submitter?.formTarget !== "_blank") e.target.dataset.unsaved = "sent";
  });
  addEventListener("beforeunload", (e) => { if (written()) e.preventDefault(); });
  document.addEventListener("keydown", (e) => {
    const save = document.querySelector("form[data-unsaved] button.main");
    if (save && (e.ctrlKey || e.metaKey) && !e.altKey && e.key.toLowerCase() === "s") {
      e.preventDefault();
      save.form.requestSubmit(save);
    }
  });

  document.addEventListener("htmx:after:swap", show);

  // The content of a page has its title and its tone, and the icon has the colour of the tone.
  const icon = document.querySelector("link[rel=icon]");
  const tones = { fine: "17713f", info: "1f5fbf", warning: "8a5600", error: "b02c1a", ill: "b02c1a", critical: "9b0f3d" };
  function sign(title, tone) {
    document.title = title;
    icon.href = icon.href.replaceAll(/%23[0-9a-f]{6}/g, "%23" + tone);
  }
  function signOf(page) {
    const content = page.getElementById("page");
    if (content && lostSince === null) sign(content.dataset.title, tones[content.dataset.tone] ?? "5d646e");
  }
  document.addEventListener("htmx:after:swap", () => signOf(document));

  // A page that cannot reach its node tells it: the headline, the title and the icon turn grey, and the times stop. It
  // asks every 2 s, and every 5 s in the background, where its stream rests: there it reads itself for its title and icon.
  // Once the node answers, it reloads if its stream broke and no field was changed.
  const askEvery = 2000, askHiddenEvery = 5000, answerWithin = 2500;
  let lostSince = null, broken = false, asked = 0;
  document.addEventListener("htmx:sse:error", () => { broken = true; });
  document.addEventListener("htmx:sse:after:connection", () => { broken = false; });
  const changed = () => [...document.querySelectorAll("main input, main textarea, main select")].some((e) =>
    e.matches("select") ? [...e.options].some((o) => o.selected !== o.defaultSelected) : e.value !== e.defaultValue || e.checked !== e.defaultChecked);
  function lost(since) {
    if (lostSince !== null) return;
    lostSince = since;
    document.documentElement.classList.add("lost");
    const notice = document.createElement("p");
    notice.className = "notice ill";
    notice.id = "lost";
    notice.setAttribute("role", "alert");
    notice.textContent = `Not connected to the node since ${exact.format(since)}. This page shows the state of that time.`;
    document.querySelector("main").before(notice);
    sign(`Not connected · ${document.title}`, "888888");
  }
  function found() {
    if (lostSince === null) return;
    if (broken && !changed() && !written()) { location.reload(); return; }
    lostSince = null;
    document.documentElement.classList.remove("lost");
    document.getElementById("lost").remove();
    signOf(document);
  }
  async function ask() {
    const since = Date.now();
    if (document.hidden && since - asked < askHiddenEvery) return;
    asked = since;
    try {
      const r = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(answerWithin) });
      if (r.ok) found(); else lost(since); // a proxy answers for a node that is down
    } catch { lost(since); }
    if (document.hidden && lostSince === null && !still && document.querySelector("[hx-sse\\:connect]")) await readItself();
  }
  async function readItself() {
    try {
      const r = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(askHiddenEvery) });
      if (r.ok) signOf(new DOMParser().parseFromString(await r.text(), "text/html"));
    } catch { /* the next question tells whether the node is gone */ }
  }
  signOf(document);
  document.addEventListener("visibilitychange", ask);
  setInterval(ask, askEvery);
  setInterval(() => { if (lostSince === null) show(); }, 1000);
})();

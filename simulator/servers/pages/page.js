// The page, alive: the server renders every part; here parts are fetched anew when the stream says that something
// happened, and what people do becomes requests to the control API. No state but what the address says.
"use strict";

const API = "/_simulator/v1/";
const PART = "/_simulator/page/part/";
const QUIET_MS = 250; // Parts are fetched at most this often, however much happens.
const root = document.documentElement;
const account = root.dataset.account;
const $ = (selector, within = document) => within.querySelector(selector);

// --- where we are -----------------------------------------------------------------------------------

const place = () => {
  const given = new URLSearchParams(location.search);
  return { tab: given.get("tab") || "mails", q: given.get("q") || "", mail: given.get("mail") || "", attempt: given.get("attempt") || "", view: given.get("view") || "" };
};
const address = (to) => {
  const query = new URLSearchParams({ account });
  for (const [name, value] of Object.entries({ ...place(), ...to })) if (value) query.set(name, value);
  return "/?" + query;
};
const go = (to, { replace = false } = {}) => {
  const before = place();
  history[replace ? "replaceState" : "pushState"](null, "", address(to));
  arrive(before);
};
// Where one pane is below the other, whoever chooses something must come to it, and back.
const narrow = matchMedia("(max-width: 860px)");
let reach = false;
const arrive = (before) => {
  const now = place();
  for (const tab of document.querySelectorAll("[data-tab]")) {
    tab.toggleAttribute("aria-current", tab.dataset.tab === now.tab);
    if (tab.hasAttribute("aria-current")) tab.setAttribute("aria-current", "page");
    tab.href = address({ tab: tab.dataset.tab, mail: "", attempt: "" });
  }
  if (now.tab !== before.tab || now.q !== before.q) load("list");
  if (now.mail !== before.mail || now.attempt !== before.attempt) { reach = true; load("detail"); }
  mark();
};
addEventListener("popstate", () => { load("list"); load("detail"); mark(); });

const rows = () => [...document.querySelectorAll("#list .row")];
const idOf = (row) => row.dataset.mail || row.dataset.attempt;
const mark = () => {
  const { mail, attempt } = place();
  for (const row of rows()) {
    if (idOf(row) === (mail || attempt)) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
};

// --- parts ------------------------------------------------------------------------------------------

const elements = { list: "#list", detail: "#detail", verdict: "#verdict", clock: "#clock", held: "#held", rules: "#rules" };
const waiting = new Set();
const busy = new Set();
const pauses = {};

async function load(part) {
  if (!$(elements[part])) return;
  if (document.hidden || busy.has(part)) { waiting.add(part); return; }
  busy.add(part);
  const began = performance.now();
  try {
    const query = new URLSearchParams({ account, ...place() });
    const answer = await fetch(PART + part + "?" + query);
    if (answer.ok) show(part, await answer.text(), answer);
  } catch {
    // The stream says that nobody is there; it will be tried again when somebody is.
  }
  // What takes long to make (the verdict over a large ledger) is asked for less often.
  pauses[part] = Math.max(QUIET_MS, 4 * (performance.now() - began));
  setTimeout(() => {
    busy.delete(part);
    if (waiting.delete(part)) load(part);
  }, pauses[part]);
}

function show(part, html, answer) {
  const element = $(elements[part]);
  if (!element) return;
  const known = new Set(part === "list" ? rows().map(idOf) : []);
  const open = part === "verdict" && $("details", element)?.open;
  const focused = part === "list" && document.activeElement?.closest?.("#list .row");
  const again = focused && idOf(focused);
  element.innerHTML = html; // Rendered and escaped by the server; scripts within would not run under our policy.
  if (open && $("details", element)) $("details", element).open = true;
  if (part === "list") {
    for (const row of rows()) {
      if (known.size && !known.has(idOf(row))) row.classList.add("new");
      if (again && idOf(row) === again) row.focus();
    }
    mark();
    const count = answer.headers.get("x-mails");
    if (count) $("#mails-count").textContent = count;
  }
  if (part === "detail") {
    element.scrollTop = 0;
    if (reach && narrow.matches) $(place().mail || place().attempt ? ".detail-pane" : ".list-pane").scrollIntoView();
    reach = false;
  }
  if (part === "clock") wind();
}

// The provider's clock goes on by itself between two looks at it.
let lead = 0;
const wind = () => { lead = Date.parse($("#clock time").dateTime) - Date.now(); };
const tick = () => { $("#clock time").textContent = new Date(Date.now() + lead).toISOString().slice(11, 19); };
addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const part of [...waiting]) { waiting.delete(part); load(part); }
});

// --- the stream -------------------------------------------------------------------------------------

const TOUCHES = {
  attempt: ["list"], acceptance: ["list", "verdict"], decision: ["rules"], event: [], held: ["held", "list"], obligations: ["verdict"],
  plan: ["rules"], clock: ["clock", "verdict"], reset: ["list", "verdict", "rules", "held", "detail"],
  ready: ["list", "verdict", "rules", "held", "clock"], missed: ["list", "verdict", "rules", "held", "clock"],
};
const live = (is, says) => {
  const element = $("#live");
  element.className = "live " + (is ? "on" : "off");
  $("span", element).textContent = says;
  element.title = is ? "This page updates itself" : "The simulator cannot be reached; this page is old";
};

function listen() {
  const stream = new EventSource(API + "stream?" + new URLSearchParams({ account }));
  stream.onopen = () => live(true, "live");
  stream.onerror = () => {
    live(false, "gone");
    // A server that answers with an error closes for good; one that is away is tried again by the browser.
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
  for (const [name, parts] of Object.entries(TOUCHES)) {
    stream.addEventListener(name, (event) => {
      parts.forEach(load);
      if (name === "attempt" && JSON.parse(event.data).id === place().attempt) load("detail");
      if (name === "event" && JSON.parse(event.data).data.email_id === place().mail) load("detail");
    });
  }
}

// --- what people do ---------------------------------------------------------------------------------

async function ask(method, path, body, query = {}) {
  const answer = await fetch(API + path + "?" + new URLSearchParams({ account, ...query }), {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.detail || `the simulator answered ${answer.status}`);
  return said;
}
let hiding;
function toast(text, wrong = false) {
  const element = $("#toast");
  element.textContent = text;
  element.className = wrong ? "shown wrong" : "shown";
  clearTimeout(hiding);
  hiding = setTimeout(() => { element.className = ""; }, 3500);
}
const doing = (promise, says) => promise.then((said) => says && toast(says(said))).catch((problem) => toast(problem.message, true));

const planned = () => ({ ...JSON.parse($("#rules [data-settings]").dataset.settings), rules: ruleLines() });
const healthy = (said) => (said.settings.length ? "No rules any more; settings stay" : "Nothing goes wrong any more");
function ruleLines() {
  return $("#lines").value.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#")).map((line) => {
    if (!line.startsWith("{")) return line;
    try { return JSON.parse(line); } catch (problem) { throw new Error(`${line.slice(0, 40)} … is not JSON: ${problem.message}`); }
  });
}
function explained(lines, { wrong = false, doubts = [] } = {}) {
  const element = $("#explained");
  element.className = wrong ? "wrong" : "";
  element.replaceChildren(...[...lines.map((text) => [text, ""]), ...doubts.map((text) => ["Mind: " + text, "doubt"])].map(([text, kind]) => {
    const line = document.createElement("p");
    line.textContent = text;
    line.className = kind;
    return line;
  }));
}
async function explain() {
  try {
    const said = await ask("POST", "plan/check", planned());
    explained(said.explained.length ? said.explained : ["Nothing goes wrong: every mail is taken."], said);
  } catch (problem) { explained([problem.message], { wrong: true }); }
}
async function apply() {
  try {
    const said = await ask("PUT", "plan", planned());
    explained([]);
    toast(said.rules.length ? `${said.rules.length} rule${said.rules.length === 1 ? "" : "s"} in force` : healthy(said));
  } catch (problem) { explained([problem.message], { wrong: true }); }
}
async function send() {
  const to = $("#send-to").value, says = $("#sent");
  says.className = "";
  says.textContent = "sending …";
  const mail = {
    from: "page@simulator.test", to: [to], subject: `A mail from the page, ${new Date().toLocaleTimeString()}`,
    text: "Sent from the simulator's own page.\n", html: "<h1>Hello</h1><p>Sent from the simulator's <em>own</em> page.</p>",
  };
  try {
    const answer = await fetch("/v1/emails", {
      method: "POST", body: JSON.stringify(mail),
      headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID(), ...(account === "default" ? {} : { Authorization: "Bearer " + account }) },
    });
    says.className = answer.ok ? "right" : "wrong";
    says.textContent = `answered ${answer.status}`;
  } catch {
    says.className = "wrong";
    says.textContent = "no answer: was it taken or not? Look at the list.";
  }
}

const deeds = {
  home: () => go({ mail: "", attempt: "" }),
  release: () => doing(ask("POST", "release"), (said) => `${said.released} let go`),
  heal: () => doing(ask("DELETE", "plan").then((said) => { if ($("#lines")) $("#lines").value = ""; return said; }), healthy),
  begin: () => doing(ask("POST", "plan/reset").then(() => load("detail")), () => "As at the start of the account"),
  explain,
  advance: (button) => doing(ask("PUT", "clock", { advance_s: Number(button.dataset.seconds) })),
  reset: () => confirm(`Forget everything of account ${account}?`) && doing(ask("POST", "reset"), () => "Forgotten").then(() => go({ mail: "", attempt: "" })),
  help: () => $("#help").showModal(),
  theme: () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* Then it is forgotten. */ }
  },
};

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const target = event.target.closest?.("[data-do],[data-tab],[data-mail],[data-attempt],[data-view]");
  if (!target || target.closest("iframe")) return;
  if (target.dataset.do) { event.preventDefault(); deeds[target.dataset.do](target); }
  else if (target.dataset.tab) { event.preventDefault(); go({ tab: target.dataset.tab, mail: "", attempt: "" }); }
  else if (target.dataset.view) { event.preventDefault(); view(target); }
  else {
    event.preventDefault();
    go({ mail: target.dataset.mail || "", attempt: target.dataset.attempt || "" });
  }
});
function view(button) {
  for (const other of button.parentElement.children) {
    const chosen = other === button;
    other.setAttribute("aria-selected", String(chosen));
    $("#view-" + other.dataset.view).hidden = !chosen;
  }
  history.replaceState(null, "", address({ view: button.dataset.view }));
}
document.addEventListener("submit", (event) => {
  if (event.target.id === "plan") { event.preventDefault(); apply(); }
  else if (event.target.id === "send") { event.preventDefault(); send(); }
  else if (event.target.classList.contains("search")) { event.preventDefault(); }
});
document.addEventListener("change", (event) => {
  if (event.target.id === "account") event.target.form.submit();
  else if (event.target.id === "shipped" && event.target.value) {
    // A plan that comes along adds its rules after those that are written here.
    doing(ask("PUT", "plan", { ...planned(), plan: event.target.value }).then(() => load("detail")), () => "In force");
  }
});
let typing;
document.addEventListener("input", (event) => {
  if (event.target.id === "q") {
    clearTimeout(typing);
    typing = setTimeout(() => go({ q: event.target.value.trim() }, { replace: true }), 150);
  } else if (event.target.id === "lines") explained([]);
});

const step = (by) => {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.hasAttribute("aria-current"));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  go({ mail: next.dataset.mail || "", attempt: next.dataset.attempt || "" }, { replace: at >= 0 });
};
const keys = {
  j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1),
  m: () => go({ tab: "mails", mail: "", attempt: "" }), a: () => go({ tab: "attempts", mail: "", attempt: "" }),
  "/": () => $("#q").select(), t: deeds.theme, r: deeds.release, "?": deeds.help,
  p: () => home(() => $("#lines")?.focus()), s: () => home(send), Escape: () => go({ mail: "", attempt: "" }),
};
const home = async (then) => {
  if (!$("#plan")) { go({ mail: "", attempt: "" }); while (!$("#plan")) await new Promise((done) => setTimeout(done, 50)); }
  then();
};
document.addEventListener("keydown", (event) => {
  const inField = event.target.closest?.("input, textarea, select");
  if (inField && event.key === "Escape") { event.target.blur(); return; }
  if (inField && (event.ctrlKey || event.metaKey) && event.key === "Enter" && event.target.id === "lines") { apply(); return; }
  if (inField || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  if (event.target.closest?.("[role=tab]") && event.key.startsWith("Arrow")) return;
  const act = keys[event.key];
  if (act) { event.preventDefault(); act(); }
});

try { const chosen = localStorage.getItem("theme"); if (chosen) root.dataset.theme = chosen; } catch { /* Then as the system likes it. */ }
mark();
if (narrow.matches && (place().mail || place().attempt)) $(".detail-pane").scrollIntoView();
wind();
setInterval(tick, 1000);
listen();
